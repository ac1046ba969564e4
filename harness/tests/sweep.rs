//! Whole sweeps with scripted workers: every way a worker can end makes its row, and the others are measured
//! all the same.

mod common;

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use common::{
    Bench, GENERATED, HEAR, Outcome, PROMPT, cell, depending_on, failed, generated, good, hello, loaded,
    paced, rows, stderr,
};

/// A sweep of checkpoints `bad` and `good`, where `bad` goes on after hello as the script says: status and
/// detail of `bad`.
fn bad_and_good(
    script: &str,
    arguments: &[&str],
) -> Result<(String, String, Option<i32>), Box<dyn std::error::Error>> {
    let bench = Bench::new()?;
    bench.checkpoint("bad")?;
    bench.checkpoint("good")?;
    let good_rest =
        format!("{}{}{HEAR}", loaded(), (0..=3).map(|rep| generated(rep, &[5, 6, 7, 8])).collect::<String>());
    let script = depending_on("bad", script, &good_rest);
    let output = bench.sweep(&script, &[&["all"], arguments].concat())?.output()?;
    let rows = rows(&output)?;
    let [bad, good] = rows.as_slice() else {
        return Err(format!("{} rows: {}", rows.len(), stderr(&output)).into());
    };
    assert_eq!((cell(bad, "model"), cell(good, "model")), ("bad".to_owned(), "good".to_owned()));
    assert_eq!(cell(good, "status"), "INVALID:provenance", "{}", cell(good, "status_detail"));
    Ok((cell(bad, "status"), cell(bad, "status_detail"), output.status.code()))
}

#[test]
fn a_worker_that_does_everything_right_has_all_its_figures_kept_but_never_passes_as_this_program() -> Outcome
{
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let output = bench.sweep(&good(3), &["models/x/", "--suffix", "tag"])?.output()?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let rows = rows(&output)?;
    let [row] = rows.as_slice() else { return Err("not one row".into()) };
    assert_eq!(cell(row, "status"), "INVALID:provenance");
    assert!(cell(row, "status_detail").contains("scripted_worker.sh"));
    assert_eq!(cell(row, "model_path"), "models/x");
    assert_eq!(cell(row, "reps"), "3");
    assert_eq!(cell(row, "peak_memory_bytes"), "16");
    let files = bench.files()?;
    assert_eq!(files.len(), 3, "{files:?}");
    let csv = files.iter().find(|name| name.ends_with("_tag_single_x.csv")).ok_or("no csv")?;
    assert!(csv.starts_with("cpu_"), "{csv}");
    let text = fs::read_to_string(bench.out().join(csv))?;
    assert!(text.starts_with("model,model_path,prompt_tokens,generated_tokens,prefill_ms,"), "{text}");
    let samples = fs::read_to_string(bench.out().join(csv.replace(".csv", ".samples.jsonl")))?;
    assert_eq!(samples.lines().count(), 3);
    let provenance: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.out().join(csv.replace(".csv", ".provenance.json")))?)?;
    let at = |pointer: &str| provenance.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/ending/complete"), true);
    assert_eq!(at("/settings/prompt_tokens"), PROMPT);
    assert_eq!(at("/settings/max_tokens"), GENERATED);
    assert!(at("/argv").as_array().is_some_and(|argv| argv.iter().any(|argument| argument == "models/x/")));
    assert_eq!(at("/environment/BENCH_ALLOW_STALE_BINARY"), "1");
    assert!(at("/binary/executable/sha256").as_str().is_some_and(|sha256| sha256.len() == 64));
    Ok(())
}

#[test]
fn a_crash_costs_one_row() -> Outcome {
    let (status, detail, code) = bad_and_good("echo 'the last words' >&2; kill -s SEGV $$", &[])?;
    assert_eq!((status.as_str(), code), ("FAIL:crash", Some(1)));
    assert!(
        detail.contains("SIGSEGV") && detail.contains("load") && detail.contains("the last words"),
        "{detail}"
    );
    Ok(())
}

#[test]
fn a_kill_from_outside_is_no_want_of_memory() -> Outcome {
    let (status, detail, _) = bad_and_good("kill -s KILL $$", &[])?;
    assert_eq!(status, "FAIL:crash");
    assert!(detail.contains("SIGKILL") && detail.contains("memory"), "{detail}");
    Ok(())
}

