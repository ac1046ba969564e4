//! Grouped-query self-attention with rotary positions and a key-value cache.

use super::linear::Linear;
use super::rms_norm::RmsNorm;
use super::rope::Rope;
use crate::cache::{Cache, Mask, range};
use crate::kernels::mlx::Result;
use crate::model::Positions;
use crate::version::Backend;
use mlx_rs::fast::{ScaledDotProductAttentionMask, scaled_dot_product_attention};
use mlx_rs::{Array, ops};
use std::sync::OnceLock;

/// Attention over `[1, length, hidden]`.
#[derive(Debug)]
pub(crate) struct Attention {
    pub(crate) q_proj: Linear,
    pub(crate) k_proj: Linear,
    pub(crate) v_proj: Linear,
    pub(crate) o_proj: Linear,
    /// Normalizes each head's queries, in architectures that do.
    pub(crate) q_norm: Option<RmsNorm>,
    /// Normalizes each head's keys, in architectures that do.
    pub(crate) k_norm: Option<RmsNorm>,
    pub(crate) rope: Rope,
    pub(crate) heads: i32,
    pub(crate) key_value_heads: i32,
    pub(crate) head_dim: i32,
    /// Multiplies the scores before the softmax.
    pub(crate) scale: f32,
}

impl Attention {
    /// The attended `[1, length, hidden]`, or `[1, 1, hidden]` where only the last position is asked for. Keys and
    /// values of every position are cached either way.
    pub(crate) fn forward(
        &self,
        x: &Array,
        mask: &Mask,
        cache: &mut Cache,
        positions: Positions,
    ) -> Result<Array> {
        let split = |projected: Array, heads: i32| {
            projected.reshape(&[projected.dim(0), projected.dim(1), heads, self.head_dim])
        };
        let normalize = |norm: Option<&RmsNorm>, heads: Array| match norm {
            Some(norm) => norm.forward(&heads),
            None => Ok(heads),
        };
        let to_heads = |array: Array| array.transpose_axes(&[0, 2, 1, 3]);

        let asking = positions.of(x)?;
        let queries = split(self.q_proj.forward(&asking)?, self.heads)?;
        let keys = split(self.k_proj.forward(x)?, self.key_value_heads)?;
        let values = to_heads(split(self.v_proj.forward(x)?, self.key_value_heads)?)?;
        let queries = to_heads(normalize(self.q_norm.as_ref(), queries)?)?;
        let keys = to_heads(normalize(self.k_norm.as_ref(), keys)?)?;

        let offset = cache.offset();
        let skipped = x.dim(1) - asking.dim(1);
        let queries = self.rope.forward(&queries, offset + skipped)?;
        let keys = self.rope.forward(&keys, offset)?;
        let (mut keys, mut values) = cache.update(keys, values)?;
        let mask = match mask {
            _ if skipped > 0 => {
                (keys, values) = cache.seen_by_last(keys, values)?;
                None
            }
            Mask::None => None,
            Mask::Causal => Some(ScaledDotProductAttentionMask::Causal),
            Mask::Array(mask) => Some(ScaledDotProductAttentionMask::Array(mask)),
        };
        let causal = matches!(mask, Some(ScaledDotProductAttentionMask::Causal));
        let attended = if causal && queries.dim(2) > QUERY_BLOCK && on_cpu() {
            self.attend_in_blocks(&queries, &keys, &values)?
        } else {
            scaled_dot_product_attention(queries, keys, values, self.scale, mask, None)?
        };
        let joined = attended.transpose_axes(&[0, 2, 1, 3])?.reshape(&[
            asking.dim(0),
            asking.dim(1),
            self.heads * self.head_dim,
        ])?;
        self.o_proj.forward(&joined)
    }

    /// Causal attention, a block of queries at a time over the keys that the block may see. MLX's CPU backend computes
    /// every score and masks half of them afterwards; this leaves out most of that half.
    fn attend_in_blocks(&self, queries: &Array, keys: &Array, values: &Array) -> Result<Array> {
        let length = queries.dim(2);
        let earlier = keys.dim(2) - length;
        let mut blocks = Vec::new();
        let mut start = 0;
        while start < length {
            let end = length.min(start + QUERY_BLOCK);
            blocks.push(scaled_dot_product_attention(
                range(queries, start, end)?,
                range(keys, 0, earlier + end)?,
                range(values, 0, earlier + end)?,
                self.scale,
                Some(ScaledDotProductAttentionMask::Causal),
                None,
            )?);
            start = end;
        }
        ops::concatenate(&blocks, 2)
    }
}

/// Queries that attend together on a CPU. Smaller leaves out more of the masked half and gives smaller products.
const QUERY_BLOCK: i32 = 256;

/// Whether MLX computes on the processor; asked once.
fn on_cpu() -> bool {
    static ON_CPU: OnceLock<bool> = OnceLock::new();
    *ON_CPU.get_or_init(|| Backend::current() == Backend::Cpu)
}
