//! A checkpoint loaded into memory and ready to run, and what can be said of it.

use crate::cache::Cache;
use crate::checkpoint::{LoadError, Weights};
use crate::device;
use crate::kernels;
use crate::memory;
use crate::models::{self, Architecture};
use mlx_rs::error::Exception;
use mlx_rs::{Array, transforms};
use mlxcel_catalog::config::{Config, Quantization};
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::headers::Dtype;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The key under which a config says that its weights are random numbers.
pub const SYNTHETIC_KEY: &str = "mlxcel_synthetic";

/// A decoder with its weights in memory.
pub struct LoadedModel {
    architecture: Box<dyn Architecture>,
    summary: ModelSummary,
    kernels: String,
    /// Whether layers on the same input are one product, and keys and values one buffer.
    joined: bool,
}

/// What a checkpoint folder holds.
#[derive(Debug, Clone, Serialize)]
pub struct ModelSummary {
    /// The architecture, as the config spells it.
    pub model_type: String,
    /// Numbers in all weights, quantized ones counted before packing.
    pub parameters: u64,
    /// Bytes of all tensors on disk.
    pub weight_bytes: u64,
    /// `8 × weight_bytes / parameters`.
    pub bits_per_weight: f64,
    /// The longest sequence the model was made for, where the config says.
    pub context_length: Option<usize>,
    /// Rows of the embedding table.
    pub vocab_size: usize,
    /// Ids that end a generation, by the config and the generation config.
    pub eos_token_ids: Vec<u32>,
    /// How the weights are packed; absent for dense ones.
    pub quantization: Option<QuantizationSummary>,
    /// The data types of the floating-point tensors, widest first.
    pub float_dtypes: Vec<String>,
    /// Whether the weights are random numbers made for measuring speed.
    pub synthetic: bool,
}

/// The quantization that most layers share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuantizationSummary {
    /// `affine`, `mxfp4`, `mxfp8` or `nvfp4`.
    pub mode: String,
    /// Bits a weight.
    pub bits: u32,
    /// Weights that share a scale.
    pub group_size: u32,
    /// Layers with a setting of their own.
    pub overrides: usize,
}

/// Which logits a forward pass is to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    /// Those of the last position.
    Last,
    /// Those of every position.
    All,
}

impl Positions {
    /// These positions of `x` (`[batch, length, width]`).
    pub(crate) fn of(self, x: &Array) -> Result<Array, Exception> {
        let length = x.dim(1);
        if self == Self::All || length == 1 {
            return Ok(x.clone());
        }
        crate::kernels::mlx::slice(x, &[0, length - 1, 0], &[x.dim(0), length, x.dim(2)])
    }
}

/// What a model remembers of one sequence.
pub struct SequenceState {
    caches: Vec<Cache>,
}

impl SequenceState {
    /// Tokens seen so far.
    pub fn offset(&self) -> usize {
        self.caches.first().and_then(|cache| usize::try_from(cache.offset()).ok()).unwrap_or(0)
    }

    pub(crate) fn arrays(&self) -> Vec<&Array> {
        self.caches.iter().flat_map(Cache::arrays).collect()
    }
}

impl LoadedModel {
    /// Loads the checkpoint in `dir`, telling `on_progress` the bytes read so far and in all.
    pub fn load(dir: &Path, on_progress: &mut dyn FnMut(u64, u64)) -> Result<Self, LoadError> {
        let setting = kernels::setting::setting()?;
        device::check()?;
        let folder = CheckpointFolder::open(dir)?;
        models::check_model_type(&folder)?;
        let mut weights = Weights::open(&folder)?;
        let mut loaded = models::load(&folder, &mut weights)?;
        let arrays = weights.finish(&folder)?;
        let in_folder = |source| LoadError::Mlx { path: folder.path().as_path().to_path_buf(), source };
        read(&arrays, folder.weight_bytes(), on_progress).map_err(in_folder)?;
        // The layers' parts go as they are joined only if nothing else holds them.
        drop(arrays);
        let joined = !matches!(setting, kernels::setting::Setting::Cpu { .. });
        if joined {
            loaded.architecture.join().map_err(in_folder)?;
            memory::clear_cache();
        }
        let summary = ModelSummary::new(&folder, &loaded);
        Ok(Self { architecture: loaded.architecture, summary, kernels: setting.name(), joined })
    }

    /// Which kernels compute: `mlx`; `mlxcel-cuda`; or `mlxcel-`, the instruction set and the variant of small products.
    pub fn kernels(&self) -> &str {
        &self.kernels
    }

    /// What the checkpoint holds.
    pub fn summary(&self) -> &ModelSummary {
        &self.summary
    }

    /// A fresh sequence.
    pub fn new_sequence(&self) -> SequenceState {
        SequenceState {
            caches: self
                .architecture
                .cache_kinds()
                .into_iter()
                .map(|kind| Cache::new(kind, self.joined))
                .collect(),
        }
    }

