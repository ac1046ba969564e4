//! A sweep that is killed, interrupted, resumed, runs into a full disk or a second sweep: finished rows stay, files stay
//! readable, and rows of two runs are never mixed.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use common::{
    Bench, HEAR, Outcome, cell, checkpoints, depending_on, failed, generated, good, good_rest, hello, loaded,
    paced, rows, stderr, wait_for,
};
use mlxcel_reports::row::{AnyRow, Figures};
use mlxcel_reports::store;
use serde_json::Value;

/// A worker that answers after so many seconds each.
fn slow(seconds: &str) -> String {
    let answer = |text: String| format!("sleep {seconds}\n{text}");
    let generations: String = (0..=1).map(|rep| answer(paced(rep, 1_000_000))).collect();
    format!("{}{}{generations}{HEAR}", hello(), answer(loaded()))
}

fn names_of(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| cell(row, "model")).collect()
}

/// A sweep that is interrupted while it measures `slow`; leaves a partial set with the rows before.
fn interrupted(
    bench: &Bench,
    models: &[&str],
    arguments: &[&str],
) -> Result<Output, Box<dyn std::error::Error>> {
    checkpoints(bench, models)?;
    let mark = bench.path("mark");
    let _ = fs::remove_file(&mark);
    let script = depending_on("slow", &format!("touch {}; sleep 600", mark.display()), &good_rest(1));
    let child = bench
        .sweep(&script, &[&["all", "--reps", "1"], arguments].concat())?
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    wait_for(&mark)?;
    Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status()?;
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    Ok(output)
}

fn is_finished(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "csv")
}

/// Every result file can be read, and each row has exactly its samples.
fn readable(bench: &Bench) -> Result<usize, Box<dyn std::error::Error>> {
    let mut rows = 0;
    for name in bench.files()? {
        let path = bench.out().join(&name);
        if !(is_finished(&path) || name.ends_with(".csv.partial")) {
            continue;
        }
        if fs::metadata(&path)?.len() == 0 {
            // Made, and killed before the header.
            continue;
        }
        let file = match store::open(&path) {
            Ok(file) => file,
            // A header that is torn off holds no row.
            Err(_) if !fs::read_to_string(&path)?.contains('\n') => continue,
            Err(error) => return Err(format!("{name}: {error}").into()),
        };
        let samples = match store::read_samples(&path) {
            Ok(samples) => samples,
            Err(_) if file.rows.is_empty() => Vec::new(),
            Err(error) => return Err(format!("{name}: {error}").into()),
        };
        for row in &file.rows {
            let place = row.identity().run.order_index;
            let of_row: Vec<_> = samples
                .iter()
                .filter(|sample| sample.order_index == place)
                .map(|sample| sample.sample.clone())
                .collect();
            assert_eq!(row.figures(), Figures::of(&of_row).ok().as_ref(), "{name}: {row:?}");
        }
        if !name.starts_with("control_") {
            rows += file.rows.len();
        }
    }
    Ok(rows)
}

#[test]
fn a_sweep_killed_at_any_of_a_hundred_instants_leaves_readable_files_and_can_be_resumed() -> Outcome {
    let names = ["a", "b", "c", "d"];
    // About how long one sweep takes, so that the kills fall into all of it.
    let bench = Bench::new()?;
    checkpoints(&bench, &names)?;
    let begun = Instant::now();
    let whole = bench.sweep(&slow("0.01"), &["all", "--reps", "1"])?.output()?;
    assert_eq!(whole.status.code(), Some(3), "{}", stderr(&whole));
    let length = begun.elapsed();
    let mut random = 0x2545_f491_4f6c_dd1d_u64 ^ u64::from(std::process::id());
    let (mut killed, mut tries) = (0, 0);
    let mut bench = Bench::new()?;
    checkpoints(&bench, &names)?;
    let mut rows_before = 0;
    while killed < 100 {
        tries += 1;
        assert!(tries < 500, "only {killed} of {tries} sweeps were killed before their end");
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let instant = length.mul_f64((random % 1000) as f64 / 1000.0);
        let mut child = bench
            .sweep(&slow("0.01"), &["all", "--reps", "1", "--resume"])?
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        thread::sleep(instant);
        child.kill()?;
        killed += u32::from(child.wait()?.code().is_none());
        let rows = readable(&bench)?;
        // At most the row in flight is lost: what was finished stays, whatever is killed.
        assert!(rows >= rows_before, "{rows} rows after {rows_before}: {:?}", bench.files()?);
        rows_before = rows;
        if bench.files()?.iter().any(|name| is_finished(Path::new(name))) {
            bench = Bench::new()?;
            checkpoints(&bench, &names)?;
            rows_before = 0;
        }
    }
    let output = bench.sweep(&slow("0"), &["all", "--reps", "1", "--resume"])?.output()?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(names_of(&rows(&output)?), names);
    Ok(())
}

