//! A linear layer, dense or quantized.

use super::on_cpu;
use crate::kernels::cpu::{self, HeldLinear, LinearArrays, WeightArrays};
use crate::kernels::cuda::RowProduct;
use crate::kernels::mlx::{self, Result};
use mlx_rs::{Array, ops, transforms};
use mlxcel_catalog::config::QuantizationSpec;
use std::sync::{Arc, OnceLock};

/// `y = x · Wᵀ + b`; `x` is `[…, in]`, `y` is `[…, out]`.
#[derive(Debug)]
pub(crate) struct Linear {
    weight: Weight,
    bias: Option<Array>,
    held: Held<HeldLinear>,
    /// The layer as our kernels on an NVIDIA GPU take it, found when it is first used.
    row_product: OnceLock<Option<RowProduct>>,
}

/// Where kernels that read several numbers at once may begin, in bytes.
const ALIGNMENT: usize = 16;

/// Weights as kernels of our own take them, found when they are first used; `None` where those do not serve them.
pub(crate) type Held<T> = OnceLock<Option<Arc<T>>>;

/// The weight of a linear layer or an embedding.
#[derive(Debug)]
pub(crate) enum Weight {
    /// `[out, in]`, and views of the same, so that a step builds no node for them: as `[in, out]`, and as `[1, in, out]`,
    /// with as many axes as the input has, which then needs no node to be flattened either.
    Dense { weight: Array, transposed: Array, stacked: Array },
    /// Packed `[out, in × bits / 32]` with scales and biases of `[out, in / group size]`.
    Quantized { packed: Array, scales: Array, biases: Option<Array>, spec: QuantizationSpec },
}

impl Weight {
    /// A dense weight of shape `[out, in]`.
    pub(crate) fn dense(weight: &Array) -> Self {
        // The axis cannot be refused: 0 lies within every array's.
        let transposed = weight.t();
        let stacked = transposed.expand_dims(0).unwrap_or_else(|_| transposed.clone());
        Self::Dense { weight: weight.clone(), transposed, stacked }
    }

