//! What is to be converted, and into what.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mlxcel_catalog::config::QuantizationSpec;

use super::encode::FloatDtype;
use super::error::ConvertError;
use super::synthetic::SyntheticConfig;

/// What is converted.
#[derive(Debug, Clone, PartialEq)]
pub enum ConvertInput {
    /// A GGUF file.
    Gguf(PathBuf),
    /// A checkpoint folder with safetensors files.
    Safetensors(PathBuf),
    /// Nothing: weights are made from the seed, in the shape of the configuration.
    Synthetic {
        /// The configuration.
        config: SyntheticConfig,
        /// The seed.
        seed: u64,
    },
}

impl ConvertInput {
    /// What lies at `path`: a file is taken for GGUF, a folder for a checkpoint.
    pub fn detect(path: &Path) -> Result<Self, ConvertError> {
        let metadata = std::fs::metadata(path).map_err(|cause| ConvertError::Read {
            path: path.to_owned(),
            action: "cannot be looked at",
            cause,
        })?;
        if metadata.is_dir() {
            Ok(Self::Safetensors(path.to_owned()))
        } else if metadata.is_file() {
            Ok(Self::Gguf(path.to_owned()))
        } else {
            let rule = "is neither a file nor a folder; give a GGUF file or a checkpoint folder".to_owned();
            Err(ConvertError::Input { path: path.to_owned(), rule })
        }
    }

    /// The path that messages name.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Gguf(path)
            | Self::Safetensors(path)
            | Self::Synthetic { config: SyntheticConfig::File(path), .. } => path.clone(),
            Self::Synthetic { config: SyntheticConfig::Object(_), .. } => {
                PathBuf::from("synthetic configuration")
            }
        }
    }
}

/// The form of the output's matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Floats.
    Dense,
    /// Quantized by MLX's `quantize`, wherever a group divides a row.
    Quantized(QuantizationSpec),
    /// The GGUF file's own codes and scales in MLX's packing, value for value.
    Lossless,
    /// Floats, from a quantized checkpoint.
    Dequantize,
}

/// A conversion.
#[derive(Debug, Clone)]
pub struct ConvertRequest {
    /// What is converted.
    pub input: ConvertInput,
    /// The output folder; it must not exist, or be empty.
    pub output: PathBuf,
    /// The form of the output.
    pub mode: OutputMode,
    /// Element type of dense tensors, scales and biases; `None` lets the input decide.
    pub dtype: Option<FloatDtype>,
    /// A folder to take the tokenizer from, instead of the input's.
    pub tokenizer: Option<PathBuf>,
    /// Largest shard in bytes; a single tensor may be larger.
    pub max_shard_bytes: u64,
    /// Set from elsewhere to end the conversion with [`ConvertError::Interrupted`].
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl ConvertRequest {
    /// Five gigabytes, as mlx-lm cuts its shards.
    pub const DEFAULT_SHARD_BYTES: u64 = 5 << 30;

    /// A dense conversion with the defaults.
    pub fn new(input: ConvertInput, output: PathBuf) -> Self {
        Self {
            input,
            output,
            mode: OutputMode::Dense,
            dtype: None,
            tokenizer: None,
            max_shard_bytes: Self::DEFAULT_SHARD_BYTES,
            interrupt: None,
        }
    }

    /// Refuses what contradicts itself.
    pub(super) fn check(&self) -> Result<(), ConvertError> {
        let refuse = |text: String| Err(ConvertError::Request(text));
        match (self.mode, &self.input) {
            (OutputMode::Dense, _)
            | (OutputMode::Lossless, ConvertInput::Gguf(_))
            | (OutputMode::Dequantize, ConvertInput::Safetensors(_)) => {}
            (OutputMode::Lossless, _) => return refuse("--lossless repacks GGUF files only".to_owned()),
            (OutputMode::Dequantize, _) => {
                return refuse(
                    "--dequantize is for quantized checkpoint folders; GGUF files are made dense without it"
                        .to_owned(),
                );
            }
            (OutputMode::Quantized(spec), _) => {
                for (what, found, allowed) in [
                    ("bits", spec.bits, spec.mode.allowed_bits()),
                    ("group size", spec.group_size, spec.mode.allowed_group_sizes()),
                ] {
                    if !allowed.contains(&found) {
                        return refuse(format!(
                            "mode {} has no {what} {found}; it has {allowed:?}",
                            spec.mode
                        ));
                    }
                }
            }
        }
        if self.max_shard_bytes == 0 {
            return refuse("the largest shard must not be 0 bytes".to_owned());
        }
        Ok(())
    }
}
