//! Digest of sampled content: a little of every tensor, so that another training of the same network shows.
//!
//! Of every tensor the first, the middle and the last [`BLOCK_BYTES`] are taken; one of no more than three blocks is taken
//! whole. Merging an adapter or training on changes the tensors that it touches almost everywhere, so a block of each
//! is enough to notice; a few edited values in a large tensor are not, which is what the full content hash is for.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{IdentityError, hex};
use crate::headers::read_header;

/// Bytes of one block.
pub const BLOCK_BYTES: u64 = 4096;

/// SHA-256 over the header's digest and the sampled blocks, in the order of the file.
pub(super) fn digest(path: &Path) -> Result<String, IdentityError> {
    let io = |source| IdentityError::Io { path: path.to_owned(), source };
    let header = read_header(path).map_err(Box::new)?;
    let file = File::open(path).map_err(io)?;
    let mut ranges: Vec<(u64, u64)> =
        header.tensors.values().map(|entry| (entry.range.start, entry.range.end)).collect();
    ranges.sort_unstable();
    let mut hasher = Sha256::new();
    hasher.update(header.sha256.as_bytes());
    let mut buffer = Vec::new();
    for (start, end) in ranges {
        for (begin, bytes) in blocks(start, end) {
            // At most three blocks, so it fits.
            buffer.resize(usize::try_from(bytes).unwrap_or_default(), 0);
            file.read_exact_at(&mut buffer, begin).map_err(io)?;
            hasher.update(&buffer);
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// `(first byte, length)` of the blocks of a tensor.
fn blocks(start: u64, end: u64) -> Vec<(u64, u64)> {
    let bytes = end.saturating_sub(start);
    if bytes <= BLOCK_BYTES.saturating_mul(3) {
        return vec![(start, bytes)];
    }
    let middle = start + (bytes - BLOCK_BYTES) / 2;
    vec![(start, BLOCK_BYTES), (middle, BLOCK_BYTES), (end - BLOCK_BYTES, BLOCK_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, blocks};

    #[test]
    fn small_tensors_are_taken_whole_and_large_ones_in_three_places() {
        assert_eq!(blocks(8, 8), [(8, 0)]);
        assert_eq!(blocks(8, 8 + 3 * BLOCK_BYTES), [(8, 3 * BLOCK_BYTES)]);
        let end = 8 + 100 * BLOCK_BYTES;
        let middle = 8 + 99 * BLOCK_BYTES / 2;
        assert_eq!(
            blocks(8, end),
            [(8, BLOCK_BYTES), (middle, BLOCK_BYTES), (end - BLOCK_BYTES, BLOCK_BYTES)]
        );
    }
}
