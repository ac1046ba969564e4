//! Files of a million rows: measurements, run by hand in the release build and alone.

use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Axis, Options};
use mlxcel_reports::history;
use mlxcel_reports::measure::{RawSample, Sample};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::render::comparison as render;
use mlxcel_reports::row::{CheckpointId, Generation, Row};
use mlxcel_reports::rules::RuleSet;
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::wire;

use crate::sample_rows::identity;

const COLUMNS: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,hardware,";

/// Peak of the process's memory, in bytes; none where the system does not say.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the process has computed so far, in seconds: other work on the host does not count. None where the system does not say.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = |at: usize| fields.split(' ').nth(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// A file of a million rows of the layout with commits.
fn million_rows(path: &std::path::Path, commit: &str, decode_ms: u32) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    writeln!(
        file,
        "{COLUMNS}mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit"
    )?;
    for index in 0..1_000_000 {
        writeln!(
            file,
            "m{index:07},models/m{index:07},277,128,100.00,2770.00,{decode_ms}.00,,2026-09-09,Apple_M5_Max_128GB,0.7.0,\
             release,128,\"Hello, \"\"you\"\"\",,{commit},9a795735"
        )?;
    }
    file.flush()
}

/// Alone in its process: `cargo test --release -p mlxcel-reports --test it -- --ignored --nocapture a_million`.
#[test]
#[ignore = "a measurement, of the release build and alone"]
#[expect(clippy::print_stderr, reason = "the measurement is what it is run for")]
fn a_million_rows_from_disk_take_under_two_seconds_and_under_500_megabytes() {
    let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
    let path = folder.path().join("metal_m5max_2026-09-09.csv");
    million_rows(&path, "33333333", 1270).expect("OK because there is space");
    let before = peak_memory_bytes();
    let start = std::time::Instant::now();
    let file = history::read(&path).expect("OK because the file was just written");
    let seconds = start.elapsed().as_secs_f64();
    let peak = peak_memory_bytes();
    eprintln!("{} rows in {seconds:.3} s; peak {before:?} before, {peak:?} bytes after", file.records.len());
    assert_eq!(file.records.len(), 1_000_000);
    assert!(seconds < 2.0, "{seconds} s");
    assert!(peak.is_none_or(|peak| peak < 500_000_000), "{peak:?} bytes");
}

/// A file of a million rows of the project's own layout, of which each is another checkpoint with an output of its own.
fn million_own_rows(path: &std::path::Path, commit: &str, run: &str, step: u64) -> std::io::Result<()> {
    use std::io::Write as _;
    let samples = [Sample::try_from(RawSample {
        rep: 1,
        prompt_tokens: 512,
        token_nanos: (0..128).map(|token| 250_000_000 + token * step).collect(),
        host_nanos: None,
        peak_memory_bytes: Some(150_000_000),
        started_at: None,
        finish: Some("length".to_owned()),
    })
    .expect("OK because the times rise")];
    let mut identity = identity("NAME", 0);
    run.clone_into(&mut identity.run.run_id);
    identity.build.mlxcel_commit = Stamp::text(commit);
    identity.workload.max_tokens = 128;
    identity.checkpoint.checkpoint_id =
        Stamp::known(CheckpointId { level: 2, digest: "CHECKPOINT".to_owned() });
    identity.conditions.generation = Generation {
        finish: Some("length".to_owned()),
        output_sha256: Some("OUTPUT".to_owned()),
        cached_prompt_tokens: Some(0),
    };
    let row = Row::measured(identity, Some(800_000_000), &samples)
        .expect("OK because the sample is of the workload");
    let line = wire::row_line(&row.into()).expect("OK because the row can be written");
    let order = wire::COLUMNS.iter().position(|column| *column == "order_index").unwrap_or_default();
    let (head, tail) = {
        let at = line.match_indices(',').nth(order - 1).map_or(0, |(at, _)| at + 1);
        line.split_at(at)
    };
    let tail = tail.split_once(',').map_or(tail, |(_, tail)| tail);
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    write!(file, "{}", wire::header_line())?;
    for index in 0..1_000_000 {
        let head = head.replace("NAME", &format!("m{index:07}"));
        let tail = tail
            .replace("CHECKPOINT", &format!("{index:064x}"))
            .replace("OUTPUT", &format!("{:064x}", index * 7));
        write!(file, "{head}{index},{tail}")?;
    }
    file.flush()
}

