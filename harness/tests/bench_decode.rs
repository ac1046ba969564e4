//! `scripts/bench_decode.sh`: the command lines of the older sweep, passed on to `mlxcel-bench sweep`.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Bench, Outcome, program, stderr};

/// A stand-in for the program that prints its arguments, one a line.
fn echo(bench: &Bench) -> std::io::Result<PathBuf> {
    let path = bench.path("echo.sh");
    program::script(&path, "#!/bin/sh\nfor argument; do echo \"$argument\"; done\n")?;
    Ok(path)
}

fn run(bench: &Bench, arguments: &[&str]) -> std::io::Result<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/bench_decode.sh");
    // No GPU is looked for: the limit of time is then the given one.
    Command::new("bash")
        .arg(script)
        .args(arguments)
        .env("MLXCEL_BENCH", echo(bench)?)
        .env("PATH", "/usr/bin:/bin")
        .current_dir(bench.root.path())
        .output()
}

fn passed(bench: &Bench, arguments: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
    let output = run(bench, arguments)?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    Ok(String::from_utf8(output.stdout)?.lines().collect::<Vec<_>>().join(" "))
}

#[test]
fn old_command_lines_are_passed_on() -> Outcome {
    let bench = Bench::new()?;
    assert_eq!(passed(&bench, &["./models/x"])?, "sweep ./models/x --timeout 300");
    assert_eq!(
        passed(
            &bench,
            &["all", "--max-tokens", "64", "--prompt-tokens", "2048", "--no-dedup", "--suffix", "t"]
        )?,
        "sweep all --max-tokens 64 --prompt-tokens 2048 --no-dedup --timeout 300 --suffix t"
    );
    assert_eq!(
        passed(
            &bench,
            &["all", "--cooldown=30", "--big-cooldown", "60", "--big-threshold-gb", "20", "--timeout", "9"]
        )?,
        "sweep all --big-threshold-gb 20 --cooldown 30 --big-cooldown 60 --timeout 9"
    );
    // Of waits and --no-cooldown the last one counts, as in the older sweep.
    assert_eq!(
        passed(&bench, &["x", "--cooldown", "30", "--no-cooldown"])?,
        "sweep x --no-cooldown --timeout 300"
    );
    assert_eq!(
        passed(&bench, &["x", "--no-cooldown", "--cooldown", "30"])?,
        "sweep x --cooldown 30 --timeout 300"
    );
    assert_eq!(
        passed(&bench, &["first", "second", "--vlm", "--image", "a b.png", "--no-ignore-eos"])?,
        "sweep second --vlm --image a b.png --no-ignore-eos --timeout 300"
    );
    assert_eq!(
        passed(&bench, &["x", "--output", "results/of today.csv"])?,
        "sweep x --timeout 300 --out results --name of_today"
    );
    // Such a name is one that the sweep takes, and that it differs is said.
    let output = run(&bench, &["x", "--output", "my file.csv"])?;
    assert!(stderr(&output).contains("the file is named my_file.csv"), "{}", stderr(&output));
    std::fs::write(bench.path("there.csv"), "")?;
    let output = run(&bench, &["x", "--output", "there.csv"])?;
    assert!(stderr(&output).contains("there.csv is there and stays"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn what_the_sweep_always_does_is_said_and_what_it_cannot_do_is_refused() -> Outcome {
    let bench = Bench::new()?;
    let output = run(
        &bench,
        &["x", "--prompt", "Hello", "--warmup-tokens", "20", "--no-pre-warm", "--temperature", "0.0"],
    )?;
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(
        said.contains("--prompt has no effect") && said.contains("--warmup-tokens has no effect"),
        "{said}"
    );
    for (arguments, word) in [
        (vec!["x", "--prompt-tokens", ""], "--prompt-tokens"),
        (vec!["x", "--temperature", "0.7"], "greedy"),
        (vec!["x", "--top-p", "0.9"], "greedy"),
        (vec!["x", "--max-tokens", "many"], "whole number"),
        (vec!["x", "--max-tokens"], "needs a value"),
        (vec!["x", "--repeat", "3"], "--repeat"),
        (vec![], "model folder"),
    ] {
        let output = run(&bench, &arguments)?;
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    let output = run(&bench, &["--help"])?;
    assert_eq!(output.status.code(), Some(0));
    Ok(())
}

#[test]
fn the_flags_it_passes_on_are_flags_of_the_sweep() -> Outcome {
    let bench = Bench::new()?;
    let help = bench.program().args(["sweep", "--help"]).output()?;
    let help = String::from_utf8(help.stdout)?;
    for flag in [
        "--vlm",
        "--image",
        "--max-tokens",
        "--prompt-tokens",
        "--no-ignore-eos",
        "--timeout",
        "--suffix",
        "--cooldown",
        "--big-cooldown",
        "--big-threshold-gb",
        "--no-cooldown",
        "--no-dedup",
        "--out",
        "--name",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    Ok(())
}
