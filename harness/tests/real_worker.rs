//! Sweeps with the real worker on tiny made-up checkpoints.

#![cfg(feature = "runtime")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Bench, Outcome, cell, rows, stderr};
use mlxcel::convert::{ConvertInput, ConvertRequest, FloatDtype, SyntheticConfig, run};
use serde_json::{Value, json};

fn tiny(bench: &Bench, name: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "max_position_embeddings": 64, "vocab_size": 320,
        "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2
    });
    let Value::Object(config) = config else { return Err("not an object".into()) };
    let input = ConvertInput::Synthetic { config: SyntheticConfig::Object(config), seed: 7 };
    let folder = bench.path("models").join(name);
    let request =
        ConvertRequest { dtype: Some(FloatDtype::F32), ..ConvertRequest::new(input, folder.clone()) };
    run(&request, &mut |_, _| {})?;
    Ok(folder)
}

fn sweep(bench: &Bench, arguments: &[&str]) -> std::io::Result<Output> {
    bench
        .program()
        .arg("sweep")
        .args(arguments)
        .args(["--format", "json", "--order", "name", "--max-spread", "100000"])
        // The tree may be edited while the tests run.
        .env("BENCH_ALLOW_STALE_BINARY", "1")
        .output()
}

/// A sweep of the tiny checkpoint that its context has room for.
const FITTING: [&str; 5] = ["models/tiny", "--prompt-tokens", "8", "--max-tokens", "4"];

