//! Conversions that are refused, interrupted or cut into shards: what is said, and what is left in the output's place.
#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

mod convert_support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convert_support::room::{REPACKABLE, Room, load, small_config, tensors};
use convert_support::{HIDDEN, Meta, small_gguf};
use mlxcel::convert::gguf::BlockType;
use mlxcel::convert::{
    ConvertError, ConvertInput, ConvertRequest, FloatDtype, OutputMode, SyntheticConfig, run,
};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_catalog::folder::CheckpointFolder;
use proptest::prelude::*;

#[test]
fn lossless_repacking_refuses_a_type_that_rounds_the_scales() {
    let room = Room::new();
    let input = room.gguf("llama", &REPACKABLE);
    let error = room.try_convert(input, "out", OutputMode::Lossless, FloatDtype::Bf16).unwrap_err();
    assert!(matches!(error, ConvertError::Inexact { .. }), "{error}");
    assert!(error.to_string().contains("--dtype"), "{error}");
    assert_eq!(room.leftovers(), [""; 0]);
}

#[test]
fn shards_and_their_index_fit_together() {
    let room = Room::new();
    let whole = room.gguf("llama", &REPACKABLE);
    room.convert(whole.clone(), "whole", OutputMode::Lossless, FloatDtype::F16);
    let mut request = ConvertRequest::new(whole, room.path("cut"));
    request.mode = OutputMode::Lossless;
    request.max_shard_bytes = 20_000;
    let mut last = (0, 0);
    let report = run(&request, &mut |done, total| {
        assert!(done >= last.0 && done <= total);
        last = (done, total);
    })
    .unwrap();
    assert_eq!(last, (report.weight_bytes, report.weight_bytes));
    assert!(report.shards > 2);
    let checkpoint = CheckpointFolder::open(&room.path("cut")).unwrap();
    assert_eq!(checkpoint.shards().len(), report.shards);
    assert!(room.path("cut").join("model.safetensors.index.json").is_file());
    assert_eq!(tensors(&room.path("cut")), tensors(&room.path("whole")));
    load(&room.path("cut"));
}

#[test]
fn an_output_that_is_taken_is_refused_and_left_alone() {
    let room = Room::new();
    fs::create_dir(room.path("out")).unwrap();
    fs::write(room.path("out").join("precious"), "text").unwrap();
    let input = room.gguf("llama", &REPACKABLE);
    let error = room.try_convert(input.clone(), "out", OutputMode::Dense, FloatDtype::F32).unwrap_err();
    assert!(error.to_string().contains("not empty") && error.exit_code() == 2, "{error}");
    assert_eq!(fs::read_to_string(room.path("out").join("precious")).unwrap(), "text");
    fs::write(room.path("file"), "text").unwrap();
    assert!(room.try_convert(input.clone(), "file", OutputMode::Dense, FloatDtype::F32).is_err());
    fs::create_dir(room.path("empty")).unwrap();
    room.convert(input, "empty", OutputMode::Dense, FloatDtype::F32);
}

#[test]
fn an_interrupt_leaves_nothing() {
    let room = Room::new();
    let mut request = ConvertRequest::new(room.gguf("llama", &REPACKABLE), room.path("out"));
    let flag = Arc::new(AtomicBool::new(false));
    request.interrupt = Some(Arc::clone(&flag));
    let error = run(&request, &mut |done, _| flag.store(done > 0, Ordering::Relaxed)).unwrap_err();
    assert!(matches!(error, ConvertError::Interrupted));
    assert_eq!(error.exit_code(), 130);
    assert_eq!(room.leftovers(), [""; 0]);
}

#[test]
fn a_value_beyond_f16_is_an_error_and_leaves_nothing() {
    let room = Room::new();
    let mut maker = small_gguf("llama", &[BlockType::F32]);
    let data = (0..HIDDEN).flat_map(|_| 1e6_f32.to_le_bytes()).collect();
    maker.tensor("output_norm.weight", &[HIDDEN], BlockType::F32, data);
    let input = ConvertInput::Gguf(maker.write(room.0.path()));
    let error = room.try_convert(input.clone(), "out", OutputMode::Dense, FloatDtype::F16).unwrap_err();
    assert!(error.to_string().contains("model.norm.weight") && error.to_string().contains("bf16"), "{error}");
    assert_eq!(room.leftovers(), [""; 0]);
    room.convert(input, "out", OutputMode::Dense, FloatDtype::Bf16);
}

