//! A cache that keeps every position, grown in steps so that decoding writes in place.

use crate::kernels::mlx::{Result, slice, slice_update};
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, ops};

/// Positions added at a time, as in mlx-lm.
const STEP: i32 = 256;

/// Keys and values of `[batch, heads, capacity, head_dim]`, of which the first `offset` positions are filled.
#[derive(Debug, Default)]
pub(crate) struct FullCache {
    buffers: Option<(Array, Array)>,
    offset: i32,
}

impl FullCache {
    pub(crate) fn offset(&self) -> i32 {
        self.offset
    }

    pub(crate) fn arrays(&self) -> Vec<&Array> {
        self.buffers.iter().flat_map(|(keys, values)| [keys, values]).collect()
    }

    pub(crate) fn update(&mut self, keys: &Array, values: &Array) -> Result<(Array, Array)> {
        let (key_buffer, value_buffer) = self.with_room_for(keys.shape(), keys.dtype())?;
        let key_buffer = write(&key_buffer, keys, self.offset)?;
        let value_buffer = write(&value_buffer, values, self.offset)?;
        let end = self.offset + keys.dim(2);
        let seen = (first(&key_buffer, end)?, first(&value_buffer, end)?);
        self.keep(key_buffer, value_buffer, keys.dim(2));
        Ok(seen)
    }

    /// Takes the buffers out, with room for keys and values of `shape` behind the filled positions. Until
    /// [`keep`](Self::keep) puts them back, the cache has none.
    pub(crate) fn with_room_for(&mut self, shape: &[i32], dtype: Dtype) -> Result<(Array, Array)> {
        let length = shape.get(2).copied().unwrap_or(0);
        let grown = |buffer: Option<&Array>| grown(buffer, self.offset, shape, dtype);
        match self.buffers.take() {
            None => Ok((grown(None)?, grown(None)?)),
            Some((keys, values)) if self.offset + length > keys.dim(2) => {
                Ok((grown(Some(&keys))?, grown(Some(&values))?))
            }
            Some(buffers) => Ok(buffers),
        }
    }

    /// Puts the buffers back, in which `new` more positions are filled.
    pub(crate) fn keep(&mut self, keys: Array, values: Array, new: i32) {
        self.buffers = Some((keys, values));
        self.offset += new;
    }
}

/// A buffer with room for keys or values of `shape` behind the first `filled` positions of the old one.
pub(super) fn grown(buffer: Option<&Array>, filled: i32, shape: &[i32], dtype: Dtype) -> Result<Array> {
    let &[batch, heads, length, dim] = shape else {
        return Err(Exception::custom("keys and values have four axes"));
    };
    let room = (length + STEP - 1) / STEP * STEP;
    let empty = ops::zeros_dtype(&[batch, heads, room, dim], dtype)?;
    match buffer {
        None => Ok(empty),
        Some(buffer) => ops::concatenate(&[first(buffer, filled)?, empty], 2),
    }
}

/// The first `length` positions of `[batch, heads, positions, head_dim]`.
pub(super) fn first(buffer: &Array, length: i32) -> Result<Array> {
    range(buffer, 0, length)
}

/// The positions from `start` to `stop`.
pub(crate) fn range(buffer: &Array, start: i32, stop: i32) -> Result<Array> {
    if start == 0 && stop == buffer.dim(2) {
        return Ok(buffer.clone());
    }
    slice(buffer, &[0, 0, start, 0], &[buffer.dim(0), buffer.dim(1), stop, buffer.dim(3)])
}

/// `buffer` with `new` written from position `start`.
pub(super) fn write(buffer: &Array, new: &Array, start: i32) -> Result<Array> {
    let stop = [buffer.dim(0), buffer.dim(1), start + new.dim(2), buffer.dim(3)];
    slice_update(buffer, new, &[0, 0, start, 0], &stop)
}
