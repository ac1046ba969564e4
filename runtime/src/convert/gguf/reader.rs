//! Reads a GGUF file's header, metadata and tensor list, and tensor data by range.
//!
//! The file may be hostile: every count and length is checked against the bytes that are left before anything is
//! allocated, sizes are computed with checked arithmetic, and an error names the file, the offset and the rule.
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3, little-endian.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::block_type::{BlockType, number_name};
use super::value::{Array, Metadata, Value};

const MAGIC: u32 = u32::from_le_bytes(*b"GGUF");
const DEFAULT_ALIGNMENT: u64 = 32;
/// Largest metadata plus tensor list accepted; the largest real ones (vocabularies of 262,144 tokens) take 13 MB.
const MAX_HEADER_BYTES: u64 = 128 * 1024 * 1024;
const MAX_TENSORS: u64 = 1 << 20;
const MAX_KEYS: u64 = 1 << 16;
const MAX_AXES: u32 = 4;
const MAX_ARRAY_DEPTH: u32 = 3;
/// Name (length alone), axis count, type and offset: what the shortest possible tensor entry takes.
const MIN_TENSOR_ENTRY_BYTES: u64 = 8 + 4 + 4 + 8;

/// A GGUF file that cannot be used.
#[derive(Debug, Error)]
#[error("{}: at byte {offset}: {fault}", path.display())]
pub struct GgufError {
    /// The file.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// What is wrong there.
    pub fault: GgufFault,
}

/// What can be wrong with a GGUF file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GgufFault {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Io(io::Error),
    /// The file does not begin with the magic.
    #[error("does not begin with the letters GGUF, so it is not a GGUF file")]
    NotGguf,
    /// The file is of the other byte order.
    #[error(
        "is big-endian; only little-endian GGUF files are read: convert it with gguf-py's gguf_convert_endian"
    )]
    BigEndian,
    /// The version is not 2 or 3.
    #[error("has version {0}; versions 2 and 3 are read: make the file again with a current llama.cpp")]
    Version(u32),
    /// The file ends within a value.
    #[error(
        "the file ends within {what} ({needed} bytes needed, {left} left); it is truncated: get it again"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes left.
        left: u64,
    },
    /// A count or length is over the limit.
    #[error("{what} is {found}, over the limit of {limit}; the file is damaged")]
    OverLimit {
        /// What is too large.
        what: &'static str,
        /// The value found.
        found: u64,
        /// The largest accepted.
        limit: u64,
    },
    /// A text is not UTF-8.
    #[error("{what} is not UTF-8; the file is damaged")]
    NotUtf8 {
        /// Which text.
        what: &'static str,
    },
    /// A metadata type number is unknown.
    #[error("metadata key {key:?} has the unknown value type {number}")]
    UnknownValueType {
        /// The key.
        key: String,
        /// The type number.
        number: u32,
    },
    /// A truth value is neither 0 nor 1.
    #[error("metadata key {key:?} has the truth value {found}; only 0 and 1 are valid")]
    BadBool {
        /// The key.
        key: String,
        /// The byte found.
        found: u8,
    },
    /// A key or tensor name occurs twice.
    #[error("{what} {name:?} occurs twice; the file is damaged")]
    Duplicate {
        /// Key or tensor.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// `general.alignment` is not usable.
    #[error("general.alignment is {0}; it must be a power of two of at least 8")]
    Alignment(String),
    /// A tensor's type is not supported.
    #[error(
        "tensor {tensor:?} has the type {type_name}, which is not supported (supported: {}); get the model in one of \
         those types",
        supported()
    )]
    UnsupportedType {
        /// The tensor.
        tensor: String,
        /// Its type.
        type_name: String,
    },
    /// A tensor's shape is not usable.
    #[error("tensor {tensor:?} has the shape {shape:?} (innermost first), {rule}")]
    Shape {
        /// The tensor.
        tensor: String,
        /// Its axes as stored.
        shape: Vec<u64>,
        /// Which rule it breaks.
        rule: String,
    },
    /// A tensor's offset is not aligned.
    #[error(
        "tensor {tensor:?} begins at data offset {found}, which is no multiple of the alignment {alignment}"
    )]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Its offset.
        found: u64,
        /// The alignment.
        alignment: u64,
    },
    /// A tensor's data is not all there.
    #[error(
        "the data of tensor {tensor:?} ends at byte {end}, but the file has {file_bytes}; it is truncated: get it again"
    )]
    DataBeyondFile {
        /// The tensor.
        tensor: String,
        /// Where its data ends.
        end: u64,
        /// Size of the file.
        file_bytes: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first:?} and {second:?} overlap; the file is damaged")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The other.
        second: String,
    },
}

