//! `gate` as a command, a baseline by ancestry, and the examples of `docs/ci.md` and `docs/gating.md`, run.

#[path = "common/gates.rs"]
mod gates;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gates::{Folder, HEADER, Outcome, player, row, said, script, stderr};
use serde_json::Value;

const GATE: &str = "gate --metric decode --baseline a --candidate b";

#[test]
fn every_outcome_has_its_exit_code() -> Outcome {
    for (count, before, after, line, code) in [
        (5, 1270.0, 1275.0, GATE, 0),
        (5, 1270.0, 1600.0, GATE, 1),
        (5, 1270.0, 1275.0, "gate --baseline a --candidate b --vary nothing", 2),
        (1, 1270.0, 1600.0, GATE, 3),
        (5, 1270.0, 1275.0, "gate --baseline a --candidate absent", 4),
        (5, 1600.0, 1270.0, "gate --metric decode --baseline a --candidate b --tell-improvements", 5),
        (5, 1600.0, 1270.0, GATE, 0),
        (1, 1270.0, 1275.0, "gate --baseline a", 64),
        (1, 1270.0, 1275.0, "gate --baseline a --candidate b --report xml=x", 64),
    ] {
        let folder = Folder::new()?;
        folder.side("a", count, before, "11111111")?;
        folder.side("b", count, after, "22222222")?;
        let output = folder.run(line)?;
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
    }
    Ok(())
}

#[test]
fn one_measurement_a_side_is_called_that() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    let output = folder.run(GATE)?;
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout)?.contains("one measurement a side"));
    Ok(())
}

#[test]
fn reports_are_written_all_or_none_and_tell_nothing_of_where_the_program_lies() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 5, 1270.0, "11111111")?;
    folder.side("b", 5, 1275.0, "22222222")?;
    for (reports, words) in [
        ("--report junit=x --report json=x", "named twice"),
        ("--report junit=x --report json=absent/y", "absent/y"),
        ("--report junit=x --report json=a", "is not replaced"),
    ] {
        let output = folder.run(&format!("{GATE} {reports}"))?;
        assert_eq!(output.status.code(), Some(4), "{reports}");
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
        assert!(!folder.path("x").exists(), "{reports}");
    }
    let output = folder.run(&format!("{GATE} --format json"))?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(report["command"][0], "mlxcel-bench", "{}", report["command"]);
    Ok(())
}

#[test]
fn reports_are_written_in_every_form_and_replace_nothing() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 5, 1270.0, "11111111")?;
    folder.side("b", 5, 1600.0, "22222222")?;
    let line = format!(
        "{GATE} --format json --report table=t --report json=j --report markdown=m --report junit=x --report benchstat=s"
    );
    let output = folder.run(&line)?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(printed["outcome"], "regression");
    assert_eq!(printed["rows"][0]["test"]["verdict"], "SLOWER");
    assert_eq!(serde_json::from_str::<Value>(&fs::read_to_string(folder.path("j"))?)?, printed);
    for (file, part) in [
        ("t", "gate: REGRESSION"),
        ("m", "<!-- mlxcel-bench gate -->"),
        ("x", "<failure type=\"regression\""),
        ("s", "BenchmarkDecode/model=alpha/metric=decode 1 "),
    ] {
        let text = fs::read_to_string(folder.path(file))?;
        assert!(text.contains(part), "{file}: {text}");
    }
    fs::write(folder.path("t"), "mine")?;
    let again = folder.run(&format!("{GATE} --report table=t"))?;
    assert_eq!(again.status.code(), Some(4), "{}", said(&again));
    assert_eq!(fs::read_to_string(folder.path("t"))?, "mine");
    Ok(())
}

#[test]
fn a_faulty_policy_or_file_ends_with_4_and_names_its_place() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    fs::create_dir(folder.path("empty"))?;
    fs::write(folder.path("p.toml"), "floor = 0.1\nflor = 0.1\n")?;
    fs::write(
        folder.path("s.toml"),
        "[[spread]]\nhost = \"h\"\nmodel = \"m\"\nmetric = \"decode\"\nspread = -1.0\n",
    )?;
    for (line, part) in [
        (format!("{GATE} --policy p.toml"), "p.toml: TOML parse error at line 2"),
        (format!("{GATE} --policy absent.toml"), "cannot read `absent.toml`"),
        (format!("{GATE} --spreads s.toml"), "spread of `m`"),
        ("gate --baseline empty --candidate b".to_owned(), "holds no result file"),
    ] {
        let output = folder.run(&line)?;
        assert_eq!(output.status.code(), Some(4), "{line}: {}", said(&output));
        assert!(stderr(&output).contains(part), "{line}: {}", stderr(&output));
    }
    fs::write(folder.path("b/2.csv"), "no,result,file\n")?;
    let output = folder.run(GATE)?;
    assert_eq!(
        output.status.code(),
        Some(4),
        "an unreadable file of a folder is not left out: {}",
        said(&output)
    );
    Ok(())
}

