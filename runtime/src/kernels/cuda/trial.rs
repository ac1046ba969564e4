//! One product or one attention on its own, by our kernels and by MLX's own operation, so that both can be held against
//! 64-bit floats.

use super::attention;
use super::row_product::RowProduct;
use crate::kernels::cpu::trial::{FloatType, ProductShape, WeightForm};
use crate::kernels::cpu::{LinearArrays, WeightArrays};
use crate::kernels::mlx::{self, Result};
use mlx_rs::{Array, Dtype, fast};

/// Results of one row, in 32-bit floats.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// By our kernel, twice.
    pub ours: [Vec<f32>; 2],
    /// By MLX's operation.
    pub of_mlx: Vec<f32>,
    /// In 64-bit floats, from the numbers that the arrays hold.
    pub exact: Vec<f64>,
}

/// A product of `shape.m` rows of made-up numbers, which differ with `seed`, by a weight of the form, with something added
/// where `added` says so. `None` where our kernels do not serve it.
///
/// # Errors
/// Where MLX fails.
pub fn results(
    form: WeightForm,
    activations: FloatType,
    shape: ProductShape,
    added: bool,
    seed: u64,
) -> Result<Option<Results>> {
    let (m, n, k) = (extent(shape.m), extent(shape.n), extent(shape.k));
    let mut random = Random(seed);
    let mut floats =
        |rows: i32, columns: i32, scale: f32, dtype: FloatType| random.floats(&[rows, columns], scale, dtype);
    let x = floats(m, k, 1.0, activations)?.expand_dims(0)?;
    let residual = floats(m, n, 4.0, activations)?.expand_dims(0)?;
    let residual = added.then_some(&residual);
    let (product, of_mlx, plain) = match form {
        WeightForm::Dense(dtype) => {
            let weight = floats(n, k, 0.25, dtype)?;
            let arrays = LinearArrays { weight: WeightArrays::Dense(&weight), bias: None };
            (RowProduct::always(arrays), x.matmul(weight.t())?, weight.as_dtype(Dtype::Float32)?)
        }
        WeightForm::Quantized(spec, scales_dtype) => {
            let weight = floats(n, k, 0.25, scales_dtype)?;
            let (packed, scales, biases) = mlx::quantize(&weight, spec)?;
            let biases = biases.as_ref();
            let arrays = WeightArrays::Quantized { packed: &packed, scales: &scales, biases, spec };
            let product = RowProduct::always(LinearArrays { weight: arrays, bias: None });
            let wide = |array: &Array| array.as_dtype(Dtype::Float32);
            let wide_biases = biases.map(wide).transpose()?;
            (
                product,
                mlx::quantized_matmul(&x, &packed, &scales, biases, spec)?,
                mlx::dequantize(&packed, &wide(&scales)?, wide_biases.as_ref(), spec, None)?,
            )
        }
    };
    let Some(product) = product else { return Ok(None) };
    let of_mlx = match residual {
        Some(residual) => residual.add(of_mlx)?,
        None => of_mlx,
    };
    let mut ours = [const { Vec::new() }; 2];
    for one in &mut ours {
        let Some(result) = product.of(&x, residual)? else { return Ok(None) };
        *one = numbers(&result)?;
    }
    let (x, weight) = (numbers(&x)?, numbers(&plain)?);
    let added = residual.map(numbers).transpose()?;
    let mut exact: Vec<f64> = x
        .chunks_exact(shape.k)
        .flat_map(|row| weight.chunks_exact(shape.k).map(|of_w| dot(row, of_w)).collect::<Vec<_>>())
        .collect();
    for (sum, one) in exact.iter_mut().zip(added.unwrap_or_default()) {
        *sum += f64::from(one);
    }
    Ok(Some(Results { ours, of_mlx: numbers(&of_mlx)?, exact }))
}

/// The extents of an attention of one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// Numbers of a head.
    pub dim: usize,
    /// Keys.
    pub length: usize,
}

