//! Linear layers that take the same input: apart, or joined into one product.
//!
//! Where MLX's own operations compute, a decode step costs what its graph has in nodes, and one product with the rows of
//! all weights is one node for several. Each output is computed by the same operation from the same numbers either way.
//!
//! Several positions are multiplied by each layer's rows apart, since an output of a joined product is then a strided view
//! of a wider buffer. MLX 0.32.2's rotation on CUDA takes such a buffer over where nothing else holds it, and writes and
//! reads beyond what the view spans: wrong queries, numbers of others overwritten, illegal accesses. Of a single position
//! the outputs lie each in one piece, and there it is right. Many positions are worth several nodes anyway.

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
        /// The layers one by one, their arrays views of those rows.
        layers: [Linear; N],
    },
}

impl<const N: usize> Parallel<N> {
    /// Joins the layers, unless their weights are packed differently or too narrow to begin where kernels may read. For the time of it both forms are in memory; the
    /// layers' own arrays are given up afterwards.
    pub(crate) fn join(&mut self) -> Result<()> {
        let Self::Apart(layers) = self else { return Ok(()) };
        let Some((linear, ends)) = Linear::joined(layers)? else { return Ok(()) };
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let views =
            starts.zip(&ends).map(|(start, end)| linear.rows(start, *end)).collect::<Result<Vec<_>>>()?;
        if let (Ok(layers), Some((_, ends))) = (<[Linear; N]>::try_from(views), ends.split_last()) {
            *self = Self::Joined { ends: ends.to_vec(), linear, layers };
        }
        Ok(())
    }

    /// Each layer, whether or not they are joined.
    pub(crate) fn each(&self) -> &[Linear; N] {
        match self {
            Self::Apart(layers) | Self::Joined { layers, .. } => layers,
        }
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
            Self::Joined { linear, ends, .. } if x.dim(1) == 1 => split(&linear.forward(x)?, ends, -1),
            Self::Apart(layers) | Self::Joined { layers, .. } => {
                layers.iter().map(|layer| layer.forward(x)).collect()
            }
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

    /// What the layers give for the same input of `length` positions, apart and after the attempt to join them.
    fn apart_and_joined<const N: usize>(
        layers: [Linear; N],
        length: i16,
    ) -> (Vec<Vec<f32>>, Vec<Vec<f32>>, Parallel<N>) {
        let x = matrix(length, 5).expand_dims(0).expect("OK because 0 is an axis");
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
        (apart, numbers(&parallel), parallel)
    }

    #[test]
    fn joined_layers_give_what_each_gives_by_itself_for_one_position_and_for_several() {
        for (positions, length) in [(1, 1), (3, 3)] {
            for (apart, joined, parallel) in [
                apart_and_joined([dense(96, 1, false), dense(32, 2, false), dense(32, 3, false)], length),
                apart_and_joined([dense(96, 1, true), dense(32, 2, true), dense(32, 3, true)], length),
                apart_and_joined([quantized(96, 1, 4), quantized(32, 2, 4), quantized(32, 3, 4)], length),
            ] {
                assert!(parallel.joined().is_some());
                let lengths: Vec<usize> = joined.iter().map(Vec::len).collect();
                assert_eq!(lengths, [positions * 96, positions * 32, positions * 32]);
                for (one, other) in apart.iter().flatten().zip(joined.iter().flatten()) {
                    assert!((one - other).abs() <= 1e-5 * one.abs().max(1.0), "{one} and {other}");
                }
            }
        }
    }

    #[test]
    fn outputs_of_several_positions_are_no_views_of_a_wider_buffer() {
        for length in [1, 3] {
            let (_, _, parallel) = apart_and_joined([dense(96, 1, false), dense(32, 2, false)], length);
            let x = matrix(length, 5).expand_dims(0).expect("OK because 0 is an axis");
            for result in parallel.forward(&x).expect("OK because the shapes agree") {
                result.eval().expect("OK because the graph is small");
                // The rows of a view of a wider buffer would lie further apart.
                let row = usize::try_from(result.dim(2)).unwrap_or(0);
                assert!(length == 1 || result.strides().get(1) == Some(&row), "{:?}", result.strides());
            }
        }
    }

    #[test]
    fn joined_layers_are_in_memory_once() {
        let (_, _, parallel) = apart_and_joined([dense(96, 1, false), dense(32, 2, false)], 1);
        let begins = |linear: &Linear| match linear.weight() {
            Weight::Dense { weight, .. } => weight.as_slice::<f32>().as_ptr().addr(),
            Weight::Quantized { .. } => 0,
        };
        let start = begins(parallel.joined().expect("OK because dense layers join"));
        let rows = |count: usize| count * size_of::<f32>() * usize::from(WIDTH.unsigned_abs());
        assert_eq!(parallel.each().each_ref().map(begins), [start, start + rows(96)]);
    }

    #[test]
    fn layers_whose_rows_would_begin_where_kernels_may_not_read_stay_apart() {
        let (apart, joined, parallel) = apart_and_joined([dense(33, 1, true), dense(32, 2, true)], 2);
        assert!(parallel.joined().is_none(), "the bias of the second would begin 132 bytes in");
        assert_eq!(apart, joined);
    }

    #[test]
    fn layers_that_are_packed_differently_stay_apart() {
        for (apart, joined, parallel) in [
            apart_and_joined([quantized(32, 1, 4), quantized(32, 2, 8)], 3),
            apart_and_joined([quantized(32, 1, 4), dense(32, 2, false)], 3),
            apart_and_joined([dense(32, 1, true), dense(32, 2, false)], 3),
        ] {
            assert!(parallel.joined().is_none());
            assert_eq!(apart, joined);
        }
    }
}