fn supported() -> String {
    BlockType::ALL.iter().map(|block_type| block_type.name()).collect::<Vec<_>>().join(", ")
}

/// One tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufTensor {
    /// Element or block type.
    pub block_type: BlockType,
    /// Length of each axis, outermost first (the file stores them innermost first).
    pub shape: Vec<usize>,
    /// First byte of the data, counted from the beginning of the file.
    pub start: u64,
    /// Bytes of the data.
    pub bytes: u64,
}

impl GgufTensor {
    /// Elements of a row (the last axis).
    pub fn row_elements(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
}

/// An open GGUF file.
#[derive(Debug)]
pub struct GgufFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    tensors: BTreeMap<String, GgufTensor>,
}

impl GgufFile {
    /// Opens the file at `path` and checks everything but the tensor data.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let fail = |offset, fault| GgufError { path: path.to_owned(), offset, fault };
        let file = File::open(path).map_err(|error| fail(0, GgufFault::Io(error)))?;
        let file_bytes = file.metadata().map_err(|error| fail(0, GgufFault::Io(error)))?.len();
        let mut cursor = Cursor { reader: BufReader::new(&file), position: 0, end: file_bytes };
        let parsed = read_all(&mut cursor, file_bytes);
        let (metadata, tensors) = parsed.map_err(|fault| fail(cursor.position, fault))?;
        Ok(Self { path: path.to_owned(), file, metadata, tensors })
    }

    /// The file's path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, GgufTensor> {
        &self.tensors
    }

    /// Reads `buffer.len()` bytes of the tensor's data, from its byte `from` on.
    pub fn read_data(&mut self, tensor: &GgufTensor, from: u64, buffer: &mut [u8]) -> Result<(), GgufError> {
        let start = tensor.start.saturating_add(from);
        let result = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(buffer));
        result.map_err(|error| GgufError {
            path: self.path.clone(),
            offset: start,
            fault: GgufFault::Io(error),
        })
    }
}

type Parsed = (Metadata, BTreeMap<String, GgufTensor>);

fn read_all<R: Read>(cursor: &mut Cursor<R>, file_bytes: u64) -> Result<Parsed, GgufFault> {
    if cursor.end < 4 || cursor.u32("the magic")? != MAGIC {
        return Err(GgufFault::NotGguf);
    }
    let version = cursor.u32("the version")?;
    if version.swap_bytes() == 2 || version.swap_bytes() == 3 {
        return Err(GgufFault::BigEndian);
    }
    if !(2..=3).contains(&version) {
        return Err(GgufFault::Version(version));
    }
    let tensor_count = cursor.count("the number of tensors", MAX_TENSORS)?;
    let key_count = cursor.count("the number of metadata keys", MAX_KEYS)?;
    // From here on nothing may reach past the limit, whatever size the file has.
    cursor.end = cursor.end.min(MAX_HEADER_BYTES);

    let mut metadata = Metadata::new();
    for _ in 0..key_count {
        let key = cursor.text("a metadata key")?;
        let number = cursor.u32("a value type")?;
        let value = read_value(cursor, &key, number)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(GgufFault::Duplicate { what: "metadata key", name: key });
        }
    }
    let alignment = match metadata.get("general.alignment") {
        None => DEFAULT_ALIGNMENT,
        Some(value) => value
            .as_usize()
            .map(|alignment| alignment as u64)
            .filter(|alignment| alignment.is_power_of_two() && (8..=1 << 20).contains(alignment))
            .ok_or_else(|| GgufFault::Alignment(format!("{value:?}")))?,
    };

    cursor.need("the tensor list", tensor_count.saturating_mul(MIN_TENSOR_ENTRY_BYTES))?;
    let mut tensors = BTreeMap::new();
    for _ in 0..tensor_count {
        let (name, tensor) = read_tensor_entry(cursor, alignment)?;
        if tensors.contains_key(&name) {
            return Err(GgufFault::Duplicate { what: "tensor", name });
        }
        tensors.insert(name, tensor);
    }
    place(&mut tensors, cursor.position.next_multiple_of(alignment), file_bytes)?;
    Ok((metadata, tensors))
}

