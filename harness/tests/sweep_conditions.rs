//! What makes a measured row valid besides its own answers: control rows, spread, waits, and the reference runtime.

mod common;

use std::fs;

use common::{
    Bench, HEAR, Outcome, cell, checkpoints, failed, generated, good, hello, loaded, own, paced, rows,
    stderr, telling_warmup,
};
use mlxcel_reports::store;
use serde_json::{Value, json};

/// A worker that generates at a pace that depends on how many were started before it.
fn drifting(bench: &Bench, first_slow: u32) -> String {
    drifting_after(bench, first_slow, &paced(0, 1_000_000))
}

/// The same after such a warm-up.
fn drifting_after(bench: &Bench, first_slow: u32, warmup: &str) -> String {
    let counter = bench.path("count");
    let rest = |step: u64| format!("{}{warmup}{}{HEAR}", loaded(), paced(1, step));
    format!(
        "{}{HEAR}answered=$request\nread() {{ if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }}\n\
         echo x >> {counter}\nif [ \"$(wc -l < {counter})\" -ge {first_slow} ]; then\n{}\nelse\n{}\nfi\n",
        hello(),
        rest(2_000_000),
        rest(1_000_000),
        counter = counter.display(),
    )
}

#[test]
fn rows_between_controls_that_disagree_are_invalid_and_the_others_are_not() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b", "c", "d"])?;
    // control, a, b, control, c, d, control: from the sixth on the host is slow.
    let script = drifting(&bench, 6);
    let output = bench.sweep(&script, &["all", "--reps", "1", "--control-every", "2"])?.output()?;
    let statuses: Vec<_> = rows(&output)?.iter().map(|row| cell(row, "status")).collect();
    assert_eq!(
        statuses,
        ["INVALID:provenance", "INVALID:provenance", "INVALID:control_drift", "INVALID:control_drift"],
        "{}",
        stderr(&output)
    );
    let detail = cell(&rows(&output)?[2], "status_detail");
    assert!(detail.contains("the control's decode rate was 1000.00 tok/s before"), "{detail}");
    assert!(stderr(&output).contains("the rows of c, d are invalid"), "{}", stderr(&output));
    let control = store::open(&bench.csv_of("control_")?.ok_or("no control rows")?)?;
    assert_eq!(control.rows.len(), 3);
    // The main set is as it is in the file: a row is replaced there too.
    let csv = bench.csv_of("cpu_")?.ok_or("no rows")?;
    let main = store::open(&csv)?;
    assert_eq!(main.rows[3].status().to_string(), "INVALID:control_drift");
    assert_eq!(main.altered, Some(false));
    // Each row says which controls are around it, and what it generated.
    for (row, moved) in main.rows.iter().zip([false, false, true, true]) {
        let conditions = &row.identity().conditions;
        assert_eq!(conditions.control.model.as_deref(), Some("a"));
        assert_eq!((conditions.control.drift_pct.is_some(), conditions.control.moved()), (true, moved));
        assert_eq!(conditions.generation.output_sha256.as_ref().map(String::len), Some(64));
        assert!(conditions.host_state.uptime_s.is_some());
    }
    for begins in ["cpu_", "control_"] {
        let path = bench.csv_of(begins)?.ok_or("no rows")?;
        let verified = bench.program().arg("verify").arg(&path).output()?;
        assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    }

    // Those rows can be measured again alone.
    let text = fs::read_to_string(&csv)?.replace("INVALID:provenance", "SKIP:oom");
    let edited = bench.path("edited.csv");
    fs::write(&edited, text)?;
    let edited = edited.to_string_lossy().into_owned();
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--rerun", &edited])?.output()?;
    let names: Vec<_> = rows(&output)?.iter().map(|row| cell(row, "model")).collect();
    assert_eq!(names, ["c", "d"], "{}", stderr(&output));
    Ok(())
}

#[test]
fn controls_are_first_last_and_in_between_and_few_rows_have_none_unless_asked() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b", "c"])?;
    let controls = |arguments: &[&str]| -> Result<usize, Box<dyn std::error::Error>> {
        let output = bench.sweep(&good(1), &[&["all", "--reps", "1"], arguments].concat())?.output()?;
        assert_eq!(rows(&output)?.len(), 3);
        Ok(stderr(&output).lines().filter(|line| line.starts_with("control a:")).count())
    };
    assert_eq!(controls(&[])?, 0);
    assert_eq!(controls(&["--control-every", "10"])?, 2);
    assert_eq!(controls(&["--control-every", "1"])?, 4);
    Ok(())
}

