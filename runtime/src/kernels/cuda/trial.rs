//! One product on its own, by our kernel and by MLX's own operation, so that both can be held against 64-bit floats.

use super::row_product::RowProduct;
use crate::kernels::cpu::trial::{FloatType, ProductShape, WeightForm};
use crate::kernels::cpu::{LinearArrays, WeightArrays};
use crate::kernels::mlx::{self, Result};
use mlx_rs::{Array, Dtype};

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
    let extent = |length: usize| i32::try_from(length).unwrap_or(i32::MAX);
    let (m, n, k) = (extent(shape.m), extent(shape.n), extent(shape.k));
    let mut state = seed;
    let mut floats = |rows: i32, columns: i32, scale: f32, dtype: FloatType| {
        let numbers: Vec<f32> = (0..i64::from(rows) * i64::from(columns))
            .map(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                // The upper bits as a number from -1 to 1.
                scale * ((state >> 40) as f32 / f32::from(1_u8 << 7) / 65536.0 - 1.0)
            })
            .collect();
        Array::from_slice(&numbers, &[rows, columns]).as_dtype(mlx_dtype(dtype))
    };
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
