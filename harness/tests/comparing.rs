//! `compare`, `history scan` and `selftest` as commands: exit codes, what is printed where, and files that are not written.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

const HEADER: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                      hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n";

/// A row of the historical layout with commits.
fn row(model: &str, decode_ms: &str, commit: &str) -> String {
    format!(
        "{model},./models/{model}/,512,128,100.00,5120.00,{decode_ms},,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,128,\
         \"Hello, how are you today?\",512,{commit},9a795735\n"
    )
}

struct Folder(TempDir);

impl Folder {
    fn new() -> std::io::Result<Self> {
        tempfile::tempdir().map(Self)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A result file of these rows.
    fn file(&self, name: &str, rows: &[String]) -> std::io::Result<()> {
        fs::write(self.path(name), HEADER.to_owned() + &rows.concat())
    }

    /// The two sides that most tests compare: `a.csv` and a faster `b.csv` of another commit.
    fn sides(&self) -> std::io::Result<()> {
        self.file("a.csv", &[row("alpha", "1270.00", "11111111"), row("beta", "2540.00", "11111111")])?;
        self.file("b.csv", &[row("alpha", "635.00", "22222222"), row("beta", "2540.00", "22222222")])
    }

    fn run(&self, line: &str) -> std::io::Result<Output> {
        Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"))
            .current_dir(self.0.path())
            .args(line.split_whitespace())
            .output()
    }

    fn json(&self, line: &str) -> Result<Value, Box<dyn Error>> {
        let output = self.run(line)?;
        Ok(serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", stderr(&output)))?)
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_comparison_gives_its_ratios_and_ends_well() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    let line = "compare --before a.csv --after b.csv --vary commit --format json";
    assert_eq!(folder.run(line)?.status.code(), Some(0), "{}", stderr(&folder.run(line)?));
    let json = folder.json(line)?;
    assert_eq!(json["verdict"], "ok");
    assert_eq!(json["summary"]["pairs"], 2);
    assert_eq!(json["summary"]["median_ratio"], 1.5);
    assert_eq!(json["pairs"][0]["model"], "alpha");
    assert_eq!(json["pairs"][0]["before"], 100.0);
    assert_eq!(json["pairs"][0]["after"], 200.0);
    assert_eq!(json["pairs"][0]["ratio"], 2.0);
    assert_eq!(json["pairs"][0]["moved"], true);
    assert_eq!(json["pairs"][1]["moved"], false);
    assert_eq!(json["inputs"][0]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!((&json["command"][0], &json["command"][1]), (&"mlxcel-bench".into(), &"compare".into()));
    Ok(())
}

#[test]
fn the_flags_of_the_older_tool_mean_the_same() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    for line in ["--allow-commit-change", "--vary commit"] {
        let json = folder.json(&format!("compare --before a.csv --after b.csv {line} --format json"))?;
        assert_eq!((&json["axis"], &json["verdict"]), (&"commit".into(), &"ok".into()), "{line}");
    }
    let json = folder.json("compare --before a.csv --after b.csv --reference --format json")?;
    assert_eq!(json["axis"], "runtime");
    assert_eq!(json["refused"][0]["rule"], "P16");
    Ok(())
}

#[test]
fn a_refusal_ends_with_2_and_leaves_no_file() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    for format in ["table", "json", "markdown", "csv"] {
        let line = format!("compare --before a.csv --after b.csv --format {format} --out out.txt");
        let output = folder.run(&line)?;
        assert_eq!(output.status.code(), Some(2), "{format}");
        let said = stderr(&output);
        for word in ["refused P04", "commit", "11111111", "22222222", "--vary commit"] {
            assert!(said.contains(word), "{word} is not in {said}");
        }
        assert!(!folder.path("out.txt").exists(), "{format} left a file");
        assert_eq!(fs::read_dir(folder.0.path())?.count(), 2, "{format} left something");
        assert_eq!(output.stdout.is_empty(), format != "json", "{format}");
    }
    let json = folder.json("compare --before a.csv --after b.csv --format json")?;
    assert_eq!(json["verdict"], "refused");
    assert_eq!(json["pairs"], serde_json::json!([]));
    assert_eq!(json["refused"][0]["before"], "11111111");
    assert!(json["summary"]["median_ratio"].is_null());
    Ok(())
}

#[test]
fn every_format_goes_to_the_file_and_nothing_is_replaced() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    for (format, word) in [
        ("table", "alpha"),
        ("json", "\"verdict\": \"ok\""),
        ("markdown", "| alpha | 100.00 | 200.00 | 2.000 |"),
        ("csv", "pair,alpha,,decode,tok/s,100,200,2.0,,,1,1,,true,one measurement a side,"),
    ] {
        let line = format!(
            "compare --before a.csv --after b.csv --vary commit --format {format} --out {format}.out"
        );
        let output = folder.run(&line)?;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
        let written = fs::read_to_string(folder.path(&format!("{format}.out")))?;
        assert!(written.contains(word), "{word} is not in {written}");
        let again = folder.run(&line)?;
        assert_eq!(again.status.code(), Some(4));
        assert!(stderr(&again).contains("is not replaced"), "{}", stderr(&again));
        assert_eq!(fs::read_to_string(folder.path(&format!("{format}.out")))?, written);
    }
    let over = folder.run("compare --before a.csv --after b.csv --vary commit --out a.csv")?;
    assert_eq!(over.status.code(), Some(4));
    assert!(fs::read_to_string(folder.path("a.csv"))?.starts_with("model,"));
    Ok(())
}

#[test]
fn what_cannot_be_read_ends_with_4_and_names_the_place() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    fs::write(folder.path("odd.csv"), "model,speed\nalpha,12\n")?;
    fs::write(folder.path("empty.csv"), "")?;
    for (name, words) in [
        ("absent.csv", vec!["absent.csv"]),
        ("odd.csv", vec!["odd.csv:1", "column 2", "`speed`"]),
        ("empty.csv", vec!["empty.csv:1", "empty"]),
    ] {
        let output = folder.run(&format!("compare --before {name} --after b.csv"))?;
        assert_eq!(output.status.code(), Some(4), "{name}");
        for word in words {
            assert!(stderr(&output).contains(word), "{word} is not in {}", stderr(&output));
        }
    }
    Ok(())
}