#[test]
fn a_change_cannot_bring_its_own_baseline() -> Outcome {
    let folder = Folder::new()?;
    let candidate = folder.repository()?;
    // The change under test slows everything down and commits a slow baseline beside it.
    folder.side("benchmarks/baseline", 8, 1600.0, &candidate)?;
    let candidate = folder.commit("cheat")?;
    folder.side("candidate", 8, 1601.0, &candidate)?;
    let line = "gate --metric decode --baseline-from-git origin/main --baseline benchmarks/baseline --candidate candidate";
    let output = folder.run(line)?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // On the branch itself the baseline is the parent's.
    folder.git("update-ref refs/remotes/origin/main HEAD")?;
    let output = folder.run(line)?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = folder.run(&line.replace("origin/main", "origin/gone"))?;
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    Ok(())
}

#[test]
fn a_baseline_that_is_not_the_protected_copy_is_refused() -> Outcome {
    let folder = Folder::new()?;
    let candidate = folder.repository()?;
    folder.side("candidate", 8, 1271.0, &candidate)?;
    let line = "gate --metric decode --protected-branch origin/main --baseline benchmarks/baseline --candidate candidate \
                --format json";
    let output = folder.run(line)?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    fs::write(folder.path("report.json"), &output.stdout)?;
    let verified = folder.run("verify report.json")?;
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    let text = fs::read_to_string(folder.path("report.json"))?;
    let mut report: Value = serde_json::from_str(&text)?;
    report["protected"]["copies"][0]["sha256"] = Value::from("0000");
    fs::write(folder.path("report.json"), report.to_string())?;
    assert_eq!(folder.run("verify report.json")?.status.code(), Some(1));
    // Edited in the working tree, and then committed with the change: neither is what the branch has.
    folder.side("benchmarks/baseline", 8, 1600.0, &candidate)?;
    for _ in 0..2 {
        let output = folder.run(line)?;
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(report["refused"].as_array().map(Vec::len), Some(8));
        assert_eq!(report["refused"][0]["rule"], "P26");
        fs::write(folder.path("refused.json"), &output.stdout)?;
        let verified = folder.run("verify refused.json")?;
        assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
        folder.commit("cheat")?;
    }
    // By the policy as well.
    fs::write(folder.path("gate.toml"), "metrics = [\"decode\"]\nprotected_branch = \"origin/main\"\n")?;
    let output =
        folder.run("gate --policy gate.toml --baseline benchmarks/baseline --candidate candidate")?;
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    Ok(())
}

#[test]
fn the_nearest_measured_ancestor_is_the_baseline() -> Outcome {
    let folder = Folder::new()?;
    folder.git("init --quiet")?;
    let oldest = folder.commit("oldest")?;
    let newer = folder.commit("newer")?;
    folder.git("checkout --quiet -b side HEAD~1")?;
    let stranger = folder.commit("stranger")?;
    folder.git("checkout --quiet -")?;
    let store = folder.path("store");
    fs::create_dir_all(&store)?;
    for (name, decode_ms, commit) in [
        ("oldest.csv", 2000.0, oldest.as_str()),
        ("newer.csv", 1270.0, newer.as_str()),
        ("stranger.csv", 500.0, stranger.as_str()),
        ("dirty.csv", 400.0, &format!("{newer}-dirty")),
        ("unknown.csv", 300.0, "0123abcd"),
    ] {
        fs::write(store.join(name), HEADER.to_owned() + &row("alpha", decode_ms, commit))?;
    }
    folder.commit("store")?;
    folder.git("update-ref refs/remotes/origin/main HEAD")?;
    let candidate = folder.commit("change")?;
    fs::write(folder.path("c.csv"), HEADER.to_owned() + &row("alpha", 1271.0, &candidate))?;
    let output = folder.run(
        "gate --metric decode --baseline-from-git origin/main --baseline store --candidate c.csv --format json",
    )?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let inputs: Vec<&str> = report["inputs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|input| input["side"] == "baseline")
        .filter_map(|input| input["path"].as_str())
        .collect();
    assert!(inputs.len() == 1 && inputs[0].ends_with(":store/newer.csv"), "{inputs:?}");
    let remarks = report["remarks"].to_string();
    for name in ["oldest.csv", "stranger.csv", "dirty.csv", "unknown.csv"] {
        assert!(remarks.contains(name), "{name}: {remarks}");
    }
    fs::write(folder.path("report.json"), &output.stdout)?;
    let verified = folder.run("verify report.json")?;
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    // The report of a repository that is not here.
    fs::remove_dir_all(folder.path(".git"))?;
    assert_eq!(folder.run("verify report.json")?.status.code(), Some(3));
    Ok(())
}

fn document(name: &str) -> std::io::Result<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name))
}

/// The code blocks of a document in one language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    document
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n').map(str::to_owned))
        .collect()
}

