//! An inference runtime for MLX-format language models: loads a checkpoint folder, strictly, and generates from it.
//!
//! It times what it runs and says what it is ([`version`]); it computes no rates and judges no results. That is the
//! benchmark harness's part, which depends on this crate.

mod blocks;
mod cache;
pub mod checkpoint;
pub mod convert;
pub mod device;
pub mod generate;
pub mod kernels;
pub mod memory;
mod model;
mod models;
pub mod nodes;
pub mod sampling;
pub mod stream;
pub mod tokenizer;
pub mod version;

pub use checkpoint::LoadError;
pub use model::{LoadedModel, ModelSummary, Positions, QuantizationSummary, SYNTHETIC_KEY, SequenceState};
pub use models::known_model_types;
