//! The token embedding, dense or quantized, and its use as the output layer where the two are tied.

use super::linear::{Linear, Weight};
use crate::kernels::mlx::{self, Result};
use mlx_rs::Array;
use mlx_rs::ops::indexing::take_axis;

/// A table of `[vocabulary, hidden]`.
#[derive(Debug)]
pub(crate) struct Embedding {
    /// The table as output layer, which holds it.
    linear: Linear,
}

impl Embedding {
    pub(crate) fn new(weight: Weight) -> Self {
        Self { linear: Linear::new(weight, None) }
    }

    /// The rows of `ids` (`[batch, length]`): `[batch, length, hidden]`.
    pub(crate) fn forward(&self, ids: &Array) -> Result<Array> {
        match self.linear.weight() {
            Weight::Dense { weight: table, .. } => take_axis(table, ids, 0),
            Weight::Quantized { packed, scales, biases, spec } => {
                let biases = biases.as_ref().map(|biases| take_axis(biases, ids, 0)).transpose()?;
                mlx::dequantize(
                    &take_axis(packed, ids, 0)?,
                    &take_axis(scales, ids, 0)?,
                    biases.as_ref(),
                    *spec,
                    None,
                )
            }
        }
    }

    /// The logits of `hidden` (`[…, hidden]`) with the table as output layer: `[…, vocabulary]`.
    pub(crate) fn as_linear(&self, hidden: &Array) -> Result<Array> {
        self.linear.forward(hidden)
    }
}
