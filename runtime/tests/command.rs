//! `mlxcel generate` and `mlxcel info` on a tiny checkpoint of random weights: what they print, and how they refuse.

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use predicates::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A checkpoint folder of its own for one test.
struct Checkpoint {
    _root: TempDir,
    dir: PathBuf,
}

fn config() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 320,
        "max_position_embeddings": 128, "rope_theta": 10000.0, "tie_word_embeddings": true,
    })
}

impl Checkpoint {
    fn new() -> Self {
        let root = TempDir::new().expect("OK because there is a temporary folder");
        let config_file = root.path().join("config.json");
        fs::write(&config_file, config().to_string()).expect("OK because the folder is ours");
        let dir = root.path().join("checkpoint");
        mlxcel()
            .arg("convert")
            .arg("--synthetic")
            .arg(&config_file)
            .args(["--seed", "7", "--dtype", "f32", "--output"])
            .arg(&dir)
            .assert()
            .success();
        Self { _root: root, dir }
    }

    /// Changes fields of the config, without touching the weights.
    fn with_config(self, fields: &Value) -> Self {
        let path = self.dir.join("config.json");
        let mut config: Value =
            serde_json::from_str(&self.read("config.json")).expect("OK because it was written as JSON");
        for (key, value) in fields.as_object().expect("OK because the tests pass objects") {
            config[key] = value.clone();
        }
        fs::write(path, config.to_string()).expect("OK because the folder is ours");
        self
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join(file)).expect("OK because the file is text")
    }

    fn generate(&self, arguments: &[&str]) -> Assert {
        mlxcel().arg("generate").arg("--model").arg(&self.dir).args(arguments).assert()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let assert = self.generate(&[arguments, &["--json"]].concat()).success();
        serde_json::from_slice(&assert.get_output().stdout).expect("OK because the command prints JSON")
    }

    /// The command fails as bad input, prints nothing on stdout, and says all of `words`.
    fn refuses(&self, arguments: &[&str], words: &[&str]) {
        let assert = self.generate(arguments).code(4).stdout("");
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
    }
}

fn mlxcel() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mlxcel"))
}

const HELLO: &[&str] = &["--prompt", "hello", "--raw", "--max-tokens", "8"];