#[test]
fn an_allocator_that_gives_up_is_a_want_of_memory_and_its_words_alone_are_not() -> Outcome {
    // Of a process that never came near the limit anybody may have written this.
    let (status, detail, code) =
        bad_and_good("echo \"terminate called: std::bad_alloc\" >&2; kill -s ABRT $$", &[])?;
    assert_eq!((status.as_str(), code), ("FAIL:crash", Some(1)), "{detail}");
    let (status, ..) = bad_and_good(&failed("bench", "out_of_memory", "metal::malloc: no"), &[])?;
    assert_eq!(status, "SKIP:oom");
    Ok(())
}

#[test]
fn a_hang_is_ended_at_the_time_limit() -> Outcome {
    let begun = Instant::now();
    let (status, detail, code) = bad_and_good("sleep 600", &["--timeout", "1.5"])?;
    assert_eq!((status.as_str(), code), ("FAIL:timeout", Some(1)));
    assert!(detail.contains("load") && detail.contains("--timeout"), "{detail}");
    assert!(begun.elapsed() < Duration::from_mins(5));
    Ok(())
}

#[test]
fn garbage_on_the_protocol_stream_is_no_measurement() -> Outcome {
    let (status, detail, code) = bad_and_good("echo 'Loading model...'; sleep 600", &[])?;
    assert_eq!((status.as_str(), code), ("FAIL:no_output", Some(1)));
    assert!(detail.contains("Loading model..."), "{detail}");
    Ok(())
}

#[test]
fn a_worker_that_leaves_early_gave_no_output() -> Outcome {
    let (status, ..) = bad_and_good("exit 0", &[])?;
    assert_eq!(status, "FAIL:no_output");
    let (status, detail, _) = bad_and_good("exit 3", &[])?;
    assert_eq!(status, "FAIL:crash");
    assert!(detail.contains("exit code 3"), "{detail}");
    Ok(())
}

#[test]
fn failures_are_told_by_their_stage() -> Outcome {
    for (stage, expected) in [("load", "FAIL:load"), ("warmup", "FAIL:warmup"), ("bench", "FAIL:bench")] {
        let (status, detail, code) = bad_and_good(&failed(stage, "other", "this went wrong"), &[])?;
        assert_eq!((status.as_str(), code), (expected, Some(1)));
        assert!(detail.contains("this went wrong"), "{detail}");
    }
    // In a sweep of many, a checkpoint that is at fault is a row.
    let (status, ..) = bad_and_good(&failed("load", "bad_input", "tensor missing"), &[])?;
    assert_eq!(status, "FAIL:load");
    Ok(())
}

#[test]
fn a_short_generation_is_invalid() -> Outcome {
    let script = format!(
        "{}{}{}{HEAR}",
        loaded(),
        generated(0, &[5, 6, 7]),
        (1..=3).map(|rep| generated(rep, &[5, 6, 7])).collect::<String>()
    );
    let (status, detail, code) = bad_and_good(&script, &[])?;
    assert_eq!((status.as_str(), code), ("INVALID:short_generation", Some(3)));
    assert!(detail.contains("3 of 4"), "{detail}");
    Ok(())
}

#[test]
fn a_generation_of_nothing_is_no_measurement() -> Outcome {
    let nothing = format!("{}{}{}{HEAR}", loaded(), generated(0, &[5, 6, 7, 8]), generated(1, &[]));
    let (status, detail, code) = bad_and_good(&nothing, &["--reps", "1"])?;
    assert_eq!((status.as_str(), code), ("INVALID:no_tokens", Some(3)), "{detail}");
    Ok(())
}

