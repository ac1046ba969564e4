//! `qwen3`: the shared decoder with each head's queries and keys normalized, and no biases.

use super::Loaded;
use super::llama::{Traits, load_decoder};
use super::qwen2::refuse_sliding_window;
use crate::checkpoint::{LoadError, Weights};
use mlxcel_catalog::folder::CheckpointFolder;

pub(super) fn load(folder: &CheckpointFolder, weights: &mut Weights) -> Result<Loaded, LoadError> {
    refuse_sliding_window(folder)?;
    load_decoder(
        folder,
        weights,
        &Traits {
            default_rope_theta: 1_000_000.0,
            attention_bias: Some([false; 4]),
            head_norms: true,
            window_everywhere: false,
        },
    )
}
