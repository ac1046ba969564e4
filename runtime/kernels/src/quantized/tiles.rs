//! Quantized weights as a source of floats for the blocked product.

use super::scales::E2M1;
use super::{Kind, QuantizedWeight};
use crate::blocked::Source;
use crate::simd::Simd;

/// Groups of a stretch, at most: columns by the smallest group.
const MAX_GROUPS: usize = 16;

impl Source for QuantizedWeight {
    #[inline(always)]
    unsafe fn fill<S: Simd>(self, row: usize, from: usize, count: usize, to: *mut f32) {
        // SAFETY: the stretch lies within the row, as the caller promises.
        unsafe {
            match self.scheme {
                Kind::Affine { bits: 2, .. } => self.fill_affine::<S, 2>(row, from, count, to),
                Kind::Affine { bits: 3, .. } => self.fill_affine::<S, 3>(row, from, count, to),
                Kind::Affine { bits: 4, .. } => self.fill_affine::<S, 4>(row, from, count, to),
                Kind::Affine { bits: 5, .. } => self.fill_affine::<S, 5>(row, from, count, to),
                Kind::Affine { bits: 6, .. } => self.fill_affine::<S, 6>(row, from, count, to),
                Kind::Affine { .. } => self.fill_affine::<S, 8>(row, from, count, to),
                Kind::Mxfp4 | Kind::Nvfp4 => self.fill_codes::<S>(row, from, count, to),
            }
        }
    }
}

impl QuantizedWeight {
    #[inline(always)]
    unsafe fn fill_affine<S: Simd, const BITS: u32>(
        self,
        row: usize,
        from: usize,
        count: usize,
        to: *mut f32,
    ) {
        let group_size = self.group_size();
        unsafe {
            let (scales, biases) = self.stretch::<S>(row, from, count);
            let fields = self.fields.pointer().cast_const().add(row * self.row_bytes);
            for (group, at) in (0..count).step_by(group_size).enumerate() {
                let scale = S::splat(scales[group]);
                let bias = S::splat(biases[group]);
                for column in (at..at + group_size).step_by(S::LANES) {
                    let words = S::fields::<BITS>(fields.add((from + column) / 8 * BITS as usize));
                    S::store(to.add(column), S::fma(S::to_floats(words), scale, bias));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn fill_codes<S: Simd>(self, row: usize, from: usize, count: usize, to: *mut f32) {
        let group_size = self.group_size();
        unsafe {
            let table = S::table(&E2M1);
            let (scales, _) = self.stretch::<S>(row, from, count);
            let fields = self.fields.pointer().cast_const().add(row * self.row_bytes);
            for (group, at) in (0..count).step_by(group_size).enumerate() {
                let scale = S::splat(scales[group]);
                for column in (at..at + group_size).step_by(S::LANES) {
                    let words = S::fields::<4>(fields.add((from + column) / 8 * 4));
                    S::store(to.add(column), S::mul(S::lookup(table, words), scale));
                }
            }
        }
    }

    /// The scales and biases of the groups of a stretch that begins with a group.
    #[inline(always)]
    unsafe fn stretch<S: Simd>(
        &self,
        row: usize,
        from: usize,
        count: usize,
    ) -> ([f32; MAX_GROUPS], [f32; MAX_GROUPS]) {
        let first = row * self.groups() + from / self.group_size();
        let groups = first..first + count / self.group_size();
        let (mut scales, mut biases) = ([0.0; MAX_GROUPS], [0.0; MAX_GROUPS]);
        // SAFETY: a stretch has at most 256 columns, so 16 groups.
        unsafe { self.scales::<S>(groups, scales.as_mut_ptr(), biases.as_mut_ptr()) };
        (scales, biases)
    }
}
