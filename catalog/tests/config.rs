//! `config.json` and its quantization block, good and bad.

mod support;

use mlxcel_catalog::config::{
    Config, ConfigError, LayerQuantization, QuantizationError, QuantizationMode, QuantizationSpec,
};
use proptest::prelude::*;
use serde_json::json;
use support::{Folder, assert_says};

fn read(text: &str) -> Result<Config, ConfigError> {
    let folder = Folder::empty().file("config.json", text);
    Config::read(folder.path())
}

fn with(key: &str, block: &serde_json::Value) -> Result<Config, ConfigError> {
    read(&json!({"model_type": "llama", key: block}).to_string())
}

#[track_caller]
fn quantization_fault(key: &str, block: &serde_json::Value) -> QuantizationError {
    let error = with(key, block).expect_err("the block is wrong");
    assert_says(&error, &["config.json: "]);
    match error {
        ConfigError::Quantization { source, .. } => source,
        other => panic!("{other}"),
    }
}

const fn spec(mode: QuantizationMode, bits: u32, group_size: u32) -> QuantizationSpec {
    QuantizationSpec { mode, bits, group_size }
}

#[test]
fn reads_the_object_and_the_model_type() {
    let config = read(r#"{"vocab_size":7,"model_type":"qwen3","a":null}"#).expect("a good config");
    assert_eq!(config.model_type(), "qwen3");
    assert_eq!(config.raw().keys().collect::<Vec<_>>(), ["vocab_size", "model_type", "a"]);
    assert!(config.quantization().is_none());
}

#[test]
fn tells_apart_what_is_missing_and_says_what_to_do() {
    let folder = Folder::empty();
    let missing = folder.join("nowhere");
    let error = Config::read(&missing).expect_err("no folder");
    assert!(matches!(error, ConfigError::NoFolder { ref path } if *path == missing));
    assert_says(&error, &["nowhere", "no such folder", "give the folder"]);

    let error = Config::read(folder.path()).expect_err("no config");
    assert!(matches!(error, ConfigError::NoConfig { .. }));
    assert_says(&error, &[&folder.path().display().to_string(), "no config.json"]);

    let folder = folder.file("plain", "");
    let error = Config::read(&folder.join("plain")).expect_err("a file");
    assert!(matches!(error, ConfigError::NotAFolder { .. }), "{error}");
}

#[test]
fn refuses_what_is_not_a_configuration() {
    for text in ["", "{", "{\"model_type\":\"llama\",}", "{\"a\":NaN}", "\u{feff}{}"] {
        let error = read(text).expect_err("not JSON");
        assert!(matches!(error, ConfigError::NotJson { .. }), "{text}: {error}");
        assert_says(&error, &["config.json", "is not JSON"]);
    }
    assert_says(&read("[1]").expect_err("no object"), &["config.json", "an array"]);
    assert!(matches!(read("{}"), Err(ConfigError::NoModelType { .. })));
    for text in [r#"{"model_type":7}"#, r#"{"model_type":null}"#, r#"{"model_type":""}"#] {
        assert!(matches!(read(text), Err(ConfigError::BadModelType { .. })), "{text}");
    }
}

#[test]
fn refuses_deep_nesting_without_using_up_the_stack() {
    let text = format!(r#"{{"model_type":{}{}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    assert!(matches!(read(&text), Err(ConfigError::NotJson { .. })));
}

#[test]
fn reads_every_allowed_width_and_refuses_every_other() {
    for mode in QuantizationMode::ALL {
        for bits in 0..=16 {
            for group_size in [0, 8, 16, 32, 64, 128, 256] {
                let block = json!({"mode": mode.name(), "bits": bits, "group_size": group_size});
                let allowed = match mode {
                    QuantizationMode::Affine => {
                        [2, 3, 4, 5, 6, 8].contains(&bits) && [32, 64, 128].contains(&group_size)
                    }
                    QuantizationMode::Mxfp4 => (bits, group_size) == (4, 32),
                    QuantizationMode::Mxfp8 => (bits, group_size) == (8, 32),
                    QuantizationMode::Nvfp4 => (bits, group_size) == (4, 16),
                };
                match with("quantization", &block) {
                    Ok(config) => {
                        assert!(allowed, "{block}");
                        let read = config.quantization().expect("a block");
                        assert_eq!(read.default, spec(*mode, bits, group_size));
                        assert!(read.overrides.is_empty());
                    }
                    Err(error) => {
                        assert!(!allowed, "{block}: {error}");
                        assert_says(&error, &["must be one of", mode.name()]);
                    }
                }
            }
        }
    }
}

#[test]
fn reads_overrides_of_single_layers() {
    let block = json!({
        "group_size": 64, "bits": 4, "mode": "affine",
        "model.embed_tokens": {"group_size": 32, "bits": 8},
        "model.layers.0.mlp.down_proj": {"bits": 6},
        "model.layers.1.mlp.down_proj": {"mode": "nvfp4"},
        "model.norm": false,
        "lm_head": true,
    });
    let config = with("quantization", &block).expect("a good block");
    let read = config.quantization().expect("a block");
    let affine =
        |bits, group_size| LayerQuantization::Quantized(spec(QuantizationMode::Affine, bits, group_size));
    assert_eq!(read.for_layer("model.embed_tokens"), affine(8, 32));
    assert_eq!(read.for_layer("model.layers.0.mlp.down_proj"), affine(6, 64));
    let nvfp4 = LayerQuantization::Quantized(spec(QuantizationMode::Nvfp4, 4, 16));
    assert_eq!(read.for_layer("model.layers.1.mlp.down_proj"), nvfp4);
    assert_eq!(read.for_layer("model.norm"), LayerQuantization::Dense);
    assert_eq!(read.for_layer("lm_head"), affine(4, 64));
    assert_eq!(read.for_layer("model.layers.7.mlp.up_proj"), affine(4, 64));
    assert_eq!(read.overrides.len(), 5);
}

#[test]
fn an_override_without_mode_is_affine_as_mlx_reads_it() {
    let block =
        json!({"group_size": 32, "bits": 4, "mode": "mxfp4", "lm_head": {"group_size": 64, "bits": 8}});
    let config = with("quantization", &block).expect("a good block");
    let read = config.quantization().expect("a block");
    assert_eq!(read.default.mode, QuantizationMode::Mxfp4);
    assert_eq!(
        read.for_layer("lm_head"),
        LayerQuantization::Quantized(spec(QuantizationMode::Affine, 8, 64))
    );
}

#[test]
fn names_the_field_and_layer_that_are_wrong() {
    let fault = quantization_fault("quantization", &json!({"group_size": 64, "bits": 7}));
    assert_says(&fault, &["quantization has bits 7", "affine", "2, 3, 4, 5, 6, 8"]);
    let fault = quantization_fault(
        "quantization",
        &json!({"group_size": 64, "bits": 4, "lm_head": {"group_size": 48}}),
    );
    assert_says(&fault, &["quantization[\"lm_head\"]", "group_size 48", "32, 64, 128"]);
    let fault = quantization_fault("quantization", &json!({"bits": 4}));
    assert_says(&fault, &["lacks group_size", "32, 64, 128"]);
    let fault = quantization_fault("quantization", &json!({"group_size": 64, "bits": 4, "mode": "mxfp5"}));
    assert_says(&fault, &["mode \"mxfp5\"", "affine, mxfp4, mxfp8, nvfp4"]);
    let fault = quantization_fault("quantization", &json!({"group_size": 64, "bits": 4, "lm_head": 8}));
    assert_says(&fault, &["quantization[\"lm_head\"] is 8"]);
    for bits in [json!("4"), json!(4.5), json!(-4), json!(4_294_967_300_u64), json!(null)] {
        assert!(with("quantization", &json!({"group_size": 64, "bits": bits})).is_err(), "{bits}");
    }
}

#[test]
fn refuses_blocks_that_are_no_objects() {
    for block in [json!(4), json!("4bit"), json!([]), json!(true)] {
        assert!(matches!(quantization_fault("quantization", &block), QuantizationError::NotAnObject { .. }));
    }
    assert!(with("quantization", &json!(null)).expect("null is none").quantization().is_none());
}

#[test]
fn refuses_quantizations_of_other_systems_unless_mlx_s_is_there_too() {
    for method in ["gptq", "awq", "bitsandbytes", "fp8", "compressed-tensors", "mxfp4"] {
        let block = json!({"quant_method": method, "bits": 4, "group_size": 128});
        let fault = quantization_fault("quantization_config", &block);
        assert_says(&fault, &[method, "not an MLX quantization", "convert"]);
        let both = json!({
            "model_type": "llama", "quantization_config": block, "quantization": {"bits": 4, "group_size": 64},
        });
        let config = read(&both.to_string()).expect("MLX's own block is there");
        assert_eq!(config.quantization().map(|read| read.default.group_size), Some(64));
    }
}

#[test]
fn reads_mlx_s_copy_of_the_block_under_the_other_name() {
    let config = with("quantization_config", &json!({"group_size": 128, "bits": 3})).expect("a good block");
    assert_eq!(config.quantization().map(|read| read.default), Some(spec(QuantizationMode::Affine, 3, 128)));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}\":,0-9a-z\\-]{0,60}") {
        if let Ok(config) = read(&text) {
            prop_assert!(!config.model_type().is_empty());
        }
    }

    #[test]
    fn a_block_that_is_read_holds_only_allowed_widths(bits in -2_i64..20, group_size in -2_i64..200, mode in "affine|mxfp4|mxfp8|nvfp4|other") {
        let block = json!({"bits": bits, "group_size": group_size, "mode": mode});
        if let Ok(config) = with("quantization", &block) {
            let read = config.quantization().expect("a block").default;
            prop_assert!(read.mode.allowed_bits().contains(&read.bits));
            prop_assert!(read.mode.allowed_group_sizes().contains(&read.group_size));
            prop_assert_eq!((i64::from(read.bits), i64::from(read.group_size)), (bits, group_size));
        }
    }
}
