//! `f32` values written as `F32`, `F16` or `BF16`, with a watch on what the change of type does to them.

use half::{bf16, f16};
use mlxcel_catalog::headers::Dtype;
use serde::Serialize;

use super::error::ConvertError;

/// The element type of dense tensors, scales and biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FloatDtype {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16.
    Bf16,
}

impl FloatDtype {
    /// The spelling of the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// The spelling of a configuration's `torch_dtype`.
    pub const fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }

    /// The type of a configuration's `torch_dtype`.
    pub fn from_torch_name(name: &str) -> Option<Self> {
        [Self::F32, Self::F16, Self::Bf16].into_iter().find(|dtype| dtype.torch_name() == name)
    }

    /// The type in safetensors files.
    pub const fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::Bf16,
        }
    }

    /// The nearest value of this type, ties to even.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::F16 => f16::from_f32(value).to_f32(),
            Self::Bf16 => bf16::from_f32(value).to_f32(),
        }
    }
}

/// Whether values may be rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To the nearest value of the type.
    Allowed,
    /// A value that the type does not hold is an error.
    Refused,
}

/// Appends `values` to `out` in `dtype`, little-endian, and returns the largest difference that rounding made. A finite
/// value that would become infinite is an error, whatever `rounding` says.
pub(super) fn encode(
    values: &[f32],
    dtype: FloatDtype,
    rounding: Rounding,
    tensor: &str,
    out: &mut Vec<u8>,
) -> Result<f32, ConvertError> {
    out.reserve(values.len().saturating_mul(usize::try_from(dtype.dtype().bytes()).unwrap_or(1)));
    match dtype {
        FloatDtype::F32 => {
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            Ok(0.0)
        }
        FloatDtype::F16 => encode_as(values, dtype, rounding, tensor, |value| {
            let half = f16::from_f32(value);
            out.extend_from_slice(&half.to_le_bytes());
            half.to_f32()
        }),
        FloatDtype::Bf16 => encode_as(values, dtype, rounding, tensor, |value| {
            let half = bf16::from_f32(value);
            out.extend_from_slice(&half.to_le_bytes());
            half.to_f32()
        }),
    }
}

/// Replaces `values` by the nearest ones of `dtype`. A finite value that would become infinite is an error.
pub(super) fn round(values: &mut [f32], dtype: FloatDtype, tensor: &str) -> Result<(), ConvertError> {
    for value in values {
        let rounded = dtype.round(*value);
        if value.is_finite() && !rounded.is_finite() {
            return Err(out_of_range(tensor, *value, dtype));
        }
        *value = rounded;
    }
    Ok(())
}

fn out_of_range(tensor: &str, value: f32, dtype: FloatDtype) -> ConvertError {
    ConvertError::OutOfRange { tensor: tensor.to_owned(), value, dtype: dtype.dtype() }
}

/// Puts every value through `put`, which gives back what was kept of it, and watches the difference.
fn encode_as(
    values: &[f32],
    dtype: FloatDtype,
    rounding: Rounding,
    tensor: &str,
    mut put: impl FnMut(f32) -> f32,
) -> Result<f32, ConvertError> {
    let mut largest = 0.0_f32;
    for &value in values {
        let rounded = put(value);
        if !value.is_finite() {
            continue;
        }
        if !rounded.is_finite() {
            return Err(out_of_range(tensor, value, dtype));
        }
        let difference = (rounded - value).abs();
        if difference > 0.0 && rounding == Rounding::Refused {
            let remedy =
                if FloatDtype::F16.round(value).to_bits() == value.to_bits() { "f16" } else { "f32" };
            return Err(ConvertError::Inexact {
                tensor: tensor.to_owned(),
                value,
                dtype: dtype.dtype(),
                remedy,
            });
        }
        largest = largest.max(difference);
    }
    Ok(largest)
}

/// Appends the elements of `bytes` to `out`; false when `dtype` is no floating-point type of weights.
pub(super) fn decode(bytes: &[u8], dtype: Dtype, out: &mut Vec<f32>) -> bool {
    match dtype {
        Dtype::F32 => out.extend(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes))),
        Dtype::F16 => {
            out.extend(bytes.as_chunks::<2>().0.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32()));
        }
        Dtype::Bf16 => {
            out.extend(bytes.as_chunks::<2>().0.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()));
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;

    fn bytes(values: &[f32], dtype: FloatDtype, rounding: Rounding) -> Result<(Vec<u8>, f32), ConvertError> {
        let mut out = Vec::new();
        let difference = encode(values, dtype, rounding, "norm.weight", &mut out)?;
        Ok((out, difference))
    }

    #[test]
    fn encoding_and_decoding_agree_for_exact_values() {
        let values = [0.0, -0.0, 1.0, -2.5, 0.007_812_5, 128.0];
        for dtype in [FloatDtype::F32, FloatDtype::F16, FloatDtype::Bf16] {
            let (encoded, difference) = bytes(&values, dtype, Rounding::Refused).unwrap();
            let mut decoded = Vec::new();
            assert!(decode(&encoded, dtype.dtype(), &mut decoded));
            assert_eq!(decoded, values);
            assert!(difference == 0.0);
        }
        assert!(!decode(&[0; 4], Dtype::U32, &mut Vec::new()));
    }

    #[test]
    fn a_value_beyond_f16_is_refused_and_not_made_infinite() {
        let message = bytes(&[1.0, 70_000.0], FloatDtype::F16, Rounding::Allowed).unwrap_err().to_string();
        assert!(
            message.contains("norm.weight") && message.contains("70000") && message.contains("bf16"),
            "{message}"
        );
    }

    #[test]
    fn rounding_is_measured_or_refused() {
        // 1 + 2^-9 is exact in f16 (10 bits of fraction) and not in bf16 (7 bits).
        let value = 1.0 + 1.0 / 512.0;
        let (_, difference) = bytes(&[value], FloatDtype::Bf16, Rounding::Allowed).unwrap();
        assert!((difference - 1.0 / 512.0).abs() < f32::EPSILON);
        let message = bytes(&[value], FloatDtype::Bf16, Rounding::Refused).unwrap_err().to_string();
        assert!(message.contains("--dtype f16"), "{message}");
        assert!(bytes(&[value], FloatDtype::F16, Rounding::Refused).is_ok());
    }
}
