//! `scripts/gpu_sweep.sh`: what it asks for, and a rehearsal with tiny checkpoints on this machine's processor.

#![cfg(all(feature = "runtime", target_os = "linux"))]
#![expect(clippy::print_stdout, reason = "a test that is not run says so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn script(arguments: &[&str]) -> std::io::Result<Output> {
    Command::new(checkout().join("scripts/gpu_sweep.sh"))
        .args(arguments)
        .env("BENCH_ALLOW_STALE_BINARY", "1")
        // The script is tried here, not this machine, on which other tests run.
        .env("BENCH_WATCH", "0")
        .env_remove("MODELS_DIR")
        .env_remove("BENCHMARKS_DIR")
        .output()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_line_that_is_not_understood_is_answered_in_words() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().display().to_string();
    for (arguments, words) in [
        (vec![], "name a folder"),
        (vec!["a", "b"], "one output folder"),
        (vec![out.as_str(), "--banana"], "--banana"),
        (vec![out.as_str(), "--work"], "--work needs a value"),
        (vec![out.as_str(), "--budget-s", "soon"], "'soon'"),
        (vec![out.as_str(), "--blocks", "0"], "'0'"),
    ] {
        let output = script(&arguments)?;
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
    Ok(())
}

#[test]
fn a_folder_without_the_binaries_is_named_with_the_remedy() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().display().to_string();
    let output = script(&[&path, "--work", &path, "--bin", &path])?;
    assert_eq!(output.status.code(), Some(4));
    assert!(said(&output).contains("has no mlxcel") && said(&output).contains("--features cuda"));
    Ok(())
}

#[test]
fn a_rehearsal_leaves_rows_and_comparisons_and_does_nothing_twice() -> anyhow::Result<()> {
    let bench = Path::new(env!("CARGO_BIN_EXE_mlxcel-bench"));
    let Some(bin) = bench.parent().filter(|folder| folder.join("mlxcel").is_file()) else {
        println!("not run: the runtime's own command is not built");
        return Ok(());
    };
    let python = Command::new(checkout().join("scripts/oracle_env.sh")).arg("--check").output()?;
    let line = String::from_utf8_lossy(&python.stdout).into_owned();
    let Some(python) = line.trim().strip_prefix("ready ") else {
        println!("not run: there is no environment with mlx-lm; scripts/oracle_env.sh makes it");
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (out, work, bin) = (path("out"), path("work"), bin.display().to_string());
    let arguments = [&out, "--rehearse", "--work", &work, "--bin", &bin, "--python", python];
    let first = script(&arguments)?;
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    assert_eq!(String::from_utf8_lossy(&first.stdout).lines().last(), Some(out.as_str()));

    let mut rows = 0;
    for entry in std::fs::read_dir(path("out/rows"))? {
        let file = entry?.path();
        if file.extension().is_some_and(|suffix| suffix == "csv") {
            let text = std::fs::read_to_string(&file)?;
            rows += text.lines().filter(|line| line.contains("rehearsal-")).count();
        }
    }
    assert_eq!(rows, 4, "two checkpoints at two lengths");
    for model in ["rehearsal-1B-4bit", "rehearsal-8B-dense"] {
        let text = std::fs::read_to_string(path(&format!("out/abba/{model}.json")))?;
        let record: serde_json::Value = serde_json::from_str(&text)?;
        assert_eq!(record["loaded"]["ours"]["synthetic"], true);
        assert_eq!(record["loaded"]["theirs"]["synthetic"], true);
        for side in ["ours", "theirs"] {
            let repeats = &record["results"][0][format!("{side}_repeats")];
            assert_eq!(repeats["distinct"], 1, "{side}: greedy tokens repeat on a processor");
        }
        let text = std::fs::read_to_string(path(&format!("out/logits/{model}.json")))?;
        let logits: serde_json::Value = serde_json::from_str(&text)?;
        let results = logits["results"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(results.len(), 2, "two lengths");
        for result in results {
            assert_eq!(result["agree"], true, "{result}");
            assert_eq!(result["ours_repeats"]["same_bits"], true, "{result}");
        }
        for part in ["build", "submit", "host"] {
            for side in ["ours", "theirs"] {
                let time = &record["results"][0][format!("{side}_{part}_us_per_step")]["median"];
                assert!(time.as_f64().is_some_and(|time| time >= 0.0), "{side} {part}: {time}");
            }
        }
    }

    let again = script(&arguments)?;
    assert_eq!(again.status.code(), Some(0));
    assert!(!said(&again).contains("== "), "{}", said(&again));

    let late = script(&[&path("late"), "--rehearse", "--work", &work, "--bin", &bin, "--budget-s", "0"])?;
    assert_eq!(late.status.code(), Some(3), "{}", said(&late));
    Ok(())
}