fn read_tensor_entry<R: Read>(
    cursor: &mut Cursor<R>,
    alignment: u64,
) -> Result<(String, GgufTensor), GgufFault> {
    let name = cursor.text("a tensor name")?;
    let axes = cursor.u32("the number of axes")?;
    if axes > MAX_AXES {
        return Err(GgufFault::OverLimit {
            what: "the number of axes of a tensor",
            found: axes.into(),
            limit: MAX_AXES.into(),
        });
    }
    let mut stored = Vec::new();
    for _ in 0..axes {
        stored.push(cursor.u64("an axis")?);
    }
    let number = cursor.u32("a tensor type")?;
    let start = cursor.u64("a tensor offset")?;
    let Some(block_type) = BlockType::from_number(number) else {
        return Err(GgufFault::UnsupportedType { tensor: name, type_name: number_name(number) });
    };
    let wrong = |rule: String| GgufFault::Shape { tensor: name.clone(), shape: stored.clone(), rule };
    let shape = stored.iter().rev().map(|&axis| usize::try_from(axis).ok()).collect::<Option<Vec<_>>>();
    let shape = shape.ok_or_else(|| wrong("which is too large to exist".to_owned()))?;
    let row = shape.last().copied().unwrap_or(1);
    let row_bytes = block_type.row_bytes(row).ok_or_else(|| {
        wrong(format!(
            "whose rows are no whole number of {block_type} blocks of {}",
            block_type.block_elements()
        ))
    })?;
    let rows = shape.iter().rev().skip(1).try_fold(1_usize, |rows, &axis| rows.checked_mul(axis));
    let bytes = rows.and_then(|rows| rows.checked_mul(row_bytes)).and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| wrong("which is too large to exist".to_owned()))?;
    if !start.is_multiple_of(alignment) {
        return Err(GgufFault::Misaligned { tensor: name, found: start, alignment });
    }
    Ok((name, GgufTensor { block_type, shape, start, bytes }))
}

/// Turns data offsets into file offsets and checks that every tensor has its own bytes.
fn place(
    tensors: &mut BTreeMap<String, GgufTensor>,
    data_start: u64,
    file_bytes: u64,
) -> Result<(), GgufFault> {
    for (name, tensor) in tensors.iter_mut() {
        let start = data_start.saturating_add(tensor.start);
        let end = start.saturating_add(tensor.bytes);
        if end > file_bytes {
            return Err(GgufFault::DataBeyondFile { tensor: name.clone(), end, file_bytes });
        }
        tensor.start = start;
    }
    let mut by_start: Vec<_> = tensors.iter().filter(|(_, tensor)| tensor.bytes > 0).collect();
    by_start.sort_by_key(|(_, tensor)| tensor.start);
    for pair in by_start.windows(2) {
        if let [(first, left), (second, right)] = pair
            && left.start + left.bytes > right.start
        {
            return Err(GgufFault::Overlap { first: (*first).clone(), second: (*second).clone() });
        }
    }
    Ok(())
}

fn read_value<R: Read>(cursor: &mut Cursor<R>, key: &str, number: u32) -> Result<Value, GgufFault> {
    Ok(match number {
        0 | 2 | 4 | 10 => Value::Unsigned(cursor.unsigned(number)?),
        1 | 3 | 5 | 11 => Value::Signed(cursor.signed(number)?),
        6 | 12 => Value::Float(cursor.float(number)?),
        7 => Value::Bool(read_bool(cursor, key)?),
        8 => Value::Text(cursor.text("a metadata text")?),
        9 => Value::Array(read_array(cursor, key, 0)?),
        _ => return Err(GgufFault::UnknownValueType { key: key.to_owned(), number }),
    })
}

fn read_bool<R: Read>(cursor: &mut Cursor<R>, key: &str) -> Result<bool, GgufFault> {
    match cursor.bytes::<1>("a truth value")? {
        [0] => Ok(false),
        [1] => Ok(true),
        [found] => Err(GgufFault::BadBool { key: key.to_owned(), found }),
    }
}