    /// The rows of all weights behind each other, not yet evaluated; `None` where they are not packed alike.
    fn joined<'a>(weights: impl Iterator<Item = &'a Self>) -> Result<Option<Self>> {
        let (mut specs, mut parts) = (Vec::new(), Vec::new());
        for weight in weights {
            specs.push(match weight {
                Self::Dense { .. } => None,
                Self::Quantized { spec, .. } => Some(*spec),
            });
            parts.push(weight.parts());
        }
        let (Some(&spec), Some(count)) = (specs.first(), parts.first().map(Vec::len)) else {
            return Ok(None);
        };
        if specs.iter().any(|other| *other != spec) || parts.iter().any(|other| other.len() != count) {
            return Ok(None);
        }
        let mut joined = Vec::with_capacity(count);
        for index in 0..count {
            let column: Vec<&Array> = parts.iter().filter_map(|of_one| of_one.get(index).copied()).collect();
            match rows_joined(&column)? {
                Some(rows) => joined.push(rows),
                None => return Ok(None),
            }
        }
        let mut joined = joined.into_iter();
        Ok(match (spec, joined.next(), joined.next()) {
            (None, Some(weight), _) => Some(Self::dense(&weight)),
            (Some(spec), Some(packed), Some(scales)) => {
                Some(Self::Quantized { packed, scales, biases: joined.next(), spec })
            }
            _ => None,
        })
    }

    /// The arrays that it consists of.
    fn parts(&self) -> Vec<&Array> {
        match self {
            Self::Dense { weight, .. } => vec![weight],
            Self::Quantized { packed, scales, biases, .. } => {
                [packed, scales].into_iter().chain(biases).collect()
            }
        }
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
        Self { weight, bias, held: OnceLock::new(), row_product: OnceLock::new() }
    }

    /// The layers, which take the same input, as one with their outputs behind each other, in memory when this returns, and
    /// where each one's outputs end; `None` where their weights are not packed alike, only some have biases, or rows of
    /// one would begin [where kernels may not read](ALIGNMENT).
    pub(crate) fn joined(layers: &[Self]) -> Result<Option<(Self, Vec<i32>)>> {
        let Some(weight) = Weight::joined(layers.iter().map(Self::weight))? else { return Ok(None) };
        let biases: Vec<&Array> = layers.iter().filter_map(|layer| layer.bias.as_ref()).collect();
        let bias = match biases.len() {
            0 => None,
            count if count == layers.len() => match rows_joined(&biases)? {
                Some(bias) => Some(bias),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let joined = Self::new(weight, bias);
        let mut end = 0;
        let ends: Vec<i32> = layers
            .iter()
            .map(|layer| {
                end += layer.outputs();
                end
            })
            .collect();
        let aligned = |array: &Array| {
            let row: usize =
                array.shape().iter().skip(1).map(|length| usize::try_from(*length).unwrap_or(0)).product();
            let begins = |row_index: &i32| usize::try_from(*row_index).unwrap_or(0) * row * array.item_size();
            ends.iter().rev().skip(1).all(|end| begins(end).is_multiple_of(ALIGNMENT))
        };
        if !joined.parts().all(aligned) {
            return Ok(None);
        }
        transforms::eval(joined.parts())?;
        Ok(Some((joined, ends)))
    }

    /// The rows from `start` to `stop` as a layer of their own, whose arrays are views of this one's.
    pub(crate) fn rows(&self, start: i32, stop: i32) -> Result<Self> {
        let rows = |array: &Array| {
            let mut bounds = (vec![0; array.ndim()], array.shape().to_vec());
            if let (Some(first), Some(last)) = (bounds.0.first_mut(), bounds.1.first_mut()) {
                (*first, *last) = (start, stop);
            }
            mlx::slice(array, &bounds.0, &bounds.1)
        };
        let weight = match &self.weight {
            Weight::Dense { weight, .. } => Weight::dense(&rows(weight)?),
            Weight::Quantized { packed, scales, biases, spec } => Weight::Quantized {
                packed: rows(packed)?,
                scales: rows(scales)?,
                biases: biases.as_ref().map(rows).transpose()?,
                spec: *spec,
            },
        };
        let layer = Self::new(weight, self.bias.as_ref().map(rows).transpose()?);
        transforms::eval(layer.parts())?;
        Ok(layer)
    }

    /// The arrays that it consists of.
    fn parts(&self) -> impl Iterator<Item = &Array> {
        self.weight.parts().into_iter().chain(&self.bias)
    }

    /// How many numbers it makes of one input.
    fn outputs(&self) -> i32 {
        match &self.weight {
            Weight::Dense { weight, .. } => weight.dim(0),
            Weight::Quantized { packed, .. } => packed.dim(0),
        }
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
        if let Some(product) = self.row_product.get_or_init(|| RowProduct::new(self.arrays()))
            && let Some(result) = product.of(x, residual)?
        {
            return Ok(result);
        }
        let result = match (&self.weight, &self.bias) {
            // One node, as MLX's own linear layer does it.
            (Weight::Dense { transposed, .. }, Some(bias)) => ops::addmm(bias, x, transposed, None, None),
            (Weight::Dense { stacked, .. }, None) => x.matmul(stacked),
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

    /// The layer as kernels of our own on a processor take it. Elsewhere its memory is not even asked for: MLX would move it
    /// to where the processor can read it.
    pub(crate) fn held(&self) -> Option<&Arc<HeldLinear>> {
        if !on_cpu() {
            return None;
        }
        self.held.get_or_init(|| HeldLinear::new(self.arrays()).map(Arc::new)).as_ref()
    }
}

/// The arrays behind each other along the first axis; `None` where they differ in data type or in another axis.
fn rows_joined(arrays: &[&Array]) -> Result<Option<Array>> {
    let like = |one: &Array, other: &Array| {
        one.dtype() == other.dtype() && one.shape().get(1..) == other.shape().get(1..)
    };
    match arrays.first() {
        Some(first) if arrays.iter().all(|array| like(first, array)) => ops::concatenate(arrays, 0).map(Some),
        _ => Ok(None),
    }
}
