//! Grouped-query self-attention with rotary positions and a key-value cache.

use super::linear::{Held, Linear};
use super::on_cpu;
use super::parallel::Parallel;
use super::rms_norm::RmsNorm;
use super::rope::{Rope, to_heads};
use crate::cache::{Cache, Mask, Masks, range};
use crate::kernels::cpu::{self, HeadsArrays, HeldAttention};
use crate::kernels::cuda;
use crate::kernels::mlx::{Result, slice};
use crate::model::Positions;
use mlx_rs::error::Exception;
use mlx_rs::fast::{ScaledDotProductAttentionMask, scaled_dot_product_attention};
use mlx_rs::{Array, ops};
use std::sync::Arc;

/// Attention over `[1, length, hidden]`.
#[derive(Debug)]
pub(crate) struct Attention {
    /// The layers that make queries, keys and values.
    pub(crate) projections: Parallel<3>,
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
    /// The weights, with those of the norm before them: a layer is always used with the same one.
    pub(crate) held: Held<HeldAttention>,
}

impl Attention {
    /// The attended `[1, length, hidden]` of the normalized `x`, or `[1, 1, hidden]` where only the last position is asked
    /// for. Keys and values of every position are cached either way. The result is added to `residual` where there is one.
    pub(crate) fn forward(
        &self,
        norm: &RmsNorm,
        x: &Array,
        masks: &Masks,
        cache: &mut Cache,
        positions: Positions,
        residual: Option<&Array>,
    ) -> Result<Array> {
        let mask = masks.of(cache.kind());
        let skipped = if positions == Positions::Last { x.dim(1) - 1 } else { 0 };
        // The last position alone sees everything that is cached for it.
        let mask = if skipped > 0 { &Mask::None } else { mask };
        if let Some(result) = self.forward_into_cache(norm, x, mask, cache, skipped, residual)? {
            return Ok(result);
        }
        let of_one = self.inputs_of_one(norm, x, masks, cache)?;
        let (queries, (mut keys, mut values)) = if let Some(inputs) = of_one {
            inputs
        } else {
            let [queries, keys, values] = self.inputs(norm, x, cache.offset(), skipped)?;
            (queries, cache.update(keys, values)?)
        };
        if skipped > 0 {
            (keys, values) = cache.seen_by_last(keys, values)?;
        }
        let three = [&queries, &keys, &values];
        if let Some(held) = self.o_proj.held()
            && let Some(result) =
                cpu::attention_output(three, keys.dim(2), self.scale, mask.into(), held, residual)?
        {
            return Ok(result);
        }
        self.attend_and_project(queries, keys, values, mask, residual)
    }

    /// Attention and the output layer in two nodes or more.
    fn attend_and_project(
        &self,
        queries: Array,
        keys: Array,
        values: Array,
        mask: &Mask,
        residual: Option<&Array>,
    ) -> Result<Array> {
        let attended = match cpu::attention(&queries, &keys, &values, self.scale, mask.into())? {
            Some(attended) => attended,
            None => self.attend(queries, keys, values, mask)?,
        };
        self.o_proj.forward_onto(residual, &attended)
    }

    /// The same in two nodes, of which the first writes into the cache's own memory. `None`, and the cache as it was, where
    /// our kernels do not serve this layer or this kind of cache.
    fn forward_into_cache(
        &self,
        norm: &RmsNorm,
        x: &Array,
        mask: &Mask,
        cache: &mut Cache,
        skipped: i32,
        residual: Option<&Array>,
    ) -> Result<Option<Array>> {
        let (Some(held), Cache::Full(cache)) = (self.held(norm), cache) else { return Ok(None) };
        let Some((turning, angles)) = self.rope.turning(cache.offset()) else { return Ok(None) };
        if !held.takes(x) {
            return Ok(None);
        }
        let shape = [1, self.key_value_heads, x.dim(1), self.head_dim];
        let (keys, values) = cache.with_room_for(&shape, x.dtype())?;
        let room = Some((&keys, &values, cache.offset()));
        let Some([queries, keys, values]) = cpu::attention_inputs(x, held, skipped, turning, angles, room)?
        else {
            cache.keep(keys, values, 0);
            return Ok(None);
        };
        cache.keep(keys.clone(), values.clone(), x.dim(1));
        let end = cache.offset();
        let three = [&queries, &keys, &values];
        let result = cpu::attention_output(three, end, self.scale, mask.into(), held.output(), residual)?;
        if result.is_some() {
            return Ok(result);
        }
        // The output layer has a bias of its own beside the residual.
        let (keys, values) = (range(&keys, 0, end)?, range(&values, 0, end)?);
        self.attend_and_project(queries, keys, values, mask, residual).map(Some)
    }

    fn held(&self, norm: &RmsNorm) -> Option<&Arc<HeldAttention>> {
        let held = self.held.get_or_init(|| {
            if !on_cpu() {
                return None;
            }
            let [queries, keys, values] = self.projections.apart()?;
            let parts = [
                part(queries, self.heads, self.q_norm.as_ref()),
                part(keys, self.key_value_heads, self.k_norm.as_ref()),
                part(values, self.key_value_heads, None),
            ];
            HeldAttention::new(norm.arrays(), parts, self.o_proj.held()?, self.head_dim).map(Arc::new)
        });
        held.as_ref()
    }

