//! Rows that are measured again in a set of their own, pairs of our rows and the reference's by prompt length, and what a
//! sweep is held against of those before it.

mod common;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{
    Bench, HEAR, Outcome, by_name, cell, checkpoints, failed, generated, good, good_rest, hello, loaded,
    rows, stderr, telling_warmup, wait_for,
};
use mlxcel_reports::row::{AnyRow, Row};
use mlxcel_reports::{store, wire};
use serde_json::{Value, json};

fn outcomes(output: &Output) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    Ok(rows(output)?.iter().map(|row| (cell(row, "model"), cell(row, "status"))).collect())
}

fn is(found: &[(String, String)], expected: &[(&str, &str)], said: &str) {
    let found: Vec<(&str, &str)> =
        found.iter().map(|(model, status)| (model.as_str(), status.as_str())).collect();
    assert_eq!(found, expected, "{said}");
}

/// Scripted rows are never valid: those of this set are made to look as if the program itself had measured them.
fn made_valid(csv: &Path) -> Outcome {
    let read = store::open(csv)?;
    let stored = store::read_samples(csv)?;
    let mut text = wire::header_line();
    for row in &read.rows {
        let samples: Vec<_> = stored
            .iter()
            .filter(|sample| sample.order_index == row.identity().run.order_index)
            .map(|sample| sample.sample.clone())
            .collect();
        let row = match row {
            AnyRow::Excluded(row) if !samples.is_empty() => {
                Row::measured(row.identity().clone(), row.load_nanos(), &samples)?.into()
            }
            row => row.clone(),
        };
        text += &wire::row_line(&row)?;
    }
    fs::write(csv, text)?;
    Ok(())
}

const CRASH: &str = "kill -SEGV $$";

/// A sweep of a, b and c in which b and c crash; its CSV file.
fn two_crashed(bench: &Bench) -> Result<String, Box<dyn Error>> {
    checkpoints(bench, &["a", "b", "c"])?;
    let script = by_name(&[("b", CRASH), ("c", CRASH)], &good_rest(1));
    let output = bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let csv = bench.csv_of("cpu_")?.ok_or("no rows")?;
    made_valid(&csv)?;
    Ok(csv.to_string_lossy().into_owned())
}

#[test]
fn a_rerun_measures_the_rows_that_failed_and_says_which_folder_is_gone() -> Outcome {
    let bench = Bench::new()?;
    let csv = two_crashed(&bench)?;
    fs::remove_dir_all(bench.path("models/b"))?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--rerun", &csv])?.output()?;
    let said = stderr(&output);
    is(&outcomes(&output)?, &[("c", "INVALID:provenance"), ("b", "FAIL:load")], &said);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let detail = cell(&rows(&output)?[1], "status_detail");
    assert!(detail.contains("its folder is not there any more"), "{detail}");
    Ok(())
}

#[test]
fn a_rerun_that_was_interrupted_is_gone_on_with_as_a_rerun_and_as_nothing_else() -> Outcome {
    let bench = Bench::new()?;
    let csv = two_crashed(&bench)?;
    let mark = bench.path("mark");
    let hang = format!("touch {}; sleep 600", mark.display());
    let script = by_name(&[("c", &hang)], &good_rest(1));
    let arguments = ["all", "--reps", "1", "--rerun", &csv];
    let child = bench.sweep(&script, &arguments)?.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    wait_for(&mark)?;
    Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status()?;
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let before = bench.files()?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--resume"])?.output()?;
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("rerun: \""), "{said}");
    assert_eq!(bench.files()?, before);
    let output = bench.sweep(&good(1), &[&arguments[..], &["--resume"]].concat())?.output()?;
    let said = stderr(&output);
    is(&outcomes(&output)?, &[("b", "INVALID:provenance"), ("c", "INVALID:provenance")], &said);
    Ok(())
}

