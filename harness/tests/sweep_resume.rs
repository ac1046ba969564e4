//! A sweep in several parts: what is measured again leaves a trace, what is mixed is of one configuration, what lies between
//! controls is judged, and what was planned has a row.

mod common;

use std::error::Error;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    Bench, HEAR, Outcome, by_name, cell, checkpoints, generated, good, good_rest, hello, loaded, paced, rows,
    stderr, telling_warmup,
};
use mlxcel_reports::store;
use serde_json::{Value, json};

/// A worker's answers with repetitions of so many nanoseconds a step.
fn of_pace(steps: &[u64]) -> String {
    let repetitions: String = (1..).zip(steps).map(|(rep, step)| paced(rep, *step)).collect();
    format!("{}{}{repetitions}{HEAR}", loaded(), paced(0, 1_000_000))
}

/// Starts the command, and interrupts it as soon as it measures `slow`, which is to hang where `mark` says that it came.
fn interrupt_at(command: &mut Command, mark: &std::path::Path) -> Result<Output, Box<dyn Error>> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let begun = Instant::now();
    while !mark.exists() && begun.elapsed() < Duration::from_mins(1) {
        thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status()?;
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    Ok(output)
}

/// The first part of a sweep: all that come before `slow`, measured as `other` says.
fn first_part(bench: &Bench, other: &str, arguments: &[&str]) -> Result<Output, Box<dyn Error>> {
    let mark = bench.path("mark");
    let _ = fs::remove_file(&mark);
    let script = by_name(&[("slow", &format!("touch {}; sleep 600", mark.display()))], other);
    interrupt_at(&mut bench.sweep(&script, &[&["all"], arguments].concat())?, &mark)
}

fn statuses(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| cell(row, "status")).collect()
}

fn verified(bench: &Bench, path: &std::path::Path) -> Result<(Option<i32>, String), Box<dyn Error>> {
    let output = bench.program().arg("verify").arg(path).output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn edited(path: &std::path::Path, edit: impl Fn(&mut Value)) -> Outcome {
    let mut value: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    edit(&mut value);
    fs::write(path, value.to_string())?;
    Ok(())
}

fn refused(output: &Output, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_row_that_is_measured_until_it_is_valid_says_how_often_and_keeps_every_sample() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "slow"])?;
    let arguments = ["--reps", "2"];
    first_part(&bench, &of_pace(&[1_000_000, 2_000_000]), &arguments)?;
    let again = ["--reps", "2", "--resume", "--retry", "invalid"];
    first_part(&bench, &of_pace(&[1_000_000, 3_000_000]), &again)?;
    let output = bench.sweep(&good(2), &[&["all"], &again[..]].concat())?.output()?;
    let found = rows(&output)?;
    assert_eq!(statuses(&found), ["INVALID:provenance"; 2], "{}", stderr(&output));
    assert_eq!([&found[0], &found[1]].map(|row| cell(row, "attempts")), ["3", "1"]);
    let detail = cell(&found[0], "status_detail");
    assert!(detail.contains("attempt 3; before: INVALID:spread 66.7 %, INVALID:spread 100.0 %"), "{detail}");
    let csv = bench.file(".csv")?;
    let all = store::read_all_samples(&csv)?;
    let of_a = all.iter().filter(|sample| sample.order_index == 0);
    let marks: Vec<_> = of_a.map(|sample| (sample.attempt, sample.superseded)).collect();
    assert_eq!(marks, [(1, true), (1, true), (2, true), (2, true), (3, false), (3, false)]);
    assert_eq!(store::read_samples(&csv)?.len(), 4);
    let (code, said) = verified(&bench, &csv)?;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("superseded samples"), "{said}");

    // Each part of the run is told as it was started.
    let provenance = bench.file(".provenance.json")?;
    let settings = bench.json(".provenance.json")?["settings"].clone();
    let retries: Vec<Value> =
        settings["parts"].as_array().into_iter().flatten().map(|part| part["retry"].clone()).collect();
    assert_eq!(retries, [Value::Null, json!("invalid"), json!("invalid")], "{settings}");
    let last = settings["parts"][2]["argv"].to_string();
    assert!(last.contains("--retry") && settings["parts"][0]["ended_at"].is_string(), "{settings}");
    // Nobody takes that away unseen.
    edited(&provenance, |value| value["settings"]["superseded"] = json!([]))?;
    let (code, said) = verified(&bench, &csv)?;
    assert!(code == Some(1) && said.contains("/settings/superseded"), "{code:?} {said}");
    Ok(())
}