/// Attention over made-up numbers, keys and values lying in one wider buffer as a cache keeps them. `None` where our kernels
/// do not serve it.
///
/// # Errors
/// Where MLX fails.
pub fn attention_results(dtype: FloatType, shape: AttentionShape, seed: u64) -> Result<Option<Results>> {
    let AttentionShape { heads, key_heads, dim, length } = shape;
    let mut random = Random(seed);
    let (rows, width, kept) = (extent(heads), extent(dim), extent(key_heads));
    let queries = random.floats(&[1, rows, 1, width], 4.0, dtype)?;
    let buffer = random.floats(&[1, 2 * kept, extent(length + 40), width], 1.0, dtype)?;
    let part = |from: i32| mlx::slice(&buffer, &[0, from, 0, 0], &[1, from + kept, extent(length), width]);
    let (keys, values) = (part(0)?, part(kept)?);
    let scale = 1.0 / (dim as f32).sqrt();
    let mut ours = [const { Vec::new() }; 2];
    for one in &mut ours {
        let Some(result) = attention::always(&queries, &keys, &values, scale)? else { return Ok(None) };
        *one = numbers(&result)?;
    }
    let of_mlx = fast::scaled_dot_product_attention(&queries, &keys, &values, scale, None, None)?;
    let (queries, keys, values) = (numbers(&queries)?, numbers(&keys)?, numbers(&values)?);
    let mut exact = Vec::with_capacity(heads * dim);
    for (head, query) in queries.chunks_exact(dim).enumerate() {
        let of_head = head * key_heads / heads * length * dim;
        let rows_of = |all: &[f32]| -> Vec<Vec<f32>> {
            all.get(of_head..)
                .unwrap_or_default()
                .chunks_exact(dim)
                .take(length)
                .map(<[f32]>::to_vec)
                .collect()
        };
        let (keys, values) = (rows_of(&keys), rows_of(&values));
        let scores: Vec<f64> = keys.iter().map(|key| dot(query, key) * f64::from(scale)).collect();
        let most = scores.iter().fold(f64::MIN, |most, score| most.max(*score));
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        exact.extend((0..dim).map(|index| {
            let weighted = weights.iter().zip(&values);
            weighted
                .map(|(weight, value)| weight * value.get(index).map_or(0.0, |one| f64::from(*one)))
                .sum::<f64>()
                / sum
        }));
    }
    Ok(Some(Results { ours, of_mlx: numbers(&of_mlx)?, exact }))
}

/// Made-up numbers.
struct Random(u64);

impl Random {
    /// From `-scale` to `scale`.
    fn floats(&mut self, shape: &[i32], scale: f32, dtype: FloatType) -> Result<Array> {
        let count: i64 = shape.iter().map(|extent| i64::from(*extent)).product();
        let numbers: Vec<f32> = (0..count)
            .map(|_| {
                self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                // The upper 24 bits as a number from -1 to 1.
                scale * ((self.0 >> 40) as f32 / 8_388_608.0 - 1.0)
            })
            .collect();
        Array::from_slice(&numbers, shape).as_dtype(mlx_dtype(dtype))
    }
}

fn extent(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Whether MLX computes on an NVIDIA GPU here.
pub fn can_run() -> bool {
    crate::version::Backend::current() == crate::version::Backend::Cuda
}

fn dot(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
}

fn mlx_dtype(dtype: FloatType) -> Dtype {
    match dtype {
        FloatType::F32 => Dtype::Float32,
        FloatType::F16 => Dtype::Float16,
        FloatType::Bf16 => Dtype::Bfloat16,
    }
}

fn numbers(array: &Array) -> Result<Vec<f32>> {
    let flat = array.as_dtype(Dtype::Float32)?.flatten(None, None)?;
    flat.eval()?;
    Ok(flat.as_slice::<f32>().to_vec())
}
