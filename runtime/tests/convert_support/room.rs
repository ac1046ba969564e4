//! A temporary folder in which conversions are made, and the reading of their outputs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mlxcel::LoadedModel;
use mlxcel::convert::gguf::BlockType;
use mlxcel::convert::gguf::dequantize::dequantize;
use mlxcel::convert::{
    ConvertError, ConvertInput, ConvertReport, ConvertRequest, FloatDtype, OutputMode, run,
};
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::headers::Dtype;
use serde_json::{Value, json};

use super::{HEAD_DIM, HEADS, HIDDEN, KV_HEADS, VOCAB, small_gguf};

/// The types that can be repacked without loss.
pub(crate) const REPACKABLE: [BlockType; 5] =
    [BlockType::Q4_1, BlockType::Q4_0, BlockType::Q5_0, BlockType::Q5_1, BlockType::Q8_0];

/// A folder for inputs and outputs.
pub(crate) struct Room(pub(crate) tempfile::TempDir);

impl Room {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn gguf(&self, architecture: &str, types: &[BlockType]) -> ConvertInput {
        ConvertInput::Gguf(small_gguf(architecture, types).write(self.0.path()))
    }

    pub(crate) fn convert(
        &self,
        input: ConvertInput,
        output: &str,
        mode: OutputMode,
        dtype: FloatDtype,
    ) -> ConvertReport {
        self.try_convert(input, output, mode, dtype).unwrap()
    }

    pub(crate) fn try_convert(
        &self,
        input: ConvertInput,
        output: &str,
        mode: OutputMode,
        dtype: FloatDtype,
    ) -> Result<ConvertReport, ConvertError> {
        let mut request = ConvertRequest::new(input, self.path(output));
        request.mode = mode;
        request.dtype = Some(dtype);
        run(&request, &mut |_, _| {})
    }

    /// Names in the room that are not the input's.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "model.gguf").collect()
    }
}

pub(crate) fn config(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
}

/// A tensor's element type, shape and bytes.
pub(crate) type Tensor = (Dtype, Vec<usize>, Vec<u8>);

pub(crate) fn tensors(folder: &Path) -> BTreeMap<String, Tensor> {
    let checkpoint = CheckpointFolder::open(folder).unwrap();
    let files: Vec<Vec<u8>> =
        checkpoint.shards().iter().map(|shard| fs::read(&shard.path).unwrap()).collect();
    let take = |(shard, entry): &(usize, mlxcel_catalog::headers::TensorEntry)| {
        let range = usize::try_from(entry.range.start).unwrap()..usize::try_from(entry.range.end).unwrap();
        (entry.dtype, entry.shape.clone(), files[*shard][range].to_vec())
    };
    checkpoint.tensors().iter().map(|(name, place)| (name.clone(), take(place))).collect()
}

pub(crate) fn floats((dtype, _, bytes): &Tensor) -> Vec<f32> {
    let block_type = match dtype {
        Dtype::F32 => BlockType::F32,
        Dtype::F16 => BlockType::F16,
        Dtype::Bf16 => BlockType::Bf16,
        other => panic!("{other} is no float type"),
    };
    let mut values = Vec::new();
    dequantize(block_type, bytes, &mut values);
    values
}

pub(crate) fn load(folder: &Path) -> LoadedModel {
    LoadedModel::load(folder, &mut |_, _| {}).unwrap()
}

pub(crate) fn small_config(model_type: &str) -> serde_json::Map<String, Value> {
    let config = json!({
        "model_type": model_type, "hidden_size": HIDDEN, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "max_position_embeddings": 256, "vocab_size": VOCAB, "sliding_window": 16,
        "sliding_window_pattern": 2, "query_pre_attn_scalar": HEAD_DIM, "rope_local_base_freq": 10000.0,
        "bos_token_id": 2, "eos_token_id": [1, 5],
    });
    config.as_object().unwrap().clone()
}