#[test]
fn a_wrong_command_line_ends_with_64() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    for line in [
        "--vary weather",
        "--vary setting=hardware",
        "--accept everything",
        "--metric speed",
        "--repeat never",
        "--prompt-tolerance nan",
        "--reference --allow-commit-change",
    ] {
        let output = folder.run(&format!("compare --before a.csv --after b.csv {line}"))?;
        assert_eq!(output.status.code(), Some(64), "{line}: {}", stderr(&output));
    }
    assert_eq!(folder.run("compare --before a.csv")?.status.code(), Some(64));
    Ok(())
}

#[test]
fn what_was_accepted_stands_in_the_report() -> Outcome {
    let folder = Folder::new()?;
    folder.file("a.csv", &[row("alpha", "1270.00", "")])?;
    folder.file("b.csv", &[row("alpha", "1270.00", "22222222-dirty")])?;
    let line = "compare --before a.csv --after b.csv --vary commit --format json";
    for accepted in ["", "--accept missing-commit", "--accept dirty"] {
        let output = folder.run(&format!("{line} {accepted}"))?;
        assert_eq!(output.status.code(), Some(2), "{accepted} took both refusals back");
    }
    let json = folder.json(&format!("{line} --accept missing-commit,dirty"))?;
    assert_eq!(json["verdict"], "ok");
    let accepted: Vec<_> =
        json["accepted"].as_array().into_iter().flatten().map(|one| &one["accept"]).collect();
    assert_eq!(accepted, ["missing-commit", "dirty"]);
    Ok(())
}

#[test]
fn rows_that_stand_twice_are_taken_as_the_user_says() -> Outcome {
    let folder = Folder::new()?;
    folder.file("a.csv", &[row("alpha", "1270.00", "11111111")])?;
    let twice = ["1270.00", "635.00", "317.50"].map(|millis| row("alpha", millis, "11111111"));
    folder.file("b.csv", &twice)?;
    let line = "compare --before a.csv --after b.csv --format json";
    assert_eq!(folder.json(line)?["refused"][0]["rule"], "P22");
    for (how, ratio) in [("median", 2.0), ("last", 4.0), ("all", 2.0)] {
        let json = folder.json(&format!("{line} --repeat {how}"))?;
        assert_eq!(json["pairs"][0]["ratio"], ratio, "{how}: {json}");
        let range = (&json["pairs"][0]["ratio_low"], &json["pairs"][0]["ratio_high"]);
        let expected = if how == "all" { (1.0.into(), 4.0.into()) } else { (Value::Null, Value::Null) };
        assert_eq!(range, (&expected.0, &expected.1), "{how}");
    }
    Ok(())
}

