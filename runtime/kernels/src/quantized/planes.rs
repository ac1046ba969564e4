//! Activations as bytes, for products with the bytes of a quantized weight.
//!
//! The activations of each group of a row become integers of 24 bits, by a power of two that the group shares, and each integer
//! three signed bytes. A plane holds one of the three of every activation, in the order in which the weight's fields come to lie.

use super::piece::Prepared;
use super::{Kind, QuantizedWeight, Scheme};
use crate::element::{widen, with_element};
use crate::product::Rows;
use crate::scratch::lines;
use crate::simd::{Dot, DotKernel, MAX_LANES};

/// Vectors of bytes that a vector of a weight unpacks to, at most.
pub(super) const MAX_STEPS: usize = 4;
/// Signed bytes of an activation.
pub(super) const PLANES: usize = 3;
/// Columns of a unit, at most.
const MAX_UNIT: usize = 4 * MAX_LANES * MAX_STEPS;
/// A 4-bit float, doubled and raised by this, is an unsigned byte.
const RAISED: i32 = 12;

/// How activations are prepared for this weight. A unit is `PLANES` times as many vectors of bytes as a vector of the weight
/// unpacks to, a vector of scales and a vector of what is added to its sums.
pub(super) fn prepared_for(lanes: usize, weight: &QuantizedWeight) -> Prepared {
    let steps = match Scheme(weight.scheme).bits() {
        bits @ (2 | 4) => 8 / bits as usize,
        _ => 1,
    };
    let unit = 4 * lanes * steps;
    let sums = lines(weight.columns.div_ceil(unit) * unit_floats(steps, lanes));
    Prepared { stride: sums + lines(weight.groups().next_multiple_of(MAX_LANES)), sums, unit }
}

/// Floats of a prepared unit, where a vector of the weight unpacks to `steps` vectors.
#[inline(always)]
pub(super) fn unit_floats(steps: usize, lanes: usize) -> usize {
    (PLANES * steps + 2) * lanes
}

pub(super) struct Prepare<'a> {
    pub(super) x: &'a Rows,
    pub(super) weight: &'a QuantizedWeight,
    pub(super) prepared: Prepared,
    pub(super) natural: &'a mut [f32],
    pub(super) to: &'a mut [f32],
    /// Rows with an activation that is infinite or not a number, which no integer stands for.
    pub(super) endless: &'a mut Vec<usize>,
}

impl DotKernel for Prepare<'_> {
    #[inline(always)]
    unsafe fn run<S: Dot>(self) {
        let Self { x, weight, prepared, natural, to, endless } = self;
        let group_size = weight.group_size();
        let codes = !matches!(weight.scheme, Kind::Affine { .. });
        let natural = &mut natural[..x.columns];
        let steps = prepared.unit / (4 * S::LANES);
        for (row, to) in to.chunks_exact_mut(prepared.stride).enumerate() {
            // SAFETY: a row of `x`, and room for one in `natural`.
            unsafe {
                with_element!(x.dtype, E => widen::<S, E>(x.row::<E>(row), natural.as_mut_ptr(), x.columns));
            }
            let (units, sums) = to.split_at_mut(prepared.sums);
            let mut finite = true;
            for (columns, to) in
                natural.chunks(prepared.unit).zip(units.chunks_exact_mut(unit_floats(steps, S::LANES)))
            {
                finite &= match steps {
                    1 => prepare_unit::<S, 1>(columns, group_size, codes, to),
                    2 => prepare_unit::<S, 2>(columns, group_size, codes, to),
                    _ => prepare_unit::<S, 4>(columns, group_size, codes, to),
                };
            }
            if !finite {
                endless.push(row);
            }
            sums.fill(0.0);
            if !codes {
                for (sum, group) in sums.iter_mut().zip(natural.chunks_exact(group_size)) {
                    // SAFETY: whole vectors of the group.
                    unsafe {
                        let mut acc = S::splat(0.0);
                        for lanes in group.chunks_exact(S::LANES) {
                            acc = S::add(acc, S::load(lanes.as_ptr()));
                        }
                        *sum = S::sum(acc);
                    }
                }
            }
        }
    }
}