#[test]
fn a_resumed_sweep_skips_finished_rows_and_becomes_one_complete_file() -> Outcome {
    let bench = Bench::new()?;
    interrupted(&bench, &["first", "slow", "third"], &[])?;
    let started = bench.path("started");
    let script = format!("{}{HEAR}echo \"$request\" >> {}\nanswered=$request\n", hello(), started.display());
    let again = "read() { if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }\n";
    let script = format!("{script}{again}{}", good_rest(1));
    let output = bench.sweep(&script, &["all", "--reps", "1", "--resume"])?.output()?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(names_of(&rows(&output)?), ["first", "slow", "third"]);
    let asked = fs::read_to_string(&started)?;
    assert!(!asked.contains("/first") && asked.contains("/slow") && asked.contains("/third"), "{asked}");
    let files = bench.files()?;
    assert_eq!(files.len(), 3, "{files:?}");
    let read = store::open(&bench.file(".csv")?)?;
    assert_eq!(read.completeness, store::Completeness::Complete);
    assert_eq!(read.altered, Some(false));
    assert_eq!(readable(&bench)?, 3);
    let verified = bench.program().arg("verify").arg(bench.file(".csv")?).output()?;
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert_eq!(verified.status.code(), Some(0), "{said}{}", stderr(&verified));
    Ok(())
}

#[test]
fn rows_of_another_workload_or_executable_are_not_mixed_in() -> Outcome {
    let bench = Bench::new()?;
    interrupted(&bench, &["first", "slow"], &[])?;
    let before = bench.files()?;
    let output = bench.sweep(&good(2), &["all", "--reps", "2", "--resume"])?.output()?;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("the workload (reps: 1 in the file, 2 asked) differs\n"), "{said}");
    assert_eq!(bench.files()?, before);
    let provenance = bench.file(".provenance.json")?;
    let text = fs::read_to_string(&provenance)?;
    let mut value: Value = serde_json::from_str(&text)?;
    for (key, what) in [("executable_sha256", "the executable"), ("host_id", "the host")] {
        value["settings"]["resume_key"][key] = "another".into();
        fs::write(&provenance, value.to_string())?;
        let output = bench.sweep(&good(1), &["all", "--reps", "1", "--resume"])?.output()?;
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(&format!("{what} (")) && said.contains("another in the file, "), "{said}");
        value = serde_json::from_str(&text)?;
    }
    assert_eq!(bench.files()?, before);
    Ok(())
}

#[test]
fn a_named_file_is_resumed_and_a_finished_one_is_refused() -> Outcome {
    let bench = Bench::new()?;
    interrupted(&bench, &["first", "slow"], &[])?;
    let partial = bench.file(".partial.csv")?;
    let resume = |path: &Path| -> std::io::Result<Output> {
        let flag = format!("--resume={}", path.display());
        bench.sweep(&good(1), &["all", "--reps", "1", &flag])?.output()
    };
    let output = resume(&partial)?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let finished = bench.file(".csv")?;
    let output = resume(&finished)?;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("no result set that can be resumed"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--rerun FILE.csv"), "{}", stderr(&output));
    let before = bench.files()?;
    let output =
        bench.sweep(&good(1), &["all", "--reps", "1", "--resume", "--retry", "invalid"])?.output()?;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("so --retry has no rows"), "{}", stderr(&output));
    assert_eq!(bench.files()?, before);
    Ok(())
}

