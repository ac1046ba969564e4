//! Whole conversions: what stands in the output folder, value by value, and what happens when something is wrong.
#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

mod convert_support;

use std::collections::BTreeMap;
use std::fs;

use convert_support::room::{REPACKABLE, Room, Tensor, config, floats, load, small_config, tensors};
use convert_support::{HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS, Meta, VOCAB, small_gguf};
use mlx_rs::Array;
use mlxcel::convert::gguf::BlockType;
use mlxcel::convert::gguf::dequantize::dequantize;
use mlxcel::convert::{ConvertInput, FloatDtype, OutputMode, SyntheticConfig};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::headers::Dtype;
use serde_json::{Value, json};

/// What MLX makes of a quantized tensor, its scales taken to `f32` first.
fn mlx_values(tensors: &BTreeMap<String, Tensor>, module: &str, spec: QuantizationSpec) -> Vec<f32> {
    let axes = |shape: &[usize]| shape.iter().map(|&axis| i32::try_from(axis).unwrap()).collect::<Vec<_>>();
    let (_, shape, bytes) = &tensors[&format!("{module}.weight")];
    let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let weight = Array::from_slice(&words, &axes(shape));
    let float = |name: &str| {
        let tensor = &tensors[&format!("{module}.{name}")];
        Array::from_slice(&floats(tensor), &axes(&tensor.1))
    };
    let biases = float("biases");
    let (group_size, bits) = (i32::try_from(spec.group_size).unwrap(), i32::try_from(spec.bits).unwrap());
    let values = mlx_rs::ops::dequantize(&weight, float("scales"), &biases, group_size, bits).unwrap();
    values.try_as_slice::<f32>().unwrap().to_vec()
}

/// The values that a tensor of the small GGUF model should have in the output, by its name there; written apart from
/// the converter, with the two traps: interleaved rows for llama, norms plus one for Gemma.
fn expected(architecture: &str, types: &[BlockType]) -> BTreeMap<String, Vec<f32>> {
    let mut all = BTreeMap::new();
    for (name, shape, block_type, data) in small_gguf(architecture, types).tensors {
        let mut values = Vec::new();
        dequantize(block_type, &data, &mut values);
        let heads = if name.contains("attn_q.") { HEADS } else { KV_HEADS };
        if architecture == "llama" && (name.contains("attn_q.") || name.contains("attn_k.")) {
            let (columns, half) = (shape[1], HEAD_DIM / 2);
            let old = values.clone();
            for head in 0..heads {
                for side in 0..2 {
                    for row in 0..half {
                        let to = (head * HEAD_DIM + side * half + row) * columns;
                        let from = (head * HEAD_DIM + 2 * row + side) * columns;
                        values[to..to + columns].copy_from_slice(&old[from..from + columns]);
                    }
                }
            }
        }
        if architecture == "gemma3" && name.contains("norm") {
            for value in &mut values {
                *value -= 1.0;
            }
        }
        let gemma = architecture == "gemma3";
        let renamed = match name.split_once('.').unwrap() {
            ("token_embd", rest) => format!("model.embed_tokens.{rest}"),
            ("output_norm", rest) => format!("model.norm.{rest}"),
            (_, rest) => {
                let (layer, rest) = rest.split_once('.').unwrap();
                let (part, rest) = rest.split_once('.').unwrap();
                let part = match part {
                    "attn_norm" => "input_layernorm",
                    "ffn_norm" if gemma => "pre_feedforward_layernorm",
                    "ffn_norm" | "post_attention_norm" => "post_attention_layernorm",
                    "post_ffw_norm" => "post_feedforward_layernorm",
                    "attn_q" => "self_attn.q_proj",
                    "attn_k" => "self_attn.k_proj",
                    "attn_v" => "self_attn.v_proj",
                    "attn_output" => "self_attn.o_proj",
                    "attn_q_norm" => "self_attn.q_norm",
                    "attn_k_norm" => "self_attn.k_norm",
                    "ffn_gate" => "mlp.gate_proj",
                    "ffn_up" => "mlp.up_proj",
                    "ffn_down" => "mlp.down_proj",
                    other => panic!("{other}"),
                };
                format!("model.layers.{layer}.{part}.{rest}")
            }
        };
        all.insert(renamed, values);
    }
    all
}