/// Writes a unit of activations, of which there may be fewer than a whole unit (zero for the others), as bytes. Says whether
/// all of them are finite.
#[inline(always)]
fn prepare_unit<S: Dot, const STEPS: usize>(
    columns: &[f32],
    group_size: usize,
    codes: bool,
    to: &mut [f32],
) -> bool {
    let bytes = 4 * S::LANES;
    let mut integers = [0_i32; MAX_UNIT];
    let mut finite = true;
    let (planes, rest) = to.split_at_mut(PLANES * STEPS * S::LANES);
    let (scales, added) = rest.split_at_mut(S::LANES);
    scales.fill(0.0);
    added.fill(0.0);
    // A unit may be half a group, which then has a power of its own.
    let group_size = group_size.min(bytes * STEPS);
    let group_lanes = (group_size / (4 * STEPS)).max(1);
    for (index, group) in columns.chunks(group_size).enumerate() {
        let power = Power::of(group);
        finite &= power.finite;
        for (integer, value) in integers[index * group_size..].iter_mut().zip(group) {
            // SAFETY: the power brings every finite value of the group below 2²³; what becomes of the others is not used.
            *integer = unsafe { within(*value * power.up).round_ties_even().to_int_unchecked() };
        }
        let down = if codes { power.down / 2.0 } else { power.down };
        scales[index * group_lanes..(index + 1) * group_lanes].fill(down);
    }
    let integers = &integers[..bytes * STEPS];
    if codes {
        for (added, integers) in added.iter_mut().zip(integers.chunks_exact(4 * STEPS)) {
            *added = f32::from_bits((-RAISED * integers.iter().sum::<i32>()).cast_unsigned());
        }
    }
    // SAFETY: floats are bytes, and any bytes are floats.
    let planes =
        unsafe { std::slice::from_raw_parts_mut(planes.as_mut_ptr().cast::<u8>(), PLANES * STEPS * bytes) };
    let mut natural = [0_u8; MAX_UNIT];
    let natural = &mut natural[..STEPS * bytes];
    for (plane, to) in planes.chunks_exact_mut(STEPS * bytes).enumerate() {
        for (natural, integer) in natural.iter_mut().zip(integers) {
            *natural = byte(*integer, plane);
        }
        for (step, to) in to.chunks_exact_mut(bytes).enumerate() {
            every::<STEPS>(natural, step, to);
        }
    }
    finite
}

/// Every one of `STEPS` bytes, from `step` on.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a byte is what is wanted")]
fn every<const STEPS: usize>(from: &[u8], step: usize, to: &mut [u8]) {
    // As shifts of words, which compilers turn into vectors.
    match STEPS {
        2 => {
            for (to, from) in to.iter_mut().zip(from.as_chunks::<2>().0) {
                *to = (u16::from_le_bytes(*from) >> (8 * step)) as u8;
            }
        }
        4 => {
            for (to, from) in to.iter_mut().zip(from.as_chunks::<4>().0) {
                *to = (u32::from_le_bytes(*from) >> (8 * step)) as u8;
            }
        }
        _ => to.copy_from_slice(from),
    }
}

/// The signed byte number `plane` of an integer, the lowest first, as its bits: the integer is the sum of them times 256 to the
/// power of their numbers.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a byte is what is wanted")]
fn byte(integer: i32, plane: usize) -> u8 {
    // Where a byte below is negative, the one above is one more: adding half of each lower byte's range carries so.
    let carried = [0, 0x80, 0x8080][plane];
    ((integer + carried) >> (8 * plane)) as u8
}

/// A value that can become an integer whatever it was: not a number becomes some number.
#[inline(always)]
fn within(value: f32) -> f32 {
    const LIMIT: f32 = 8_388_608.0;
    if (-LIMIT..=LIMIT).contains(&value) { value } else { 0.0 }
}

/// The power of two that brings the largest value of a group to 2²² at least and so far below 2²³ that three signed bytes
/// hold it; and its inverse.
struct Power {
    up: f32,
    down: f32,
    finite: bool,
}

impl Power {
    #[inline(always)]
    fn of(group: &[f32]) -> Self {
        let largest = group.iter().fold(0, |largest: u32, value| largest.max(value.to_bits() & 0x7fff_ffff));
        let exponent = largest >> 23;
        // Three signed bytes reach 0x7f7f7f; and below 2⁻¹⁰⁴ the power itself would not be a float.
        let close = u32::from(largest & 0x007f_ffff > 0x007e_0000);
        let exponent_of_power = (exponent + close).clamp(23, 255);
        Self {
            up: f32::from_bits((276 - exponent_of_power) << 23),
            down: f32::from_bits((exponent_of_power - 22) << 23),
            finite: exponent < 255,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_signed_bytes_hold_every_integer_that_a_power_gives() {
        for integer in
            (-0x007f_7f7f..=0x007f_7f7f).step_by(97).chain([0x007f_7f7f, -1, 0, 1, 127, 128, -128, -129])
        {
            let bytes = [0, 1, 2].map(|plane| i32::from(byte(integer, plane).cast_signed()));
            assert_eq!(bytes[0] + 256 * bytes[1] + 65536 * bytes[2], integer);
        }
    }

    #[test]
    fn a_power_brings_the_largest_value_to_three_signed_bytes() {
        for bits in
            (0..0x7f80_0000_u32).step_by(99_991).chain([0x7f7f_ffff, 0x3fff_ffff, 0x3ffe_0001, 0x3ffe_0000])
        {
            let largest = f32::from_bits(bits);
            let power = Power::of(&[0.0, -largest, largest / 2.0]);
            assert!(power.finite);
            let integer = (largest * power.up).round_ties_even();
            assert!(integer <= 8_355_711.0, "{largest} {integer}");
            assert!(integer >= 4_194_304.0 * 0.99 || bits < 24 << 23, "{largest} {integer}");
            assert!((power.up.log2() + power.down.log2()).abs() < 1e-6);
        }
        assert!(!Power::of(&[1.0, f32::NEG_INFINITY]).finite);
        assert!(!Power::of(&[f32::NAN, 1.0]).finite);
    }
}
