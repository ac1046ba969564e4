//! The decoder that most architectures share: each layer normalizes before attention and before the feed-forward.

use super::attention::Attention;
use super::embedding::Embedding;
use super::linear::Linear;
use super::mlp::GatedMlp;
use super::rms_norm::RmsNorm;
use crate::cache::{Cache, CacheKind, Mask, Masks};
use crate::kernels::mlx::Result;
use crate::model::Positions;
use crate::models::Architecture;
use mlx_rs::Array;

/// Embedding, layers, final norm and output layer.
#[derive(Debug)]
pub(crate) struct PreNormDecoder {
    pub(crate) embed_tokens: Embedding,
    pub(crate) layers: Vec<PreNormLayer>,
    pub(crate) norm: RmsNorm,
    /// Absent where the embedding serves as the output layer.
    pub(crate) lm_head: Option<Linear>,
}

/// One layer.
#[derive(Debug)]
pub(crate) struct PreNormLayer {
    pub(crate) self_attn: Attention,
    pub(crate) mlp: GatedMlp,
    pub(crate) input_layernorm: RmsNorm,
    pub(crate) post_attention_layernorm: RmsNorm,
    /// How far this layer looks back.
    pub(crate) cache_kind: CacheKind,
}

impl PreNormLayer {
    fn forward(&self, x: &Array, masks: &Masks, cache: &mut Cache, positions: Positions) -> Result<Array> {
        let residual = positions.of(x)?;
        let x = self.self_attn.forward(&self.input_layernorm, x, masks, cache, positions, Some(&residual))?;
        self.mlp.forward(&self.post_attention_layernorm, &x, Some(&x))
    }
}

impl Architecture for PreNormDecoder {
    fn cache_kinds(&self) -> Vec<CacheKind> {
        self.layers.iter().map(|layer| layer.cache_kind).collect()
    }

    fn join(&mut self) -> Result<()> {
        self.layers.iter_mut().try_for_each(|layer| {
            layer.self_attn.projections.join()?;
            layer.mlp.inputs.join()
        })
    }

    fn hidden(&self, ids: &Array, caches: &mut [Cache], positions: Positions) -> Result<Array> {
        let mut x = self.embed_tokens.forward(ids)?;
        let masks = Mask::per_kind(ids.dim(1), caches)?;
        let last = self.layers.len().saturating_sub(1);
        for (index, (layer, cache)) in self.layers.iter().zip(caches).enumerate() {
            let positions = if index == last { positions } else { Positions::All };
            x = layer.forward(&x, &masks, cache, positions)?;
        }
        self.norm.forward(&x)
    }

    fn logits(&self, hidden: &Array) -> Result<Array> {
        match &self.lm_head {
            Some(lm_head) => lm_head.forward(hidden),
            None => self.embed_tokens.as_linear(hidden),
        }
    }
}
