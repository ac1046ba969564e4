//! Strict reader of safetensors headers: names, element types, shapes and byte ranges, never the tensor data.
//!
//! A file is 8 bytes (little-endian `u64`: length of the header), the header (a JSON object in UTF-8), then the tensor
//! data. The header maps each tensor's name to `dtype`, `shape` and `data_offsets` (begin and end, counted from the end
//! of the header), and `__metadata__` to an object of strings. The data must be covered by the tensors without hole or
//! overlap and end where the file ends, so that truncation shows without reading it.

mod dtype;
mod fault;
mod parse;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

pub use dtype::Dtype;
pub use fault::{HeaderError, HeaderFault};

use crate::identity::sha256_hex;

/// The longest header accepted, in bytes: the limit of the format's reference implementation.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

const LENGTH_BYTES: u64 = 8;
/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorEntry {
    /// Element type.
    pub dtype: Dtype,
    /// Length of each axis, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// Byte range of the data, counted from the beginning of the file.
    pub range: Range<u64>,
}

impl TensorEntry {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.byte_count() / self.dtype.bytes()
    }

    /// Bytes of the data.
    pub fn byte_count(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }
}

/// What the header of one file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The tensors by name.
    pub tensors: BTreeMap<String, TensorEntry>,
    /// The `__metadata__` object; empty when there is none.
    pub metadata: BTreeMap<String, String>,
    /// Size of the whole file in bytes.
    pub file_bytes: u64,
    /// Where the tensor data begins, in bytes from the beginning of the file.
    pub data_start: u64,
    /// SHA-256 of the header's bytes (without the 8 bytes of its length), in lower-case hex.
    pub sha256: String,
}

/// Reads and checks the header of the file at `path` (links are followed). The tensor data is not read.
pub fn read_header(path: &Path) -> Result<Header, HeaderError> {
    read(path).map_err(|fault| HeaderError { path: path.to_owned(), fault })
}

/// The header's bytes of a file whose lengths are plausible; what the bytes say is not looked at.
#[derive(Debug)]
pub(crate) struct RawHeader {
    bytes: Vec<u8>,
    file_bytes: u64,
    data_start: u64,
}

impl RawHeader {
    /// SHA-256 of the header's bytes, as [`Header::sha256`].
    pub(crate) fn sha256(&self) -> String {
        sha256_hex(&self.bytes)
    }

    /// Size of the whole file.
    pub(crate) const fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

/// Reads the header's bytes, and no more than the first [`MAX_HEADER_BYTES`] of a file.
pub(crate) fn read_raw(path: &Path) -> Result<RawHeader, HeaderError> {
    raw(path).map_err(|fault| HeaderError { path: path.to_owned(), fault })
}

/// Checks a file in memory as [`read_header`] checks one on disk.
pub fn parse_file(bytes: &[u8]) -> Result<Header, HeaderFault> {
    checked(&raw_of(bytes, bytes.len() as u64)?)
}

fn raw(path: &Path) -> Result<RawHeader, HeaderFault> {
    // Asked before opening: opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(HeaderFault::Io)?.is_file() {
        return Err(HeaderFault::NotAFile);
    }
    let file = File::open(path).map_err(HeaderFault::Io)?;
    let file_bytes = file.metadata().map_err(HeaderFault::Io)?.len();
    raw_of(file, file_bytes)
}

fn raw_of(mut file: impl Read, file_bytes: u64) -> Result<RawHeader, HeaderFault> {
    if file_bytes < LENGTH_BYTES {
        return Err(HeaderFault::TooShort { file_bytes });
    }
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(HeaderFault::Io)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(HeaderFault::HeaderTooLong { header_bytes });
    }
    let data_start = LENGTH_BYTES + header_bytes;
    if data_start > file_bytes {
        return Err(HeaderFault::HeaderBeyondFile { header_bytes, file_bytes });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(header_bytes).unwrap_or_default());
    file.take(header_bytes).read_to_end(&mut bytes).map_err(HeaderFault::Io)?;
    if bytes.len() as u64 != header_bytes {
        return Err(HeaderFault::HeaderBeyondFile {
            header_bytes,
            file_bytes: LENGTH_BYTES + bytes.len() as u64,
        });
    }
    Ok(RawHeader { bytes, file_bytes, data_start })
}

fn read(path: &Path) -> Result<Header, HeaderFault> {
    checked(&raw(path)?)
}

fn checked(raw: &RawHeader) -> Result<Header, HeaderFault> {
    let &RawHeader { ref bytes, file_bytes, data_start } = raw;
    let text =
        std::str::from_utf8(bytes).map_err(|error| HeaderFault::NotUtf8 { at: error.valid_up_to() })?;
    let parse::Parsed { tensors, metadata } = parse::parse(text, data_start)?;
    parse::check_coverage(&tensors, data_start, file_bytes)?;
    Ok(Header { tensors, metadata, file_bytes, data_start, sha256: raw.sha256() })
}
