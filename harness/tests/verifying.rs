//! `verify` as a command, on what `compare` and `sweep` write: exit codes, what is printed, and edits that are found. The
//! older comparison tool's command lines as well.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{Bench, Outcome, good, stderr};
use serde_json::Value;
use tempfile::TempDir;

const CAMPAIGN: [&str; 2] = ["metal_m5max_roster_2026-09-08.csv", "metal_m5max_roster_2026-09-09.csv"];

fn bench(folder: &Path, line: &str) -> std::io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"))
        .current_dir(folder)
        .args(line.split_whitespace())
        .output()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder with two result files and their comparison in both forms.
fn compared() -> Result<TempDir, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let campaign = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/tests/campaign");
    for name in CAMPAIGN {
        fs::copy(campaign.join(name), folder.path().join(name))?;
    }
    for (format, out) in [("json", "c.json"), ("markdown", "c.md")] {
        let line = format!(
            "compare --before {} --after {} --vary commit --min-generated 100 --format {format} --out {out}",
            CAMPAIGN[0], CAMPAIGN[1]
        );
        let output = bench(folder.path(), &line)?;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    Ok(folder)
}

#[test]
fn what_compare_writes_is_verified_from_its_command_line_and_its_inputs() -> Outcome {
    let folder = compared()?;
    let output = bench(folder.path(), "verify c.json c.md")?;
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(stdout(&output).matches("ok c.").count(), 2, "{}", stdout(&output));
    Ok(())
}

#[test]
fn names_with_spaces_quotes_and_line_breaks_are_verified_in_both_forms() -> Outcome {
    let folder = compared()?;
    for name in [
        "two words.csv",
        "it's \"b\".csv",
        "line\nbreak\tand more.csv",
        r"back\slash|bar_*`[x](y).csv",
        "$HOME ~.csv",
    ] {
        fs::copy(folder.path().join(CAMPAIGN[1]), folder.path().join(name))?;
        fs::create_dir_all(folder.path().join("a b"))?;
        let before = format!("a b/{name}");
        fs::copy(folder.path().join(CAMPAIGN[0]), folder.path().join(&before))?;
        for (format, out) in [("json", "d.json"), ("markdown", "d.md")] {
            let run = |arguments: &[&str]| {
                Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"))
                    .current_dir(folder.path())
                    .args(arguments)
                    .output()
            };
            let output = run(&[
                "compare", "--before", &before, "--after", name, "--vary", "commit", "--format", format,
                "--out", out,
            ])?;
            assert_eq!(output.status.code(), Some(0), "{name:?}: {}", stderr(&output));
            let output = run(&["verify", out])?;
            assert_eq!(output.status.code(), Some(0), "{name:?}: {}{}", stdout(&output), stderr(&output));
            // The same document of another file than the one that lies there.
            fs::write(folder.path().join(name), fs::read_to_string(folder.path().join(CAMPAIGN[1]))? + "\n")?;
            assert_eq!(run(&["verify", out])?.status.code(), Some(1), "{name:?}");
            fs::copy(folder.path().join(CAMPAIGN[1]), folder.path().join(name))?;
            fs::remove_file(folder.path().join(out))?;
        }
        fs::remove_file(folder.path().join(name))?;
    }
    Ok(())
}

#[test]
fn a_refusal_in_json_is_verified_as_well() -> Outcome {
    let folder = compared()?;
    let line = format!("compare --before {} --after {} --format json", CAMPAIGN[0], CAMPAIGN[1]);
    let refused = bench(folder.path(), &line)?;
    assert_eq!(refused.status.code(), Some(2));
    fs::write(folder.path().join("refused.json"), &refused.stdout)?;
    let output = bench(folder.path(), "verify refused.json")?;
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let text = stdout(&refused).replace("\"refused\"", "\"ok\"");
    fs::write(folder.path().join("refused.json"), text)?;
    let output = bench(folder.path(), "verify refused.json")?;
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("/verdict: stated `ok`, derived `refused`"), "{}", stdout(&output));
    Ok(())
}

#[test]
fn an_edited_comparison_ends_with_1_and_names_line_field_and_both_values() -> Outcome {
    let folder = compared()?;
    let path = folder.path().join("c.md");
    let text = fs::read_to_string(&path)?;
    assert!(text.contains("| 1.010 |"), "{text}");
    fs::write(&path, text.replace("| 1.010 |", "| 2.010 |"))?;
    let output = bench(folder.path(), "verify --format json c.md")?;
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let found = document.pointer("/0/discrepancies/0").ok_or("nothing was found")?;
    assert_eq!(
        (found["stated"].as_str(), found["derived"].as_str()),
        (Some("2.010"), Some("1.010")),
        "{found}"
    );
    assert!(found["line"].as_u64() > Some(1) && found["file"] == "c.md", "{found}");
    Ok(())
}

