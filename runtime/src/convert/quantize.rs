//! Quantization by MLX's own operation, so that the result is what mlx-lm's `convert -q` makes of the same weights.

use mlx_rs::{Array, Dtype};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};

use super::encode::FloatDtype;
use crate::kernels;

/// Quantized rows.
#[derive(Debug)]
pub(super) struct Quantized {
    /// Packed codes.
    pub(super) codes: Vec<u32>,
    /// One scale a group.
    pub(super) scales: Scales,
}

/// The scales of quantized rows.
#[derive(Debug)]
pub(super) enum Scales {
    /// Affine: scales and biases, exact values of the element type.
    Floats { scales: Vec<f32>, biases: Vec<f32> },
    /// The other modes: 8-bit floats.
    Bytes(Vec<u8>),
}

/// Quantizes `rows` rows of `columns` values, which must be values of `dtype`. The error is MLX's message.
pub(super) fn quantize(
    values: &[f32],
    rows: usize,
    columns: usize,
    dtype: FloatDtype,
    spec: QuantizationSpec,
) -> Result<Quantized, String> {
    let axis = |length: usize| {
        i32::try_from(length).map_err(|_| format!("an axis of {length} is beyond MLX's range"))
    };
    if rows.checked_mul(columns) != Some(values.len()) {
        return Err(format!("{} values do not fill {rows} rows of {columns}", values.len()));
    }
    let text = |error: mlx_rs::error::Exception| error.to_string();
    let wide = Array::from_slice(values, &[axis(rows)?, axis(columns)?]);
    let array = match dtype {
        FloatDtype::F32 => wide,
        FloatDtype::F16 => wide.as_dtype(Dtype::Float16).map_err(text)?,
        FloatDtype::Bf16 => wide.as_dtype(Dtype::Bfloat16).map_err(text)?,
    };
    let (codes, scales, biases) = kernels::mlx::quantize(&array, spec).map_err(text)?;
    let floats = |array: &Array| -> Result<Vec<f32>, String> {
        let array = array.as_dtype(Dtype::Float32).map_err(text)?;
        Ok(array.try_as_slice::<f32>().map_err(|error| error.to_string())?.to_vec())
    };
    let scales = match (spec.mode, &biases) {
        (QuantizationMode::Affine, Some(biases)) => {
            Scales::Floats { scales: floats(&scales)?, biases: floats(biases)? }
        }
        (QuantizationMode::Affine, None) => return Err("quantize gave no biases".to_owned()),
        _ => Scales::Bytes(scales.try_as_slice::<u8>().map_err(|error| error.to_string())?.to_vec()),
    };
    let codes = codes.try_as_slice::<u32>().map_err(|error| error.to_string())?.to_vec();
    Ok(Quantized { codes, scales })
}
