//! A linear layer, dense or quantized.

use crate::kernels::cpu;
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
    /// `[out, in]`, and the same transposed (a view) so that a step builds no node for it.
    Dense { weight: Array, transposed: Array },
    /// Packed `[out, in × bits / 32]` with scales and biases of `[out, in / group size]`.
    Quantized { packed: Array, scales: Array, biases: Option<Array>, spec: QuantizationSpec },
}

impl Weight {
    /// A dense weight of shape `[out, in]`.
    pub(crate) fn dense(weight: &Array) -> Self {
        Self::Dense { weight: weight.clone(), transposed: weight.t() }
    }

    /// `x · Wᵀ + addend`, where the addend is a bias of `[out]`, or of the result's shape.
    pub(crate) fn apply(&self, x: &Array, addend: Option<&Array>) -> Result<Array> {
        if let Some(result) = self.apply_on_cpu(x, addend)? {
            return Ok(result);
        }
        match (self, addend) {
            // One node, as MLX's own linear layer does it.
            (Self::Dense { transposed, .. }, Some(bias)) if bias.ndim() == 1 => {
                ops::addmm(bias, x, transposed, None, None)
            }
            (_, Some(addend)) => addend.add(self.apply(x, None)?),
            (Self::Dense { transposed, .. }, None) => x.matmul(transposed),
            (Self::Quantized { packed, scales, biases, spec }, None) => {
                mlx::quantized_matmul(x, packed, scales, biases.as_ref(), *spec)
            }
        }
    }

    fn apply_on_cpu(&self, x: &Array, addend: Option<&Array>) -> Result<Option<Array>> {
        match self {
            Self::Dense { weight, .. } => cpu::dense_product(x, weight, addend),
            Self::Quantized { packed, scales, biases, spec } => {
                cpu::quantized_product(x, packed, scales, biases.as_ref(), *spec, addend)
            }
        }
    }
}

impl Linear {
    pub(crate) fn new(weight: Weight, bias: Option<Array>) -> Self {
        Self { weight, bias }
    }

    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        self.weight.apply(x, self.bias.as_ref())
    }

    /// `residual + forward(x)`, or `forward(x)` where there is none.
    pub(crate) fn forward_onto(&self, residual: Option<&Array>, x: &Array) -> Result<Array> {
        match (&self.bias, residual) {
            (None, residual) => self.weight.apply(x, residual),
            (Some(_), Some(residual)) => residual.add(self.forward(x)?),
            (Some(_), None) => self.forward(x),
        }
    }
}