    /// Queries, keys and values of `[1, heads, length, head_dim]`; queries for the positions after the `skipped` ones.
    fn inputs(&self, norm: &RmsNorm, x: &Array, offset: i32, skipped: i32) -> Result<[Array; 3]> {
        if let (Some((turning, angles)), Some(held)) = (self.rope.turning(offset), self.held(norm))
            && let Some(inputs) = cpu::attention_inputs(x, held, skipped, turning, angles, None)?
        {
            return Ok(inputs);
        }
        let x = norm.forward(x)?;
        let [queries, keys, values] = if x.dim(1) == 1 {
            <[Array; 3]>::try_from(self.projections.forward(&x)?)
                .map_err(|_| Exception::custom("three layers give three results"))?
        } else {
            let [queries, keys, values] = self.projections.each();
            let asking = if skipped > 0 { Positions::Last.of(&x)? } else { x.clone() };
            [queries.forward(&asking)?, keys.forward(&x)?, values.forward(&x)?]
        };
        Ok([
            self.rotate(queries, self.heads, self.q_norm.as_ref(), offset + skipped)?,
            self.rotate(keys, self.key_value_heads, self.k_norm.as_ref(), offset)?,
            to_heads(&values, self.key_value_heads)?,
        ])
    }

    /// The queries of a single position, and all keys and values after its own were appended, in as few nodes as MLX's
    /// operations allow: one product, one rotation of all heads (values by no angle), one write. `None`, and the cache as it
    /// was, where the layers are apart, heads are normalized or scaled, or there are more positions.
    fn inputs_of_one(
        &self,
        norm: &RmsNorm,
        x: &Array,
        masks: &Masks,
        cache: &mut Cache,
    ) -> Result<Option<(Array, (Array, Array))>> {
        let (Some(projection), None, None) = (self.projections.joined(), &self.q_norm, &self.k_norm) else {
            return Ok(None);
        };
        if x.dim(0) != 1 || x.dim(1) != 1 || self.rope.scales_input() {
            return Ok(None);
        }
        let (heads, kept, width) = (self.heads, 2 * self.key_value_heads, self.head_dim);
        let positions = masks.starts().of_heads(heads + self.key_value_heads, self.key_value_heads);
        let projected = projection.forward(&norm.forward(x)?)?.reshape(&[heads + kept, 1, width])?;
        let turned =
            self.rope.forward_heads(&projected, &positions)?.reshape(&[1, heads + kept, 1, width])?;
        let queries = slice(&turned, &[0; 4], &[1, heads, 1, width])?;
        let both = slice(&turned, &[0, heads, 0, 0], &[1, heads + kept, 1, width])?;
        Ok(Some((queries, cache.append(&both)?)))
    }

    /// Heads of `[1, heads, length, head_dim]`, normalized where the architecture does, and turned by position.
    fn rotate(&self, projected: Array, heads: i32, norm: Option<&RmsNorm>, offset: i32) -> Result<Array> {
        let projected = match norm {
            Some(norm) => {
                let shape = [projected.dim(0), projected.dim(1), heads, self.head_dim];
                norm.forward(&projected.reshape(&shape)?)?
            }
            None => projected,
        };
        self.rope.forward(&projected, heads, offset)
    }

    /// Attention in nodes of its own: `[1, length, heads · head_dim]`.
    fn attend(&self, queries: Array, keys: Array, values: Array, mask: &Mask) -> Result<Array> {
        let (batch, length) = (queries.dim(0), queries.dim(2));
        if matches!(mask, Mask::None)
            && let Some(attended) = cuda::attention(&queries, &keys, &values, self.scale)?
        {
            return attended.reshape(&[batch, length, self.heads * self.head_dim]);
        }
        let mask = match mask {
            Mask::None => None,
            Mask::Causal => Some(ScaledDotProductAttentionMask::Causal),
            Mask::Window { mask, .. } => Some(ScaledDotProductAttentionMask::Array(mask)),
        };
        let causal = matches!(mask, Some(ScaledDotProductAttentionMask::Causal));
        let attended = if causal && length > QUERY_BLOCK && on_cpu() {
            self.attend_in_blocks(&queries, &keys, &values)?
        } else {
            scaled_dot_product_attention(queries, keys, values, self.scale, mask, None)?
        };
        // The heads of one position lie behind each other already.
        let attended = if length == 1 { attended } else { attended.transpose_axes(&[0, 2, 1, 3])? };
        attended.reshape(&[batch, length, self.heads * self.head_dim])
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

fn part<'a>(linear: &'a Linear, heads: i32, norm: Option<&'a RmsNorm>) -> HeadsArrays<'a> {
    HeadsArrays { linear: linear.arrays(), heads, norm: norm.map(RmsNorm::arrays) }
}

/// Queries that attend together on a CPU. Smaller leaves out more of the masked half and gives smaller products.
const QUERY_BLOCK: i32 = 256;
