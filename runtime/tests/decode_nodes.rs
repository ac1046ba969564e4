//! How many operations the graph of a decode step has where MLX's own operations compute: a backend that is bound by its
//! host is as slow as this graph is large.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn mlxcel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlxcel"));
    command.env("MLXCEL_CPU_KERNELS", "0");
    command
}

fn config(layers: u64) -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5, "vocab_size": 512,
        "rope_theta": 10000.0, "max_position_embeddings": 256, "tie_word_embeddings": true,
        "bos_token_id": 0, "eos_token_id": 1,
    })
}

/// The operations of a decode step of a synthetic model.
fn nodes(
    folder: &Path,
    layers: u64,
    form: &[&str],
) -> Result<BTreeMap<String, i64>, Box<dyn std::error::Error>> {
    let name = format!("{layers}{}", form.concat());
    let path = |suffix: &str| folder.join(format!("{name}{suffix}"));
    std::fs::write(path(".json"), config(layers).to_string())?;
    mlxcel()
        .args(["convert", "--seed", "1", "--dtype", "bf16", "--synthetic"])
        .arg(path(".json"))
        .arg("--output")
        .arg(path(""))
        .args(form)
        .assert()
        .success();
    std::fs::write(path(".ids.json"), r#"{"a": {"prompt": [5, 6, 7], "steps": [8, 9]}}"#)?;
    let output = mlxcel()
        .arg("logits")
        .arg("--model")
        .arg(path(""))
        .arg("--ids")
        .arg(path(".ids.json"))
        .arg("--out")
        .arg(path(".safetensors"))
        .output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    Ok(serde_json::from_value(told.get("decode_step_nodes").cloned().unwrap_or_default())?)
}

/// What one layer adds.
fn nodes_of_layer(form: &[&str]) -> Result<BTreeMap<String, i64>, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (two, mut three) = (nodes(folder.path(), 2, form)?, nodes(folder.path(), 3, form)?);
    for (name, count) in two {
        *three.entry(name).or_default() -= count;
    }
    three.retain(|_, count| *count != 0);
    Ok(three)
}

fn count(nodes: &BTreeMap<String, i64>, name: &str) -> i64 {
    nodes.get(name).copied().unwrap_or(0)
}

#[test]
fn a_layer_of_a_decode_step_is_four_products_one_split_and_one_write() -> Outcome {
    let layer = nodes_of_layer(&["--q-bits", "4", "--q-group-size", "64"])?;
    for (name, expected) in [("QuantizedMatmul", 4), ("Split", 1), ("SliceUpdate", 1), ("Sigmoid", 1)] {
        assert_eq!(count(&layer, name), expected, "{name} in {layer:?}");
    }
    Ok(())
}

#[test]
fn a_dense_layer_has_no_node_that_a_quantized_one_has_not() -> Outcome {
    let mut dense = nodes_of_layer(&[])?;
    let quantized = nodes_of_layer(&["--q-bits", "4", "--q-group-size", "64"])?;
    // Attention has products of its own on a processor.
    let attention = count(&quantized, "Matmul");
    assert_eq!(count(&dense, "Matmul") - attention, count(&quantized, "QuantizedMatmul"));
    dense.insert("Matmul".to_owned(), attention);
    dense.insert("QuantizedMatmul".to_owned(), count(&quantized, "QuantizedMatmul"));
    assert_eq!(dense, quantized, "views around a dense product would cost as much as small kernels");
    Ok(())
}

#[test]
fn ids_beyond_the_vocabulary_are_refused_in_words() -> Outcome {
    let folder = tempfile::tempdir()?;
    nodes(folder.path(), 2, &[])?;
    let ids = folder.path().join("beyond.json");
    std::fs::write(&ids, r#"{"a": {"prompt": [5, 512], "steps": []}}"#)?;
    let output = mlxcel()
        .arg("logits")
        .arg("--model")
        .arg(folder.path().join("2"))
        .arg("--ids")
        .arg(&ids)
        .arg("--out")
        .arg(folder.path().join("beyond.safetensors"))
        .output()?;
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("512") && said.contains("beyond the model's vocabulary"), "{said}");
    Ok(())
}
