//! Attention of a single position over all keys, which MLX's own operation takes long for where they are many.

use super::operation::{Kernel, Operation};
use super::text::{self, Number};
use crate::kernels::mlx::{Result, refused};
use crate::kernels::setting::{Setting, setting};
use mlx_rs::{Array, Dtype};
use std::sync::{Arc, Mutex, PoisonError};

const COMMON: &str = include_str!("attention.cu");
const SHARES_TEXT: &str = include_str!("attention_shares.cu");
const RESULT_TEXT: &str = include_str!("attention_result.cu");

/// Parts that the keys of a head are cut into: with 8 heads of keys, about as many blocks as an H200 has processors.
const SHARES: i32 = 16;
/// Fewer keys than these are left to MLX's operation, which is one kernel then.
const MIN_KEYS: i32 = 256;
/// Queries that a block takes at most.
const MAX_QUERIES: i32 = 8;
/// Threads of a block of the first kernel.
const THREADS: i32 = 256;

/// What tells two pairs of kernels apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    number: Number,
    heads: i32,
    key_heads: i32,
    dim: i32,
    scale_bits: u32,
}

/// The kernels: each share of the keys by itself, and all shares together.
#[derive(Debug)]
struct Operations {
    shares: Operation,
    result: Operation,
}

/// The attended values `[1, heads, 1, dim]` of queries of that shape over keys and values of `[1, key heads, length, dim]`,
/// all of which are seen. `None` where our kernels do not compute or do not serve these arrays.
pub(crate) fn attention(queries: &Array, keys: &Array, values: &Array, scale: f32) -> Result<Option<Array>> {
    if setting() != Ok(Setting::Cuda) || keys.ndim() != 4 || keys.dim(2) < MIN_KEYS {
        return Ok(None);
    }
    always(queries, keys, values, scale)
}

/// The same whatever kernels compute in this process, and for any number of keys.
pub(super) fn always(queries: &Array, keys: &Array, values: &Array, scale: f32) -> Result<Option<Array>> {
    let Some(key) = key(queries, keys, values, scale) else { return Ok(None) };
    let three = [queries, keys, values];
    let apply = |operations: &Operations| -> Result<Option<Array>> {
        let Some(shares) = operations.shares.apply(&three, &key.shares_shape(), Dtype::Float32)? else {
            return Ok(None);
        };
        operations.result.apply(&[&shares], queries.shape(), queries.dtype())
    };
    if let Some(known) = known(key, None)
        && let Some(result) = apply(&known)?
    {
        return Ok(Some(result));
    }
    let made = Arc::new(key.operations(&three)?);
    let result = apply(&made)?;
    known(key, Some(made));
    result.map(Some).ok_or_else(|| refused("cuda_kernel"))
}