/// Alone in its process: `cargo test --release -p mlxcel-reports --test it -- --ignored --nocapture of_the_own_layout`.
#[test]
#[ignore = "a measurement, of the release build and alone"]
#[expect(clippy::print_stderr, reason = "the measurement is what it is run for")]
fn a_million_rows_of_the_own_layout_are_read_and_compared() {
    let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
    let paths = ["a.csv", "b.csv"].map(|name| folder.path().join(name));
    million_own_rows(&paths[0], "33333333", "run-a", 9_700_001).expect("OK because there is space");
    million_own_rows(&paths[1], "44444444", "run-b", 9_800_003).expect("OK because there is space");
    let size = std::fs::metadata(&paths[0]).map(|file| file.len()).unwrap_or_default();
    eprintln!("a file: {size} bytes; peak before {:?}", peak_memory_bytes());
    let (start, computed) = (std::time::Instant::now(), cpu_seconds().unwrap_or_default());
    let told = |what: &str| {
        let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds().unwrap_or_default() - computed);
        eprintln!("{what}: {wall:.3} s, {cpu:.2} s computed, peak {:?} bytes", peak_memory_bytes());
    };
    let before = history::read(&paths[0]).expect("OK because the file was just written");
    told("read one");
    let after = history::read(&paths[1]).expect("OK because the file was just written");
    told("read both");
    let options = Options { axis: Axis::Commit, ..Options::default() };
    let comparison = compare(&before, &after, &ExactNames, &options, &Readings::default(), &RuleSet::all());
    told("compared");
    assert_eq!(comparison.pairs.len(), 1_000_000, "{:?}", comparison.refused.first());
    assert!(peak_memory_bytes().is_none_or(|peak| peak < 2_200_000_000));
    let computed = cpu_seconds().map(|now| now - computed);
    assert!(computed.is_none_or(|seconds| seconds < 12.0), "{computed:?} s");
}

/// Alone in its process: `cargo test --release -p mlxcel-reports --test it -- --ignored --nocapture two_files`.
#[test]
#[ignore = "a measurement, of the release build and alone"]
#[expect(clippy::print_stderr, reason = "the measurement is what it is run for")]
fn two_files_of_a_million_rows_are_compared_in_under_five_seconds_and_a_gigabyte() {
    let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
    let paths = ["a.csv", "b.csv"].map(|name| folder.path().join(name));
    million_rows(&paths[0], "33333333", 1270).expect("OK because there is space");
    million_rows(&paths[1], "44444444", 1300).expect("OK because there is space");
    let start = std::time::Instant::now();
    let told = |what: &str| {
        eprintln!("{what}: {:.3} s, peak {:?} bytes", start.elapsed().as_secs_f64(), peak_memory_bytes());
    };
    let [before, after] =
        paths.each_ref().map(|path| history::read(path).expect("OK because the file was just written"));
    told("read");
    let options = Options { axis: Axis::Commit, ..Options::default() };
    let comparison = compare(&before, &after, &ExactNames, &options, &Readings::default(), &RuleSet::all());
    told("compared");
    assert_eq!(comparison.pairs.len(), 1_000_000, "{:?}", comparison.refused);
    let text = render::csv(&comparison).expect("OK because a comparison is always CSV");
    told("as CSV");
    assert!(text.lines().count() > 1_000_000);
    assert!(start.elapsed().as_secs_f64() < 5.0);
    assert!(peak_memory_bytes().is_none_or(|peak| peak < 1_000_000_000));
}