fn read_array<R: Read>(cursor: &mut Cursor<R>, key: &str, depth: u32) -> Result<Array, GgufFault> {
    if depth >= MAX_ARRAY_DEPTH {
        return Err(GgufFault::OverLimit {
            what: "the depth of nested arrays",
            found: u64::from(depth) + 1,
            limit: MAX_ARRAY_DEPTH.into(),
        });
    }
    let number = cursor.u32("an array's element type")?;
    let count = cursor.u64("an array's length")?;
    let smallest = match number {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        9 => 12,
        _ => return Err(GgufFault::UnknownValueType { key: key.to_owned(), number }),
    };
    cursor.need("an array", count.saturating_mul(smallest))?;
    // `need` has shown that so many elements are in the file, below the limit of the header.
    let elements = 0..count;
    Ok(match number {
        0 | 2 | 4 | 10 => {
            Array::Unsigned(elements.map(|_| cursor.unsigned(number)).collect::<Result<_, _>>()?)
        }
        1 | 3 | 5 | 11 => Array::Signed(elements.map(|_| cursor.signed(number)).collect::<Result<_, _>>()?),
        6 | 12 => Array::Float(elements.map(|_| cursor.float(number)).collect::<Result<_, _>>()?),
        7 => Array::Bool(elements.map(|_| read_bool(cursor, key)).collect::<Result<_, _>>()?),
        8 => Array::Text(elements.map(|_| cursor.text("a text of an array")).collect::<Result<_, _>>()?),
        _ => Array::Nested(elements.map(|_| read_array(cursor, key, depth + 1)).collect::<Result<_, _>>()?),
    })
}

/// A reader that knows its position and how much is left.
struct Cursor<R> {
    reader: R,
    position: u64,
    end: u64,
}

impl<R: Read> Cursor<R> {
    fn need(&self, what: &'static str, needed: u64) -> Result<(), GgufFault> {
        let left = self.end.saturating_sub(self.position);
        if needed <= left {
            return Ok(());
        }
        // Where the header's limit is what ends, and not the file, the limit is the rule to name.
        if self.end == MAX_HEADER_BYTES {
            let found = self.position.saturating_add(needed);
            return Err(GgufFault::OverLimit {
                what: "the size of the header",
                found,
                limit: MAX_HEADER_BYTES,
            });
        }
        Err(GgufFault::Truncated { what, needed, left })
    }

    fn bytes<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufFault> {
        self.need(what, N as u64)?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(GgufFault::Io)?;
        self.position += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, GgufFault> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, GgufFault> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    fn count(&mut self, what: &'static str, limit: u64) -> Result<u64, GgufFault> {
        let found = self.u64(what)?;
        if found > limit { Err(GgufFault::OverLimit { what, found, limit }) } else { Ok(found) }
    }

    fn unsigned(&mut self, number: u32) -> Result<u64, GgufFault> {
        let what = "a metadata integer";
        Ok(match number {
            0 => u64::from(u8::from_le_bytes(self.bytes(what)?)),
            2 => u64::from(u16::from_le_bytes(self.bytes(what)?)),
            4 => u64::from(u32::from_le_bytes(self.bytes(what)?)),
            _ => u64::from_le_bytes(self.bytes(what)?),
        })
    }

    fn signed(&mut self, number: u32) -> Result<i64, GgufFault> {
        let what = "a metadata integer";
        Ok(match number {
            1 => i64::from(i8::from_le_bytes(self.bytes(what)?)),
            3 => i64::from(i16::from_le_bytes(self.bytes(what)?)),
            5 => i64::from(i32::from_le_bytes(self.bytes(what)?)),
            _ => i64::from_le_bytes(self.bytes(what)?),
        })
    }

    fn float(&mut self, number: u32) -> Result<f64, GgufFault> {
        let what = "a metadata number";
        Ok(match number {
            6 => f64::from(f32::from_le_bytes(self.bytes(what)?)),
            _ => f64::from_le_bytes(self.bytes(what)?),
        })
    }

    fn text(&mut self, what: &'static str) -> Result<String, GgufFault> {
        let length = self.u64(what)?;
        self.need(what, length)?;
        let mut bytes = Vec::new();
        self.reader.by_ref().take(length).read_to_end(&mut bytes).map_err(GgufFault::Io)?;
        if bytes.len() as u64 != length {
            return Err(GgufFault::Truncated { what, needed: length, left: bytes.len() as u64 });
        }
        self.position += length;
        String::from_utf8(bytes).map_err(|_| GgufFault::NotUtf8 { what })
    }
}
