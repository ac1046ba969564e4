//! Linear layers that take the same input: apart, or joined into one product.
//!
//! Where MLX's own operations compute, a decode step costs what its graph has in nodes, and one product with the rows of
//! all weights is one node for several. Each output is computed by the same operation from the same numbers either way.

use super::linear::Linear;
use crate::kernels::mlx::{Result, split};
use mlx_rs::Array;

/// `N` linear layers on one input.
#[derive(Debug)]
pub(crate) enum Parallel<const N: usize> {
    /// Each by itself.
    Apart([Linear; N]),
    /// All in one.
    Joined {
        /// The rows of the layers' weights behind each other.
        linear: Linear,
        /// Where the outputs of all layers but the last end.
        ends: Vec<i32>,
    },
}

impl<const N: usize> Parallel<N> {
    /// Joins the layers, unless their weights are packed differently. For the time of it both forms are in memory; the
    /// layers' own arrays are given up afterwards.
    pub(crate) fn join(&mut self) -> Result<()> {
        let Self::Apart(layers) = self else { return Ok(()) };
        let Some(linear) = Linear::joined(layers)? else { return Ok(()) };
        let mut ends = Vec::with_capacity(N);
        let mut end = 0;
        for layer in layers.iter() {
            end += layer.outputs();
            ends.push(end);
        }
        ends.pop();
        *self = Self::Joined { linear, ends };
        Ok(())
    }

    /// The layers, where each is by itself.
    pub(crate) fn apart(&self) -> Option<&[Linear; N]> {
        match self {
            Self::Apart(layers) => Some(layers),
            Self::Joined { .. } => None,
        }
    }

    /// The layers as one, where they are joined.
    pub(crate) fn joined(&self) -> Option<&Linear> {
        match self {
            Self::Apart(_) => None,
            Self::Joined { linear, .. } => Some(linear),
        }
    }

    /// Every layer's `[…, out]` for `x` (`[1, length, in]`).
    pub(crate) fn forward(&self, x: &Array) -> Result<Vec<Array>> {
        match self {
            Self::Apart(layers) => layers.iter().map(|layer| layer.forward(x)).collect(),
            Self::Joined { linear, ends } => split(&linear.forward(x)?, ends, -1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::linear::Weight;
    use mlx_rs::{Dtype, ops};
    use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};

    const WIDTH: i16 = 64;

    /// A matrix of `outputs` rows whose numbers depend on `seed`.
    fn matrix(outputs: i16, seed: i16) -> Array {
        let values: Vec<f32> = (0..outputs)
            .flat_map(|row| (0..WIDTH).map(move |column| (row * 3 + column * 7 + seed * 13) % 31 - 15))
            .map(|value| f32::from(value) / 16.0)
            .collect();
        Array::from_slice(&values, &[i32::from(outputs), i32::from(WIDTH)])
    }

    fn dense(outputs: i16, seed: i16, bias: bool) -> Linear {
        let bias = bias
            .then(|| matrix(1, seed).flatten(None, None).and_then(|row| ops::concatenate(&[&row, &row], 0)));
        let bias = bias.map(|row| {
            let row = row.expect("OK because rows can be flattened");
            crate::kernels::mlx::slice(&row, &[0], &[i32::from(outputs)])
                .expect("OK because the row is longer")
        });
        Linear::new(Weight::dense(&matrix(outputs, seed)), bias)
    }

    fn quantized(outputs: i16, seed: i16, bits: u32) -> Linear {
        let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size: 32 };
        let (packed, scales, biases) = crate::kernels::mlx::quantize(&matrix(outputs, seed), spec)
            .expect("OK because the width divides");
        Linear::new(Weight::Quantized { packed, scales, biases, spec }, None)
    }

    /// What the layers give for the same input, apart and after the attempt to join them.
    fn apart_and_joined<const N: usize>(layers: [Linear; N]) -> (Vec<Vec<f32>>, Vec<Vec<f32>>, bool) {
        let x = matrix(3, 5).expand_dims(0).expect("OK because 0 is an axis");
        let numbers = |parallel: &Parallel<N>| -> Vec<Vec<f32>> {
            let results = parallel.forward(&x).expect("OK because the shapes agree");
            let flat = |result: &Array| {
                let flat = result.as_dtype(Dtype::Float32).and_then(|result| result.flatten(None, None));
                let flat = flat.expect("OK because every array can be flattened");
                flat.eval().expect("OK because the graph is small");
                flat.as_slice::<f32>().to_vec()
            };
            results.iter().map(flat).collect()
        };
        let mut parallel = Parallel::Apart(layers);
        let apart = numbers(&parallel);
        parallel.join().expect("OK because there is memory");
        (apart, numbers(&parallel), parallel.joined().is_some())
    }

    #[test]
    fn joined_layers_give_what_each_gives_by_itself() {
        for (apart, joined, is_joined) in [
            apart_and_joined([dense(96, 1, false), dense(32, 2, false), dense(32, 3, false)]),
            apart_and_joined([dense(96, 1, true), dense(32, 2, true), dense(32, 3, true)]),
            apart_and_joined([quantized(96, 1, 4), quantized(32, 2, 4), quantized(32, 3, 4)]),
        ] {
            assert!(is_joined);
            assert_eq!(joined.iter().map(Vec::len).collect::<Vec<_>>(), [3 * 96, 3 * 32, 3 * 32]);
            for (one, other) in apart.iter().flatten().zip(joined.iter().flatten()) {
                assert!((one - other).abs() <= 1e-5 * one.abs().max(1.0), "{one} and {other}");
            }
        }
    }

    #[test]
    fn layers_that_are_packed_differently_stay_apart() {
        for (apart, joined, is_joined) in [
            apart_and_joined([quantized(32, 1, 4), quantized(32, 2, 8)]),
            apart_and_joined([quantized(32, 1, 4), dense(32, 2, false)]),
            apart_and_joined([dense(32, 1, true), dense(32, 2, false)]),
        ] {
            assert!(!is_joined);
            assert_eq!(apart, joined);
        }
    }
}