#[test]
fn repetitions_that_spread_too_far_are_invalid_and_all_are_kept() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let script = format!(
        "{}{}{}{}{}{HEAR}",
        hello(),
        loaded(),
        paced(0, 1_000_000),
        paced(1, 1_000_000),
        paced(2, 1_100_000)
    );
    let output = bench.sweep(&script, &["all", "--reps", "2"])?.output()?;
    let found = rows(&output)?;
    assert_eq!(cell(&found[0], "status"), "INVALID:spread", "{}", stderr(&output));
    assert_eq!((cell(&found[0], "reps"), cell(&found[0], "decode_ms")), ("2".to_owned(), String::new()));
    assert_eq!(store::read_samples(&bench.file(".csv")?)?.len(), 2);
    // Whoever sees nothing but such rows is told what they are worth and what to do.
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(said.contains("no row is valid (INVALID:spread)") && said.contains("--quiet-hold"), "{said}");
    assert!(!said.contains("nothing was measured"), "{said}");
    let output = bench.sweep(&script, &["all", "--reps", "2", "--max-spread", "15"])?.output()?;
    assert_eq!(cell(&rows(&output)?[0], "status"), "INVALID:provenance");
    Ok(())
}

#[test]
fn what_was_really_waited_is_in_the_row() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b"])?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--cooldown", "0.3"])?.output()?;
    let waited: Vec<f64> = rows(&output)?.iter().filter_map(|row| row["cooldown_ms"].as_f64()).collect();
    let [first, second] = waited.as_slice() else { return Err(format!("{waited:?}").into()) };
    assert_eq!(first.to_bits(), 0.0_f64.to_bits());
    assert!((300.0..10_000.0).contains(second), "{second}");
    let output =
        bench.sweep(&good(1), &["all", "--reps", "1", "--cooldown", "60", "--no-cooldown"])?.output()?;
    assert_eq!(cell(&rows(&output)?[1], "cooldown_ms"), "0.0");
    Ok(())
}

#[test]
fn peaks_of_memory_are_written_for_each_phase() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let rows = rows(&output)?;
    for (column, bytes) in
        [("load_peak_memory_bytes", "8"), ("warmup_peak_memory_bytes", "16"), ("peak_memory_bytes", "16")]
    {
        assert_eq!(cell(&rows[0], column), bytes, "{column}");
    }
    #[cfg(target_os = "linux")]
    assert!(rows[0]["worker_peak_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{}", rows[0]);
    Ok(())
}

/// A stand-in for a Python interpreter: a program that plays this script whatever it is given.
fn interpreter(bench: &Bench, script: &str) -> Result<String, Box<dyn std::error::Error>> {
    let path = bench.path("python");
    common::program::script(&path, &format!("#!/bin/sh\n{script}"))?;
    Ok(format!("mlx-lm={}", path.display()))
}

fn reference_hello(backend: &str) -> String {
    hello()
        .replace("\"version\":\"0\"", "\"version\":\"mlx-lm-0.32.2\"")
        .replace("\"backend\":\"cpu\"", &format!("\"backend\":\"{backend}\""))
}

