//! What can be wrong with a safetensors file, and how it is said.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::{Dtype, MAX_HEADER_BYTES};

/// A safetensors file that cannot be used.
#[derive(Debug, Error)]
#[error("{}: {fault}", path.display())]
pub struct HeaderError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: HeaderFault,
}

/// What can be wrong with a safetensors file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}; see to its permissions or get it again")]
    Io(io::Error),
    /// The path names a folder or a device.
    #[error("is not a regular file; remove it or get the file")]
    NotAFile,
    /// There is no room for the header's length.
    #[error("is {file_bytes} bytes long, too short for a safetensors file; get the file again")]
    TooShort {
        /// Size of the file.
        file_bytes: u64,
    },
    /// The header is longer than the format allows.
    #[error(
        "declares a header of {header_bytes} bytes, over the limit of {MAX_HEADER_BYTES}; it is not a safetensors file \
         or is damaged: get it again"
    )]
    HeaderTooLong {
        /// Declared length.
        header_bytes: u64,
    },
    /// The header ends after the file does.
    #[error(
        "declares a header of {header_bytes} bytes, but the file is only {file_bytes} bytes long; it is truncated: get \
         it again"
    )]
    HeaderBeyondFile {
        /// Declared length.
        header_bytes: u64,
        /// Size of the file.
        file_bytes: u64,
    },
    /// The header is not text.
    #[error("the header is not UTF-8 (at byte {at} of the header); the file is damaged: get it again")]
    NotUtf8 {
        /// Offset of the first wrong byte within the header.
        at: usize,
    },
    /// The header is not a JSON object of the right form. A tensor name given twice is among these.
    #[error("the header is not valid: {0}; get the file again")]
    NotValid(String),
    /// The element type has no known size.
    #[error("tensor {tensor:?} has the unknown dtype {dtype:?}; convert the checkpoint to a known one")]
    UnknownDtype {
        /// Name of the tensor.
        tensor: String,
        /// The spelling found.
        dtype: String,
    },
    /// An axis is negative, fractional or too large.
    #[error(
        "tensor {tensor:?} has an axis of length {axis} in its shape; lengths are whole and not negative; get the file \
         again"
    )]
    BadShape {
        /// Name of the tensor.
        tensor: String,
        /// The length found.
        axis: String,
    },
    /// The product of the shape and the element size does not fit 64 bits.
    #[error("tensor {tensor:?} of shape {shape:?} is too large to exist; get the file again")]
    ShapeOverflow {
        /// Name of the tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// `data_offsets` is negative, fractional, too large or the wrong way round.
    #[error(
        "tensor {tensor:?} has the data_offsets {offsets}, which are not a byte range; get the file again"
    )]
    BadOffsets {
        /// Name of the tensor.
        tensor: String,
        /// The offsets found.
        offsets: String,
    },
    /// The byte range is not as long as dtype and shape say.
    #[error(
        "tensor {tensor:?} ({dtype}, shape {shape:?}) needs {expected} bytes, but its data_offsets span {found}; \
         get the file again"
    )]
    WrongSpan {
        /// Name of the tensor.
        tensor: String,
        /// Its element type.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<usize>,
        /// Bytes needed.
        expected: u64,
        /// Bytes spanned.
        found: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first:?} and {second:?} overlap in the file; it is damaged: get it again")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The other.
        second: String,
    },
    /// Bytes belong to no tensor.
    #[error(
        "the {bytes} bytes before tensor {tensor:?} belong to no tensor; the file is damaged: get it again"
    )]
    Hole {
        /// The tensor after the hole.
        tensor: String,
        /// Length of the hole.
        bytes: u64,
    },
    /// The file ends before its tensors do.
    #[error(
        "is truncated: the header declares {expected} bytes in all, the file has {found}, which cuts into tensor \
         {tensor:?}; get the file again"
    )]
    Truncated {
        /// The first tensor whose data is not all there.
        tensor: String,
        /// Declared size.
        expected: u64,
        /// Real size.
        found: u64,
    },
    /// The file goes on after its tensors.
    #[error("has {} bytes after the last tensor ({expected} declared, {found} found); it is damaged: get it again", found.saturating_sub(*expected))]
    TrailingBytes {
        /// Declared size.
        expected: u64,
        /// Real size, larger than `expected`.
        found: u64,
    },
}