/// The kernels that were made for a key, or after `made` those.
fn known(key: Key, made: Option<Arc<Operations>>) -> Option<Arc<Operations>> {
    static KNOWN: Mutex<Vec<(Key, Arc<Operations>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = made {
        known.retain(|(other, _)| *other != key);
        known.push((key, made));
    }
    known.iter().find(|(other, _)| *other == key).map(|(_, operations)| Arc::clone(operations))
}

/// The key of the kernels that serve these arrays.
fn key(queries: &Array, keys: &Array, values: &Array, scale: f32) -> Option<Key> {
    let (&[1, heads, 1, dim], &[1, key_heads, length, key_dim]) = (queries.shape(), keys.shape()) else {
        return None;
    };
    let served = values.shape() == keys.shape()
        && key_dim == dim
        && (dim == 64 || dim == 128)
        && length > 0
        && key_heads > 0
        && heads > 0
        && heads % key_heads == 0
        && keys.dtype() == queries.dtype()
        && values.dtype() == queries.dtype();
    let number = Number::of(queries.dtype())?;
    served.then_some(Key { number, heads, key_heads, dim, scale_bits: scale.to_bits() })
}

impl Key {
    /// Queries that a block takes, all of which look at one head of keys.
    fn queries(self) -> i32 {
        let each = self.heads / self.key_heads;
        (1..=MAX_QUERIES).rev().find(|count| each % count == 0).unwrap_or(1)
    }

    /// Of what the first kernel leaves: a largest score, a sum and values for each query of each block.
    fn shares_shape(self) -> [i32; 3] {
        [self.heads / self.queries(), SHARES, self.queries() * (2 + self.dim)]
    }

    fn operations(self, three: &[&Array; 3]) -> Result<Operations> {
        let (kind, number) = (self.number.name(), self.number.in_cuda());
        let (queries, dim) = (self.queries(), self.dim);
        let repeats = self.heads / self.key_heads / queries;
        let scale = f32::from_bits(self.scale_bits);
        let of_kernel = format!("{number}, {queries}, {dim}, {SHARES}");
        let shares = Kernel {
            name: &format!(
                "mlxcel_attention_shares_{kind}_{queries}_{dim}_{repeats}_{:08x}",
                self.scale_bits
            ),
            header: &text::with(self.number, &[COMMON, SHARES_TEXT]),
            body: &format!(
                "mlxcel::require_rows(q, q_strides[3], q_strides[1], 0);\n\
                 mlxcel::require_rows(k, k_strides[3], k_strides[1], k_strides[2]);\n\
                 mlxcel::require_rows(v, v_strides[3], v_strides[1], v_strides[2]);\n\
                 mlxcel::attention_shares<{of_kernel}>(q, k, v, shares, k_shape[2], q_strides[1], k_strides[1], \
                 k_strides[2], v_strides[1], v_strides[2], {repeats}, {scale:e}f);"
            ),
            inputs: &["q", "k", "v"],
            output: "shares",
            blocks: self.heads / queries * SHARES,
            threads: THREADS,
            shared_bytes: 0,
            contiguous: false,
        };
        let shares = Operation::new(&shares, three, &self.shares_shape(), Dtype::Float32)?;
        let left = shares.apply(three, &self.shares_shape(), Dtype::Float32)?;
        let left = left.ok_or_else(|| refused("cuda_kernel"))?;
        let result = Kernel {
            name: &format!("mlxcel_attention_result_{kind}_{queries}_{dim}"),
            header: &text::with(self.number, &[COMMON, RESULT_TEXT]),
            body: &format!("mlxcel::attention_result<{of_kernel}>(shares, y);"),
            inputs: &["shares"],
            output: "y",
            blocks: self.heads,
            threads: dim,
            shared_bytes: 0,
            contiguous: true,
        };
        let [queries, ..] = three;
        let result = Operation::new(&result, &[&left], queries.shape(), queries.dtype())?;
        Ok(Operations { shares, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_rs::ops;

    fn zeros(shape: &[i32], dtype: Dtype) -> Array {
        ops::zeros_dtype(shape, dtype).expect("OK because the extents are positive")
    }

    fn of(heads: i32, key_heads: i32, dim: i32, dtype: Dtype) -> Option<Key> {
        let (queries, keys) = (zeros(&[1, heads, 1, dim], dtype), zeros(&[1, key_heads, 300, dim], dtype));
        key(&queries, &keys, &keys, 0.5)
    }

    #[test]
    fn single_positions_of_usual_heads_are_served() {
        for (heads, key_heads, dim, queries) in
            [(32, 8, 128, 4), (32, 8, 64, 4), (14, 2, 64, 7), (24, 2, 64, 6)]
        {
            let key = of(heads, key_heads, dim, Dtype::Bfloat16).expect("OK because it is served");
            assert_eq!(key.queries(), queries);
            assert_eq!(key.shares_shape(), [heads / queries, SHARES, queries * (2 + dim)]);
        }
        assert!(of(9, 3, 64, Dtype::Float16).is_some());
        assert!(of(16, 16, 80, Dtype::Bfloat16).is_none());
        assert!(of(16, 16, 64, Dtype::Float32).is_none());
        assert!(of(5, 2, 64, Dtype::Bfloat16).is_none());
        let (two, keys) = (zeros(&[1, 4, 2, 64], Dtype::Bfloat16), zeros(&[1, 4, 9, 64], Dtype::Bfloat16));
        assert!(key(&two, &keys, &keys, 0.5).is_none());
    }

    #[test]
    fn a_processor_and_few_keys_are_left_to_mlx() {
        let (queries, keys) =
            (zeros(&[1, 4, 1, 64], Dtype::Bfloat16), zeros(&[1, 4, 300, 64], Dtype::Bfloat16));
        if setting() != Ok(Setting::Cuda) {
            let result = attention(&queries, &keys, &keys, 0.5).expect("OK because nothing is computed");
            assert!(result.is_none());
        }
        let few = zeros(&[1, 4, MIN_KEYS - 1, 64], Dtype::Bfloat16);
        let result = attention(&queries, &few, &few, 0.5).expect("OK because nothing is computed");
        assert!(result.is_none());
    }
}
