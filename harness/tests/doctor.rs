//! `doctor` with scripted workers, and what `gate` and `compare` make of its result.

mod common;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Bench, HEAR, Outcome, failed, hello, loaded, stderr};
use serde_json::Value;

const REPORTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../reports/tests/golden/rows_v1.csv");

/// A worker whose decode steps take a millisecond and so many thousandths more, one number a process, again and again.
fn noisy(bench: &Bench, thousandths: &[u32], reps: u32) -> String {
    let list: Vec<String> = thousandths.iter().map(ToString::to_string).collect();
    let counter = bench.path("counter");
    let mut script = format!(
        "{}{}count=$(cat {counter} 2>/dev/null || echo 0)\necho $((count + 1)) > {counter}\n\
         set -- {}\nshift $((count % $#))\nstep=$((1000000 + $1 * 1000))\n",
        hello(),
        loaded(),
        list.join(" "),
        counter = counter.display(),
    );
    for rep in 0..=reps {
        script += HEAR;
        script = format!(
            "{script}printf '{{\"event\":\"generated\",\"sample\":{{\"rep\":{rep},\"prompt_tokens\":8,\"token_nanos\":[2000000,%d,%d,%d],\
             \"host_nanos\":null,\"peak_memory_bytes\":null,\"started_at\":null,\"finish\":\"length\"}},\"tokens\":[5,6,7,8],\
             \"prompt_sha256\":\"00\"}}\\n' $((2000000 + step)) $((2000000 + 2 * step)) $((2000000 + 3 * step))\n"
        );
    }
    script + HEAR
}

fn doctor(bench: &Bench, script: &str, flags: &[&str]) -> std::io::Result<Output> {
    let path = bench.path("doctor-script.sh");
    fs::write(&path, script)?;
    bench
        .program()
        .args(["doctor", "--quick", "--reps", "1", "--no-quiet-gate"])
        .args(["--prompt-tokens", "8", "--max-tokens", "4", "--format", "json", "--worker-program"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted_worker.sh"))
        .args(if flags.contains(&"--model") { &[][..] } else { &["--model", "models/control"] })
        .args(flags)
        .env("SCRIPTED_WORKER", path)
        .env("MLXCEL_CACHE_DIR", bench.path("cache"))
        .env_remove("MLXCEL_BENCH_LLC_BYTES")
        .output()
}

fn kept(bench: &Bench) -> std::io::Result<Vec<PathBuf>> {
    let folder = bench.path("cache/hosts");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

fn document(output: &Output) -> Result<Value, Box<dyn Error>> {
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", stderr(output)).into())
}

fn number(document: &Value, pointer: &str) -> f64 {
    document.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// A gate over the two sides that [`side`] writes.
const GATE: [&str; 9] = [
    "gate",
    "--metric",
    "decode",
    "--vary",
    "nothing",
    "--baseline",
    "before.csv",
    "--candidate",
    "after.csv",
];

#[test]
fn the_sides_run_in_turn_and_their_noise_is_measured_and_kept_for_this_host() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("control")?;
    // In order first, second, second, first, ...: the first side has 0, 3, 0, 3 and the second 1, 2, 1, 2 thousandths.
    let output = doctor(&bench, &noisy(&bench, &[0, 1, 2, 3], 1), &["--keep-contended"])?;
    let said = document(&output)?;
    let rates = |side: &str| -> Vec<f64> {
        let list =
            said.pointer(&format!("/noise/0/{side}")).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_f64).map(|rate| (1e9 / rate - 1e6).round() / 1000.0).collect()
    };
    assert_eq!(rates("first"), [0.0, 3.0, 0.0, 3.0]);
    assert_eq!(rates("second"), [1.0, 2.0, 1.0, 2.0]);
    for level in ["2%", "5%", "10%"] {
        assert_eq!(said.pointer(&format!("/verdict/0/resolves/{level}")), Some(&"yes".into()), "{said}");
    }
    assert!((number(&said, "/verdict/0/single_floor_pct") - 0.3).abs() < 0.01, "{said}");
    assert!(number(&said, "/stream/best_bytes_per_second") > 1e8, "{said}");
    assert!(number(&said, "/gemm/median_flops") > 1e6, "{said}");
    assert_eq!(said.pointer("/control/model"), Some(&"control".into()));
    if said.pointer("/host/host_id").is_some_and(Value::is_string) {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(kept(&bench)?.len(), 2);
    } else {
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains("no identity"), "{}", stderr(&output));
    }
    Ok(())
}

#[test]
fn a_restless_host_is_told_what_it_cannot_resolve() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("control")?;
    let output =
        doctor(&bench, &noisy(&bench, &[0, 70, 10, 40, 90, 20], 1), &["--keep-contended", "--rounds", "6"])?;
    let said = document(&output)?;
    assert_eq!(said.pointer("/verdict/0/resolves/2%"), Some(&"no".into()), "{said}");
    assert!(number(&said, "/verdict/0/single_floor_pct") > 8.0, "{said}");
    assert_eq!(number(&said, "/verdict/0/processes_a_side").to_bits(), 6.0_f64.to_bits());
    Ok(())
}

#[test]
fn what_was_measured_beside_others_is_not_kept() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("control")?;
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?;
    let output = doctor(&bench, &noisy(&bench, &[0, 1], 1), &["--quiet-limit", "0.5"]);
    busy.kill().and_then(|()| busy.wait())?;
    let output = output?;
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("--keep-contended"), "{}", stderr(&output));
    assert_eq!(document(&output)?.pointer("/contended"), Some(&true.into()));
    assert_eq!(kept(&bench)?, Vec::<PathBuf>::new());
    Ok(())
}