#[test]
fn dense_conversion_keeps_every_value_and_the_runtime_loads_it() {
    for architecture in ["llama", "qwen2", "qwen3", "gemma3"] {
        let room = Room::new();
        let input = room.gguf(architecture, &REPACKABLE);
        let report = room.convert(input, "out", OutputMode::Dense, FloatDtype::F32);
        let found = tensors(&room.path("out"));
        let expected = expected(architecture, &REPACKABLE);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{architecture}");
        for (name, values) in &expected {
            assert!(&floats(&found[name]) == values, "{architecture}: {name}");
        }
        let model = load(&room.path("out"));
        assert_eq!(model.summary().parameters, report.parameters, "{architecture}");
        assert_eq!(model.summary().vocab_size, VOCAB);
    }
}

#[test]
fn lossless_repacking_differs_nowhere_from_the_gguf_values() {
    for (architecture, dtype) in [
        ("llama", FloatDtype::F16),
        ("llama", FloatDtype::F32),
        ("qwen3", FloatDtype::F16),
        ("gemma3", FloatDtype::F32),
    ] {
        let room = Room::new();
        let input = room.gguf(architecture, &REPACKABLE);
        let report = room.convert(input, "out", OutputMode::Lossless, dtype);
        assert_eq!(report.quantized_layers, 1 + 7 * LAYERS);
        let found = tensors(&room.path("out"));
        let checkpoint = CheckpointFolder::open(&room.path("out")).unwrap();
        let quantization = checkpoint.config().quantization().unwrap();
        let mut widths = std::collections::BTreeSet::new();
        for (name, values) in expected(architecture, &REPACKABLE) {
            let module = name.strip_suffix(".weight").unwrap();
            if !found.contains_key(&format!("{module}.scales")) {
                assert!(floats(&found[&name]) == values, "{architecture}: {name}");
                continue;
            }
            let mlxcel_catalog::config::LayerQuantization::Quantized(spec) = quantization.for_layer(module)
            else {
                panic!("{module} has scales but is dense")
            };
            widths.insert(spec.bits);
            let largest = mlx_values(&found, module, spec)
                .iter()
                .zip(&values)
                .map(|(found, expected)| (found - expected).abs())
                .fold(0.0_f32, f32::max);
            assert!(largest == 0.0, "{architecture}: {name} differs by {largest}");
        }
        assert_eq!(widths.into_iter().collect::<Vec<_>>(), [4, 5, 8]);
        load(&room.path("out"));
    }
}

#[test]
fn the_configuration_has_the_fields_of_the_checkpoint() {
    let room = Room::new();
    let mut maker = small_gguf("llama", &[BlockType::F16]);
    maker
        .set("llama.rope.scaling.type", Meta::Text("linear".to_owned()))
        .set("llama.rope.scaling.factor", Meta::F32(2.0))
        .set("tokenizer.ggml.eot_token_id", Meta::U32(302));
    let input = ConvertInput::Gguf(maker.write(room.0.path()));
    room.convert(input, "out", OutputMode::Dense, FloatDtype::F16);
    let mut config = config(&room.path("out"));
    // Not the order of the fields but their values count.
    config.as_object_mut().unwrap().sort_keys();
    let mut expected = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": 96, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "max_position_embeddings": 512,
        "vocab_size": VOCAB, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
        "hidden_act": "silu", "bos_token_id": 300, "eos_token_id": [301, 302], "torch_dtype": "float16",
    });
    expected.as_object_mut().unwrap().sort_keys();
    assert_eq!(config, expected);
}

