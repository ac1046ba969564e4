//! What a sweep claims only on evidence: who the runtime is, why a worker ended, which folders and lengths have numbers; and what
//! a flag that cannot do anything does.

mod common;

use std::fs;

use common::{
    Bench, HEAR, Outcome, cell, depending_on, generated, good, good_rest, hello, loaded, own, rows, stderr,
    telling_warmup,
};
use mlxcel_reports::store;
use serde_json::{Value, json};

/// A reference whose interpreter says `hello` and then `rest`.
fn interpreter(bench: &Bench, script: &str) -> Result<String, Box<dyn std::error::Error>> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = bench.path("python");
    fs::write(&path, format!("#!/bin/sh\n{script}"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(format!("mlx-lm={}", path.display()))
}

fn hello_of(version: &str) -> String {
    hello().replace("\"version\":\"0\"", &format!("\"version\":\"{version}\""))
}

fn statuses(output: &std::process::Output) -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
    Ok(rows(output)?.iter().map(|row| (cell(row, "model"), cell(row, "status"))).collect())
}

#[test]
fn a_reference_of_another_version_than_at_the_start_is_no_row() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let seen = bench.path("seen");
    let script = format!(
        "if [ -e {0} ]; then\n{1}else : > {0}\n{2}fi\n{3}{4}{5}{HEAR}",
        seen.display(),
        hello_of("mlx-lm-0.99"),
        hello_of("mlx-lm-0.31"),
        loaded(),
        telling_warmup("00", &json!([2])),
        generated(1, &[5, 6, 7, 8])
    );
    let reference = interpreter(&bench, &script)?;
    let output = bench.sweep(&own(), &["all", "--reps", "1", "--reference", &reference])?.output()?;
    let said = stderr(&output);
    assert!(said.contains("from mlx-lm-0.31 to mlx-lm-0.99"), "{said}");
    assert!(!bench.files()?.iter().any(|name| name.starts_with("pylm_")), "{:?}", bench.files()?);
    assert_eq!(output.status.code(), Some(1), "{said}");
    Ok(())
}

#[test]
fn a_reference_that_says_it_met_an_end_of_sequence_though_that_was_suppressed_is_no_row() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let rest = format!("{}{}", telling_warmup("00", &json!([2])), generated(1, &[5, 6, 7, 8]));
    for finish in ["eos", "stopped"] {
        let rest = rest.replace("\"finish\":\"length\"", &format!("\"finish\":\"{finish}\""));
        let reference = interpreter(&bench, &format!("{}{}{rest}{HEAR}", hello_of("mlx-lm-0.31"), loaded()))?;
        let output = bench.sweep(&own(), &["all", "--reps", "1", "--reference", &reference])?.output()?;
        assert!(stderr(&output).contains("short_generation: warm-up: it "), "{}", stderr(&output));
        assert!(!bench.files()?.iter().any(|name| name.starts_with("pylm_")), "{:?}", bench.files()?);
        // Ours is held to the same.
        let ours = own().replace("\"finish\":\"length\"", &format!("\"finish\":\"{finish}\""));
        let output = bench.sweep(&ours, &["all", "--reps", "1"])?.output()?;
        assert_eq!(statuses(&output)?, [("x".to_owned(), "INVALID:short_generation".to_owned())], "{finish}");
    }
    Ok(())
}

#[test]
fn an_abort_beside_words_of_memory_is_a_crash_and_is_not_recorded_as_a_want_of_memory() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("a")?;
    let dies = format!(
        "{}echo 'note: huge pages: cannot allocate memory, going on' >&2; echo 'assertion failed: rows == columns' >&2; kill -s ABRT $$\n",
        loaded()
    );
    let output = bench.sweep(&depending_on("a", &dies, &good_rest(3)), &["all"])?.output()?;
    assert_eq!(statuses(&output)?, [("a".to_owned(), "FAIL:crash".to_owned())], "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
    assert!(cell(&rows(&output)?[0], "status_detail").contains("words are all that says so"));
    // The mended worker is started.
    let output = bench.sweep(&good(3), &["all"])?.output()?;
    assert_eq!(statuses(&output)?, [("a".to_owned(), "INVALID:provenance".to_owned())]);
    Ok(())
}

