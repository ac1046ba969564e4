//! A linear layer, dense or quantized.

use crate::kernels::cpu::{self, HeldLinear, LinearArrays, WeightArrays};
use crate::kernels::mlx::{self, Result};
use mlx_rs::{Array, ops};
use mlxcel_catalog::config::QuantizationSpec;
use std::sync::{Arc, OnceLock};

/// `y = x · Wᵀ + b`; `x` is `[…, in]`, `y` is `[…, out]`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Weight,
    bias: Option<Array>,
    held: Held<HeldLinear>,
}

/// Weights as kernels of our own take them, found when they are first used; `None` where those do not serve them.
pub(crate) type Held<T> = OnceLock<Option<Arc<T>>>;

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

    fn arrays(&self) -> WeightArrays<'_> {
        match self {
            Self::Dense { weight, .. } => WeightArrays::Dense(weight),
            Self::Quantized { packed, scales, biases, spec } => {
                WeightArrays::Quantized { packed, scales, biases: biases.as_ref(), spec: *spec }
            }
        }
    }
}

impl Linear {
    pub(crate) fn new(weight: Weight, bias: Option<Array>) -> Self {
        Self { weight, bias, held: OnceLock::new() }
    }

    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        self.forward_onto(None, x)
    }

    /// `residual + forward(x)`, or `forward(x)` where there is none.
    pub(crate) fn forward_onto(&self, residual: Option<&Array>, x: &Array) -> Result<Array> {
        if let Some(held) = self.held()
            && let Some(result) = cpu::product(x, held, residual)?
        {
            return Ok(result);
        }
        let result = match (&self.weight, &self.bias) {
            // One node, as MLX's own linear layer does it.
            (Weight::Dense { transposed, .. }, Some(bias)) => ops::addmm(bias, x, transposed, None, None),
            (Weight::Dense { transposed, .. }, None) => x.matmul(transposed),
            (Weight::Quantized { packed, scales, biases, spec }, bias) => {
                let product = mlx::quantized_matmul(x, packed, scales, biases.as_ref(), *spec)?;
                match bias {
                    Some(bias) => product.add(bias),
                    None => Ok(product),
                }
            }
        }?;
        match residual {
            Some(residual) => residual.add(result),
            None => Ok(result),
        }
    }

    /// Its arrays, for kernels that take in more than this layer.
    pub(crate) fn arrays(&self) -> LinearArrays<'_> {
        LinearArrays { weight: self.weight.arrays(), bias: self.bias.as_ref() }
    }

    /// The layer as kernels of our own take it.
    pub(crate) fn held(&self) -> Option<&Arc<HeldLinear>> {
        self.held.get_or_init(|| HeldLinear::new(self.arrays()).map(Arc::new)).as_ref()
    }
}