#[test]
fn the_csv_form_holds_the_verdict_of_each_pair_and_what_it_was_made_from() -> Outcome {
    let folder = Folder::new()?;
    let rows = |model: &str, millis: f64, commit: &str| -> Vec<String> {
        (0..8).map(|run| row(model, &format!("{:.2}", millis + f64::from(run)), commit)).collect()
    };
    let side =
        |alpha: f64, commit: &str| [rows("alpha", alpha, commit), rows("beta", 2540.0, commit)].concat();
    folder.file("a.csv", &side(1270.0, "11111111"))?;
    folder.file("b.csv", &side(635.0, "22222222"))?;
    let output =
        folder.run("compare --before a.csv --after b.csv --vary commit --repeat all --format csv")?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let lines: Vec<std::collections::BTreeMap<String, String>> =
        reader.deserialize().collect::<Result<_, _>>()?;
    let cell = |kind: &str, name: &str, column: &str| -> Option<String> {
        let line = lines
            .iter()
            .find(|line| line["kind"] == kind && (line["model"] == name || line["field"] == name));
        line.map(|line| line[column].clone())
    };
    let pair = |model: &str, column: &str| cell("pair", model, column).unwrap_or_default();
    assert_eq!((pair("alpha", "verdict"), pair("beta", "verdict")), ("FASTER".to_owned(), "SAME".to_owned()));
    assert_eq!(
        (pair("alpha", "rows_before"), pair("alpha", "family"), pair("alpha", "floor")),
        ("8".to_owned(), "2".to_owned(), "0.1".to_owned())
    );
    let number = |column: &str| pair("alpha", column).parse::<f64>();
    // Two samples of eight without overlap: p = 2 / C(16, 8), twice that after Holm.
    assert!(
        (number("p")? - 2.0 / 12870.0).abs() < 1e-12 && (number("p_holm")? - 4.0 / 12870.0).abs() < 1e-12
    );
    let (low, ratio, high) = (number("test_ratio_low")?, number("test_ratio")?, number("test_ratio_high")?);
    assert!(1.9 < low && low <= ratio && ratio <= high && high < 2.1, "{low} {ratio} {high}");
    assert!(number("confidence")? >= 0.95 && number("smallest_effect")? >= 0.1);
    for (field, column, value) in
        [("path", "after", "b.csv"), ("rows", "before", "16"), ("layout", "before", "sweep-17")]
    {
        assert_eq!(cell("input", field, column).as_deref(), Some(value), "{text}");
    }
    assert_eq!(cell("input", "sha256", "before").map(|digest| digest.len()), Some(64));
    assert!(
        cell("command", "", "message").is_some_and(|command| command.ends_with("--repeat all --format csv"))
    );
    Ok(())
}

#[test]
fn names_are_resolved_through_the_catalog() -> Outcome {
    let folder = Folder::new()?;
    folder.file("a.csv", &[row("old-name", "1270.00", "11111111")])?;
    folder.file("b.csv", &[row("new-name-4bit", "1270.00", "11111111")])?;
    fs::write(folder.path("catalog.tsv"), "local_name\taliases\nnew-name-4bit\tolder-name;old-name\n")?;
    let line = "compare --before a.csv --after b.csv --format json";
    let without = folder.json(line)?;
    assert_eq!(without["refused"][0]["rule"], "P24");
    assert_eq!(without["one_sided"]["before"][0], "old-name");
    let with = folder.json(&format!("{line} --catalog catalog.tsv"))?;
    assert_eq!(with["pairs"][0]["model"], "new-name-4bit");
    assert_eq!(folder.run(&format!("{line} --catalog absent.tsv"))?.status.code(), Some(4));
    Ok(())
}