#[test]
fn the_files_in_the_documentation_can_be_used() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    let blocks = blocks(&document("gating.md")?, "toml");
    assert_eq!(blocks.len(), 2);
    fs::write(folder.path("gate.toml"), &blocks[0])?;
    fs::write(folder.path("spreads.toml"), &blocks[1])?;
    // The policy demands rows that are not there: it is in force.
    let output = folder.run(&format!("{GATE} --policy gate.toml --spreads spreads.toml"))?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("required smollm2-*"), "{}", said(&output));
    Ok(())
}

/// Runs a script of the documentation in the folder, with the player and a `cargo` that does nothing on the path.
fn play(
    folder: &Folder,
    script: &str,
    shell: &[&str],
    variables: &[(&str, &str)],
) -> Result<Output, Box<dyn Error>> {
    let path = format!("{}:{}", folder.path("bin").display(), std::env::var("PATH")?);
    let (program, arguments) = shell.split_first().ok_or("no shell")?;
    Ok(Command::new(program)
        .args(arguments)
        .arg(script)
        .current_dir(folder.0.path())
        .env("PATH", path)
        .env("TMPDIR", folder.path("work"))
        .env("RUNNER_TEMP", folder.path("work"))
        .env("GITHUB_BASE_REF", "main")
        .env("GITHUB_STEP_SUMMARY", folder.path("summary.md"))
        .env_remove("RELEASE")
        .envs(variables.iter().copied())
        .output()?)
}

/// A repository whose change decodes in `decode_ms` milliseconds, `count` times.
fn example(decode_ms: f64, count: u32) -> Result<Folder, Box<dyn Error>> {
    let folder = Folder::new()?;
    let candidate = folder.repository()?;
    folder.side("prepared", count, decode_ms, &candidate)?;
    fs::create_dir(folder.path("work"))?;
    player(&folder, &folder.path("bin/mlxcel-bench"), "prepared")?;
    player(&folder, &folder.path("target/release/mlxcel-bench"), "prepared")?;
    script(&folder.path("bin/cargo"), "#!/bin/sh\nexit 0\n")?;
    Ok(folder)
}

#[test]
fn the_shell_example_passes_fails_and_warns() -> Outcome {
    let examples = blocks(&document("ci.md")?, "sh");
    assert_eq!(examples.len(), 1);
    for (decode_ms, count, release, code) in [
        (1271.0, 8, "0", 0),
        (1600.0, 8, "0", 1),
        // Two files show nothing: a warning on a change, a failure of a release.
        (1600.0, 2, "0", 0),
        (1600.0, 2, "1", 3),
    ] {
        let folder = example(decode_ms, count)?;
        let processes = count.to_string();
        let variables = [("PROCESSES", processes.as_str()), ("RELEASE", release)];
        let output = play(&folder, &examples[0], &["sh", "-c"], &variables)?;
        assert_eq!(output.status.code(), Some(code), "{decode_ms} {count}: {}", said(&output));
        let reports: Vec<_> = fs::read_dir(folder.path("work"))?.collect::<Result<_, _>>()?;
        for name in ["gate.xml", "gate.json", "gate.txt"] {
            assert!(reports.len() == 1 && reports[0].path().join(name).is_file(), "{name}");
        }
    }
    Ok(())
}

/// The `run` steps of a workflow, in their order.
fn steps(workflow: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut lines = workflow.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((indent, run)) = line.split_once("run: ") else { continue };
        if run != "|" {
            steps.push(run.to_owned());
            continue;
        }
        let mut text = String::new();
        while let Some(line) = lines.next_if(|line| line.len() - line.trim_start().len() > indent.len()) {
            text.push_str(line.get(indent.len() + 2..).unwrap_or_default());
            text.push('\n');
        }
        steps.push(text);
    }
    steps
}

#[test]
fn the_steps_of_the_workflow_pass_and_fail() -> Outcome {
    let workflows = blocks(&document("ci.md")?, "yaml");
    assert_eq!(workflows.len(), 1);
    let steps = steps(&workflows[0]);
    assert_eq!(steps.len(), 3, "{steps:?}");
    for (decode_ms, code) in [(1271.0, 0), (1600.0, 1)] {
        let folder = example(decode_ms, 8)?;
        for (index, step) in steps.iter().enumerate() {
            // The shell of such steps.
            let output = play(&folder, step, &["bash", "-e", "-o", "pipefail", "-c"], &[])?;
            let expected = if index == 2 { code } else { 0 };
            assert_eq!(output.status.code(), Some(expected), "step {index}, {decode_ms}: {}", said(&output));
        }
        let summary = fs::read_to_string(folder.path("summary.md"))?;
        assert!(summary.starts_with("<!-- mlxcel-bench gate -->\n**Benchmark gate: "), "{summary}");
        assert!(folder.path("work/gate.xml").is_file());
    }
    Ok(())
}