#[test]
fn a_control_that_cannot_be_measured_ends_it_with_the_reason() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("control")?;
    let script = format!("{}{}", hello(), failed("load", "other", "this went wrong"));
    let output = doctor(&bench, &script, &[])?;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("FAIL:load") && stderr(&output).contains("this went wrong"));
    let output = doctor(&bench, &script, &["--model", "models/absent"])?;
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("models/absent"), "{}", stderr(&output));
    assert_eq!(kept(&bench)?, Vec::<PathBuf>::new());
    Ok(())
}

/// A result file of one row of this host, with such a decode time.
fn side(
    bench: &Bench,
    name: &str,
    host: (&str, &str),
    decode_ns: u64,
    run: &str,
) -> Result<PathBuf, Box<dyn Error>> {
    let golden = fs::read_to_string(REPORTS)?;
    let mut lines = golden.lines();
    let (header, row) = (lines.next().ok_or("no header")?, lines.next().ok_or("no row")?);
    let columns: Vec<&str> = header.split(',').collect();
    let mut fields: Vec<String> = row.split(',').map(str::to_owned).collect();
    assert_eq!(columns.len(), fields.len());
    let steps = 127;
    let milliseconds = u32::try_from(decode_ns / 1_000_000)?;
    for (column, value) in [
        ("hardware", host.1.to_owned()),
        ("host_id", host.0.to_owned()),
        ("run_id", run.to_owned()),
        ("generated_tokens", "128".to_owned()),
        ("max_tokens", "128".to_owned()),
        ("decode_steps", steps.to_string()),
        ("decode_ns", (u64::from(milliseconds) * 1_000_000).to_string()),
        ("decode_ms", format!("{milliseconds}.000000")),
        ("decode_tok_s", format!("{:.6}", f64::from(steps) * 1000.0 / f64::from(milliseconds))),
        ("decode_spread_pct", "0.1".to_owned()),
    ] {
        let at = columns.iter().position(|found| *found == column).ok_or(column)?;
        *fields.get_mut(at).ok_or(column)? = value;
    }
    let path = bench.path(name);
    fs::write(&path, format!("{header}\n{}\n", fields.join(",")))?;
    Ok(path)
}

fn run(bench: &Bench, arguments: &[&str]) -> std::io::Result<(Option<i32>, String)> {
    let output = bench.program().args(arguments).env("MLXCEL_CACHE_DIR", bench.path("cache")).output()?;
    Ok((output.status.code(), format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output))))
}

#[test]
fn gate_and_compare_take_the_floor_of_the_host_that_the_rows_name_and_say_so() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("control")?;
    // Up to 9% from the median: two single runs may lie 18% apart.
    let output = doctor(&bench, &noisy(&bench, &[0, 200, 100, 100], 1), &["--keep-contended"])?;
    let said = document(&output)?;
    let fact = |pointer: &str| said.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (Some(host_id), Some(hardware)) = (fact("/host/host_id"), fact("/host/hardware")) else {
        return Ok(()); // nothing is kept for a host without identity
    };
    let host = (host_id.as_str(), hardware.as_str());
    side(&bench, "before.csv", host, 1_000_000_000, "a")?;
    side(&bench, "after.csv", host, 1_150_000_000, "b")?;
    let compare = [
        "compare",
        "--before",
        "before.csv",
        "--after",
        "after.csv",
        "--out",
        "report.json",
        "--format",
        "json",
    ];

    // 13% fewer tokens a second: beyond the gate's own 5%, within what this host does by itself.
    let (code, text) = run(&bench, &GATE)?;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("found by `doctor` on"), "{text}");
    let (code, text) = run(&bench, &[&GATE[..], &["--no-doctor"]].concat())?;
    assert_eq!(code, Some(3), "{text}");
    assert!(!text.contains("`doctor`"), "{text}");

    let (code, text) = run(&bench, &compare)?;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("found by `doctor` on"), "{text}");
    let report: Value = serde_json::from_slice(&fs::read(bench.path("report.json"))?)?;
    assert!(number(&report, "/limits/noise_floor") > 0.15, "{report}");
    assert_eq!(report.pointer("/pairs/0/moved"), Some(&false.into()));
    // The report names the floor in its command line, so it follows from itself without what is kept here.
    fs::remove_dir_all(bench.path("cache"))?;
    let (_, text) = run(&bench, &["verify", "report.json"])?;
    assert!(text.contains("ok report.json"), "{text}");
    fs::remove_file(bench.path("report.json"))?;
    let (code, _) = run(&bench, &compare)?;
    let report: Value = serde_json::from_slice(&fs::read(bench.path("report.json"))?)?;
    assert_eq!((code, report.pointer("/pairs/0/moved")), (Some(0), Some(&true.into())));
    Ok(())
}

#[test]
fn a_floor_is_never_taken_for_another_host() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("control")?;
    let output = doctor(&bench, &noisy(&bench, &[0, 200, 100, 100], 1), &["--keep-contended"])?;
    let said = document(&output)?;
    let hardware = said.pointer("/host/hardware").and_then(Value::as_str).unwrap_or("unknown");
    let host = ("45454545454545454545454545454545", hardware);
    side(&bench, "before.csv", host, 1_000_000_000, "a")?;
    side(&bench, "after.csv", host, 1_150_000_000, "b")?;
    let (code, text) = run(&bench, &GATE)?;
    assert_eq!(code, Some(3), "{text}");
    assert!(!text.contains("`doctor`"), "{text}");
    Ok(())
}
