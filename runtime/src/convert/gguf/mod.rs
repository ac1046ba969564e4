//! GGUF files: header, metadata, tensor data by range, block formats and their exact repacking.
//!
//! This module knows the container and the number formats. What the names and keys mean for a model is left to
//! [`super::from_gguf`].

pub mod block_type;
pub mod dequantize;
mod k_quants;
pub mod reader;
pub mod repack;
pub mod value;

pub use block_type::BlockType;
pub use reader::{GgufError, GgufFault, GgufFile, GgufTensor};
pub use value::{Array, Value};