#[test]
fn a_reference_is_measured_in_turn_with_the_same_tokens_and_has_a_file_of_its_own() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b"])?;
    let asked = bench.path("asked");
    let script = format!(
        "{}{}{}{}{HEAR}",
        reference_hello("cpu"),
        loaded(),
        telling_warmup("00", &json!([2, 3])).replace(
            "case \"$request\"",
            &format!("echo \"$request\" >> {}\ncase \"$request\"", asked.display())
        ),
        generated(1, &[5, 6, 7, 8])
    );
    let reference = interpreter(&bench, &script)?;
    let output = bench.sweep(&own(), &["all", "--reps", "1", "--reference", &reference])?.output()?;
    assert_eq!(rows(&output)?.len(), 2, "{}", stderr(&output));
    let path = bench.csv_of("pylm_")?.ok_or_else(|| stderr(&output))?;
    let read = store::open(&path)?;
    let models: Vec<&str> = read.rows.iter().map(|row| row.identity().checkpoint.model.as_str()).collect();
    assert_eq!(models, ["a", "b"]);
    for row in &read.rows {
        assert!(row.status().is_ok(), "{row:?}");
        let build = &row.identity().build;
        assert_eq!(build.baseline_version.as_known().map(String::as_str), Some("mlx-lm-0.32.2"));
        assert_eq!(build.build_type.as_str(), "python");
        assert!(!build.mlxcel_commit.is_known());
    }
    // The same token ids, count and suppression were asked of it.
    let asked = fs::read_to_string(asked)?;
    assert!(asked.contains("{\"tokens\":[1,2,3,4,5,6,7,8]}"), "{asked}");
    assert!(asked.contains("\"max_tokens\":4") && asked.contains("\"suppress\":[2]"), "{asked}");
    let history = mlxcel_reports::history::read(&path)?;
    let runtime = history.records[0].facts.known(mlxcel_reports::record::Field::Runtime);
    assert_eq!(runtime, Some("mlx-lm"));
    let verified = bench.program().arg("verify").arg(&path).output()?;
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}{}",
        String::from_utf8_lossy(&verified.stdout),
        stderr(&verified)
    );
    Ok(())
}

#[test]
fn a_row_of_the_reference_between_controls_that_disagree_is_invalid_as_ours_is() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b"])?;
    let script = format!(
        "{}{}{}{}{HEAR}",
        reference_hello("cpu"),
        loaded(),
        telling_warmup("00", &json!([2])),
        generated(1, &[5, 6, 7, 8])
    );
    let reference = interpreter(&bench, &script)?;
    // control, a, control, b, control: the last is slow.
    let own = drifting_after(&bench, 5, &telling_warmup("00", &json!([2])));
    let flags = ["all", "--reps", "1", "--control-every", "1", "--reference", &reference];
    let output = bench.sweep(&own, &flags)?.output()?;
    let ours: Vec<String> = rows(&output)?.iter().map(|row| cell(row, "status")).collect();
    let said = stderr(&output);
    assert_eq!(ours, ["INVALID:provenance", "INVALID:control_drift"], "{said}");
    // Whoever watches sees whose repetition it is, and of which checkpoint.
    for line in
        ["] control a: repetition 1 of 1", "] reference b: repetition 1 of 1", "\nreference b: prefill"]
    {
        assert!(said.contains(line), "{line:?} is not in: {said}");
    }
    let path = bench.csv_of("pylm_")?.ok_or_else(|| stderr(&output))?;
    let read = store::open(&path)?;
    let theirs: Vec<String> = read.rows.iter().map(|row| row.status().to_string()).collect();
    assert_eq!(theirs, ["", "INVALID:control_drift"], "{}", stderr(&output));
    assert_eq!(read.altered, Some(false));
    Ok(())
}

