//! The gated feed-forward layer.

use super::linear::{Held, Linear};
use super::rms_norm::RmsNorm;
use crate::kernels::cpu::{self, HeldMlp};
use crate::kernels::mlx::Result;
use mlx_rs::{Array, ops};
use std::sync::Arc;

/// `down(activation(gate(x)) · up(x))`.
#[derive(Debug)]
pub(crate) struct GatedMlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
    pub(crate) activation: Activation,
    /// The weights, with those of the norm before them: a layer is always used with the same one.
    pub(crate) held: Held<HeldMlp>,
}

/// The function on the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// The Gaussian error linear unit by its tanh approximation (Hendrycks and Gimpel, arXiv 1606.08415).
    GeluTanh,
}

impl GatedMlp {
    /// The layer's result for the normalized `x`, added to `residual` where there is one.
    pub(crate) fn forward(&self, norm: &RmsNorm, x: &Array, residual: Option<&Array>) -> Result<Array> {
        let held = self.held.get_or_init(|| {
            let linears = [&self.gate_proj, &self.up_proj, &self.down_proj].map(Linear::arrays);
            HeldMlp::new(norm.arrays(), self.activation.into(), linears).map(Arc::new)
        });
        if let Some(held) = held
            && let Some(result) = cpu::gated_mlp(x, held, residual)?
        {
            return Ok(result);
        }
        let x = &norm.forward(x)?;
        let gate = self.gate_proj.forward(x)?;
        let up = self.up_proj.forward(x)?;
        let gated = match cpu::gated(self.activation.into(), &gate, &up)? {
            Some(gated) => gated,
            None => self.activation.apply(&gate)?.multiply(up)?,
        };
        self.down_proj.forward_onto(residual, &gated)
    }
}

impl From<Activation> for cpu::Gate {
    fn from(activation: Activation) -> Self {
        match activation {
            Activation::Silu => Self::Silu,
            Activation::GeluTanh => Self::GeluTanh,
        }
    }
}

impl Activation {
    fn apply(self, x: &Array) -> Result<Array> {
        match self {
            Self::Silu => x.multiply(ops::sigmoid(x)?),
            Self::GeluTanh => {
                let dtype = x.dtype();
                // Scalars in the input's own type, so that half-precision activations are not promoted.
                let scalar = |value: f32| Array::from_f32(value).as_dtype(dtype);
                let cubic = x.power(Array::from_int(3))?.multiply(scalar(0.044_715)?)?;
                let inner = x.add(cubic)?.multiply(scalar((2.0 / std::f32::consts::PI).sqrt())?)?;
                x.multiply(scalar(0.5)?)?.multiply(ops::tanh(inner)?.add(scalar(1.0)?)?)
            }
        }
    }
}
