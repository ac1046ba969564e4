//! The architectures, one file each, named after the `model_type` of their configs.
//!
//! A file holds what is particular to its architecture: the config fields, and how shared blocks are put together.

mod gemma3_text;
mod llama;
mod qwen2;
mod qwen3;

use crate::cache::{Cache, CacheKind};
use crate::checkpoint::{LoadError, Weights};
use crate::kernels::mlx::Result;
use crate::model::Positions;
use mlx_rs::Array;
use mlxcel_catalog::config::CONFIG_FILE;
use mlxcel_catalog::folder::CheckpointFolder;

/// A decoder that turns token ids into logits.
pub(crate) trait Architecture {
    /// Which cache each layer needs, in order.
    fn cache_kinds(&self) -> Vec<CacheKind>;

    /// Joins the weights of layers that take the same input, for MLX's own operations; one layer at a time, so that the
    /// weights are not in memory twice.
    fn join(&mut self) -> Result<()>;

    /// The last layer's normalized output for `ids` (`[1, length]`): `[1, length, hidden]`, or `[1, 1, hidden]` where
    /// only the last position is asked for; the last layer then computes nothing but keys and values for the others.
    /// Appends to the caches.
    fn hidden(&self, ids: &Array, caches: &mut [Cache], positions: Positions) -> Result<Array>;

    /// The logits of `hidden` (`[1, positions, hidden]`): `[1, positions, vocabulary]`.
    fn logits(&self, hidden: &Array) -> Result<Array>;
}

/// A loaded architecture and what its config says of its size.
pub(crate) struct Loaded {
    pub(crate) architecture: Box<dyn Architecture>,
    pub(crate) vocab_size: i32,
    /// The longest sequence the model was made for.
    pub(crate) context_length: Option<u64>,
}

type Loader = fn(&CheckpointFolder, &mut Weights) -> std::result::Result<Loaded, LoadError>;

/// Every model type that loads. Several spell one architecture.
const LOADERS: &[(&str, Loader)] = &[
    ("gemma3_text", gemma3_text::load),
    ("llama", llama::load),
    ("mistral", llama::load),
    ("qwen2", qwen2::load),
    ("qwen3", qwen3::load),
];

/// The model types that load, in alphabetical order.
pub fn known_model_types() -> Vec<&'static str> {
    LOADERS.iter().map(|(model_type, _)| *model_type).collect()
}

/// Builds the architecture that the config asks for, claiming its tensors from `weights`.
pub(crate) fn load(
    folder: &CheckpointFolder,
    weights: &mut Weights,
) -> std::result::Result<Loaded, LoadError> {
    let loader = loader_for(folder)?;
    loader(folder, weights)
}

/// Refuses an unknown model type before any weight is opened.
pub(crate) fn check_model_type(folder: &CheckpointFolder) -> std::result::Result<(), LoadError> {
    loader_for(folder).map(|_| ())
}

fn loader_for(folder: &CheckpointFolder) -> std::result::Result<Loader, LoadError> {
    let model_type = folder.config().model_type();
    LOADERS.iter().find(|(known, _)| *known == model_type).map(|(_, loader)| *loader).ok_or_else(|| {
        LoadError::UnknownModelType {
            path: folder.path().as_path().join(CONFIG_FILE),
            model_type: model_type.to_owned(),
            known: known_model_types(),
        }
    })
}