#[test]
fn failed_rows_are_measured_again_only_on_request_and_in_their_place() -> Outcome {
    for (retry, expected) in [(None, "FAIL:load"), (Some("failed"), "INVALID:provenance")] {
        let bench = Bench::new()?;
        checkpoints(&bench, &["bad", "good", "slow"])?;
        let mark = bench.path("mark");
        let script = format!(
            "{}{HEAR}answered=$request\nread() {{ if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }}\n\
             case \"$request\" in */bad*) {} ;; */slow*) touch {}; sleep 600 ;; *) {} ;; esac\n",
            hello(),
            failed("load", "other", "no"),
            mark.display(),
            good_rest(1)
        );
        let child = bench
            .sweep(&script, &["all", "--reps", "1"])?
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        wait_for(&mark)?;
        Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status()?;
        child.wait_with_output()?;
        let flags = retry.map(|retry| vec!["--retry", retry]).unwrap_or_default();
        let output = bench
            .sweep(&good(1), &[&["all", "--reps", "1", "--resume"], flags.as_slice()].concat())?
            .output()?;
        let rows = rows(&output)?;
        assert_eq!(names_of(&rows), ["bad", "good", "slow"]);
        assert_eq!(cell(&rows[0], "status"), expected, "{}", stderr(&output));
        assert_eq!(readable(&bench)?, 3);
    }
    Ok(())
}

#[test]
fn a_second_sweep_cannot_resume_what_another_is_writing() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["first", "slow"])?;
    let mark = bench.path("mark");
    let script = depending_on("slow", &format!("touch {}; sleep 600", mark.display()), &good_rest(1));
    let mut child =
        bench.sweep(&script, &["all", "--reps", "1"])?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    wait_for(&mark)?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--resume"])?.output()?;
    let said = stderr(&output);
    child.kill()?;
    child.wait()?;
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is being written by another sweep"), "{said}");
    Ok(())
}

#[test]
fn a_second_sweep_into_the_same_folder_waits_for_the_end_of_the_first() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["first", "slow"])?;
    let mark = bench.path("mark");
    let script = depending_on("slow", &format!("touch {}; sleep 600", mark.display()), &good_rest(1));
    let mut child =
        bench.sweep(&script, &["all", "--reps", "1"])?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    wait_for(&mark)?;
    let before = bench.files()?;
    let output = bench.sweep(&good(1), &["models/first", "--reps", "1"])?.output()?;
    let said = stderr(&output);
    let elsewhere = bench.path("elsewhere").to_string_lossy().into_owned();
    let other = bench.sweep(&good(1), &["models/first", "--reps", "1", "--out", &elsewhere])?.output()?;
    child.kill()?;
    child.wait()?;
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is being written by another sweep"), "{said}");
    assert_eq!(bench.files()?, before);
    assert_eq!(rows(&other)?.len(), 1, "{}", stderr(&other));
    Ok(())
}

#[test]
fn a_second_sweep_of_the_day_and_one_of_a_single_folder_leave_the_first_as_it_is() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    let first = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    assert_eq!(first.status.code(), Some(3));
    let text = |name: &str| fs::read_to_string(bench.out().join(name));
    let before: Vec<(String, String)> = bench
        .files()?
        .into_iter()
        .map(|name| text(&name).map(|text| (name, text)))
        .collect::<Result<_, _>>()?;
    bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    bench.sweep(&good(1), &["models/x", "--reps", "1"])?.output()?;
    for (name, content) in &before {
        assert_eq!(&text(name)?, content, "{name} was changed");
    }
    assert_eq!(bench.files()?.len(), 9);
    Ok(())
}