#[test]
fn a_folder_of_newer_readings_that_is_none_is_an_error() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    let output = folder.run("compare --before a.csv --after b.csv --vary commit --store absent")?;
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("absent") && stderr(&output).contains("--store"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn a_file_is_not_compared_with_itself() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    fs::copy(folder.path("a.csv"), folder.path("copy.csv"))?;
    for after in ["a.csv", "./a.csv", "copy.csv"] {
        let output = folder.run(&format!("compare --before a.csv --after {after}"))?;
        assert_eq!(output.status.code(), Some(2), "{after}");
        assert!(stderr(&output).contains("V02") && output.stdout.is_empty(), "{}", stderr(&output));
    }
    Ok(())
}

#[test]
fn a_newer_reading_of_the_baseline_is_a_warning() -> Outcome {
    let folder = Folder::new()?;
    folder.sides()?;
    let newer = row("alpha", "640.00", "11111111").replace("2026-09-09", "2026-09-10");
    folder.file("c.csv", &[newer])?;
    let json = folder.json("compare --before a.csv --after b.csv --vary commit --format json")?;
    let warned = json["warnings"].as_array().into_iter().flatten().find(|warning| warning["rule"] == "P17");
    assert_eq!(warned.map(|warning| &warning["model"]), Some(&"alpha".into()));
    Ok(())
}

#[test]
fn a_scan_lists_files_and_what_is_wrong_with_them() -> Outcome {
    let folder = Folder::new()?;
    fs::create_dir(folder.path("sub"))?;
    folder.file("sub/a.csv", &[row("alpha", "1270.00", "11111111"), row("beta", "1.00", "22222222")])?;
    let json = folder.json("history scan . --format json")?;
    let file = &json[0];
    assert_eq!(file["layout"], "sweep-17");
    assert_eq!(file["harness"], "text");
    assert_eq!(file["runtime"], "mlxcel 0.7.0");
    assert_eq!(file["host"], "Apple_M5_Max_128GB");
    assert_eq!(file["dates"], serde_json::json!(["2026-09-09"]));
    assert_eq!(file["commits"], serde_json::json!(["11111111", "22222222"]));
    assert_eq!((&file["rows"], &file["measured"], &file["failed"]), (&2.into(), &2.into(), &0.into()));
    assert_eq!(file["problems"][0]["rule"], "mixed_commits");
    let output = folder.run("history scan .")?;
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("mixed_commits"));

    fs::write(folder.path("odd.csv"), "what,is,this\n")?;
    let output = folder.run("history scan .")?;
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("odd.csv:1"), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("unreadable"));
    assert_eq!(folder.run("history scan absent")?.status.code(), Some(4));
    fs::create_dir(folder.path("none"))?;
    assert_eq!(folder.run("history scan none")?.status.code(), Some(4));
    Ok(())
}

#[test]
fn the_selftest_shows_every_rule() -> Outcome {
    let folder = Folder::new()?;
    let output = folder.run("selftest")?;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let json = folder.json("selftest --format json")?;
    let cases = json.as_array().ok_or("no list")?;
    assert!(cases.len() > 29, "{}", cases.len());
    assert!(cases.iter().all(|case| case["spoke"] == true && case["missed_when_off"] == true));
    Ok(())
}

#[test]
fn the_historical_reference_comparison_reproduces() -> Outcome {
    let history = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/history/2026-09");
    if !history.is_dir() {
        #[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
        {
            eprintln!("SKIPPED: `{}` is absent", history.display());
        }
        return Ok(());
    }
    let folder = Folder::new()?;
    for name in ["pylm_m5max_vlm_2026-09-09.csv", "metal_m5max_vlm_2026-09-09.csv"] {
        fs::copy(history.join(name), folder.path(name))?;
    }
    let json = folder.json(
        "compare --before pylm_m5max_vlm_2026-09-09.csv --after metal_m5max_vlm_2026-09-09.csv --reference \
         --accept missing-commit --format json",
    )?;
    assert_eq!(json["summary"]["pairs"], 47);
    assert_eq!(
        json["summary"]["median_ratio"].as_f64().map(|ratio| format!("{ratio:.3}")),
        Some("1.048".to_owned())
    );
    Ok(())
}