#[test]
fn rows_that_are_not_committed_prove_nothing_where_that_is_asked() -> Outcome {
    let folder = compared()?;
    let committed = || bench(folder.path(), "verify --committed c.json c.md");
    let output = committed()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("no git repository"), "{}", stdout(&output));
    let repository = git2::Repository::init(folder.path())?;
    let commit = |names: &[&str]| -> Outcome {
        let mut index = repository.index()?;
        for name in names {
            index.add_path(Path::new(name))?;
        }
        index.write()?;
        let tree = repository.find_tree(index.write_tree()?)?;
        let who = git2::Signature::now("test", "test@example.org")?;
        let parent = repository.head().and_then(|head| head.peel_to_commit()).ok();
        repository.commit(Some("HEAD"), &who, &who, "rows", &tree, &parent.iter().collect::<Vec<_>>())?;
        Ok(())
    };
    commit(&CAMPAIGN[..1])?;
    let output = committed()?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output).matches("does not hold this file").count(), 2, "{}", stdout(&output));
    commit(&CAMPAIGN)?;
    assert_eq!(committed()?.status.code(), Some(0), "{}", stdout(&committed()?));
    // A space more changes no number, but the file is another.
    let path = folder.path().join(CAMPAIGN[1]);
    fs::write(&path, fs::read_to_string(&path)? + "\n")?;
    assert_eq!(committed()?.status.code(), Some(1));
    Ok(())
}

#[test]
fn a_command_line_of_something_else_confirms_nothing() -> Outcome {
    let folder = compared()?;
    let path = folder.path().join("c.json");
    let text = fs::read_to_string(&path)?.replace("\"compare\"", "\"version\"");
    fs::write(&path, text)?;
    let output = bench(folder.path(), "verify c.json")?;
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("cannot be read"), "{}", stdout(&output));
    Ok(())
}

#[test]
fn files_that_hold_nothing_to_derive_end_with_4_and_do_not_keep_the_others_from_being_verified() -> Outcome {
    let folder = compared()?;
    fs::write(folder.path().join("words.md"), "# Words\n")?;
    let output = bench(folder.path(), "verify words.md c.json absent.csv")?;
    assert_eq!(output.status.code(), Some(4));
    assert!(stdout(&output).contains("ok c.json"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("words.md") && stderr(&output).contains("absent.csv"),
        "{}",
        stderr(&output)
    );
    assert_eq!(bench(folder.path(), "verify")?.status.code(), Some(64));
    Ok(())
}

#[test]
fn what_sweep_writes_is_verified_and_an_edit_of_any_of_its_files_is_found() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("a")?;
    bench.checkpoint("b")?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    // A scripted worker is not this executable, so no row is valid; the files are written all the same.
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let names = bench.files()?;
    let csv = names
        .iter()
        .find(|name| Path::new(name).extension().is_some_and(|ending| ending == "csv"))
        .ok_or("no rows")?;
    let verified = |expected: i32| -> Outcome {
        let output = self::bench(&bench.out(), &format!("verify {csv}"))?;
        assert_eq!(output.status.code(), Some(expected), "{}{}", stdout(&output), stderr(&output));
        Ok(())
    };
    verified(0)?;
    for name in &names {
        let path = bench.out().join(name);
        let text = fs::read_to_string(&path)?;
        let at = text.rfind(|c: char| ('1'..='8').contains(&c)).ok_or("no digit to change")?;
        let mut edited = text.clone();
        let digit = text.as_bytes().get(at).map_or(b'1', |digit| digit + 1);
        edited.replace_range(at..=at, &char::from(digit).to_string());
        fs::write(&path, edited)?;
        verified(1)?;
        fs::write(&path, text)?;
    }
    verified(0)
}

/// The older tool, where there is a Python to run it.
fn older_tool(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/compare_bench_csv.py");
    let run = Command::new("python3")
        .arg(script)
        .args(arguments)
        .current_dir(folder)
        .env("MLXCEL_BENCH", env!("CARGO_BIN_EXE_mlxcel-bench"))
        .output();
    run.ok()
}

#[test]
fn every_flag_of_the_older_tool_is_understood_and_the_exit_code_passed_through() -> Outcome {
    let folder = compared()?;
    let sides = ["--before", CAMPAIGN[0], "--after", CAMPAIGN[1]];
    for (flags, code) in [
        (&["--allow-commit-change"][..], 0),
        (&[], 2),
        (&["--reference"], 2),
        (&["--reference", "--allow-commit-change"], 2),
        (&["--allow-commit-change", "--prompt-tolerance", "0.10", "--max-date-gap-days", "1"], 0),
        (&["--allow-commit-change", "--include-non-generative", "--moved-threshold", "0.10"], 0),
        (&["--allow-commit-change", "--moved-threshold=0.2"], 0),
        (&["--no-such-flag"], 64),
    ] {
        let arguments: Vec<&str> = sides.iter().chain(flags).copied().collect();
        let Some(output) = older_tool(folder.path(), &arguments) else { return Ok(()) };
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn every_committed_result_set_follows_from_itself() -> Outcome {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benchmarks");
    let mut sets = 0;
    for entry in fs::read_dir(&committed)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|ending| ending == "csv") {
            let output = bench(&committed, &format!("verify {name}"))?;
            assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
            sets += 1;
        }
    }
    assert!(sets >= 12, "{sets} sets in {}", committed.display());
    Ok(())
}