#[test]
fn a_full_disk_stops_the_sweep_with_the_finished_rows_safe() -> Outcome {
    // Long generations, so that the samples are what fills the disk.
    let tokens = vec![7; 5000];
    let script = format!("{}{}{}{}{HEAR}", hello(), loaded(), generated(0, &tokens), generated(1, &tokens));
    let sweep = |bench: &Bench,
                 blocks: Option<u64>,
                 more: &[&str]|
     -> Result<Output, Box<dyn std::error::Error>> {
        let path = bench.path("script.sh");
        fs::write(&path, &script)?;
        // A limit on the size of files stands for the end of the disk: writing fails beyond it.
        let limit = blocks.map(|blocks| format!("trap '' XFSZ\nulimit -f {blocks}\n")).unwrap_or_default();
        let wrapper = bench.path("limited.sh");
        common::program::script(&wrapper, &format!("#!/bin/sh\n{limit}exec \"$@\"\n"))?;
        let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted_worker.sh");
        let output = Command::new(&wrapper)
            .arg(env!("CARGO_BIN_EXE_mlxcel-bench"))
            .args(["sweep", "all", "--reps", "1", "--order", "name", "--prompt-tokens", "8"])
            .args(["--max-tokens", "5000", "--format", "json", "--control-every", "0", "--worker-program"])
            .arg(worker)
            .args(more)
            .current_dir(bench.root.path())
            .env("SCRIPTED_WORKER", path)
            .env("BENCH_ALLOW_STALE_BINARY", "1")
            .env("MLXCEL_CACHE_DIR", bench.path("cache"))
            .env("MODELS_DIR", bench.path("models"))
            .env("BENCHMARKS_DIR", bench.out())
            .output()?;
        Ok(output)
    };
    let models = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let roomy = Bench::new()?;
    checkpoints(&roomy, &models)?;
    assert_eq!(sweep(&roomy, None, &[])?.status.code(), Some(3));
    let bytes = |ending: &str| -> Result<u64, Box<dyn std::error::Error>> {
        Ok(fs::metadata(roomy.file(ending)?)?.len())
    };
    let (provenance, samples) = (bytes(".provenance.json")?, bytes(".samples.jsonl")?);
    assert!(samples > 2 * provenance, "{samples} {provenance}");
    let bench = Bench::new()?;
    checkpoints(&bench, &models)?;
    let output = sweep(&bench, Some(u64::midpoint(provenance, samples) / 512), &[])?;
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("could not be kept") && said.contains("if any, stay there"), "{said}");
    assert!(said.contains(".csv.partial; --resume goes on with it"), "{said}");
    let kept = readable(&bench)?;
    assert!((1..8).contains(&kept), "{kept} rows were kept");
    let output = sweep(&bench, None, &["--resume"])?;
    assert_eq!(rows(&output)?.len(), 8, "{}", stderr(&output));
    Ok(())
}

#[test]
fn a_worker_that_is_killed_within_a_line_is_told_by_how_it_ended() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["bad", "good"])?;
    for (last, status) in [("kill -s KILL $$", "FAIL:crash"), ("exit 0", "FAIL:no_output")] {
        let script =
            depending_on("bad", &format!("printf '{{\"event\":\"loaded\",\"load_na'; {last}"), &good_rest(1));
        let output = bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
        let rows = rows(&output)?;
        assert_eq!(cell(&rows[0], "status"), status, "{}", cell(&rows[0], "status_detail"));
    }
    Ok(())
}

#[test]
fn a_failed_child_does_not_leave_the_row_before_it_to_be_written_again() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["a", "b", "c"])?;
    let script = depending_on("b", "exit 7", &good_rest(1));
    bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
    let read = store::open(&bench.file(".csv")?)?;
    let models: Vec<&str> = read.rows.iter().map(|row| row.identity().checkpoint.model.as_str()).collect();
    assert_eq!(models, ["a", "b", "c"]);
    assert!(read.rows.get(1).map(AnyRow::figures).is_some_and(|figures| figures.is_none()));
    Ok(())
}

#[test]
fn fewer_checkpoints_than_in_the_last_sweep_of_this_host_end_badly() -> Outcome {
    let bench = Bench::new()?;
    checkpoints(&bench, &["x"])?;
    bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    // Scripted rows are never valid; the last sweep is made to look as if it had been measured by the program itself.
    let (csv, provenance) = (bench.file(".csv")?, bench.file(".provenance.json")?);
    let read = store::open(&csv)?;
    let AnyRow::Excluded(row) = &read.rows[0] else { return Err("a scripted row is valid".into()) };
    let samples: Vec<_> = store::read_samples(&csv)?.into_iter().map(|stored| stored.sample).collect();
    let mut identity = row.identity().clone();
    identity.build.backend = mlxcel_reports::row::Backend::Cpu;
    let valid = mlxcel_reports::row::Row::measured(identity, row.load_nanos(), &samples)?;
    let text = mlxcel_reports::wire::header_line() + &mlxcel_reports::wire::row_line(&valid.into())?;
    fs::write(&csv, text)?;
    assert!(fs::read_to_string(&provenance)?.contains("\"complete\": true"));
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let said = stderr(&output);
    assert!(
        said.contains("fewer checkpoints than last time") && said.contains("and not in this one: x;"),
        "{said}"
    );
    assert_ne!(output.status.code(), Some(0));
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--allow-fewer"])?.output()?;
    assert!(stderr(&output).contains("note: fewer"), "{}", stderr(&output));
    Ok(())
}