#[test]
fn llama3_rope_factors_become_their_parameters_and_unexplained_ones_an_error() {
    // Factors by Llama 3.2's parameters (factor 32, 1, 4, 8192) for theta 500,000 and a head of 32.
    let factors: Vec<f32> = (0..HEAD_DIM / 2)
        .map(|pair| {
            let wavelength = std::f64::consts::TAU * 500_000_f64.powf(2.0 * pair as f64 / HEAD_DIM as f64);
            let smooth = ((8192.0 / wavelength - 1.0) / 3.0).clamp(0.0, 1.0);
            let factor = 1.0 / ((1.0 - smooth) / 32.0 + smooth);
            factor.to_string().parse().unwrap()
        })
        .collect();
    let maker = |factors: &[f32]| {
        let mut maker = small_gguf("llama", &[BlockType::F16]);
        maker.set("llama.rope.freq_base", Meta::F32(500_000.0));
        let data = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
        maker.tensor("rope_freqs.weight", &[factors.len()], BlockType::F32, data);
        maker
    };
    let room = Room::new();
    let input = ConvertInput::Gguf(maker(&factors).write(room.0.path()));
    room.convert(input, "out", OutputMode::Dense, FloatDtype::F16);
    let scaling = json!({
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    assert_eq!(config(&room.path("out"))["rope_scaling"], scaling);

    let mut odd = factors;
    odd[3] = 1.7;
    let room = Room::new();
    let input = ConvertInput::Gguf(maker(&odd).write(room.0.path()));
    let error = room.try_convert(input, "out", OutputMode::Dense, FloatDtype::F16).unwrap_err();
    assert!(error.to_string().contains("rope_freqs.weight"), "{error}");
}

#[test]
fn quantization_is_mlx_s_own_whatever_the_pieces() {
    let room = Room::new();
    let dense = |output: &str| {
        let input = room.gguf("llama", &[BlockType::F32]);
        room.convert(input, output, OutputMode::Dense, FloatDtype::F32);
    };
    dense("dense");
    let dense = tensors(&room.path("dense"));
    for bits in [2, 3, 4, 5, 6, 8] {
        let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size: 32 };
        let output = format!("q{bits}");
        let input = ConvertInput::Safetensors(room.path("dense"));
        room.convert(input, &output, OutputMode::Quantized(spec), FloatDtype::F32);
        let found = tensors(&room.path(&output));
        for module in ["model.embed_tokens", "model.layers.1.mlp.down_proj"] {
            let (_, shape, _) = &dense[&format!("{module}.weight")];
            let axes: Vec<i32> = shape.iter().map(|&axis| i32::try_from(axis).unwrap()).collect();
            let whole = Array::from_slice(&floats(&dense[&format!("{module}.weight")]), &axes);
            let (codes, scales, biases) =
                mlx_rs::ops::quantize(&whole, 32, i32::try_from(bits).unwrap()).unwrap();
            let codes: Vec<u8> =
                codes.try_as_slice::<u32>().unwrap().iter().flat_map(|word| word.to_le_bytes()).collect();
            assert!(codes == found[&format!("{module}.weight")].2, "{bits} bits: {module}");
            assert_eq!(scales.try_as_slice::<f32>().unwrap(), floats(&found[&format!("{module}.scales")]));
            assert_eq!(biases.try_as_slice::<f32>().unwrap(), floats(&found[&format!("{module}.biases")]));
        }
        load(&room.path(&output));
    }
}

#[test]
fn float_modes_have_byte_scales_and_the_runtime_loads_them() {
    for (mode, group_size) in [(QuantizationMode::Mxfp4, 32), (QuantizationMode::Nvfp4, 16)] {
        let room = Room::new();
        let input = room.gguf("qwen2", &[BlockType::F16]);
        let spec = QuantizationSpec { mode, bits: 4, group_size };
        room.convert(input, "out", OutputMode::Quantized(spec), FloatDtype::F32);
        let found = tensors(&room.path("out"));
        let groups = HIDDEN / group_size as usize;
        assert_eq!(found["model.embed_tokens.scales"].0, Dtype::U8);
        assert_eq!(found["model.embed_tokens.scales"].1, [VOCAB, groups]);
        assert!(!found.contains_key("model.embed_tokens.biases"));
        load(&room.path("out"));

        // And back: E2M1 has steps of a sixth of the largest value at most, halved by rounding.
        let input = ConvertInput::Safetensors(room.path("out"));
        room.convert(input, "back", OutputMode::Dequantize, FloatDtype::F32);
        let back = tensors(&room.path("back"));
        let name = "model.layers.0.mlp.up_proj.weight";
        let original = &expected("qwen2", &[BlockType::F16])[name];
        for (group, values) in floats(&back[name]).chunks(group_size as usize).enumerate() {
            let original = &original[group * group_size as usize..][..values.len()];
            let largest = original.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            for (found, original) in values.iter().zip(original) {
                assert!((found - original).abs() <= largest * 0.35, "{mode}: {found} for {original}");
            }
        }
    }
}

#[test]
fn dequantizing_gives_mlx_s_values_and_quantizing_twice_is_refused() {
    let room = Room::new();
    let input = room.gguf("llama", &REPACKABLE);
    room.convert(input, "packed", OutputMode::Lossless, FloatDtype::F16);
    let input = || ConvertInput::Safetensors(room.path("packed"));
    room.convert(input(), "dense", OutputMode::Dequantize, FloatDtype::F32);
    let found = tensors(&room.path("dense"));
    for (name, values) in expected("llama", &REPACKABLE) {
        assert!(floats(&found[&name]) == values, "{name}");
    }
    assert!(config(&room.path("dense")).get("quantization").is_none());
    load(&room.path("dense"));

    let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits: 4, group_size: 64 };
    for mode in [OutputMode::Dense, OutputMode::Quantized(spec)] {
        let error = room.try_convert(input(), "twice", mode, FloatDtype::F32).unwrap_err();
        assert!(error.to_string().contains("--dequantize"), "{error}");
    }
}

