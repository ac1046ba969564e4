//! A cache that keeps the last positions only, for layers that attend within a sliding window.
//!
//! Attention does not care for the order of its keys (their positions are rotated into them), so decoding overwrites
//! the oldest entry in place; a chunk of several positions needs them in order and restores it.

use super::full::{first, range, write};
use crate::kernels::mlx::Result;
use mlx_rs::{Array, ops};

/// Positions added at a time while the window fills.
const STEP: i32 = 256;

/// Keys and values of `[batch, heads, capacity, head_dim]`.
#[derive(Debug)]
pub(crate) struct WindowCache {
    window: i32,
    offset: i32,
    buffers: Option<(Array, Array)>,
    /// Entries in use.
    filled: i32,
    /// The oldest entry, once the window is full: the next to be overwritten. Entries before it are the newest.
    oldest: i32,
}

impl WindowCache {
    pub(crate) fn new(window: i32) -> Self {
        Self { window, offset: 0, buffers: None, filled: 0, oldest: 0 }
    }

    pub(crate) fn offset(&self) -> i32 {
        self.offset
    }

    pub(crate) fn window(&self) -> i32 {
        self.window
    }

    pub(crate) fn arrays(&self) -> Vec<&Array> {
        self.buffers.iter().flat_map(|(keys, values)| [keys, values]).collect()
    }

    /// How many earlier positions the next chunk will see before its own.
    pub(crate) fn kept_for_next_chunk(&self) -> i32 {
        self.filled.min(self.window - 1)
    }

    pub(crate) fn update(&mut self, keys: Array, values: Array) -> Result<(Array, Array)> {
        let length = keys.dim(2);
        let seen =
            if length == 1 { self.append_one(&keys, &values)? } else { self.append_chunk(keys, values)? };
        self.offset += length;
        Ok(seen)
    }

    /// The chunk behind as many earlier positions as its first query sees.
    fn append_chunk(&mut self, keys: Array, values: Array) -> Result<(Array, Array)> {
        let kept = self.kept_for_next_chunk();
        let (keys, values) = match self.buffers.take() {
            Some((old_keys, old_values)) if kept > 0 => (
                ops::concatenate(&[self.newest(&old_keys, kept)?, keys], 2)?,
                ops::concatenate(&[self.newest(&old_values, kept)?, values], 2)?,
            ),
            _ => (keys, values),
        };
        self.filled = keys.dim(2);
        self.oldest = 0;
        self.buffers = Some((keys.clone(), values.clone()));
        Ok((keys, values))
    }

    fn append_one(&mut self, keys: &Array, values: &Array) -> Result<(Array, Array)> {
        let (mut key_buffer, mut value_buffer) = match self.buffers.take() {
            Some(buffers) => buffers,
            None => (self.empty(keys)?, self.empty(values)?),
        };
        if self.filled > self.window {
            // A chunk left more than the window; from here on nobody looks further back.
            key_buffer = range(&key_buffer, self.filled - self.window, self.filled)?;
            value_buffer = range(&value_buffer, self.filled - self.window, self.filled)?;
            self.filled = self.window;
            self.oldest = 0;
        } else if self.filled == key_buffer.dim(2) && self.filled < self.window {
            key_buffer = ops::concatenate(&[key_buffer, self.empty(keys)?], 2)?;
            value_buffer = ops::concatenate(&[value_buffer, self.empty(values)?], 2)?;
        }
        let position = if self.filled < self.window {
            self.filled += 1;
            self.filled - 1
        } else {
            let position = self.oldest;
            self.oldest = (self.oldest + 1) % self.window;
            position
        };
        let key_buffer = write(&key_buffer, keys, position)?;
        let value_buffer = write(&value_buffer, values, position)?;
        let seen = (first(&key_buffer, self.filled)?, first(&value_buffer, self.filled)?);
        self.buffers = Some((key_buffer, value_buffer));
        Ok(seen)
    }

    /// Room for the next entries, up to the window.
    fn empty(&self, like: &Array) -> Result<Array> {
        let room = STEP.min(self.window - self.filled).max(1);
        ops::zeros_dtype(&[like.dim(0), like.dim(1), room, like.dim(3)], like.dtype())
    }

    /// The last `count` entries, oldest first.
    fn newest(&self, buffer: &Array, count: i32) -> Result<Array> {
        let ordered = if self.oldest > 0 {
            ops::concatenate(&[range(buffer, self.oldest, self.filled)?, range(buffer, 0, self.oldest)?], 2)?
        } else {
            first(buffer, self.filled)?
        };
        range(&ordered, self.filled - count, self.filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `chunks` of consecutive positions and returns what the last update showed, sorted.
    fn seen_after(window: i32, chunks: &[i32]) -> Vec<i32> {
        let mut cache = WindowCache::new(window);
        let mut position = 0_i16;
        let mut seen = Vec::new();
        for &length in chunks {
            let values: Vec<f32> = (0..length)
                .map(|_| {
                    position += 1;
                    f32::from(position - 1)
                })
                .collect();
            let chunk = Array::from_slice(&values, &[1, 1, length, 1]);
            let (keys, _) = cache.update(chunk.clone(), chunk).expect("OK because the shapes agree");
            let keys = keys.as_type::<i32>().expect("OK because floats convert");
            keys.eval().expect("OK because the graph is small");
            seen = keys
                .flatten(None, None)
                .map(|keys| {
                    keys.eval().ok();
                    keys.as_slice::<i32>().to_vec()
                })
                .unwrap_or_default();
        }
        seen.sort_unstable();
        seen
    }

    #[test]
    fn decoding_sees_the_whole_window_and_nothing_older() {
        assert_eq!(seen_after(4, &[3, 1]), [0, 1, 2, 3]);
        assert_eq!(seen_after(4, &[3, 1, 1]), [1, 2, 3, 4]);
        assert_eq!(seen_after(4, &[9, 1, 1, 1, 1, 1, 1]), [11, 12, 13, 14]);
        assert_eq!(seen_after(4, &[1, 1, 1]), [0, 1, 2]);
        assert_eq!(seen_after(1, &[5, 1, 1]), [6]);
    }

    #[test]
    fn a_chunk_sees_what_its_first_query_needs() {
        assert_eq!(seen_after(4, &[5, 2]), [2, 3, 4, 5, 6]);
        assert_eq!(seen_after(4, &[5, 1, 1, 2]), [4, 5, 6, 7, 8]);
        assert_eq!(seen_after(600, &[300, 1, 1, 2]).len(), 304);
    }
}
