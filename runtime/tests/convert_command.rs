//! `mlxcel convert` as a program: what it prints, where, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

mod convert_support;

use std::fs;

use assert_cmd::Command;
use convert_support::small_gguf;
use mlxcel::convert::gguf::BlockType;
use predicates::prelude::*;

fn mlxcel() -> Command {
    let mut command = Command::cargo_bin("mlxcel").unwrap();
    command.arg("convert");
    command
}

#[test]
fn a_conversion_reports_on_standard_output_and_keeps_standard_error_quiet() {
    let room = tempfile::tempdir().unwrap();
    let input = small_gguf("llama", &[BlockType::Q4_1]).write(room.path());
    let output = room.path().join("out");
    let assert =
        mlxcel().arg(&input).arg("-o").arg(&output).args(["--lossless", "--json"]).assert().success();
    let report: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(report["quantization"]["bits"], 4);
    assert_eq!(report["dtype"], "f16");
    assert!(assert.get_output().stderr.is_empty());
    let mut names: Vec<_> = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]);
}

#[test]
fn exit_codes_tell_bad_input_from_a_refused_output_and_from_usage() {
    let room = tempfile::tempdir().unwrap();
    let input = small_gguf("llama", &[BlockType::Q4_1]).write(room.path());
    let output = room.path().join("out");
    let missing = room.path().join("missing.gguf");
    mlxcel()
        .arg(&missing)
        .arg("-o")
        .arg(&output)
        .assert()
        .code(4)
        .stderr(predicate::str::contains("missing.gguf"));
    // The folder of the input is not empty.
    mlxcel()
        .arg(&input)
        .arg("-o")
        .arg(room.path())
        .assert()
        .code(2)
        .stderr(predicate::str::contains("not empty"));
    let below_a_file = input.join("out");
    mlxcel().arg(&input).arg("-o").arg(&below_a_file).assert().code(2).stdout("");
    mlxcel().arg("-o").arg(&output).assert().code(64);
    mlxcel().arg(&input).arg("-o").arg(&output).args(["--q-bits", "7"]).assert().code(64);
    mlxcel().arg(&input).arg("-o").arg(&output).args(["--lossless", "--q-bits", "4"]).assert().code(64);
    mlxcel().arg("--synthetic").arg(&input).arg("-o").arg(&output).assert().code(64);
    assert!(!output.exists());
}

#[test]
fn a_synthetic_checkpoint_is_made_from_a_configuration_alone() {
    let room = tempfile::tempdir().unwrap();
    let config = room.path().join("config.json");
    let text = r#"{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 2, "head_dim": 32, "vocab_size": 300, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "max_position_embeddings": 128}"#;
    fs::write(&config, text).unwrap();
    let output = room.path().join("out");
    let run = || {
        let mut command = mlxcel();
        command.arg("--synthetic").arg(&config).args(["--seed", "5", "--q-bits", "4", "-o"]).arg(&output);
        command
    };
    run().assert().success().stdout(predicate::str::contains("qwen3"));
    run().assert().code(2);
    let mut info = Command::cargo_bin("mlxcel").unwrap();
    info.args(["info", "--json", "-m"]).arg(&output);
    info.assert().success().stdout(predicate::str::contains("\"synthetic\": true"));
    fs::write(&config, "{").unwrap();
    let mut broken = mlxcel();
    broken.arg("--synthetic").arg(&config).args(["--seed", "5", "-o"]).arg(room.path().join("b"));
    broken.assert().code(4).stderr(predicate::str::contains("not JSON"));
}