#[test]
fn a_sweep_killed_while_it_measures_again_forgets_no_attempt_that_has_a_row() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b", "slow"])?;
    let arguments = ["--reps", "1", "--control-every", "1"];
    first_part(&bench, &good_rest(1), &arguments)?;
    // Scripted rows are invalid, so all of them are measured again, each time.
    let again = [&["all"], &arguments[..], &["--resume", "--retry", "invalid"]].concat();
    let mut done = 0;
    for number in 0..24 {
        let mut child = bench.sweep(&good(1), &again)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        thread::sleep(Duration::from_millis(40 + 25 * number));
        if child.try_wait()?.is_some() {
            done += 1;
            break;
        }
        child.kill()?;
        child.wait()?;
    }
    let csv = match bench.csv_of("cpu_")? {
        Some(csv) if done > 0 => csv,
        _ => {
            let output = bench.sweep(&good(1), &again)?.output()?;
            assert_eq!(rows(&output)?.len(), 3, "{}", stderr(&output));
            bench.csv_of("cpu_")?.ok_or("no rows")?
        }
    };
    let read = store::open(&csv)?;
    let attempts: Vec<_> = read.rows.iter().map(|row| row.identity().conditions.attempts).collect();
    assert!(attempts[0] > Some(1), "{attempts:?}");
    let (code, said) = verified(&bench, &csv)?;
    assert_eq!(code, Some(0), "{attempts:?} {said}");
    let (code, said) = verified(&bench, &bench.csv_of("control_")?.ok_or("no control rows")?)?;
    assert_eq!(code, Some(0), "{said}");
    Ok(())
}

#[test]
fn samples_that_hide_that_they_are_superseded_are_found() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "slow"])?;
    first_part(&bench, &of_pace(&[1_000_000, 2_000_000]), &["--reps", "2"])?;
    bench.sweep(&good(2), &["all", "--reps", "2", "--resume", "--retry", "invalid"])?.output()?;
    let (csv, samples) = (bench.file(".csv")?, bench.file(".samples.jsonl")?);
    let text = fs::read_to_string(&samples)?;
    for (from, to, field) in [
        ("\"superseded\":true", "\"superseded\":false", "superseded"),
        ("\"attempt\":1", "\"attempt\":7", "attempt"),
    ] {
        let changed = text.replacen(from, to, 1);
        fs::write(&samples, &changed)?;
        edited(&bench.file(".provenance.json")?, |value| {
            value["ending"]["samples_sha256"] =
                mlxcel_catalog::identity::sha256_hex(changed.as_bytes()).into();
        })?;
        let (code, said) = verified(&bench, &csv)?;
        assert!(code == Some(1) && said.contains(field), "{field}: {code:?} {said}");
    }
    Ok(())
}

#[test]
fn a_folder_that_only_has_the_same_name_is_not_mixed_in() -> Outcome {
    let bench = Bench::new()?;
    for side in ["here", "there"] {
        for name in ["a", "slow"] {
            let folder = bench.checkpoint_of(name, &json!({"model_type": "llama", "side": side}), 8)?;
            fs::create_dir_all(bench.path(side).join("models"))?;
            fs::rename(folder, bench.path(side).join("models").join(name))?;
        }
    }
    let mark = bench.path("mark");
    let script = by_name(&[("slow", &format!("touch {}; sleep 600", mark.display()))], &good_rest(1));
    let arguments = ["all", "--reps", "1", "--models", "models", "--dedup", "none"];
    let slow = script.replace("*/slow*", "*models/slow*");
    interrupt_at(bench.sweep(&slow, &arguments)?.current_dir(bench.path("here")), &mark)?;
    let resume = |side: &str| -> Result<Output, Box<dyn Error>> {
        let arguments = [&arguments[..], &["--resume"]].concat();
        Ok(bench.sweep(&good(1), &arguments)?.current_dir(bench.path(side)).output()?)
    };
    refused(&resume("there")?, &["folder: ", "here/models", "there/models"]);
    let output = resume("here")?;
    assert_eq!(rows(&output)?.len(), 2, "{}", stderr(&output));
    Ok(())
}

