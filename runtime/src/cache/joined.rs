//! A cache that keeps every position, keys and values in one buffer, so that a decode step writes both at once.
//!
//! For MLX's own operations, where a step costs what its graph has in nodes; our own kernels write into buffers apart.

use super::full::grown;
use crate::kernels::mlx::{Result, slice, slice_update};
use mlx_rs::Array;

/// A buffer of `[1, 2 · heads, capacity, head_dim]`, keys before values, of which the first `offset` positions are filled.
#[derive(Debug, Default)]
pub(crate) struct JoinedCache {
    buffer: Option<Array>,
    offset: i32,
}

impl JoinedCache {
    pub(crate) fn offset(&self) -> i32 {
        self.offset
    }

    pub(crate) fn arrays(&self) -> Vec<&Array> {
        self.buffer.iter().collect()
    }

    /// Appends keys and values of `[1, heads, length, head_dim]` each, in two writes.
    pub(crate) fn update(&mut self, keys: &Array, values: &Array) -> Result<(Array, Array)> {
        let heads = keys.dim(1);
        let buffer = self.with_room_for(keys, 2 * heads)?;
        let buffer = self.write(&buffer, keys, 0)?;
        let buffer = self.write(&buffer, values, heads)?;
        self.seen(buffer, keys.dim(2))
    }

    /// Appends `[1, 2 · heads, length, head_dim]`, keys before values, in one write.
    pub(crate) fn append(&mut self, both: &Array) -> Result<(Array, Array)> {
        let buffer = self.with_room_for(both, both.dim(1))?;
        let buffer = self.write(&buffer, both, 0)?;
        self.seen(buffer, both.dim(2))
    }

    fn with_room_for(&mut self, new: &Array, heads: i32) -> Result<Array> {
        let length = new.dim(2);
        let shape = [new.dim(0), heads, length, new.dim(3)];
        match self.buffer.take() {
            Some(buffer) if self.offset + length <= buffer.dim(2) => Ok(buffer),
            buffer => grown(buffer.as_ref(), self.offset, &shape, new.dtype()),
        }
    }

    /// `buffer` with `new` in the heads from `head` on, behind the filled positions.
    fn write(&self, buffer: &Array, new: &Array, head: i32) -> Result<Array> {
        let stop = [buffer.dim(0), head + new.dim(1), self.offset + new.dim(2), buffer.dim(3)];
        slice_update(buffer, new, &[0, head, self.offset, 0], &stop)
    }

    /// Keeps the buffer, in which `new` more positions are filled, and returns the filled keys and values.
    fn seen(&mut self, buffer: Array, new: i32) -> Result<(Array, Array)> {
        self.offset += new;
        let (batch, both, dim) = (buffer.dim(0), buffer.dim(1), buffer.dim(3));
        let keys = slice(&buffer, &[0, 0, 0, 0], &[batch, both / 2, self.offset, dim])?;
        let values = slice(&buffer, &[0, both / 2, 0, 0], &[batch, both, self.offset, dim])?;
        self.buffer = Some(buffer);
        Ok((keys, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::full::FullCache;

    const HEADS: i32 = 3;
    const DIM: i32 = 2;

    /// Keys or values of `length` positions, every number another.
    fn numbered(length: i32, start: i16) -> Array {
        let count = usize::try_from(HEADS * length * DIM).unwrap_or(0);
        let values: Vec<f32> = (start..).take(count).map(f32::from).collect();
        Array::from_slice(&values, &[1, HEADS, length, DIM])
    }

    fn numbers(array: &Array) -> Vec<f32> {
        let flat = array.flatten(None, None).expect("OK because every array can be flattened");
        flat.eval().expect("OK because the graph is small");
        flat.as_slice::<f32>().to_vec()
    }

    #[test]
    fn it_shows_what_a_cache_with_two_buffers_shows_also_when_it_grows() {
        let (mut joined, mut apart) = (JoinedCache::default(), FullCache::default());
        for (index, length) in (0_i16..).zip([5, 1, 1, 260, 1, 1]) {
            let (keys, values) = (numbered(length, index * 100), numbered(length, index * 100 + 50));
            let expected = apart.update(&keys, &values).expect("OK because the shapes agree");
            let seen = if length == 1 {
                let both =
                    mlx_rs::ops::concatenate(&[&keys, &values], 1).expect("OK because the shapes agree");
                joined.append(&both)
            } else {
                joined.update(&keys, &values)
            }
            .expect("OK because the shapes agree");
            assert_eq!(joined.offset(), apart.offset());
            assert_eq!(seen.0.shape(), expected.0.shape());
            assert_eq!(numbers(&seen.0), numbers(&expected.0), "keys after chunk {index}");
            assert_eq!(numbers(&seen.1), numbers(&expected.1), "values after chunk {index}");
        }
    }
}