#[test]
fn rows_that_were_skipped_are_measured_again_on_request() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b"])?;
    let (weights, away) = (bench.path("models/b/model.safetensors"), bench.path("away"));
    fs::rename(&weights, &away)?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let said = stderr(&output);
    is(&outcomes(&output)?, &[("a", "INVALID:provenance"), ("b", "SKIP:missing_weights")], &said);
    let csv = bench.csv_of("cpu_")?.ok_or("no rows")?;
    made_valid(&csv)?;
    fs::rename(&away, &weights)?;
    let csv = csv.to_string_lossy().into_owned();
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--rerun", &csv])?.output()?;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    for rows in ["skipped", "all"] {
        let arguments = ["all", "--reps", "1", "--rerun", &csv, "--retry", rows];
        let output = bench.sweep(&good(1), &arguments)?.output()?;
        is(&outcomes(&output)?, &[("b", "INVALID:provenance")], &stderr(&output));
    }
    let output = bench.sweep(&good(1), &["all", "--retry", "all"])?.output()?;
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    Ok(())
}

/// A worker that does everything right with prompts of 8 and, for the second, 16 tokens: `long` is what it does there.
fn by_length(long: &str) -> String {
    let short = good_rest(1).replacen(&loaded(), "", 1);
    format!(
        "{}{}{HEAR}answered=$request\nread() {{ if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }}\n\
         case \"$request\" in *'\"synthetic\":16'*) {long} ;; *) {short} ;; esac\n",
        hello(),
        loaded()
    )
}

fn lengthened(script: &str) -> String {
    script.replace("\"prompt_tokens\":8", "\"prompt_tokens\":16")
}

/// `sweep` with another value of a flag than the tests name.
fn instead(command: &Command, bench: &Bench, flag: &str, value: &str) -> Command {
    let mut words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let at = words.iter().position(|word| word == flag);
    if let Some(word) = at.and_then(|at| words.get_mut(at + 1)) {
        *word = value.into();
    }
    let mut other = bench.program();
    other.args(words).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other
}

#[test]
fn a_rerun_measures_the_failed_length_alone_and_no_other_shape() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let all = |script: &str, lengths: &str, more: &[&str]| -> Result<Output, Box<dyn Error>> {
        let command = bench.sweep(script, &[&["all", "--reps", "1"], more].concat())?;
        Ok(instead(&command, &bench, "--prompt-tokens", lengths).output()?)
    };
    let output = all(&by_length(CRASH), "8,16", &[])?;
    is(&outcomes(&output)?, &[("x", "INVALID:provenance"), ("x", "FAIL:crash")], &stderr(&output));
    let csv = bench.csv_of("cpu_")?.ok_or("no rows")?;
    made_valid(&csv)?;
    let csv = csv.to_string_lossy().into_owned();
    let long = lengthened(&good_rest(1).replacen(&loaded(), "", 1));
    let output = all(&by_length(&long), "8,16", &["--rerun", &csv])?;
    is(&outcomes(&output)?, &[("x", "INVALID:provenance")], &stderr(&output));
    assert_eq!(cell(&rows(&output)?[0], "prompt_requested_len"), "16");
    let detail = cell(&rows(&output)?[0], "status_detail");
    assert!(
        detail.contains("rerun of a row of cpu_") && detail.contains("where it was FAIL:crash"),
        "{detail}"
    );
    let output = all(&by_length(&long), "8", &["--rerun", &csv])?;
    let said = stderr(&output);
    assert!(
        output.status.code() == Some(2) && said.contains("x at 16") && said.contains("--prompt-tokens"),
        "{said}"
    );
    let command = bench.sweep(&by_length(&long), &["all", "--reps", "1", "--rerun", &csv])?;
    let output = instead(&command, &bench, "--max-tokens", "5").output()?;
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("give --max-tokens 4"), "{said}");
    Ok(())
}

#[test]
fn a_second_length_that_cannot_be_is_a_row_beside_the_first() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let script = by_length(&failed("warmup", "bad_input", "the prompt is longer than the context"));
    let command = bench.sweep(&script, &["models/x", "--reps", "1"])?;
    let output = instead(&command, &bench, "--prompt-tokens", "8,16").output()?;
    let said = stderr(&output);
    is(&outcomes(&output)?, &[("x", "INVALID:provenance"), ("x", "FAIL:warmup")], &said);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(bench.csv_of("cpu_")?.is_some(), "{:?}", bench.files()?);
    Ok(())
}