#[test]
fn a_reference_that_stopped_early_met_another_prompt_or_could_not_suppress_is_no_row() -> Outcome {
    let warmup = telling_warmup("00", &json!([2]));
    let short = format!("{warmup}{}", generated(1, &[5, 6]));
    let other_prompt = format!(
        "{}{}",
        telling_warmup("11", &json!([2])),
        generated(1, &[5, 6, 7, 8]).replace("\"00\"", "\"11\"")
    );
    let longer = format!(
        "{warmup}{}",
        generated(1, &[5, 6, 7, 8]).replace("\"prompt_tokens\":8", "\"prompt_tokens\":9")
    );
    let unsuppressed = format!("{}{}", telling_warmup("00", &Value::Null), generated(1, &[5, 6, 7, 8]));
    let without_end = failed("warmup", "not_comparable", "no end-of-sequence token is known");
    for (rest, why) in [
        (short, "short_generation"),
        (other_prompt, "another prompt"),
        (longer, "prompt_mismatch"),
        (unsuppressed, "could not suppress"),
        (without_end, "no end-of-sequence token is known"),
    ] {
        let bench = Bench::new()?;
        checkpoints(&bench, &["x"])?;
        let reference = interpreter(&bench, &format!("{}{}{rest}{HEAR}", reference_hello("cpu"), loaded()))?;
        let output = bench.sweep(&own(), &["all", "--reps", "1", "--reference", &reference])?.output()?;
        assert!(
            stderr(&output).contains("no reference row: x") && stderr(&output).contains(why),
            "{why}: {}",
            stderr(&output)
        );
        // It is told once more at the end, by name, and the sweep has failed.
        assert!(stderr(&output).contains("no reference row of x at 8 prompt tokens"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(!bench.files()?.iter().any(|name| name.starts_with("pylm_")), "{why}: {:?}", bench.files()?);
        let left = bench.json(".provenance.json")?["settings"]["no_reference_row"].to_string();
        assert!(left.contains(why), "{left}");
    }
    Ok(())
}

#[test]
fn a_row_that_was_killed_before_its_reference_is_measured_again_with_it() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b"])?;
    let (mark, hang) = (bench.path("mark"), bench.path("hang"));
    fs::write(&hang, "")?;
    let wait = format!("if [ -e {} ]; then touch {}; sleep 600; fi\n", hang.display(), mark.display());
    let rest = format!("{}{}{HEAR}", telling_warmup("00", &json!([2])), generated(1, &[5, 6, 7, 8]));
    let reference = interpreter(&bench, &format!("{}{}{wait}{rest}", reference_hello("cpu"), loaded()))?;
    let arguments = ["all", "--reps", "1", "--reference", &reference];
    let mut child = bench.sweep(&own(), &arguments)?.spawn()?;
    let begun = std::time::Instant::now();
    while !mark.exists() && begun.elapsed() < std::time::Duration::from_mins(1) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    fs::remove_file(&hang)?;
    let output = bench.sweep(&own(), &[&arguments[..], &["--resume"]].concat())?.output()?;
    assert_eq!(rows(&output)?.len(), 2, "{}", stderr(&output));
    let path = bench.csv_of("pylm_")?.ok_or_else(|| stderr(&output))?;
    let models: Vec<String> =
        store::open(&path)?.rows.iter().map(|row| row.identity().checkpoint.model.clone()).collect();
    assert_eq!(models, ["a", "b"]);
    Ok(())
}

#[test]
fn a_reference_that_crashes_has_a_row_that_says_so() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let reference = interpreter(&bench, &format!("{}{}kill -s SEGV $$", reference_hello("cpu"), HEAR))?;
    let output = bench.sweep(&own(), &["all", "--reps", "1", "--reference", &reference])?.output()?;
    let read = store::open(&bench.csv_of("pylm_")?.ok_or_else(|| stderr(&output))?)?;
    assert_eq!(read.rows[0].status().to_string(), "FAIL:crash");
    // Ours is invalid since a script has measured it, which alone would be 3.
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(printed["reference_rows"][0]["status"], "FAIL:crash", "{printed}");
    let again = bench.sweep(&own(), &["all", "--reps", "1", "--reference", &reference])?;
    let as_table = again.get_args().map(|given| if given == "json" { "table".as_ref() } else { given });
    let mut table = bench.program();
    table.args(as_table).envs(again.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = table.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("the reference, ") && printed.contains("FAIL:crash"), "{printed}");
    Ok(())
}

#[test]
fn a_reference_that_cannot_be_had_or_computes_elsewhere_is_refused_before_anything_is_measured() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let elsewhere = interpreter(&bench, &format!("{}{HEAR}", reference_hello("metal")))?;
    for (reference, why) in [(elsewhere.as_str(), "metal"), ("mlx-lm=/nowhere/python", "/nowhere/python")] {
        let output = bench.sweep(&own(), &["all", "--reps", "1", "--reference", reference])?.output()?;
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(why) && said.contains("scripts/oracle_env.sh"), "{said}");
        assert_eq!(bench.files()?, Vec::<String>::new());
    }
    Ok(())
}

/// Somebody else who keeps a core busy, until it is dropped.
struct Busy(std::process::Child);