fn refused(bench: &Bench, arguments: &[&str], words: &[&str]) -> Outcome {
    let output = sweep(bench, arguments)?;
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert_eq!(bench.files()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_checkpoint_is_measured_and_stamped_with_what_ran() -> Outcome {
    let bench = Bench::new()?;
    tiny(&bench, "tiny")?;
    let output =
        sweep(&bench, &["models/tiny", "--prompt-tokens", "20", "--max-tokens", "9", "--reps", "2"])?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output)?;
    let [row] = rows.as_slice() else { return Err("not one row".into()) };
    for (column, value) in [
        ("status", ""),
        ("model", "tiny"),
        ("prompt_tokens", "20"),
        ("generated_tokens", "9"),
        ("max_tokens", "9"),
        ("prompt_target_len", "20"),
        ("warmup_tokens", "9"),
        ("reps", "2"),
        ("synthetic", "true"),
        ("model_type", "llama"),
        ("weight_dtype", "f32"),
        ("sampling", "greedy"),
        ("prompt", "synthetic:v1"),
    ] {
        assert_eq!(cell(row, column), value, "{column}: {}", cell(row, "status_detail"));
    }
    for column in ["executable_sha256", "libmlx_sha256", "prompt_sha256"] {
        assert_eq!(cell(row, column).len(), 64, "{column}");
    }
    for column in [
        "mlx_version",
        "mlx_commit",
        "mlxcel_version",
        "hardware",
        "os",
        "kernel_version",
        "peak_memory_bytes",
    ] {
        assert!(!cell(row, column).is_empty(), "{column}");
    }
    Ok(())
}

#[test]
fn a_sweep_goes_on_after_a_checkpoint_that_does_not_load() -> Outcome {
    let bench = Bench::new()?;
    tiny(&bench, "b")?;
    bench.checkpoint("a")?; // the files of a checkpoint, but not its tensors, and no tokenizer
    let output = sweep(&bench, &["all", "--prompt-tokens", "8", "--max-tokens", "4", "--reps", "1"])?;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let statuses: Vec<_> = rows(&output)?.iter().map(|row| cell(row, "status")).collect();
    assert_eq!(statuses, ["FAIL:load", ""]);
    Ok(())
}

#[test]
fn an_alias_has_its_row_and_is_not_measured_unless_all_are() -> Outcome {
    let bench = Bench::new()?;
    tiny(&bench, "x")?;
    tiny(&bench, "x-4bit")?;
    std::os::unix::fs::symlink("x", bench.path("models/y"))?;
    let shape = ["all", "--prompt-tokens", "8", "--max-tokens", "4", "--reps", "1"];
    let output = sweep(&bench, &shape)?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told: Vec<_> = rows(&output)?.iter().map(|row| (cell(row, "model"), cell(row, "status"))).collect();
    let expected = [("x-4bit", ""), ("x", "SKIP:duplicate_of=x-4bit"), ("y", "SKIP:duplicate_of=x-4bit")];
    assert_eq!(told, expected.map(|(model, status)| (model.to_owned(), status.to_owned())));
    for row in &rows(&output)?[1..] {
        let detail = cell(row, "status_detail");
        assert!(detail.contains("speed-equivalent at level 1"), "{detail}");
        assert_eq!(cell(row, "decode_tok_s"), "");
    }
    let said = stderr(&output);
    let group = said.find("x-4bit is measured for x, y").ok_or_else(|| said.clone())?;
    let first = said.find("[1/3]").ok_or_else(|| said.clone())?;
    assert!(group < first && said.contains("wasted"), "{said}");

    let output = sweep(&bench, &[&shape[..], &["--no-dedup", "--suffix", "all"]].concat())?;
    assert!(rows(&output)?.iter().all(|row| cell(row, "status").is_empty()), "{}", stderr(&output));
    assert!(!stderr(&output).contains("wasted"));
    let output = sweep(&bench, &[&shape[..], &["--dedup", "path", "--suffix", "path"]].concat())?;
    let statuses: Vec<_> = rows(&output)?.iter().map(|row| cell(row, "status")).collect();
    assert_eq!(statuses, ["", "", "SKIP:duplicate_of=x"]);
    Ok(())
}

#[test]
fn a_survivor_that_fails_hands_its_place_to_the_next_alias() -> Outcome {
    let bench = Bench::new()?;
    for name in ["a", "b", "c"] {
        tiny(&bench, name)?;
    }
    fs::write(bench.path("models/a/tokenizer.json"), "{")?;
    let output = sweep(&bench, &["all", "--prompt-tokens", "8", "--max-tokens", "4", "--reps", "1"])?;
    let statuses: Vec<_> = rows(&output)?.iter().map(|row| cell(row, "status")).collect();
    assert_eq!(statuses, ["FAIL:load", "", "SKIP:duplicate_of=b"], "{}", stderr(&output));
    Ok(())
}

#[test]
fn a_prompt_longer_than_the_context_is_refused() -> Outcome {
    let bench = Bench::new()?;
    tiny(&bench, "tiny")?;
    let arguments = ["models/tiny", "--prompt-tokens", "60", "--max-tokens", "5"];
    refused(&bench, &arguments, &["tiny", "60", "context of 64"])
}

#[test]
fn an_unknown_model_type_lists_the_known_ones() -> Outcome {
    let bench = Bench::new()?;
    let folder = tiny(&bench, "tiny")?;
    let config = fs::read_to_string(folder.join("config.json"))?.replace("\"llama\"", "\"lama\"");
    fs::write(folder.join("config.json"), config)?;
    refused(&bench, &FITTING, &["lama", "llama", "qwen3", "gemma3_text"])
}

#[test]
fn a_missing_tokenizer_is_refused() -> Outcome {
    let bench = Bench::new()?;
    let folder = tiny(&bench, "tiny")?;
    fs::remove_file(folder.join("tokenizer.json"))?;
    refused(&bench, &FITTING, &["tokenizer.json"])
}

#[test]
fn tensors_that_do_not_fit_the_config_are_refused_together() -> Outcome {
    let bench = Bench::new()?;
    let folder = tiny(&bench, "tiny")?;
    let config = fs::read_to_string(folder.join("config.json"))?;
    let mut config: Value = serde_json::from_str(&config)?;
    config["num_hidden_layers"] = json!(3);
    config["intermediate_size"] = json!(96);
    fs::write(folder.join("config.json"), config.to_string())?;
    refused(&bench, &FITTING, &["model.layers.2.", "model.layers.0.mlp"])
}

/// A worker of which the test is the harness.
struct Spoken {
    child: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Spoken {
    fn start(bench: &Bench) -> Result<Self, Box<dyn std::error::Error>> {
        let mut child = bench
            .program()
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Self { child, answers })
    }

    fn ask(&mut self, request: &Value) -> Outcome {
        Ok(writeln!(self.child.stdin.as_mut().ok_or("no stdin")?, "{request}")?)
    }

    fn hear(&mut self) -> Result<Value, Box<dyn std::error::Error>> {
        loop {
            let mut line = String::new();
            self.answers.read_line(&mut line)?;
            let event: Value = serde_json::from_str(&line)?;
            if event["event"] != "loading" {
                return Ok(event);
            }
        }
    }
}

#[test]
fn one_loaded_checkpoint_serves_many_generations() -> Outcome {
    let bench = Bench::new()?;
    let folder = tiny(&bench, "tiny")?;
    let mut worker = Spoken::start(&bench)?;
    assert_eq!(worker.hear()?["event"], "hello");
    worker.ask(&json!({ "request": "load", "path": folder }))?;
    assert_eq!(worker.hear()?["event"], "loaded");
    let mut generations = Vec::new();
    for (rep, prompt) in [
        (0, json!({ "synthetic": 12 })),
        (1, json!({ "tokens": [1, 5, 9] })),
        (2, json!({ "tokens": [1, 5, 9] })),
    ] {
        worker.ask(&json!({
            "request": "generate", "rep": rep, "prompt": prompt, "max_tokens": 6, "prefill_chunk": 4, "suppress_eos": true
        }))?;
        generations.push(worker.hear()?);
    }
    let [first, second, third] = generations.as_slice() else { return Err("not three".into()) };
    assert_eq!(first.pointer("/sample/prompt_tokens"), Some(&json!(12)), "{first}");
    assert_eq!(second.pointer("/sample/prompt_tokens"), Some(&json!(3)));
    assert_eq!(second["tokens"], third["tokens"]);
    assert_eq!(second["tokens"].as_array().map(Vec::len), Some(6));
    worker.ask(&json!({ "request": "finish" }))?;
    assert_eq!(worker.hear()?["event"], "done");
    assert_eq!(worker.child.wait()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_worker_measures_how_fast_its_own_device_reaches_its_memory_without_any_checkpoint() -> Outcome {
    let bench = Bench::new()?;
    let mut worker = Spoken::start(&bench)?;
    worker.hear()?;
    worker.ask(&json!({ "request": "stream", "buffer_bytes": 64 << 20, "passes": 2 }))?;
    let event = worker.hear()?;
    assert_eq!(event["event"], "streamed", "{event}");
    let passes = event["passes"].as_array().ok_or("no passes")?;
    // Two with each of three operations, each over all of the arrays.
    assert_eq!(passes.len(), 6, "{event}");
    for pass in passes {
        let (bytes, nanos) =
            (pass["bytes"].as_f64().ok_or("no bytes")?, pass["nanos"].as_f64().ok_or("no nanos")?);
        assert!(bytes >= f64::from(64 << 20), "{pass}");
        assert!((1e7..1e13).contains(&(bytes / nanos * 1e9)), "{pass}");
    }
    worker.ask(&json!({ "request": "finish" }))?;
    assert_eq!(worker.hear()?["event"], "done");
    Ok(())
}

#[test]
fn a_worker_ends_with_its_parent() -> Outcome {
    let bench = Bench::new()?;
    let mut worker = Spoken::start(&bench)?;
    assert_eq!(worker.hear()?["event"], "hello");
    drop(worker.child.stdin.take());
    let begun = Instant::now();
    while worker.child.try_wait()?.is_none() {
        assert!(begun.elapsed() < Duration::from_mins(1), "the worker outlives its parent");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
fn a_request_out_of_turn_is_answered_with_a_failure() -> Outcome {
    let bench = Bench::new()?;
    for request in [
        json!({ "request": "dance" }),
        json!({
            "request": "generate", "rep": 0, "prompt": { "synthetic": 3 }, "max_tokens": 2, "prefill_chunk": 4, "suppress_eos": true
        }),
    ] {
        let mut worker = Spoken::start(&bench)?;
        worker.hear()?;
        worker.ask(&request)?;
        assert_eq!(worker.hear()?["event"], "failed");
        worker.child.wait()?;
    }
    Ok(())
}

#[test]
fn the_program_knows_what_it_is_built_from_and_runs_on() -> Outcome {
    let bench = Bench::new()?;
    let output = bench.program().args(["version", "--json"]).output()?;
    let version: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(version.pointer("/executable/stamp/package"), Some(&json!("mlxcel-bench")));
    let library = version.pointer("/runtime/mlx_library").and_then(Value::as_str).ok_or("no library")?;
    assert!(Path::new(library).is_file(), "{library}");
    Ok(())
}

#[test]
fn a_copy_of_the_program_runs_from_another_folder() -> Outcome {
    let bench = Bench::new()?;
    let copy = bench.path("copy");
    // By a child, so that no other test's child holds the copy open for writing when it is started.
    let status = Command::new("cp").arg(env!("CARGO_BIN_EXE_mlxcel-bench")).arg(&copy).status()?;
    assert!(status.success());
    let output = Command::new(&copy).current_dir(bench.root.path()).arg("version").env_clear().output()?;
    assert!(output.status.success(), "{}", stderr(&output));
    Ok(())
}

/// The interpreter of the pinned environment; `None` where it was not made.
fn pinned_python() -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/oracle_env.sh");
    let output = Command::new(script).arg("--check").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("ready ").map(str::to_owned)
}

#[test]
fn mlx_lm_is_measured_in_the_same_sweep_with_the_same_tokens() -> Outcome {
    let Some(python) = pinned_python() else { return Ok(()) };
    let bench = Bench::new()?;
    tiny(&bench, "x")?;
    let reference = format!("mlx-lm={python}");
    let shape =
        ["all", "--prompt-tokens", "12", "--max-tokens", "6", "--reps", "2", "--reference", &reference];
    let output = sweep(&bench, &shape)?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let ours = mlxcel_reports::store::open(&bench.csv_of("cpu_")?.ok_or("no rows")?)?;
    let path = bench.csv_of("pylm_")?.ok_or_else(|| format!("no reference: {}", stderr(&output)))?;
    let reference = mlxcel_reports::store::open(&path)?;
    let (Some(our), Some(row)) = (ours.rows.first(), reference.rows.first()) else {
        return Err("a row is missing".into());
    };
    assert!(row.status().is_ok(), "{row:?}");
    let (our, identity) = (our.identity(), row.identity());
    assert!(identity.workload.prompt_sha256.agrees_with(&our.workload.prompt_sha256));
    let version = identity.build.baseline_version.as_known().ok_or("no version")?;
    assert!(version.starts_with("mlx-lm-"), "{version}");
    assert!(identity.build.mlx_version.is_known() && identity.build.libmlx_sha256.is_known());
    let verified = bench.program().arg("verify").arg(&path).output()?;
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    Ok(())
}

#[test]
fn loading_is_measured_beside_reading() -> Outcome {
    let bench = Bench::new()?;
    let folder = tiny(&bench, "tiny")?;
    let load = |flags: &[&str]| bench.program().args(["micro", "load"]).args(flags).arg(&folder).output();
    let output = load(&["--blocks", "2", "--format", "json"])?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reports: Value = serde_json::from_slice(&output.stdout)?;
    let times = |key: &str| -> Vec<f64> {
        reports[0][key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (loads, reads, ratios) = (times("load_ms"), times("read_ms"), times("ratios"));
    assert_eq!((loads.len(), reads.len(), ratios.len()), (4, 4, 2), "{reports}");
    assert!(((loads[2] + loads[3]) / (reads[2] + reads[3]) / ratios[1] - 1.0).abs() < 1e-9, "{reports}");
    let shard = folder.join("model.safetensors").metadata()?.len();
    assert_eq!(reports[0]["shard_bytes"], shard);
    #[cfg(target_os = "linux")]
    assert!(reports[0]["peak_memory_bytes"].as_u64().is_some_and(|peak| peak > shard), "{reports}");
    let output = load(&["--blocks", "1"])?;
    let table = String::from_utf8(output.stdout)?;
    assert!(
        table.starts_with("checkpoint") && table.lines().count() == 2 && table.contains("tiny"),
        "{table}"
    );
    std::fs::remove_file(folder.join("config.json"))?;
    let output = load(&[])?;
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("config.json"), "{}", stderr(&output));
    Ok(())
}
