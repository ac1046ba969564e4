//! Scales and biases as floats.

use super::{Kind, QuantizedWeight, Scales};
use crate::element::{Dtype, Element, widen, with_element};
use crate::share::Shared;
use crate::simd::Simd;
use std::ops::Range;

/// The values of 4-bit floats with two bits of exponent and one of mantissa.
pub(crate) const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The values of bytes that hold an exponent alone; 255 is not a number.
static E8M0: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        values[byte as usize] = match byte {
            // The one that lies below the normal floats.
            0 => f32::from_bits(0x0040_0000),
            255 => f32::NAN,
            _ => f32::from_bits(byte << 23),
        };
        byte += 1;
    }
    values
};

/// The values of 8-bit floats with four bits of exponent and three of mantissa, without infinities.
static E4M3: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let exponent = (byte >> 3) & 15;
        let mantissa = byte & 7;
        let magnitude = if exponent == 15 && mantissa == 7 {
            f32::NAN
        } else if exponent == 0 {
            // Eighths of 2⁻⁶.
            mantissa as f32 / 512.0
        } else {
            f32::from_bits(((exponent + 120) << 23) | (mantissa << 20))
        };
        values[byte as usize] = if byte >= 128 { -magnitude } else { magnitude };
        byte += 1;
    }
    values
};

impl QuantizedWeight {
    /// Asks for the scales and biases of some rows, which may lie outside the weight.
    #[inline(always)]
    pub(crate) fn ask_for_scales<S: Simd>(&self, first: usize, rows: usize) {
        let ask = |data: Shared<u8>, bytes: usize| {
            let from = data.pointer().cast_const().wrapping_add(first * self.groups() * bytes);
            for line in (0..rows * self.groups() * bytes).step_by(64) {
                // SAFETY: asking reads nothing.
                unsafe { S::prefetch(from.wrapping_add(line)) };
            }
        };
        match self.scales {
            Scales::Affine { dtype, scales, biases } => {
                ask(scales, dtype.bytes());
                ask(biases, dtype.bytes());
            }
            Scales::Bytes(scales) => ask(scales, 1),
        }
    }

    /// The scales of some rows as floats, one row after the other, and their biases: where they lie if they are such floats already,
    /// else in `memory`, the biases from its middle on. A vector can be read from any group on. `groups_behind` says how many groups
    /// the weight has behind these rows.
    ///
    /// # Safety
    /// The processor has `S`; the weight has the rows; half of `memory` has room for their groups and a vector more.
    #[inline(always)]
    pub(crate) unsafe fn scales_of_rows<S: Simd>(
        &self,
        first: usize,
        rows: usize,
        groups_behind: usize,
        memory: &mut [f32],
    ) -> [*const f32; 2] {
        let groups = self.groups();
        // SAFETY: as the caller promises.
        unsafe {
            if let Scales::Affine { dtype: Dtype::F32, scales, biases } = self.scales
                && groups_behind >= S::LANES
            {
                return [scales, biases]
                    .map(|data| data.pointer().cast::<f32>().cast_const().add(first * groups));
            }
            let (scales, biases) = memory.split_at_mut(memory.len() / 2);
            // What is read beyond the last group must be a number.
            scales[rows * groups..].fill(0.0);
            let range = first * groups..(first + rows) * groups;
            self.scales::<S>(range, scales.as_mut_ptr(), biases.as_mut_ptr());
            [scales.as_ptr(), biases.as_ptr()]
        }
    }

    /// Writes the scales of some groups, counted over all rows, and in the affine mode their biases, as floats.
    ///
    /// # Safety
    /// The processor has `S`; the weight has the groups; the pointers are good for as many floats.
    #[inline(always)]
    pub(crate) unsafe fn scales<S: Simd>(
        &self,
        groups: Range<usize>,
        scales_to: *mut f32,
        biases_to: *mut f32,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.scales {
                Scales::Affine { dtype, scales, biases } => with_element!(dtype, E => {
                    let from = |data: *mut u8| {
                        data.cast::<<E as Element>::Bits>().cast_const().add(groups.start)
                    };
                    widen::<S, E>(from(scales.pointer()), scales_to, groups.len());
                    widen::<S, E>(from(biases.pointer()), biases_to, groups.len());
                }),
                Scales::Bytes(scales) => {
                    let table = if self.scheme == Kind::Mxfp4 { &E8M0 } else { &E4M3 };
                    let from = scales.pointer().add(groups.start);
                    for group in 0..groups.len() {
                        *scales_to.add(group) = table[usize::from(*from.add(group))];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact")]
    fn bytes_mean_what_the_formats_say() {
        assert_eq!(E8M0[127], 1.0);
        assert_eq!(E8M0[130], 8.0);
        assert_eq!(E8M0[0], 2.0_f32.powi(-127));
        assert!(E8M0[255].is_nan());
        assert_eq!(E4M3[0x38], 1.0);
        assert_eq!(E4M3[0x7e], 448.0);
        assert_eq!(E4M3[0x01], 2.0_f32.powi(-9));
        assert_eq!(E4M3[0xb8], -1.0);
        assert!(E4M3[0x7f].is_nan());
    }
}
