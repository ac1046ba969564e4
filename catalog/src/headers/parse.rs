//! From the header's text to checked tensor entries.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Number;

use super::{Dtype, HeaderFault, TensorEntry};
use crate::json::UniqueMap;

const METADATA_KEY: &str = "__metadata__";

/// What a header's text says.
pub(super) struct Parsed {
    pub(super) tensors: BTreeMap<String, TensorEntry>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Parses the header; ranges are moved by `data_start`, so that they count from the beginning of the file.
pub(super) fn parse(text: &str, data_start: u64) -> Result<Parsed, HeaderFault> {
    if !text.starts_with('{') {
        return Err(HeaderFault::NotValid("it does not begin with {, as the format demands".to_owned()));
    }
    let wire: WireHeader =
        serde_json::from_str(text).map_err(|error| HeaderFault::NotValid(error.to_string()))?;
    let tensors = wire
        .tensors
        .into_iter()
        .map(|(name, tensor)| entry(&name, &tensor, data_start).map(|entry| (name, entry)))
        .collect::<Result<_, _>>()?;
    Ok(Parsed { tensors, metadata: wire.metadata })
}

fn entry(name: &str, wire: &WireTensor, data_start: u64) -> Result<TensorEntry, HeaderFault> {
    let tensor = || name.to_owned();
    let dtype = Dtype::from_name(&wire.dtype)
        .ok_or_else(|| HeaderFault::UnknownDtype { tensor: tensor(), dtype: wire.dtype.clone() })?;
    let shape = wire
        .shape
        .iter()
        .map(|axis| {
            axis.as_u64()
                .and_then(|axis| usize::try_from(axis).ok())
                .ok_or_else(|| HeaderFault::BadShape { tensor: tensor(), axis: axis.to_string() })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let expected = byte_count(dtype, &shape)
        .ok_or_else(|| HeaderFault::ShapeOverflow { tensor: tensor(), shape: shape.clone() })?;
    let bad_offsets = || HeaderFault::BadOffsets {
        tensor: tensor(),
        offsets: format!("[{}, {}]", wire.data_offsets[0], wire.data_offsets[1]),
    };
    let [begin, end] = [wire.data_offsets[0].as_u64(), wire.data_offsets[1].as_u64()]
        .map(|offset| offset.and_then(|offset| offset.checked_add(data_start)));
    let range = begin.ok_or_else(bad_offsets)?..end.ok_or_else(bad_offsets)?;
    if range.start > range.end {
        return Err(bad_offsets());
    }
    let found = range.end - range.start;
    if found != expected {
        return Err(HeaderFault::WrongSpan { tensor: tensor(), dtype, shape, expected, found });
    }
    Ok(TensorEntry { dtype, shape, range })
}

/// Bytes of a tensor, or nothing where a partial product does not fit 64 bits (as the reference implementation
/// demands even when another axis is 0).
fn byte_count(dtype: Dtype, shape: &[usize]) -> Option<u64> {
    shape
        .iter()
        .try_fold(1_u64, |elements, &axis| elements.checked_mul(u64::try_from(axis).ok()?))?
        .checked_mul(dtype.bytes())
}

/// Checks that the tensors lie one after another from `data_start` to the end of the file.
pub(super) fn check_coverage(
    tensors: &BTreeMap<String, TensorEntry>,
    data_start: u64,
    file_bytes: u64,
) -> Result<(), HeaderFault> {
    let mut in_order: Vec<_> = tensors.iter().collect();
    in_order.sort_by_key(|(_, entry)| (entry.range.start, entry.range.end));
    let mut covered = data_start;
    let mut previous = "";
    for &(name, entry) in &in_order {
        if entry.range.start < covered {
            return Err(HeaderFault::Overlap { first: previous.to_owned(), second: name.clone() });
        }
        if entry.range.start > covered {
            return Err(HeaderFault::Hole { tensor: name.clone(), bytes: entry.range.start - covered });
        }
        covered = entry.range.end;
        previous = name;
    }
    if covered > file_bytes {
        let cut = in_order.iter().find(|(_, entry)| entry.range.end > file_bytes);
        let tensor = cut.map_or_else(String::new, |(name, _)| (*name).clone());
        return Err(HeaderFault::Truncated { tensor, expected: covered, found: file_bytes });
    }
    if covered < file_bytes {
        return Err(HeaderFault::TrailingBytes { expected: covered, found: file_bytes });
    }
    Ok(())
}

// An unknown field could change what the known ones mean, so it is refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireTensor {
    dtype: String,
    shape: Vec<Number>,
    data_offsets: [Number; 2],
}

#[derive(Debug, Default)]
struct WireHeader {
    tensors: BTreeMap<String, WireTensor>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for WireHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = WireHeader;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<WireHeader, A::Error> {
        let mut header = WireHeader::default();
        let mut metadata_seen = false;
        while let Some(name) = access.next_key::<String>()? {
            if name == METADATA_KEY {
                if std::mem::replace(&mut metadata_seen, true) {
                    return Err(A::Error::custom(format_args!("{METADATA_KEY} is given twice")));
                }
                // `null` is what the reference implementation also reads as none.
                let metadata = access
                    .next_value::<Option<UniqueMap<String>>>()
                    .map_err(|error| A::Error::custom(format_args!("in {METADATA_KEY}: {error}")))?;
                header.metadata = metadata.map(|map| map.0).unwrap_or_default();
                continue;
            }
            let tensor = access
                .next_value::<WireTensor>()
                .map_err(|error| A::Error::custom(format_args!("in tensor {name:?}: {error}")))?;
            match header.tensors.entry(name) {
                Entry::Vacant(slot) => slot.insert(tensor),
                Entry::Occupied(slot) => {
                    return Err(A::Error::custom(format_args!("tensor {:?} is given twice", slot.key())));
                }
            };
        }
        Ok(header)
    }
}
