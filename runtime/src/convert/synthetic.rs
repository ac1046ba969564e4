//! Checkpoints of random weights: the shape of a configuration, the same bytes for the same seed everywhere.
//!
//! Every matrix element and bias is an odd multiple of 2^-13 between -255 and 255 of them, chosen by SplitMix64 from the
//! seed, the tensor's name and the element's position. So each value is exact in F32, F16 and BF16 alike, any row can be
//! made without those before it, and the standard deviation (0.018) is near the 0.02 that models are initialized with.
//! Norms are one (for Gemma, which adds one itself, zero).

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use mlxcel_catalog::headers::Dtype;
use serde_json::{Map, Value, json};

use super::architecture::{Architecture, ModelShape};
use super::error::ConvertError;
use super::layout::{Role, expected_tensors};
use super::source::{InputTensor, RowMaker, Stored, TensorSource};

/// The field of `config.json` that marks a synthetic checkpoint.
pub const MARK: &str = "mlxcel_synthetic";
/// Changes whenever the same seed gives other weights.
pub const GENERATOR: u64 = 1;

/// Largest configuration file read; real ones have a few kilobytes.
const MAX_CONFIG_BYTES: u64 = 16 * 1024 * 1024;

/// Where the configuration of a synthetic checkpoint comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum SyntheticConfig {
    /// A `config.json`, or a folder that holds one.
    File(PathBuf),
    /// The object itself.
    Object(Map<String, Value>),
}

/// The configuration of SmolLM2-135M-Instruct, as a shape to synthesize where the model itself cannot be had.
pub fn smollm2_135m_config() -> Map<String, Value> {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 576,
        "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "head_dim": 64, "rms_norm_eps": 1e-5, "rope_theta": 100_000.0, "rope_scaling": null,
        "max_position_embeddings": 8192, "vocab_size": 49152, "tie_word_embeddings": true, "attention_bias": false,
        "mlp_bias": false, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
    });
    match config {
        Value::Object(config) => config,
        _ => Map::new(),
    }
}

/// Reads the configuration; the path is what messages name.
pub(super) fn read_config(config: &SyntheticConfig) -> Result<(PathBuf, Map<String, Value>), ConvertError> {
    let path = match config {
        SyntheticConfig::Object(object) => {
            return Ok((PathBuf::from("synthetic configuration"), object.clone()));
        }
        SyntheticConfig::File(path) if path.is_dir() => path.join("config.json"),
        SyntheticConfig::File(path) => path.clone(),
    };
    let failed = |cause| ConvertError::Read { path: path.clone(), action: "cannot be read", cause };
    let bytes = fs::metadata(&path).map_err(failed)?.len();
    if bytes > MAX_CONFIG_BYTES {
        let rule = format!("is {bytes} bytes long, which no configuration is");
        return Err(ConvertError::Input { path, rule });
    }
    let text = fs::read_to_string(&path).map_err(failed)?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok((path, object)),
        Ok(_) => Err(ConvertError::Input { path, rule: "is JSON, but not an object".to_owned() }),
        Err(error) => Err(ConvertError::Input { path, rule: format!("is not JSON: {error}") }),
    }
}

/// Tensors made from a seed.
#[derive(Debug)]
pub(super) struct SyntheticSource {
    seed: u64,
    norm: f32,
    tensors: Vec<InputTensor>,
}

