//! A linear layer, dense or quantized.

use crate::kernels::mlx::{self, Result};
use mlx_rs::{Array, ops};
use mlxcel_catalog::config::QuantizationSpec;

/// `y = x · Wᵀ + b`; `x` is `[…, in]`, `y` is `[…, out]`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Weight,
    bias: Option<Array>,
}

/// The weight of a linear layer or an embedding.
#[derive(Debug)]
pub(crate) enum Weight {
    /// `[out, in]`, kept transposed (a view) so that a step builds no node for it.
    Dense { transposed: Array },
    /// Packed `[out, in × bits / 32]` with scales and biases of `[out, in / group size]`.
    Quantized { packed: Array, scales: Array, biases: Option<Array>, spec: QuantizationSpec },
}

impl Weight {
    /// A dense weight of shape `[out, in]`.
    pub(crate) fn dense(weight: &Array) -> Self {
        Self::Dense { transposed: weight.t() }
    }

    /// `x · Wᵀ`.
    pub(crate) fn apply(&self, x: &Array) -> Result<Array> {
        match self {
            Self::Dense { transposed } => x.matmul(transposed),
            Self::Quantized { packed, scales, biases, spec } => {
                mlx::quantized_matmul(x, packed, scales, biases.as_ref(), *spec)
            }
        }
    }
}

impl Linear {
    pub(crate) fn new(weight: Weight, bias: Option<Array>) -> Self {
        Self { weight, bias }
    }

    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        match (&self.weight, &self.bias) {
            // One node, as MLX's own linear layer does it.
            (Weight::Dense { transposed }, Some(bias)) => ops::addmm(bias, x, transposed, None, None),
            (weight, Some(bias)) => weight.apply(x)?.add(bias),
            (weight, None) => weight.apply(x),
        }
    }
}