impl Busy {
    fn start() -> std::io::Result<Self> {
        std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().map(Self)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sweep that looks at the host although its worker measures nothing.
fn watched(bench: &Bench, script: &str, arguments: &[&str]) -> std::io::Result<std::process::Output> {
    let mut command = bench.sweep(script, &[&["all", "--reps", "1"], arguments].concat())?;
    command.env_remove("WAIT_FOR_QUIET").env_remove("BENCH_WATCH").output()
}

#[test]
fn a_row_during_which_somebody_else_was_busy_is_contended() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let busy = Busy::start()?;
    let pause = "sleep 3\n";
    let script =
        format!("{}{}{}{pause}{}{HEAR}", hello(), loaded(), paced(0, 1_000_000), paced(1, 1_000_000));
    // However much the gate lets pass: the watch is not the gate's.
    let output = watched(&bench, &script, &["--quiet-hold", "0", "--quiet-limit", "100000"])?;
    drop(busy);
    let rows = rows(&output)?;
    assert_eq!(cell(&rows[0], "status"), "INVALID:contended", "{}", stderr(&output));
    assert!(rows[0]["contended_pct"].as_f64().is_some_and(|share| share > 20.0), "{}", rows[0]);
    assert!(cell(&rows[0], "status_detail").contains("others were busy for"), "{}", rows[0]);
    assert_eq!(rows[0]["quiet_limit_pct"].as_f64(), Some(100_000.0), "{}", rows[0]);
    assert!(rows[0]["uptime_s"].as_u64().is_some_and(|uptime| uptime > 0));
    let settings = &bench.json(".provenance.json")?["settings"];
    assert!(
        settings["watch"]["windows"].as_u64().is_some_and(|windows| windows > 0),
        "{}",
        settings["watch"]
    );
    Ok(())
}

#[test]
fn a_gate_that_timed_out_marks_every_row_and_so_does_one_that_was_not_there() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b"])?;
    let busy = Busy::start()?;
    let flags = ["--quiet-hold", "60", "--quiet-timeout", "1", "--quiet-limit", "2", "--no-watch"];
    let output = watched(&bench, &good(1), &flags)?;
    // Without a hold a busy host is no quieter.
    let at_once = ["--quiet-hold", "0", "--quiet-timeout", "1", "--quiet-limit", "2", "--no-watch"];
    let unheld = watched(&bench, &good(1), &at_once)?;
    drop(busy);
    let gates = |output: &std::process::Output| -> Result<Vec<String>, Box<dyn std::error::Error>> {
        Ok(rows(output)?.iter().map(|row| cell(row, "quiet_gate")).collect())
    };
    assert_eq!(gates(&output)?, ["TimedOut", "TimedOut"], "{}", stderr(&output));
    assert_eq!(gates(&unheld)?, ["TimedOut", "TimedOut"], "{}", stderr(&unheld));
    assert!(rows(&output)?[0]["quiet_wait_ms"].as_f64().is_some_and(|waited| waited >= 1000.0));
    assert!(stderr(&output).contains("did not become quiet"), "{}", stderr(&output));
    let output = watched(&bench, &good(1), &["--no-quiet-gate", "--no-watch"])?;
    assert_eq!(gates(&output)?, ["Disabled", "Disabled"]);
    assert_eq!(cell(&rows(&output)?[0], "contended_pct"), "");
    assert_eq!(cell(&rows(&output)?[0], "quiet_limit_pct"), "");
    Ok(())
}

#[test]
fn what_is_suspended_meanwhile_is_in_the_provenance_at_the_begin_and_at_the_end() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let name = format!("idxs{}", std::process::id());
    let program = bench.path(&name);
    std::os::unix::fs::symlink("/bin/sleep", &program)?;
    let mut other = std::process::Command::new(&program).arg("600").spawn()?;
    let sweep = bench.sweep(&good(1), &["all", "--reps", "1"])?;
    let output = bench
        .program()
        .args(["quiet", "--name", &name, "--"])
        .arg(sweep.get_program())
        .args(sweep.get_args())
        .envs(sweep.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output();
    let ended = other.kill().and_then(|()| other.wait());
    let output = output?;
    ended?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let settings = &bench.json(".provenance.json")?["settings"];
    for record in [&settings["host"]["suspended"], &settings["suspended_at_end"]] {
        assert_eq!(record["names"], serde_json::json!([name]), "{settings}");
        assert_eq!(record["suspended"][0]["pid"], other.id(), "{settings}");
        // It lasted to the end.
        assert_eq!(record["suspended"][0]["resumed_at"], serde_json::Value::Null, "{settings}");
    }
    Ok(())
}
