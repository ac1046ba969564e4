//! The gated feed-forward layer.

use super::linear::{Held, Linear};
use super::on_cpu;
use super::parallel::Parallel;
use super::rms_norm::RmsNorm;
use crate::kernels::compiled::{self, Function};
use crate::kernels::cpu::{self, HeldMlp};
use crate::kernels::mlx::Result;
use mlx_rs::error::Exception;
use mlx_rs::{Array, ops};
use std::sync::Arc;

/// `down(activation(gate(x)) · up(x))`.
#[derive(Debug)]
pub(crate) struct GatedMlp {
    /// The layers `gate` and `up`.
    pub(crate) inputs: Parallel<2>,
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
            if !on_cpu() {
                return None;
            }
            let [gate, up] = self.inputs.apart()?;
            let linears = [gate, up, &self.down_proj].map(Linear::arrays);
            HeldMlp::new(norm.arrays(), self.activation.into(), linears).map(Arc::new)
        });
        if let Some(held) = held
            && let Some(result) = cpu::gated_mlp(x, held, residual)?
        {
            return Ok(result);
        }
        let inputs = self.inputs.forward(&norm.forward(x)?)?;
        let [gate, up] = inputs.as_slice() else {
            return Err(Exception::custom("two layers give two results"));
        };
        let gated = match cpu::gated(self.activation.into(), gate, up)? {
            Some(gated) => gated,
            None => self.activation.gate(gate, up)?,
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
    /// `activation(gate) · up`.
    fn gate(self, gate: &Array, up: &Array) -> Result<Array> {
        if on_cpu() {
            // Compiled, it would need the system's C++ compiler.
            return self.apply(gate)?.multiply(up);
        }
        let function: Function = match self {
            Self::Silu => |inputs: &[Array]| Self::Silu.gate_of(inputs),
            Self::GeluTanh => |inputs: &[Array]| Self::GeluTanh.gate_of(inputs),
        };
        compiled::call(function, &[gate, up])
    }

    fn gate_of(self, inputs: &[Array]) -> Result<Array> {
        match inputs {
            [gate, up] => self.apply(gate)?.multiply(up),
            _ => Err(Exception::custom("a gate takes two arrays")),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use mlx_rs::Dtype;

    /// MLX generates code for the compiled form, on a processor with the system's C++ compiler.
    #[test]
    fn a_compiled_gate_gives_what_its_operations_give() {
        let values: Vec<f32> = (-40_i16..40).map(|value| f32::from(value) / 8.0).collect();
        for (activation, function) in [
            (Activation::Silu, (|inputs: &[Array]| Activation::Silu.gate_of(inputs)) as Function),
            (Activation::GeluTanh, |inputs: &[Array]| Activation::GeluTanh.gate_of(inputs)),
        ] {
            for dtype in [Dtype::Float32, Dtype::Bfloat16] {
                let x = Array::from_slice(&values, &[1, 2, 40])
                    .as_dtype(dtype)
                    .expect("OK because floats convert");
                let numbers = |result: Result<Array>| {
                    let result = result.and_then(|result| {
                        assert_eq!(result.dtype(), dtype);
                        result.as_dtype(Dtype::Float32)
                    });
                    let result = result.expect("OK because the shapes agree");
                    result.eval().expect("OK because the graph is small");
                    result.as_slice::<f32>().to_vec()
                };
                let compiled = numbers(compiled::call(function, &[&x, &x]));
                let plain = numbers(activation.gate_of(&[x.clone(), x.clone()]));
                for (one, other) in compiled.iter().zip(&plain) {
                    let bound = if dtype == Dtype::Float32 { 1e-5 } else { 2e-2 };
                    assert!(
                        (one - other).abs() <= bound * other.abs().max(1.0),
                        "{activation:?}: {one} and {other}"
                    );
                }
                assert_eq!(compiled.len(), values.len());
            }
        }
    }
}
