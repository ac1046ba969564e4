//! What the readers must hold to on any bytes. The fuzz targets and the corpus tests run these same functions.
//!
//! Each panics when a reader breaks its word; whether it accepts or refuses the bytes is its own business.

use std::io;
use std::path::Path;

use crate::config::{Config, canonical_form};
use crate::headers::parse_file;
use crate::table::Table;

/// A safetensors file: the tensors of an accepted one lie one after another, from the header's end to the file's.
pub fn header(bytes: &[u8]) {
    let Ok(header) = parse_file(bytes) else { return };
    let mut ranges: Vec<_> =
        header.tensors.values().map(|entry| (entry.range.start, entry.range.end)).collect();
    ranges.sort_unstable();
    let mut covered = header.data_start;
    for (start, end) in ranges {
        assert_eq!(start, covered, "a hole or an overlap was accepted");
        covered = end;
    }
    assert_eq!(covered, bytes.len() as u64, "a file of another length was accepted");
    for entry in header.tensors.values() {
        let elements = entry.shape.iter().try_fold(1_u64, |product, axis| product.checked_mul(*axis as u64));
        assert_eq!(elements, Some(entry.elements()), "a span that does not fit the shape was accepted");
    }
}

/// A configuration: the canonical form of an accepted one is its own canonical form.
pub fn config(bytes: &[u8]) {
    let read = Config::parse(Path::new("config.json"), bytes);
    if let Ok(config) = &read {
        assert!(!config.model_type().is_empty(), "an empty model_type was accepted");
    }
    if let Some(form) = canonical_form(bytes) {
        assert_eq!(canonical_form(form.as_bytes()), Some(form), "the canonical form is not stable");
    }
}

/// A catalog file: what was read of it is the same after writing and reading once more, and every name resolves.
pub fn table(bytes: &[u8]) {
    let Ok(table) = Table::parse(bytes) else { return };
    let text = table.to_text();
    match Table::parse(text.as_bytes()) {
        Ok(again) => {
            assert_eq!(again.to_text(), text, "writing is not stable");
            assert_eq!(again.rows().len(), table.rows().len(), "a row was lost in writing");
        }
        Err(fault) => assert!(text.is_empty(), "what was written cannot be read: {fault}"),
    }
    for row in table.rows() {
        for name in std::iter::once(&row.local_name).chain(&row.aliases) {
            assert!(table.resolve(name) != crate::table::Resolution::Unknown, "{name:?} does not resolve");
        }
    }
}

/// The inputs that a fuzzer has grown, from a file that holds one a line, escaped as `escape_ascii` does it.
///
/// # Errors
/// When the file cannot be read or a line is not escaped so.
pub fn grown(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let bad = |line: &str| io::Error::new(io::ErrorKind::InvalidData, line.to_owned());
    std::fs::read_to_string(path)?.lines().map(|line| unescaped(line).ok_or_else(|| bad(line))).collect()
}

fn unescaped(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            },
            other => other,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_inputs_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unescaped(&bytes.escape_ascii().to_string()), Some(bytes));
        assert_eq!(unescaped("\\x0"), None);
    }
}
