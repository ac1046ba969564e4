//! What a conversion made.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::encode::FloatDtype;

/// The outcome of a conversion.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConvertReport {
    /// The output folder.
    pub output: PathBuf,
    /// `model_type` of the architecture.
    pub model_type: String,
    /// Element type of dense tensors, scales and biases.
    pub dtype: FloatDtype,
    /// Tensors written; a quantized matrix counts as its parts.
    pub tensors: usize,
    /// Matrices written in a quantized form.
    pub quantized_layers: usize,
    /// Elements of the model's tensors before quantization.
    pub parameters: u64,
    /// Bytes of tensor data written.
    pub weight_bytes: u64,
    /// Bits of tensor data a parameter.
    pub bits_per_weight: f64,
    /// Weight files written.
    pub shards: usize,
    /// The `quantization` block of the configuration.
    pub quantization: Option<Value>,
    /// Where the tokenizer comes from.
    pub tokenizer: TokenizerOrigin,
    /// In a lossless conversion, vectors (norms, biases) whose values the element type does not all hold.
    pub rounded: Vec<RoundedTensor>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Where a tokenizer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerOrigin {
    /// Rebuilt from the metadata of the GGUF file.
    Rebuilt,
    /// Copied from the input folder or the one given.
    Copied,
    /// Made up for a synthetic checkpoint.
    Synthetic,
}

/// A tensor that was rounded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundedTensor {
    /// Its name.
    pub name: String,
    /// The largest difference between a value and what was written.
    pub largest_difference: f32,
}