#[test]
fn json_holds_ids_times_and_memory() {
    let run = Checkpoint::new().json(&["--prompt", "hello", "--raw", "-n", "6", "--ignore-eos"]);
    assert_eq!(run["tokens"].as_array().map(Vec::len), Some(6));
    assert_eq!(run["generated_tokens"], 6);
    assert_eq!(run["decode_steps"], 5);
    let times: Vec<u64> =
        serde_json::from_value(run["token_ns"].clone()).expect("OK because times are integers");
    assert_eq!(times.len(), 6);
    assert!(times.is_sorted(), "{times:?}");
    for key in ["load_ms", "prefill_ms", "prefill_tok_s", "decode_ms", "decode_tok_s"] {
        assert!(run[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {}", run[key]);
    }
    assert!(run["peak_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert_eq!(run["model"]["synthetic"], true);
}

#[test]
fn greedy_generations_repeat_and_do_not_depend_on_the_prefill_chunk() {
    let checkpoint = Checkpoint::new();
    let prompt = ["--prompt", "one two three four five six seven eight", "--raw", "-n", "12", "--ignore-eos"];
    let whole = checkpoint.json(&prompt);
    assert_eq!(whole["tokens"], checkpoint.json(&prompt)["tokens"]);
    let chunked = checkpoint.json(&[&prompt[..], &["--prefill-chunk", "3"]].concat());
    assert_eq!(whole["tokens"], chunked["tokens"]);
}

#[test]
fn a_seed_makes_a_choice_by_chance_repeatable() {
    let checkpoint = Checkpoint::new();
    let tokens = |seed: &str| {
        checkpoint.json(&[
            "--prompt",
            "hello",
            "--raw",
            "-n",
            "16",
            "--ignore-eos",
            "--temp",
            "1.5",
            "--seed",
            seed,
        ])["tokens"]
            .clone()
    };
    assert_eq!(tokens("3"), tokens("3"));
    assert_ne!(tokens("3"), tokens("4"));
}

#[test]
fn the_text_is_streamed_to_stdout_alone() {
    Checkpoint::new().generate(HELLO).success().stdout(predicate::str::ends_with("\n")).stderr("");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    mlxcel()
        .args(["generate", "--model", "no/such/folder", "--prompt", "x"])
        .assert()
        .code(4)
        .stdout("")
        .stderr(predicate::str::contains("no/such/folder"));
}

#[test]
fn a_config_that_is_missing_or_broken_is_named() {
    let checkpoint = Checkpoint::new();
    fs::write(checkpoint.dir.join("config.json"), "{").expect("OK because the folder is ours");
    checkpoint.refuses(HELLO, &["config.json", "EOF while parsing"]);
    fs::remove_file(checkpoint.dir.join("config.json")).expect("OK because the file is ours");
    checkpoint.refuses(HELLO, &["config.json"]);
}

#[test]
fn a_field_that_the_config_lacks_is_named() {
    Checkpoint::new()
        .with_config(&json!({"hidden_size": null}))
        .refuses(HELLO, &["config.json", "hidden_size"]);
    Checkpoint::new()
        .with_config(&json!({"num_key_value_heads": 3}))
        .refuses(HELLO, &["config.json", "num_key_value_heads", "does not divide"]);
}

#[test]
fn an_unknown_model_type_is_told_the_known_ones() {
    Checkpoint::new()
        .with_config(&json!({"model_type": "pelican"}))
        .refuses(HELLO, &["`pelican`", "gemma3_text", "llama", "qwen2", "qwen3"]);
}

#[test]
fn tensors_that_do_not_fit_are_reported_together() {
    let checkpoint =
        Checkpoint::new().with_config(&json!({"num_hidden_layers": 3, "intermediate_size": 128}));
    checkpoint.refuses(
        HELLO,
        &[
            "missing: model.layers.2.self_attn.q_proj.weight",
            "shape: model.layers.0.mlp.down_proj.weight is [64, 96], expected [64, 128]",
            "shape: model.layers.1.mlp.up_proj.weight",
        ],
    );
    Checkpoint::new()
        .with_config(&json!({"num_hidden_layers": 1}))
        .refuses(HELLO, &["unexpected: model.layers.1.input_layernorm.weight"]);
}

#[test]
fn a_truncated_weight_file_is_named() {
    let checkpoint = Checkpoint::new();
    let path = checkpoint.dir.join("model.safetensors");
    let bytes = fs::read(&path).expect("OK because one file holds the weights");
    fs::write(&path, &bytes[..bytes.len() - 100]).expect("OK because the folder is ours");
    checkpoint.refuses(HELLO, &["model.safetensors"]);
}

#[test]
fn quantization_out_of_range_is_named() {
    Checkpoint::new()
        .with_config(&json!({"quantization": {"group_size": 64, "bits": 7}}))
        .refuses(HELLO, &["config.json", "bits", "7"]);
}

#[test]
fn a_folder_without_a_tokenizer_says_what_is_missing() {
    let checkpoint = Checkpoint::new();
    fs::remove_file(checkpoint.dir.join("tokenizer.json")).expect("OK because the file is ours");
    checkpoint.refuses(HELLO, &["tokenizer.json"]);
    mlxcel()
        .arg("info")
        .arg("--model")
        .arg(&checkpoint.dir)
        .assert()
        .success()
        .stdout(predicate::str::contains("tokenizer.json"));
}

#[test]
fn a_broken_chat_template_is_named_and_raw_text_still_works() {
    let checkpoint = Checkpoint::new();
    fs::write(checkpoint.dir.join("chat_template.jinja"), "{% for %}")
        .expect("OK because the folder is ours");
    checkpoint.refuses(&["--prompt", "hello", "--chat"], &["chat_template.jinja"]);
    checkpoint.generate(HELLO).success();
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_all_three_numbers() {
    let long = "word ".repeat(200);
    let checkpoint = Checkpoint::new();
    checkpoint.refuses(&["--prompt", &long, "--raw"], &["context of 128", "1 to generate"]);
    checkpoint.refuses(&["--prompt", "hello", "--raw", "-n", "500"], &["context of 128", "500 to generate"]);
}

#[test]
fn an_empty_prompt_is_bad_input_and_no_tokens_a_usage_error() {
    let checkpoint = Checkpoint::new();
    checkpoint.refuses(&["--prompt", ""], &["prompt is empty"]);
    checkpoint
        .generate(&["--prompt", "hello", "-n", "0"])
        .code(64)
        .stdout("")
        .stderr(predicate::str::contains("at least 1"));
}

#[test]
fn an_image_is_refused_by_a_text_model() {
    Checkpoint::new().refuses(&["--prompt", "hello", "--image", "x.png"], &["`llama` is a text model"]);
}

#[test]
fn sampling_options_out_of_range_are_named() {
    Checkpoint::new().refuses(&["--prompt", "hello", "--top-p", "1.5"], &["top_p is 1.5"]);
    Checkpoint::new().refuses(&["--prompt", "hello", "--temp=-1"], &["temperature is -1"]);
}

#[test]
fn info_tells_what_the_folder_holds() {
    let checkpoint = Checkpoint::new();
    let assert = mlxcel().args(["info", "--json", "--model"]).arg(&checkpoint.dir).assert().success();
    let info: Value =
        serde_json::from_slice(&assert.get_output().stdout).expect("OK because the command prints JSON");
    // 320 × 64 embeddings; a layer: 64 × (64 + 32 + 32) + 64 × 64 + 3 × 64 × 96 + 2 × 64; and the last norm.
    assert_eq!(info["parameters"], 20_480 + 2 * (8_192 + 4_096 + 18_432 + 128) + 64);
    assert_eq!(info["weight_bytes"], (20_480 + 2 * 30_848 + 64) * 4);
    assert_eq!(info["bits_per_weight"], 32.0);
    assert_eq!(info["context_length"], 128);
    assert_eq!(info["model_type"], "llama");
    let text = mlxcel().arg("info").arg("--model").arg(Path::new(&checkpoint.dir)).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(text.contains("parameters       82,240"), "{text}");
    assert!(text.contains("synthetic"), "{text}");
}
