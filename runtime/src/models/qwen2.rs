//! `qwen2`: Qwen 2 and 2.5. The shared decoder with biases on the query, key and value projections.

use super::Loaded;
use super::llama::{Traits, load_decoder};
use crate::checkpoint::{ConfigError, LoadError, Weights};
use mlxcel_catalog::folder::CheckpointFolder;
use serde_json::Value;

pub(super) fn load(folder: &CheckpointFolder, weights: &mut Weights) -> Result<Loaded, LoadError> {
    refuse_sliding_window(folder)?;
    load_decoder(
        folder,
        weights,
        &Traits {
            default_rope_theta: 1_000_000.0,
            attention_bias: Some([true, true, true, false]),
            head_norms: false,
            window_everywhere: false,
        },
    )
}

/// Qwen configs carry a `sliding_window` that is off in every released checkpoint; one that is on is not computed
/// here, and without it the results would be those of another model.
pub(super) fn refuse_sliding_window(folder: &CheckpointFolder) -> Result<(), LoadError> {
    match folder.config().raw().get("use_sliding_window") {
        Some(Value::Bool(true)) => Err(LoadError::config(
            folder,
            ConfigError::field(
                "use_sliding_window",
                "is true; sliding-window attention is not supported for Qwen",
            ),
        )),
        _ => Ok(()),
    }
}