#[test]
fn another_prompt_and_times_that_cannot_be_are_invalid() -> Outcome {
    let tokens = [5, 6, 7, 8];
    let told = |script: String| {
        bad_and_good(&format!("{}{}{script}{HEAR}", loaded(), generated(0, &tokens)), &["--reps", "1"])
    };
    let prompt = format!("\"prompt_tokens\":{PROMPT}");
    for (what, script, expected) in [
        ("length", generated(1, &tokens).replace(&prompt, "\"prompt_tokens\":7"), "INVALID:prompt_mismatch"),
        (
            "digest",
            generated(1, &tokens).replace("\"prompt_sha256\":\"00\"", "\"prompt_sha256\":\"01\""),
            "INVALID:prompt_mismatch",
        ),
        ("no time", paced(1, 0), "INVALID:zero_time"),
        ("lost times", generated(1, &tokens).replace("[5,6,7,8]", "[5,6,7,8,9]"), "INVALID:inconclusive"),
        ("backwards", generated(1, &tokens).replace("4000000", "2500000"), "INVALID:inconclusive"),
    ] {
        let (status, detail, code) = told(script)?;
        assert_eq!((status.as_str(), code), (expected, Some(3)), "{what}: {detail}");
        assert!(!detail.is_empty(), "{what}");
    }
    Ok(())
}

#[test]
fn the_first_generation_is_a_warm_up_of_the_measured_shape_and_counts_nowhere() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let asked = bench.path("asked");
    let keep = |event: String| {
        event.replace(
            "case \"$request\"",
            &format!("echo \"$request\" >> {}\ncase \"$request\"", asked.display()),
        )
    };
    // The warm-up is a hundred times as slow.
    let script =
        format!("{}{}{}{}{HEAR}", hello(), loaded(), keep(paced(0, 100_000_000)), keep(paced(1, 1_000_000)));
    let output = bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
    let rows = rows(&output)?;
    assert_eq!((cell(&rows[0], "decode_ns"), cell(&rows[0], "reps")), ("3000000".to_owned(), "1".to_owned()));
    assert_eq!(cell(&rows[0], "warmup_tokens"), GENERATED.to_string());
    let samples = fs::read_to_string(bench.file(".samples.jsonl")?)?;
    assert_eq!(samples.lines().count(), 1, "{samples}");
    let asked = fs::read_to_string(asked)?;
    let requests: Vec<serde_json::Value> =
        asked.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let [warmup, measured] = requests.as_slice() else { return Err(asked.into()) };
    assert_eq!((&warmup["rep"], &measured["rep"]), (&0.into(), &1.into()));
    for key in ["prompt", "max_tokens", "prefill_chunk", "suppress_eos"] {
        assert_eq!(warmup[key], measured[key], "{key}");
    }
    Ok(())
}

#[test]
fn repetitions_that_differ_are_told() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let script = format!(
        "{}{}{}{}{}{HEAR}",
        hello(),
        loaded(),
        generated(0, &[5, 6, 7, 8]),
        generated(1, &[5, 6, 7, 8]),
        generated(2, &[5, 6, 9, 8])
    );
    let output = bench.sweep(&script, &["models/x", "--reps", "2"])?.output()?;
    let rows = rows(&output)?;
    let detail = rows.first().map(|row| cell(row, "status_detail")).unwrap_or_default();
    assert!(detail.contains("different tokens from token 3 on"), "{detail}");
    Ok(())
}

#[test]
fn every_folder_has_its_row() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    bench.checkpoint("x-4bit")?;
    fs::create_dir(bench.path("models/notes"))?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let rows = rows(&output)?;
    let named: Vec<_> = rows.iter().map(|row| (cell(row, "model"), cell(row, "status"))).collect();
    let expected =
        [("notes", "SKIP:not_a_checkpoint"), ("x-4bit", "INVALID:provenance"), ("x", "INVALID:provenance")];
    assert_eq!(named, expected.map(|(model, status)| (model.to_owned(), status.to_owned())));
    let order: Vec<_> = rows.iter().map(|row| cell(row, "order_index")).collect();
    assert_eq!(order, ["0", "1", "2"]);
    Ok(())
}

#[test]
fn a_program_allowed_although_stale_marks_every_row() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    fs::create_dir_all(bench.path("harness"))?;
    fs::write(bench.path("harness/Cargo.toml"), "[package]\nname = \"mlxcel-bench\"\n")?;
    let output = bench.sweep(&good(1), &["models/x", "--reps", "1"])?.output()?;
    let rows = rows(&output)?;
    assert_eq!(rows.iter().map(|row| cell(row, "stale_binary_allowed")).collect::<Vec<_>>(), ["true"]);
    Ok(())
}