#[test]
fn a_reference_row_that_a_kill_took_is_measured_whatever_another_length_said() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["m"])?;
    let telling =
        |tokens: &[u32]| format!("{}{}{HEAR}", telling_warmup("00", &json!([2])), generated(1, tokens));
    let whole = telling(&[5, 6, 7, 8]);
    let own = by_length(&lengthened(&whole)).replace(&good_rest(1).replacen(&loaded(), "", 1), &whole);
    let own = own.replace(
        &lengthened(&whole),
        &lengthened(&whole).replace("[1,2,3,4,5,6,7,8]", &json!(vec![1; 16]).to_string()),
    );
    let (mark, hang) = (bench.path("mark"), bench.path("hang"));
    fs::write(&hang, "")?;
    let wait = format!("if [ -e {} ]; then touch {}; sleep 600; fi\n", hang.display(), mark.display());
    let long = format!("{wait}{}", lengthened(&whole));
    let script = format!(
        "{}{}{HEAR}answered=$request\nread() {{ if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }}\n\
         case \"$request\" in *'1,1,1,1,1,1,1,1,1'*) {long} ;; *) {} ;; esac\n",
        hello().replace("\"version\":\"0\"", "\"version\":\"mlx-lm-0.31\""),
        loaded(),
        telling(&[5, 6])
    );
    let python = bench.path("python");
    common::program::script(&python, &format!("#!/bin/sh\n{script}"))?;
    let reference = format!("mlx-lm={}", python.display());
    let sweep = |more: &[&str]| -> Result<Command, Box<dyn Error>> {
        let arguments = [&["all", "--reps", "1", "--reference", &reference], more].concat();
        Ok(instead(&bench.sweep(&own, &arguments)?, &bench, "--prompt-tokens", "8,16"))
    };
    let mut child = sweep(&[])?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    wait_for(&mark)?;
    child.kill()?;
    child.wait()?;
    fs::remove_file(&hang)?;
    let output = sweep(&["--resume"])?.output()?;
    let said = stderr(&output);
    assert_eq!(rows(&output)?.len(), 2, "{said}");
    let read = store::open(&bench.csv_of("pylm_")?.ok_or_else(|| said.clone())?)?;
    let lengths: Vec<_> = read.rows.iter().map(|row| row.identity().workload.prompt_requested_len).collect();
    assert_eq!(lengths, [Some(16)], "{said}");
    let settings =
        fs::read_to_string(bench.csv_of("cpu_")?.ok_or("no rows")?.with_extension("provenance.json"))?;
    let settings: Value = serde_json::from_str(&settings)?;
    let none = &settings["settings"]["no_reference_row"];
    assert_eq!((none[0]["prompt_requested_len"].as_u64(), none[1].is_null()), (Some(8), true), "{none}");
    Ok(())
}

#[test]
fn a_sweep_is_held_against_the_last_full_one_however_its_folder_is_spelled() -> Outcome {
    let bench = Bench::new()?;
    let full = two_crashed(&bench)?;
    // c is measured again alone: that is no sweep of all folders.
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--rerun", &full])?.output()?;
    assert_eq!(rows(&output)?.len(), 2, "{}", stderr(&output));
    let rerun = bench.csv_of("cpu_")?.ok_or("no rows")?;
    assert_ne!(rerun.to_string_lossy(), full);
    made_valid(&rerun)?;
    fs::remove_dir_all(bench.path("models/a"))?;
    for spelled in [bench.path("models"), "./models".into(), bench.path("models/../models")] {
        let spelled = spelled.to_string_lossy().into_owned();
        let output = bench.sweep(&good(1), &["all", "--reps", "1", "--models", &spelled])?.output()?;
        let said = stderr(&output);
        assert!(
            said.contains("fewer checkpoints than last time") && said.contains("and not in this one: a;"),
            "{spelled}: {said}"
        );
    }
    Ok(())
}
