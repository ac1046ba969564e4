//! Bad input: each gives one clear error with the path and the remedy, its exit code, and no file.

mod common;

use std::fs;
use std::io;
use std::path::Path;
use std::process::Output;

use common::{Bench, Outcome, failed, good, hello, stderr};

fn run(bench: &Bench, arguments: &[&str]) -> io::Result<Output> {
    bench.sweep(&good(3), arguments)?.output()
}

/// The sweep ended with `code`, said every one of `words`, printed no result and left no file.
fn refused(bench: &Bench, output: &Output, code: i32, words: &[&str]) -> Outcome {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(!bench.out().exists(), "{:?}", bench.files()?);
    Ok(())
}

#[test]
fn no_such_folder() -> Outcome {
    let bench = Bench::new()?;
    refused(&bench, &run(&bench, &["models/absent"])?, 4, &["models/absent", "does not exist"])
}

#[test]
fn no_such_models_folder() -> Outcome {
    let bench = Bench::new()?;
    refused(&bench, &run(&bench, &["all", "--models", "absent"])?, 4, &["absent", "does not exist"])
}

#[test]
fn a_file_instead_of_a_folder() -> Outcome {
    let bench = Bench::new()?;
    fs::write(bench.path("model.gguf"), "")?;
    refused(&bench, &run(&bench, &["model.gguf"])?, 4, &["model.gguf", "not a folder"])
}

#[test]
fn a_folder_without_a_config() -> Outcome {
    let bench = Bench::new()?;
    fs::create_dir(bench.path("models/x"))?;
    refused(&bench, &run(&bench, &["models/x"])?, 4, &["models/x", "config.json"])
}

#[test]
fn a_models_folder_without_a_checkpoint() -> Outcome {
    let bench = Bench::new()?;
    fs::create_dir(bench.path("models/x"))?;
    refused(&bench, &run(&bench, &["all"])?, 4, &["none of the 1 folders", "models"])
}

#[test]
fn a_config_that_is_not_json() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint("x")?;
    fs::write(folder.join("config.json"), "{\"model_type\": ")?;
    refused(&bench, &run(&bench, &["models/x"])?, 4, &["config.json"])
}

#[test]
fn a_config_without_a_model_type() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint("x")?;
    fs::write(folder.join("config.json"), "{}")?;
    refused(&bench, &run(&bench, &["models/x"])?, 4, &["config.json", "model_type"])
}

#[test]
fn truncated_weights() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint("x")?;
    let path = folder.join("model.safetensors");
    let bytes = fs::read(&path)?;
    fs::write(&path, bytes.get(..bytes.len() - 1).unwrap_or_default())?;
    refused(&bench, &run(&bench, &["models/x"])?, 4, &["model.safetensors"])
}

#[test]
fn an_oversized_header() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint("x")?;
    fs::write(folder.join("model.safetensors"), u64::MAX.to_le_bytes())?;
    refused(&bench, &run(&bench, &["models/x"])?, 4, &["model.safetensors"])
}

#[test]
fn an_index_that_names_missing_shards() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint("x")?;
    let index =
        r#"{"weight_map":{"model.norm.weight":"model.safetensors","a":"model-00002-of-00002.safetensors"}}"#;
    fs::write(folder.join("model.safetensors.index.json"), index)?;
    refused(&bench, &run(&bench, &["models/x"])?, 4, &["model-00002-of-00002.safetensors"])
}

#[test]
fn quantization_fields_out_of_range() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint("x")?;
    fs::write(
        folder.join("config.json"),
        r#"{"model_type":"llama","quantization":{"bits":7,"group_size":64}}"#,
    )?;
    refused(&bench, &run(&bench, &["models/x"])?, 4, &["config.json", "7"])
}

#[test]
fn what_the_worker_finds_wrong_with_the_checkpoint_is_the_error_and_no_row() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let script =
        hello() + &failed("load", "bad_input", "models/x: unknown model_type, known are llama, qwen2");
    let output = bench.sweep(&script, &["models/x"])?.output()?;
    refused(&bench, &output, 4, &["unknown model_type", "qwen2"])
}