#[test]
fn what_computes_waits_or_limits_otherwise_is_not_mixed_in_and_is_told_by_name() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "slow"])?;
    first_part(&bench, &good_rest(1), &["--reps", "1"])?;
    let before = bench.files()?;
    let again = |more: &[&str]| bench.sweep(&good(1), &[&["all", "--reps", "1", "--resume"], more].concat());
    for (name, value) in [("MLXCEL_CPU_KERNELS", "0"), ("OMP_NUM_THREADS", "1")] {
        let output = again(&[])?.env(name, value).output()?;
        refused(&output, &[&format!("environment {name}: nothing in the file, \"{value}\" asked")]);
    }
    let output = again(&[])?.env("BENCH_MEM_OVERHEAD_FACTOR", "1.5").output()?;
    refused(&output, &["memory_overhead_factor: 1.0 in the file, 1.5 asked"]);
    for (flag, value, words) in [
        ("--cooldown", "1", "cooldown: 0.0 in the file, 1.0 asked"),
        ("--timeout", "7", "timeout_seconds: 1800.0 in the file, 7.0 asked"),
        ("--control-every", "1", "control_every: null in the file, 1 asked"),
        ("--max-spread", "9", "max_spread: 4.0 in the file, 9.0 asked"),
        ("--order", "size", "order: "),
    ] {
        let mut command = again(&[flag, value])?;
        if flag == "--order" {
            // The tests name an order of their own.
            let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let at = words.iter().rposition(|word| word == "--order").ok_or("no --order")?;
            let kept = words.iter().enumerate().filter(|(place, _)| *place != at && *place != at + 1);
            let mut other = bench.program();
            other.args(kept.map(|(_, word)| word));
            other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command = other;
        }
        refused(&command.output()?, &[words]);
    }
    refused(&again(&["--reference", "mlx-lm=/nowhere/python"])?.output()?, &["mlx-lm"]);
    assert_eq!(bench.files()?, before);
    // A worker of another version or another MLX is another one, though the program is the same.
    let other = good(1).replace("\"mlx_version\":\"0.0.0\"", "\"mlx_version\":\"0.9.0\"");
    let output = bench.sweep(&other, &["all", "--reps", "1", "--resume"])?.output()?;
    refused(&output, &["runtime mlx_version: \"0.0.0\" in the file, \"0.9.0\" asked"]);
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn fewer_processors_are_another_configuration() -> Outcome {
    let usable = thread::available_parallelism()?.get();
    if usable < 2 {
        return Ok(());
    }
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "slow"])?;
    first_part(&bench, &good_rest(1), &["--reps", "1"])?;
    let command = bench.sweep(&good(1), &["all", "--reps", "1", "--resume"])?;
    let mut bound = Command::new("taskset");
    bound
        .args(["-c", "0"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(bench.root.path());
    bound.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    match bound.output() {
        Ok(output) => refused(&output, &[&format!("processors: {usable} in the file, 1 asked")]),
        // Not every Linux has it.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
    }
    Ok(())
}

#[test]
fn rows_of_two_parts_are_judged_by_the_controls_around_them() -> Outcome {
    for (step, expected) in [(1_000_000, "INVALID:provenance"), (2_000_000, "INVALID:control_drift")] {
        let bench = Bench::new()?;
        checkpoints(&bench, &["a", "b", "c", "slow"])?;
        let part = first_part(&bench, &of_pace(&[1_000_000]), &["--reps", "1"])?;
        let said = stderr(&part);
        assert!(said.contains("no control after the rows of a, b, c has judged them yet"), "{said}");
        let reason = bench.csv_of("cpu_")?.is_none().then(|| bench.files()).transpose()?.unwrap_or_default();
        let provenance =
            reason.iter().find(|name| name.starts_with("cpu_") && name.ends_with("provenance.json"));
        let text = fs::read_to_string(bench.out().join(provenance.ok_or("no provenance")?))?;
        assert!(text.contains("no control after them yet: a, b, c"), "{text}");
        let script = format!("{}{}", hello(), of_pace(&[step]));
        let output = bench.sweep(&script, &["all", "--reps", "1", "--resume"])?.output()?;
        let found = rows(&output)?;
        let said = stderr(&output);
        assert_eq!(statuses(&found)[..3], [expected; 3], "{said}");
        assert_eq!(cell(&found[3], "status"), "INVALID:provenance");
        for row in &found {
            assert!(row["control_drift_pct"].is_number(), "{row}");
        }
        // Opening and closing control of the first part's beginning and of the second part.
        let control = store::open(&bench.csv_of("control_")?.ok_or("no control rows")?)?;
        assert_eq!(control.rows.len(), 3, "{said}");
        assert_eq!(control.completeness, store::Completeness::Complete);
        let (code, said) = verified(&bench, &bench.csv_of("cpu_")?.ok_or("no rows")?)?;
        assert_eq!(code, Some(0), "{said}");
    }
    Ok(())
}

#[test]
fn rows_that_no_control_judges_are_invalid() -> Outcome {
    for (crashes, words) in [
        (
            "from the second on",
            "no control after this row says what the host was like (the last one: FAIL:crash)",
        ),
        ("at first", "no control before this row"),
    ] {
        let bench = Bench::new()?;
        checkpoints(&bench, &["a", "b"])?;
        let control = bench.checkpoint_of("../control", &json!({"model_type": "llama", "name": "c"}), 8)?;
        let seen = bench.path("seen");
        let test = if crashes == "at first" { "! -e" } else { "-e" };
        // At first: twice; else from the second on.
        let body = format!(
            "n=$(cat {0} 2>/dev/null | wc -l); echo x >> {0}; if {1}; then kill -SEGV $$; fi; {2}",
            seen.display(),
            if test == "-e" { "[ \"$n\" -ge 1 ]" } else { "[ \"$n\" -lt 2 ]" },
            good_rest(1)
        );
        let script = by_name(&[("control", &body)], &good_rest(1));
        let control = control.canonicalize()?.to_string_lossy().into_owned();
        let arguments = ["all", "--reps", "1", "--control", &control, "--control-every", "10"];
        let output = bench.sweep(&script, &arguments)?.output()?;
        let found = rows(&output)?;
        assert_eq!(statuses(&found), ["INVALID:control_drift"; 2], "{crashes}: {}", stderr(&output));
        let detail = cell(&found[0], "status_detail");
        assert!(detail.contains(words), "{crashes}: {detail}");
        assert!(stderr(&output).contains("the rows of a, b are invalid"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(3));
    }
    Ok(())
}

#[test]
fn a_roster_that_shrinks_keeps_its_controls_and_its_rows() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b", "slow", "y"])?;
    first_part(&bench, &good_rest(1), &["--reps", "1"])?;
    let remove = |name: &str| fs::remove_dir_all(bench.path("models").join(name));
    remove("b")?;
    remove("y")?;
    checkpoints(&bench, &["z"])?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--resume"])?.output()?;
    let found = rows(&output)?;
    let said = stderr(&output);
    let outcomes: Vec<(String, String)> =
        found.iter().map(|row| (cell(row, "model"), cell(row, "status"))).collect();
    let outcomes: Vec<(&str, &str)> =
        outcomes.iter().map(|(model, status)| (model.as_str(), status.as_str())).collect();
    let valid = "INVALID:provenance";
    assert_eq!(
        outcomes,
        [("a", valid), ("b", valid), ("slow", valid), ("z", valid), ("y", "FAIL:load")],
        "{said}"
    );
    assert!(cell(&found[3], "status_detail").contains("not there when the sweep began"), "{found:?}");
    assert!(cell(&found[4], "status_detail").contains("is not there any more"), "{found:?}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(bench.csv_of("control_")?.is_some(), "{:?}", bench.files()?);
    let csv = bench.csv_of("cpu_")?.ok_or("no rows")?;
    let (code, said) = verified(&bench, &csv)?;
    assert_eq!(code, Some(0), "{said}");
    // As many rows as were planned are not yet those that were.
    edited(&csv.with_extension("provenance.json"), |value| {
        value["settings"]["planned"][0] = "models/another".into();
    })?;
    let (code, said) = verified(&bench, &csv)?;
    assert!(code == Some(1) && said.contains("without one: models/another"), "{code:?} {said}");

    // A control that is gone judges nothing any more.
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b", "c", "slow"])?;
    first_part(&bench, &good_rest(1), &["--reps", "1"])?;
    fs::remove_dir_all(bench.path("models/a"))?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--resume"])?.output()?;
    refused(&output, &["the control checkpoint", "cannot be measured any more"]);
    Ok(())
}

fn interpreter(bench: &Bench, name: &str, script: &str) -> Result<String, Box<dyn Error>> {
    let path = bench.path(name);
    common::program::script(&path, &format!("#!/bin/sh\n{script}"))?;
    Ok(format!("mlx-lm={}", path.display()))
}

/// What a reference says and does: its version, and the tokens of its repetition.
fn reference(version: &str, tokens: &[u32]) -> String {
    let hello = hello().replace("\"version\":\"0\"", &format!("\"version\":\"{version}\""));
    format!("{hello}{}{}{}{HEAR}", loaded(), telling_warmup("00", &json!([2])), generated(1, tokens))
}

fn telling(rest: &str) -> String {
    format!("{}{}{rest}{HEAR}", loaded(), telling_warmup("00", &json!([2])))
}

#[test]
fn another_reference_is_not_mixed_in() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "slow"])?;
    let first = interpreter(&bench, "one", &reference("mlx-lm-0.31", &[5, 6, 7, 8]))?;
    first_part(&bench, &telling(&paced(1, 1_000_000)), &["--reps", "1", "--reference", &first])?;
    let mlx = reference("mlx-lm-0.31", &[5, 6, 7, 8]).replace("\"0.0.0\"", "\"9.9.9\"");
    let script = format!("{}{}", hello(), telling(&paced(1, 1_000_000)));
    for (name, script_of, words) in [
        ("two", reference("mlx-lm-0.40", &[5, 6, 7, 8]), "reference version: \"mlx-lm-0.31\" in the file"),
        ("three", mlx, "reference mlx_version: \"0.0.0\" in the file, \"9.9.9\" asked"),
    ] {
        let other = interpreter(&bench, name, &script_of)?;
        let arguments = ["all", "--reps", "1", "--resume", "--reference", &other];
        refused(&bench.sweep(&script, &arguments)?.output()?, &[words]);
    }
    let output = bench.sweep(&script, &["all", "--reps", "1", "--resume"])?.output()?;
    refused(&output, &["reference"]);
    Ok(())
}