#[test]
fn of_two_sweeps_at_once_into_one_folder_each_keeps_its_result_or_is_refused() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let mut sweeps = Vec::new();
    for _ in 0..2 {
        sweeps.push(
            bench
                .sweep(&good(1), &["models/x", "--reps", "1"])?
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?,
        );
    }
    let mut measured = 0;
    for mut sweep in sweeps {
        // The second is refused if the first is at it, and measures if the first is over or has not begun to write.
        match sweep.wait()?.code() {
            Some(3) => measured += 1,
            code => assert_eq!(code, Some(2)),
        }
    }
    assert!(measured > 0);
    let files = bench.files()?;
    assert_eq!(files.iter().filter(|name| name.contains(".samples.")).count(), measured, "{files:?}");
    assert!(!files.iter().any(|name| name.contains("partial")), "{files:?}");
    Ok(())
}

/// Waits until a file has text, as a script writes its process id.
fn wait_for(path: &std::path::Path) -> Result<String, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_mins(1) {
        if let Ok(text) = fs::read_to_string(path)
            && text.ends_with('\n')
        {
            return Ok(text.trim().to_owned());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{} did not appear", path.display()).into())
}

fn interrupted(
    signal: &str,
    models: &[&str],
    bench: &Bench,
) -> Result<(Option<i32>, String), Box<dyn std::error::Error>> {
    for model in models {
        bench.checkpoint(model)?;
    }
    let pid_file = bench.path("pid");
    let good_rest =
        format!("{}{}{HEAR}", loaded(), (0..=1).map(|rep| generated(rep, &[5, 6, 7, 8])).collect::<String>());
    let script = depending_on("slow", &format!("echo $$ > {}; sleep 600", pid_file.display()), &good_rest);
    let sweep = bench
        .sweep(&script, &["all", "--reps", "1"])?
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let worker = wait_for(&pid_file)?;
    let killed = std::process::Command::new("kill").args(["-s", signal, &sweep.id().to_string()]).status()?;
    assert!(killed.success());
    let output = sweep.wait_with_output()?;
    let alive = std::process::Command::new("kill").args(["-0", &worker]).stderr(Stdio::null()).status()?;
    assert!(!alive.success(), "the worker {worker} still runs");
    Ok((output.status.code(), stderr(&output)))
}

#[test]
fn an_interrupted_sweep_keeps_its_finished_rows_and_says_that_it_is_partial() -> Outcome {
    for signal in ["INT", "TERM"] {
        let bench = Bench::new()?;
        let (code, said) = interrupted(signal, &["first", "slow", "third"], &bench)?;
        assert_eq!(code, Some(130), "{said}");
        let files = bench.files()?;
        assert_eq!(files.len(), 3, "{files:?}");
        let csv =
            files.iter().find(|name| name.ends_with(".partial.csv")).ok_or_else(|| format!("{files:?}"))?;
        assert_eq!(fs::read_to_string(bench.out().join(csv))?.lines().count(), 2);
        let provenance =
            files.iter().find(|name| name.ends_with("provenance.json")).ok_or("no provenance")?;
        let provenance = fs::read_to_string(bench.out().join(provenance))?;
        assert!(provenance.contains("not measured: slow, third"), "{provenance}");
    }
    Ok(())
}

#[test]
fn an_interruption_before_the_first_row_leaves_nothing() -> Outcome {
    let bench = Bench::new()?;
    let (code, said) = interrupted("INT", &["slow"], &bench)?;
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(bench.files()?, Vec::<String>::new());
    assert!(said.contains("nothing was written"), "{said}");
    Ok(())
}

#[test]
fn what_is_published_does_not_name_the_home_folder() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint("x")?;
    let home = bench.root.path().to_string_lossy().into_owned();
    let mut command = bench.sweep(&good(1), &["--reps", "1"])?;
    let output = command.arg(folder).env("HOME", &home).output()?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    for name in bench.files()? {
        let text = fs::read_to_string(bench.out().join(&name))?;
        assert!(!text.contains(&home), "{name}: {text}");
        assert!(text.contains("~/models/x") || name.contains(".samples."), "{name}: {text}");
    }
    Ok(())
}