#[test]
fn matrices_that_groups_do_not_divide_stay_dense_and_the_configuration_says_so() {
    let room = Room::new();
    let input = room.gguf("llama", &[BlockType::F16]);
    // The feed-forward width of 96 is no multiple of 64.
    let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits: 4, group_size: 64 };
    room.convert(input, "out", OutputMode::Quantized(spec), FloatDtype::F32);
    let config = config(&room.path("out"));
    assert_eq!(config["quantization"]["model.layers.0.mlp.down_proj"], json!(false));
    assert_eq!(config["quantization"], config["quantization_config"]);
    assert_eq!(config["quantization"]["bits"], json!(4));
    load(&room.path("out"));
}

#[test]
fn synthetic_checkpoints_load_are_marked_and_depend_on_the_seed_alone() {
    for model_type in ["llama", "qwen2", "qwen3", "gemma3_text"] {
        let room = Room::new();
        let input = |seed| ConvertInput::Synthetic {
            config: SyntheticConfig::Object(small_config(model_type)),
            seed,
        };
        room.convert(input(7), "a", OutputMode::Dense, FloatDtype::F32);
        room.convert(input(7), "b", OutputMode::Dense, FloatDtype::F32);
        room.convert(input(7), "half", OutputMode::Dense, FloatDtype::F16);
        room.convert(input(8), "c", OutputMode::Dense, FloatDtype::F32);
        let [a, b, half, c] = ["a", "b", "half", "c"].map(|name| tensors(&room.path(name)));
        assert!(a == b && a != c, "{model_type}");
        for (name, tensor) in &half {
            assert!(floats(tensor) == floats(&a[name]), "{model_type}: {name} differs between element types");
        }
        assert_eq!(config(&room.path("a"))["mlxcel_synthetic"], json!({"seed": 7, "generator": 1}));
        assert!(load(&room.path("a")).summary().synthetic);
        let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits: 4, group_size: 32 };
        room.convert(input(7), "q", OutputMode::Quantized(spec), FloatDtype::F32);
        load(&room.path("q"));
    }
}

#[test]
fn a_dense_folder_changes_its_element_type_and_keeps_the_rest() {
    let room = Room::new();
    let input = ConvertInput::Synthetic { config: SyntheticConfig::Object(small_config("qwen3")), seed: 1 };
    room.convert(input, "f32", OutputMode::Dense, FloatDtype::F32);
    fs::write(room.path("f32").join("generation_config.json"), "{}").unwrap();
    let input = ConvertInput::detect(&room.path("f32")).unwrap();
    room.convert(input, "bf16", OutputMode::Dense, FloatDtype::Bf16);
    let found = tensors(&room.path("bf16"));
    for (name, tensor) in tensors(&room.path("f32")) {
        assert_eq!(found[&name].0, Dtype::Bf16);
        assert!(floats(&found[&name]) == floats(&tensor), "{name}");
    }
    let (mut before, mut after) = (config(&room.path("f32")), config(&room.path("bf16")));
    assert_eq!(after["torch_dtype"], json!("bfloat16"));
    before["torch_dtype"] = Value::Null;
    after["torch_dtype"] = Value::Null;
    assert_eq!(before, after);
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        let read = |folder: &str| fs::read(room.path(folder).join(name)).unwrap();
        assert_eq!(read("f32"), read("bf16"), "{name}");
    }
}