#[test]
fn a_kill_between_the_names_of_two_sets_has_nothing_measured_again() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b"])?;
    let python = interpreter(&bench, "python", &reference("mlx-lm-0.31", &[5, 6, 7, 8]))?;
    let script = format!("{}{}", hello(), telling(&paced(1, 1_000_000)));
    let arguments = ["all", "--reps", "1", "--control-every", "1", "--reference", &python];
    bench.sweep(&script, &arguments)?.output()?;
    let files = bench.files()?;
    let csv = bench.csv_of("cpu_")?.ok_or("no rows")?;
    let started = |csv: &std::path::Path| -> Result<Vec<_>, Box<dyn Error>> {
        Ok(store::open(csv)?.rows.iter().map(|row| row.identity().run.started_at).collect())
    };
    let before = started(&csv)?;
    // The names of the sets beside it are final; its own are not.
    for kind in ["csv", "samples.jsonl", "provenance.json"] {
        let from = csv.with_extension(kind);
        fs::rename(
            &from,
            bench.out().join(format!("{}.partial", from.file_name().unwrap_or_default().display())),
        )?;
    }
    let output = bench.sweep(&script, &[&arguments[..], &["--resume"]].concat())?.output()?;
    assert_eq!(rows(&output)?.len(), 2, "{}", stderr(&output));
    assert_eq!(started(&csv)?, before, "{}", stderr(&output));
    assert_eq!(bench.files()?, files);
    for begins in ["cpu_", "control_", "pylm_"] {
        let (code, said) = verified(&bench, &bench.csv_of(begins)?.ok_or("no rows")?)?;
        assert_eq!(code, Some(0), "{begins}: {said}");
    }
    Ok(())
}

