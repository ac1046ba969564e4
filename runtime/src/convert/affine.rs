//! MLX's quantized forms turned back into `f32`.
//!
//! Computed in `f32` throughout: MLX's own `dequantize` computes in the element type of the scales, which rounds once
//! more. Codes are a stream of `bits` each, element 0 in the lowest bits of the first byte. Element forms: E2M1 for
//! `mxfp4` and `nvfp4`, E4M3 for `mxfp8` (OCP Microscaling Formats 1.0); scales E8M0 for `mxfp4` and `mxfp8`, E4M3 for
//! `nvfp4`.

use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_catalog::headers::Dtype;

use super::encode::decode;

/// Values of the 4-bit float E2M1, by code without its sign bit.
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Whether the mode has a bias for each group.
pub(super) const fn has_biases(mode: QuantizationMode) -> bool {
    matches!(mode, QuantizationMode::Affine)
}

/// Whether scales of the mode may have the element type.
pub(super) const fn scale_dtype_fits(mode: QuantizationMode, dtype: Dtype) -> bool {
    if has_biases(mode) {
        matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16)
    } else {
        matches!(dtype, Dtype::U8)
    }
}

/// The scales as numbers.
pub(super) fn scales(mode: QuantizationMode, bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    let mut scales = Vec::new();
    match mode {
        QuantizationMode::Affine => _ = decode(bytes, dtype, &mut scales),
        QuantizationMode::Nvfp4 => scales.extend(bytes.iter().map(|&code| e4m3(code))),
        QuantizationMode::Mxfp4 | QuantizationMode::Mxfp8 => {
            scales.extend(bytes.iter().map(|&code| e8m0(code)));
        }
    }
    scales
}

/// A power of two from 2^-127 to 2^127; 255 is not a number.
fn e8m0(code: u8) -> f32 {
    if code == u8::MAX { f32::NAN } else { (f32::from(code) - 127.0).exp2() }
}

/// The 8-bit float of four exponent bits (bias 7) and three fraction bits; no infinities.
fn e4m3(code: u8) -> f32 {
    let (exponent, fraction) = (f32::from((code >> 3) & 0x0f), f32::from(code & 7));
    let magnitude = match code & 0x7f {
        0x7f => f32::NAN,
        low if low < 8 => fraction / 512.0,
        _ => (1.0 + fraction / 8.0) * (exponent - 7.0).exp2(),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// Appends the elements of whole rows to `out`.
pub(super) fn dequantize(
    spec: QuantizationSpec,
    codes: &[u8],
    scales: &[f32],
    biases: &[f32],
    out: &mut Vec<f32>,
) {
    let group_bytes = spec.group_size as usize * spec.bits as usize / 8;
    for (group, codes) in codes.chunks_exact(group_bytes.max(1)).enumerate() {
        let scale = scales.get(group).copied().unwrap_or(f32::NAN);
        let bias = biases.get(group).copied().unwrap_or(f32::NAN);
        let (mut pending, mut held) = (0_u32, 0_u32);
        for &byte in codes {
            pending |= u32::from(byte) << held;
            held += 8;
            while held >= spec.bits {
                let code = pending.to_le_bytes()[0] & u8::MAX >> (8 - spec.bits.clamp(1, 8));
                out.push(match spec.mode {
                    QuantizationMode::Affine => scale * f32::from(code) + bias,
                    QuantizationMode::Mxfp8 => scale * e4m3(code),
                    QuantizationMode::Mxfp4 | QuantizationMode::Nvfp4 => {
                        let magnitude = E2M1[usize::from(code & 7)];
                        scale * if code & 8 == 0 { magnitude } else { -magnitude }
                    }
                });
                pending >>= spec.bits;
                held -= spec.bits;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_floats_have_their_defined_values() {
        assert_eq!([e4m3(0x38), e4m3(0x7e), e4m3(0x01), e4m3(0xb8)], [1.0, 448.0, 0.001_953_125, -1.0]);
        assert!(e4m3(0xff).is_nan() && e8m0(255).is_nan());
        assert_eq!([e8m0(127), e8m0(128), e8m0(120)], [1.0, 2.0, 0.007_812_5]);
    }

    #[test]
    fn three_bit_codes_cross_bytes() {
        // 0, 1, … 7 as 3-bit codes, lowest bits first, are the bytes 88 C6 FA.
        let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits: 3, group_size: 32 };
        let codes = [0x88, 0xc6, 0xfa].repeat(4);
        let mut out = Vec::new();
        dequantize(spec, &codes, &[2.0], &[-1.0], &mut out);
        let expected: Vec<f32> = (0..32_u8).map(|at| f32::from(at % 8) * 2.0 - 1.0).collect();
        assert_eq!(out, expected);
    }
}