impl SyntheticSource {
    /// The tensors of a model of `shape`.
    pub(super) fn new(shape: &ModelShape, seed: u64) -> Self {
        let stored = Stored::Float(Dtype::F32);
        let tensors = expected_tensors(shape).iter().map(|tensor| InputTensor::new(tensor, stored)).collect();
        let norm = if shape.architecture == Architecture::Gemma3Text { 0.0 } else { 1.0 };
        Self { seed, norm, tensors }
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014) for the state after `steps` steps from `start`.
fn split_mix(start: u64, steps: u64) -> u64 {
    let mut z = start.wrapping_add(steps.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn element(key: u64, position: u64) -> f32 {
    let [byte, ..] = split_mix(key, position.wrapping_add(1)).to_be_bytes();
    (f32::from(byte.cast_signed()) * 2.0 + 1.0) / 8192.0
}

impl TensorSource for SyntheticSource {
    fn tensors(&self) -> &[InputTensor] {
        &self.tensors
    }

    fn read_rows(
        &mut self,
        index: usize,
        rows: Range<usize>,
        out: &mut Vec<f32>,
    ) -> Result<(), ConvertError> {
        self.make_rows(index, rows, out);
        Ok(())
    }

    fn read_blocks(&mut self, _: usize, _: Range<usize>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        out.clear();
        Ok(())
    }

    fn maker(&self) -> Option<&dyn RowMaker> {
        Some(self)
    }
}

impl RowMaker for SyntheticSource {
    fn make_rows(&self, index: usize, rows: Range<usize>, out: &mut Vec<f32>) {
        out.clear();
        let Some(tensor) = self.tensors.get(index) else { return };
        let row = tensor.row_elements();
        if tensor.role == Role::Norm {
            out.resize(rows.len() * row, self.norm);
            return;
        }
        let key = split_mix(self.seed ^ hash(&tensor.name), 1);
        let positions = rows.start as u64 * row as u64..rows.end as u64 * row as u64;
        out.extend(positions.map(|position| element(key, position)));
    }
}

/// The ids of the special tokens that a configuration names, with defaults written back into it.
pub(super) fn special_ids(
    path: &Path,
    config: &mut Map<String, Value>,
) -> Result<Vec<(usize, String)>, ConvertError> {
    let mut named: Vec<(usize, String)> = Vec::new();
    for (field, default, token) in
        [("bos_token_id", Some(0), "bos"), ("eos_token_id", Some(1), "eos"), ("pad_token_id", None, "pad")]
    {
        let wrong = || ConvertError::Field {
            path: path.to_owned(),
            field: field.to_owned(),
            rule: "must be a token id, or (for eos_token_id) a list of them".to_owned(),
        };
        let ids: Vec<usize> = match config.get(field).filter(|value| !value.is_null()) {
            Some(Value::Array(ids)) => ids
                .iter()
                .map(|id| id.as_u64().and_then(|id| usize::try_from(id).ok()))
                .collect::<Option<_>>()
                .ok_or_else(wrong)?,
            Some(id) => vec![id.as_u64().and_then(|id| usize::try_from(id).ok()).ok_or_else(wrong)?],
            None => match default {
                Some(id) => {
                    config.insert(field.to_owned(), json!(id));
                    vec![id]
                }
                None => Vec::new(),
            },
        };
        for (number, id) in ids.into_iter().enumerate() {
            if !named.iter().any(|(known, _)| *known == id) {
                let suffix = if number == 0 { String::new() } else { format!("_{number}") };
                named.push((id, format!("<|{token}{suffix}|>")));
            }
        }
    }
    Ok(named)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;

    fn source(seed: u64) -> SyntheticSource {
        let path = Path::new("config.json");
        let shape = ModelShape::from_config(path, &smollm2_135m_config(), None).unwrap();
        SyntheticSource::new(&shape, seed)
    }

    fn rows(source: &mut SyntheticSource, index: usize, rows: Range<usize>) -> Vec<f32> {
        let mut out = Vec::new();
        source.read_rows(index, rows, &mut out).unwrap();
        out
    }

    #[test]
    fn split_mix_gives_the_published_sequence() {
        // The first outputs for the seed 1234567, as in the reference implementation's test.
        let found: Vec<u64> = (1..=3).map(|step| split_mix(1_234_567, step)).collect();
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn rows_are_the_same_however_they_are_cut_and_differ_by_seed_and_name() {
        let mut first = source(7);
        let whole = rows(&mut first, 0, 0..8);
        let parts = [rows(&mut first, 0, 0..3), rows(&mut first, 0, 3..8)].concat();
        assert_eq!(whole, parts);
        assert_eq!(whole.len(), 8 * 576);
        assert_ne!(whole, rows(&mut source(8), 0, 0..8));
        let queries = first.tensors().iter().position(|tensor| tensor.name.contains("q_proj")).unwrap();
        assert_ne!(whole, rows(&mut first, queries, 0..8));
    }

    #[test]
    fn values_are_small_centred_and_exact_in_every_element_type() {
        use crate::convert::encode::FloatDtype;
        let values = rows(&mut source(1), 0, 0..200);
        let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 3e-4, "{mean}");
        for &value in &values {
            assert!(value.abs() <= 255.0 / 8192.0 && value != 0.0);
            for dtype in [FloatDtype::F16, FloatDtype::Bf16] {
                assert_eq!(dtype.round(value).to_bits(), value.to_bits());
            }
        }
    }
}