#[test]
fn every_folder_has_a_row_for_each_length_also_one_that_holds_no_checkpoint() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("a")?;
    fs::create_dir(bench.path("models/empty"))?;
    // The length of the flag that the tests always give, and another.
    let output = bench.sweep(&good(3), &["all", "--prompt-tokens", "16"])?.output()?;
    let of: Vec<(String, String)> =
        rows(&output)?.iter().map(|row| (cell(row, "model"), cell(row, "prompt_requested_len"))).collect();
    let row = |model: &str, length: &str| (model.to_owned(), length.to_owned());
    assert_eq!(
        of,
        [row("a", "8"), row("a", "16"), row("empty", "8"), row("empty", "16")],
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn what_no_context_has_room_for_is_expected_to_fail_and_fails_without_a_start() -> Outcome {
    let bench = Bench::new()?;
    let config = |context: u64| json!({ "model_type": "llama", "max_position_embeddings": context });
    bench.checkpoint_of("large", &config(64), 8)?;
    let tight = bench.checkpoint_of("tight", &config(4), 8)?;
    let plan = bench.sweep(&good(3), &["all", "--plan"])?.output()?;
    let planned: Vec<Value> = serde_json::from_slice(&plan.stdout)?;
    let expected: Vec<&str> = planned.iter().filter_map(|row| row["expected"].as_str()).collect();
    assert_eq!(expected, ["", "FAIL:warmup"], "{planned:?}");
    let output = bench.sweep(&good(3), &["all"])?.output()?;
    let found: Vec<String> = rows(&output)?.iter().map(|row| cell(row, "status")).collect();
    assert_eq!(found, ["INVALID:provenance", "FAIL:warmup"], "{}", stderr(&output));
    assert!(cell(&rows(&output)?[1], "status_detail").contains("exceed the context of 4"));
    // Of one folder alone it is an error in words, planned or swept.
    let tight = tight.display().to_string();
    for flags in [vec![tight.as_str()], vec![tight.as_str(), "--plan"]] {
        let output = bench.sweep(&good(3), &flags)?.output()?;
        assert_eq!(output.status.code(), Some(4), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("exceed the context of 4"), "{}", stderr(&output));
    }
    Ok(())
}

#[test]
fn flags_that_would_do_nothing_are_refused_before_anything_is_measured() -> Outcome {
    let bench = Bench::new()?;
    let x = bench.checkpoint("x")?.display().to_string();
    for (flags, words) in [
        (vec!["all", "--control", "NOWHERE", "--control-every", "0"], "--control NOWHERE does nothing"),
        (vec![x.as_str(), "--models", "elsewhere"], "--models elsewhere does nothing beside"),
    ] {
        let output = bench.sweep(&good(3), &flags)?.output()?;
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert_eq!(bench.files()?, Vec::<String>::new());
    }
    // The variable that stands for --models is no flag.
    assert_eq!(bench.sweep(&good(3), &[&x])?.output()?.status.code(), Some(3));
    Ok(())
}

#[test]
fn an_uncommon_band_of_controls_is_asked_for_and_is_in_every_row() -> Outcome {
    let bench = Bench::new()?;
    for name in ["a", "b"] {
        bench.checkpoint_of(name, &json!({ "model_type": "llama", "name": name }), 8)?;
    }
    let flags = ["all", "--control-every", "1", "--control-band", "37.5"];
    let output = bench.sweep(&good(3), &flags)?.output()?;
    for row in rows(&output)? {
        assert_eq!(row["control_band_pct"].as_f64(), Some(37.5), "{row}");
    }
    let path = bench.csv_of("cpu_")?.ok_or_else(|| stderr(&output))?;
    let settings = store::open(&path)?.provenance.map(|provenance| provenance.settings).unwrap_or_default();
    assert_eq!(settings["control_band_asked_pct"], 37.5, "{settings}");
    assert!(stderr(&output).contains("as --control-band says"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn what_a_worker_writes_to_its_stderr_reaches_no_file_as_a_control_character() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("a")?;
    let dies = format!("{}{}printf 'red \\033[31m nul \\000 end' >&2; exit 3\n", hello(), loaded());
    let output = bench.sweep(&dies, &["all"])?.output()?;
    assert_eq!(statuses(&output)?[0].1, "FAIL:crash", "{}", stderr(&output));
    let text = fs::read_to_string(bench.csv_of("cpu_")?.ok_or_else(|| stderr(&output))?)?;
    assert!(text.contains("[31m nul"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\r'), "{text:?}");
    Ok(())
}

#[test]
fn a_limit_of_less_than_a_second_is_told_as_it_is_and_a_worker_that_hangs_at_its_end_is_named() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("a")?;
    let slow = format!("{}{}{HEAR}sleep 30\n", hello(), loaded());
    let output = bench.sweep(&slow, &["all", "--timeout", "0.8"])?.output()?;
    assert!(
        cell(&rows(&output)?[0], "status_detail").contains("took longer than 0.8 s"),
        "{}",
        stderr(&output)
    );
    let generations: String = (0..=1).map(|rep| generated(rep, &[5, 6, 7, 8])).collect();
    let hangs = format!("{}{}{generations}read -r request; sleep 30\n", hello(), loaded());
    let output = bench.sweep(&hangs, &["all", "--reps", "1", "--timeout", "2"])?.output()?;
    let detail = cell(&rows(&output)?[0], "status_detail");
    assert!(detail.contains("the worker hung") && !detail.contains("SIGKILL"), "{detail}");
    Ok(())
}