    /// The logits after `ids` (`[1, length]`, any integer type): `[1, 1 or length, vocabulary]`, not yet evaluated.
    pub fn forward(
        &self,
        ids: &Array,
        state: &mut SequenceState,
        positions: Positions,
    ) -> Result<Array, Exception> {
        let hidden = self.architecture.hidden(ids, &mut state.caches, positions)?;
        self.architecture.logits(&hidden)
    }

    /// Takes `ids` into the sequence without computing logits.
    pub(crate) fn absorb(&self, ids: &Array, state: &mut SequenceState) -> Result<(), Exception> {
        self.architecture.hidden(ids, &mut state.caches, Positions::Last).map(|_| ())
    }
}

impl ModelSummary {
    /// Describes the checkpoint in `dir` from its headers alone.
    pub fn of_folder(dir: &Path) -> Result<Self, LoadError> {
        let folder = CheckpointFolder::open(dir)?;
        models::check_model_type(&folder)?;
        let mut weights = Weights::open(&folder)?;
        let loaded = models::load(&folder, &mut weights)?;
        weights.finish(&folder)?;
        Ok(Self::new(&folder, &loaded))
    }

    fn new(folder: &CheckpointFolder, loaded: &models::Loaded) -> Self {
        let config = folder.config();
        let parameters = parameters(folder);
        let weight_bytes =
            folder.tensors().values().map(|(_, entry)| entry.range.end - entry.range.start).sum();
        let floats: BTreeSet<_> = folder
            .tensors()
            .values()
            .filter(|(_, entry)| matches!(entry.dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64))
            .map(|(_, entry)| (std::cmp::Reverse(entry.dtype.bytes()), entry.dtype.name()))
            .collect();
        Self {
            model_type: config.model_type().to_owned(),
            parameters,
            weight_bytes,
            bits_per_weight: 8.0 * weight_bytes as f64 / parameters.max(1) as f64,
            context_length: loaded.context_length.and_then(|length| usize::try_from(length).ok()),
            vocab_size: usize::try_from(loaded.vocab_size).unwrap_or(0),
            eos_token_ids: eos_token_ids(folder),
            quantization: config.quantization().map(QuantizationSummary::new),
            float_dtypes: floats.into_iter().map(|(_, name)| name.to_lowercase()).collect(),
            synthetic: config.raw().contains_key(SYNTHETIC_KEY),
        }
    }
}

impl QuantizationSummary {
    fn new(quantization: &Quantization) -> Self {
        Self {
            mode: quantization.default.mode.name().to_owned(),
            bits: quantization.default.bits,
            group_size: quantization.default.group_size,
            overrides: quantization.overrides.len(),
        }
    }
}

/// Evaluates the arrays one shard's worth at a time, so that progress can be told.
fn read(arrays: &[Array], total_bytes: u64, on_progress: &mut dyn FnMut(u64, u64)) -> Result<(), Exception> {
    let mut done = 0_u64;
    on_progress(0, total_bytes);
    for batch in arrays.chunks(16) {
        transforms::eval(batch)?;
        done += batch.iter().map(|array| array.nbytes() as u64).sum::<u64>();
        on_progress(done.min(total_bytes), total_bytes);
    }
    Ok(())
}

/// Numbers in all weights: a packed matrix counts what it unpacks to, its scales and biases nothing.
fn parameters(folder: &CheckpointFolder) -> u64 {
    let tensors: BTreeMap<&str, _> =
        folder.tensors().iter().map(|(name, (_, entry))| (name.as_str(), entry)).collect();
    let count = |shape: &[usize]| shape.iter().map(|&size| size as u64).product::<u64>();
    tensors
        .iter()
        .map(|(name, entry)| {
            let layer = name.rsplit_once('.').map_or(*name, |(layer, _)| layer);
            let scaled = tensors.contains_key(format!("{layer}.scales").as_str());
            let bits =
                folder.config().quantization().and_then(|quantization| match quantization.for_layer(layer) {
                    mlxcel_catalog::config::LayerQuantization::Quantized(spec) => Some(u64::from(spec.bits)),
                    mlxcel_catalog::config::LayerQuantization::Dense => None,
                });
            match (scaled, bits) {
                (true, Some(_)) if name.ends_with(".scales") || name.ends_with(".biases") => 0,
                (true, Some(bits)) if entry.dtype == Dtype::U32 => count(&entry.shape) * 32 / bits.max(1),
                _ => count(&entry.shape),
            }
        })
        .sum()
}

/// Every id that the config or the generation config calls an end of sequence, in ascending order.
fn eos_token_ids(folder: &CheckpointFolder) -> Vec<u32> {
    let generation = std::fs::read_to_string(folder.path().as_path().join("generation_config.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let ids = |value: Option<&Value>| -> Vec<u32> {
        match value {
            Some(Value::Array(ids)) => ids.iter().filter_map(as_id).collect(),
            Some(id) => as_id(id).into_iter().collect(),
            None => Vec::new(),
        }
    };
    let of_config = |config: &Config| ids(config.raw().get("eos_token_id"));
    let mut all: BTreeSet<u32> = of_config(folder.config()).into_iter().collect();
    all.extend(ids(generation.as_ref().and_then(|generation| generation.get("eos_token_id"))));
    all.into_iter().collect()
}

fn as_id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}