#[test]
fn counts_of_nothing_are_usage_errors() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    for (arguments, words) in [
        (["sweep", "models/x", "--max-tokens", "0"], "--max-tokens"),
        (["sweep", "models/x", "--prompt-tokens", "0"], "--prompt-tokens"),
        (["sweep", "models/x", "--reps", "0"], "--reps"),
        (["sweep", "models/x", "--no-such-flag", "1"], "--no-such-flag"),
    ] {
        let output = bench.program().args(arguments).output()?;
        refused(&bench, &output, 64, &[words])?;
    }
    let output = bench.program().output()?;
    refused(&bench, &output, 64, &["Usage"])
}

#[test]
fn unknown_names_of_modes_are_usage_errors_that_list_the_known_ones() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    for (flag, value, known) in [
        ("--order", "alphabet", "size, name"),
        ("--dedup", "weights", "none, path, config, headers, content"),
        ("--format", "yaml", "table, json"),
        ("--reference", "llama.cpp", "mlx-lm"),
        ("--cooldown", "soon", "auto"),
        ("--max-spread", "wide", "number"),
        ("--quiet-hold", "-1", "number of seconds"),
    ] {
        let output = bench.program().args(["sweep", "models/x", &format!("{flag}={value}")]).output()?;
        refused(&bench, &output, 64, &[flag, known])?;
    }
    Ok(())
}

#[test]
fn an_output_folder_that_is_a_file() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    fs::write(bench.path("taken"), "")?;
    refused(&bench, &run(&bench, &["models/x", "--out", "taken"])?, 4, &["taken", "is a file", "--out"])?;
    assert_eq!(fs::read(bench.path("taken"))?, b"");
    Ok(())
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_folder_that_takes_no_files() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    // A place where not even a privileged user can make a file.
    refused(
        &bench,
        &run(&bench, &["models/x", "--out", "/proc/results"])?,
        4,
        &["/proc/results", "takes no files", "--out"],
    )
}

#[test]
fn a_worker_that_cannot_start_is_an_error_before_anything_is_written() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let output = bench.sweep("echo 'libmlx is missing' >&2; exit 7\n", &["models/x"])?.output()?;
    refused(&bench, &output, 4, &["exit code 7", "libmlx is missing"])
}

#[test]
fn a_program_that_is_not_built_from_the_tree_is_refused_with_every_difference() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    // A checkout of this project with other sources than the program was built from.
    fs::create_dir_all(bench.path("harness/src"))?;
    fs::write(bench.path("harness/Cargo.toml"), "[package]\nname = \"mlxcel-bench\"\n")?;
    fs::write(bench.path("harness/src/extra.rs"), "")?;
    let output = bench.sweep(&good(3), &["models/x"])?.env_remove("BENCH_ALLOW_STALE_BINARY").output()?;
    let words = [
        "harness/src/extra.rs",
        "harness/Cargo.toml changed",
        "runtime/build.rs is gone",
        "BENCH_ALLOW_STALE_BINARY=1",
    ];
    refused(&bench, &output, 2, &words)?;
    // Only "1" allows it.
    let output = bench.sweep(&good(3), &["models/x"])?.env("BENCH_ALLOW_STALE_BINARY", "yes").output()?;
    refused(&bench, &output, 2, &["refused"])
}

#[test]
fn help_names_the_defaults_the_program_uses() -> Outcome {
    let bench = Bench::new()?;
    let output = bench.program().args(["sweep", "--help"]).output()?;
    let help = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(0));
    for word in
        ["[default: 3]", "[default: 2048]", "[default: models]", "[default: benchmarks]", "Exit codes"]
    {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert!(!help.contains("worker-program"));
    assert!(Path::new(env!("CARGO_BIN_EXE_mlxcel-bench")).exists());
    Ok(())
}