#[test]
fn missing_unexpected_and_misshapen_tensors_are_reported_together() {
    let room = Room::new();
    let mut maker = small_gguf("llama", &[BlockType::F16]);
    maker.tensors.retain(|(name, ..)| name != "blk.1.ffn_up.weight");
    maker.tensor("blk.9.mystery", &[2], BlockType::F32, vec![0; 8]);
    maker.tensor("output_norm.weight", &[2], BlockType::F32, vec![0; 8]);
    let input = ConvertInput::Gguf(maker.write(room.0.path()));
    let text = room.try_convert(input, "out", OutputMode::Dense, FloatDtype::F32).unwrap_err().to_string();
    for part in ["missing: blk.1.ffn_up.weight", "unexpected: blk.9.mystery", "output_norm.weight (found [2]"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(room.leftovers(), [""; 0]);
}

#[test]
fn an_unknown_architecture_and_an_expert_model_are_refused() {
    let room = Room::new();
    let mut maker = small_gguf("llama", &[BlockType::F16]);
    maker.set("llama.expert_count", Meta::U32(8));
    let input = ConvertInput::Gguf(maker.write(room.0.path()));
    let error = room.try_convert(input, "out", OutputMode::Dense, FloatDtype::F32).unwrap_err();
    assert!(error.to_string().contains("llama.expert_count"), "{error}");
    maker.set("general.architecture", Meta::Text("mamba".to_owned()));
    let input = ConvertInput::Gguf(maker.write(room.0.path()));
    let error = room.try_convert(input, "out", OutputMode::Dense, FloatDtype::F32).unwrap_err();
    assert!(error.to_string().contains("\"mamba\"") && error.to_string().contains("qwen3"), "{error}");
}

#[test]
fn requests_that_contradict_themselves_are_usage_errors() {
    let room = Room::new();
    let synthetic =
        || ConvertInput::Synthetic { config: SyntheticConfig::Object(small_config("llama")), seed: 1 };
    let spec = |bits, group_size| {
        OutputMode::Quantized(QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size })
    };
    for mode in [OutputMode::Lossless, OutputMode::Dequantize, spec(7, 64), spec(4, 48)] {
        let error = room.try_convert(synthetic(), "out", mode, FloatDtype::F32).unwrap_err();
        assert_eq!(error.exit_code(), 64, "{error}");
    }
}

#[test]
fn quantizing_a_quantized_file_again_is_warned_of() {
    let room = Room::new();
    let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits: 4, group_size: 32 };
    let warnings = |types: &[BlockType], output: &str| {
        room.convert(room.gguf("llama", types), output, OutputMode::Quantized(spec), FloatDtype::F32).warnings
    };
    let text = warnings(&[BlockType::Q4_1, BlockType::Q8_0], "twice").join(" ");
    assert!(text.contains("Q4_1, Q8_0") && text.contains("--lossless"), "{text}");
    assert_eq!(warnings(&[BlockType::F16], "once"), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_damaged_file_ends_in_a_checkpoint_or_an_error_and_leaves_no_part(
        architecture in prop::sample::select(vec!["llama", "gemma3"]),
        changes in prop::collection::vec((24_usize..1 << 16, any::<u8>()), 1..4),
        lossless in any::<bool>(),
    ) {
        let room = Room::new();
        let mut bytes = small_gguf(architecture, &REPACKABLE).bytes();
        // The sizes and rates stand in the first bytes; the vocabulary and the tensors take the rest.
        let length = bytes.len();
        for (number, (at, value)) in changes.into_iter().enumerate() {
            let at = if number < 2 { 24 + at % 700 } else { at % length };
            bytes[at] = value;
        }
        let path = room.path("model.gguf");
        fs::write(&path, bytes).unwrap();
        let mode = if lossless { OutputMode::Lossless } else { OutputMode::Dense };
        match room.try_convert(ConvertInput::Gguf(path), "out", mode, FloatDtype::F32) {
            Ok(_) => { CheckpointFolder::open(&room.path("out")).unwrap(); }
            Err(error) => {
                prop_assert!(!error.to_string().is_empty());
                prop_assert_eq!(room.leftovers(), [""; 0]);
            }
        }
    }
}
