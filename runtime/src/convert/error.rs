//! What can go wrong in a conversion.

use std::fmt;
use std::io;
use std::path::PathBuf;

use mlxcel_catalog::headers::Dtype;
use thiserror::Error;

use super::architecture;
use super::gguf::GgufError;

/// A conversion that was not carried out. Nothing is left in the output folder.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The GGUF file cannot be used.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// There is no device to quantize on.
    #[error(transparent)]
    Device(#[from] crate::device::DeviceError),
    /// The checkpoint folder cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] mlxcel_catalog::folder::CheckpointError),
    /// A file of the input cannot be read.
    #[error("{}: {action}: {cause}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as "cannot be …".
        action: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
    /// A file of the output cannot be written.
    #[error("{}: {action}: {cause}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as "cannot be …".
        action: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
    /// The input is neither a GGUF file nor a checkpoint folder.
    #[error("{}: {rule}", path.display())]
    Input {
        /// The input.
        path: PathBuf,
        /// The rule it breaks, and the remedy.
        rule: String,
    },
    /// The model's architecture is not one that can be converted.
    #[error(
        "{}: the architecture {found:?} cannot be converted; known ones: {}",
        path.display(),
        architecture::known_names().join(", ")
    )]
    UnknownArchitecture {
        /// The file that names it.
        path: PathBuf,
        /// The name found.
        found: String,
    },
    /// A field of a configuration or a metadata key is missing or wrong.
    #[error("{}: {field:?} {rule}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field or key.
        field: String,
        /// The rule it breaks.
        rule: String,
    },
    /// The tensors are not those of the architecture.
    #[error("{}: the tensors are not those of a {model_type} model of this configuration{faults}", path.display())]
    Tensors {
        /// The input.
        path: PathBuf,
        /// The model type.
        model_type: String,
        /// What is missing, unexpected or misshapen.
        faults: TensorFaults,
    },
    /// Tensors have types that MLX's affine packing cannot hold exactly.
    #[error(
        "{}: these matrices cannot be repacked without loss: {}; convert with --q-bits, or densely without --lossless",
        path.display(),
        listed(tensors)
    )]
    NotRepackable {
        /// The input.
        path: PathBuf,
        /// `NAME (TYPE)` of each.
        tensors: Vec<String>,
    },
    /// A value does not survive the chosen element type in a lossless conversion.
    #[error("tensor {tensor:?}: {value} is not exact in {dtype}, as --lossless asks; use --dtype {remedy}")]
    Inexact {
        /// The output tensor.
        tensor: String,
        /// The first such value.
        value: f32,
        /// The element type chosen.
        dtype: Dtype,
        /// An element type that would hold it.
        remedy: &'static str,
    },
    /// A finite value overflows the chosen element type.
    #[error("tensor {tensor:?}: {value} is beyond the range of {dtype}; use --dtype bf16 or --dtype f32")]
    OutOfRange {
        /// The output tensor.
        tensor: String,
        /// The first such value.
        value: f32,
        /// The element type chosen.
        dtype: Dtype,
    },
    /// A scale of a repacked tensor is infinite or not a number.
    #[error("tensor {tensor:?}: a block has the scale or minimum {value}; the file is damaged")]
    NotFinite {
        /// The input tensor.
        tensor: String,
        /// The value.
        value: f32,
    },
    /// An element type of the input cannot be converted.
    #[error(
        "tensor {tensor:?} has the element type {dtype}, which cannot be converted to floating-point weights"
    )]
    ElementType {
        /// The tensor.
        tensor: String,
        /// Its element type.
        dtype: Dtype,
    },
    /// The input is quantized already.
    #[error(
        "{}: the checkpoint is quantized already, and quantizing it again would lose twice; give --dequantize for a \
         dense checkpoint, or convert the original one",
        path.display()
    )]
    AlreadyQuantized {
        /// The input.
        path: PathBuf,
    },
    /// There is no tokenizer to be had.
    #[error("{}: {reason}; give a folder that holds the model's tokenizer.json with --tokenizer", path.display())]
    Tokenizer {
        /// The input.
        path: PathBuf,
        /// Why there is none.
        reason: String,
    },
    /// The output folder is taken, or cannot be made. Nothing was written.
    #[error("{}: {rule}", path.display())]
    Output {
        /// The output.
        path: PathBuf,
        /// The rule it breaks, and the remedy.
        rule: String,
    },
    /// The request contradicts itself or the input.
    #[error("{0}")]
    Request(String),
    /// MLX failed.
    #[error("tensor {tensor:?}: MLX failed: {message}")]
    Mlx {
        /// The tensor at work.
        tensor: String,
        /// MLX's words.
        message: String,
    },
    /// The conversion was asked to stop.
    #[error("interrupted; nothing was written")]
    Interrupted,
}

impl ConvertError {
    /// The exit code of a program that ends with this error: 130 interrupted, 2 refused for the output's sake, 64 a
    /// contradictory request, 1 a failing machine, otherwise 4 (bad input).
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Output { .. } => 2,
            Self::Request(_) => 64,
            Self::Write { .. } | Self::Mlx { .. } => 1,
            _ => 4,
        }
    }
}

/// Differences between the tensors found and those of the architecture.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TensorFaults {
    /// Names of the architecture that the input lacks.
    pub missing: Vec<String>,
    /// Names of the input that the architecture lacks.
    pub unexpected: Vec<String>,
    /// `NAME (found SHAPE, expected SHAPE)`.
    pub misshapen: Vec<String>,
}

impl TensorFaults {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshapen.is_empty()
    }
}

impl fmt::Display for TensorFaults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, names) in
            [("missing", &self.missing), ("unexpected", &self.unexpected), ("wrong shape", &self.misshapen)]
        {
            if !names.is_empty() {
                write!(formatter, "; {what}: {}", listed(names))?;
            }
        }
        Ok(())
    }
}

/// The first names of a list, with the number of those left out.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}