#[test]
fn a_row_that_is_measured_again_does_not_keep_the_reference_of_the_one_before() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "slow"])?;
    // One interpreter, which stops early when it is told to by a file.
    let flag = bench.path("short");
    let script = format!(
        "{}if [ -e {} ]; then {} else {} fi\n",
        hello().replace("\"version\":\"0\"", "\"version\":\"mlx-lm-0.31\""),
        flag.display(),
        format_args!("{}{}{}{HEAR}", loaded(), telling_warmup("00", &json!([2])), generated(1, &[5, 6])),
        format_args!(
            "{}{}{}{HEAR}",
            loaded(),
            telling_warmup("00", &json!([2])),
            generated(1, &[5, 6, 7, 8])
        ),
    );
    let python = interpreter(&bench, "python", &script)?;
    let arguments = ["--reps", "1", "--reference", &python];
    // One repetition cannot spread: it is too short, which is invalid as well.
    let own = telling(&generated(1, &[5, 6]));
    first_part(&bench, &own, &arguments)?;
    fs::write(&flag, "")?;
    let own = format!("{}{}", hello(), telling(&paced(1, 1_000_000)));
    let again = [&["all"], &arguments[..], &["--resume", "--retry", "invalid"]].concat();
    let output = bench.sweep(&own, &again)?.output()?;
    let said = stderr(&output);
    assert_eq!(statuses(&rows(&output)?)[0], "INVALID:provenance", "{said}");
    assert!(said.contains("no reference row: a at 8: short_generation"), "{said}");
    let read = store::open(&bench.csv_of("pylm_")?.ok_or("no rows of the reference")?)?;
    let row = &read.rows[0];
    assert_eq!(row.status().to_string(), "INVALID:inconclusive", "{row:?}");
    assert!(row.detail().is_some_and(|detail| detail.contains("attempt 2; before: ok")), "{row:?}");
    let (code, said) = verified(&bench, &read.path)?;
    assert_eq!(code, Some(0), "{said}");
    Ok(())
}
