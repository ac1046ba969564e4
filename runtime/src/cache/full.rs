//! A cache that keeps every position, grown in steps so that decoding writes in place.

use crate::kernels::mlx::{Result, slice, slice_update};
use mlx_rs::{Array, ops};

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
        let end = self.offset + keys.dim(2);
        let (key_buffer, value_buffer) = match self.buffers.take() {
            None => (grown(None, self.offset, keys)?, grown(None, self.offset, values)?),
            Some((key_buffer, value_buffer)) if end > key_buffer.dim(2) => (
                grown(Some(&key_buffer), self.offset, keys)?,
                grown(Some(&value_buffer), self.offset, values)?,
            ),
            Some(buffers) => buffers,
        };
        let key_buffer = write(&key_buffer, keys, self.offset)?;
        let value_buffer = write(&value_buffer, values, self.offset)?;
        let seen = (first(&key_buffer, end)?, first(&value_buffer, end)?);
        self.buffers = Some((key_buffer, value_buffer));
        self.offset = end;
        Ok(seen)
    }
}

/// A buffer with room for `new` behind the first `filled` positions of the old one.
fn grown(buffer: Option<&Array>, filled: i32, new: &Array) -> Result<Array> {
    let room = (new.dim(2) + STEP - 1) / STEP * STEP;
    let empty = ops::zeros_dtype(&[new.dim(0), new.dim(1), room, new.dim(3)], new.dtype())?;
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
