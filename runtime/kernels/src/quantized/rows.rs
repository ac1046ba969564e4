//! The row kernel of quantized products: few rows of activations, the weight read once.
//!
//! A row of the weight is taken in units. Of fields of 2 or 4 bits a unit is one vector of words: a word holds 16 or 8
//! fields, so the unit is unpacked by taking every word's lowest field and shifting all words, which leaves the columns in
//! another order (word by word within a step). The activations are put into that order once a product. Of other widths
//! a unit is 32 columns in their own order.
//!
//! Within a unit the fields meet the activations unscaled; the unit's sum is then multiplied by the scales, spread
//! over the lanes that their groups came to lie in. The biases meet the sums of the activations of each group: a
//! product of its own, `group_size` times shorter.

use super::piece::{Piece, Prepared, Units};
use super::scales::E2M1;
use super::{Kind, QuantizedWeight, Scheme};
use crate::element::{widen, with_element};
use crate::pieces::in_pieces;
use crate::product::{Means, Output, Rows};
use crate::scratch::{self, PIECE, PREPARED, lines};
use crate::share::Shared;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd};
use std::marker::PhantomData;

/// Columns of a unit in the layouts that keep the columns' order.
const NATURAL_UNIT: usize = 32;
/// Steps of a unit, at most.
const MAX_STEPS: usize = 16;

/// How activations are prepared for this weight.
fn prepared_for(isa: Isa, weight: &QuantizedWeight) -> Prepared {
    let scheme = Scheme(weight.scheme);
    let unit = match scheme.bits() {
        bits @ (2 | 4) => isa.lanes() * 32 / bits as usize,
        _ => NATURAL_UNIT,
    };
    let sums = weight.columns.next_multiple_of(unit);
    let groups = weight.groups().next_multiple_of(MAX_LANES);
    Prepared { stride: lines(sums) + groups, sums: lines(sums), unit }
}

/// Computes the products of one `x` with several weights of one scheme.
///
/// # Safety
/// `x` and the outputs are good for what they say, and each output and weight have as many columns and rows.
pub(crate) unsafe fn products(means: Means<'_>, x: &Rows, jobs: &[(QuantizedWeight, &Output)]) {
    let Some((like, _)) = jobs.first() else { return };
    let prepared = prepared_for(means.isa, like);
    let x_rows = x.rows;
    scratch::with(&PREPARED, x.rows * prepared.stride + lines(x.columns), |floats| {
        let (floats, natural) = floats.split_at_mut(x.rows * prepared.stride);
        // SAFETY: the scratch has `stride` floats for each row of `x`.
        unsafe { means.isa.run(Prepare { x, weight: like, prepared: &prepared, natural, to: floats }) };
        let floats = Shared::new(floats.as_mut_ptr());
        let sizes = jobs.iter().map(|(weight, out)| (out.columns, weight.row_bytes));
        in_pieces(means.pool, sizes, &|job, first, rows| {
            let (weight, out) = &jobs[job];
            // A vector more, since scales are read a vector at a time from any group on.
            let scales_len = lines(rows * weight.groups() + MAX_LANES);
            scratch::with(&PIECE, 2 * scales_len + x_rows * rows, |memory| {
                let (scales, sums) = memory.split_at_mut(2 * scales_len);
                let x = floats.pointer().cast_const();
                let (prepared, width, threads) = (prepared, means.width, means.pool.threads());
                // SAFETY: the activations are only read from here on; each piece writes its own columns of its output.
                unsafe {
                    means.isa.run(ByFloats(Piece {
                        x,
                        x_rows,
                        prepared,
                        weight,
                        out,
                        first,
                        rows,
                        width,
                        threads,
                        scales,
                        sums,
                    }));
                }
            });
        });
    });
}

struct Prepare<'a> {
    x: &'a Rows,
    weight: &'a QuantizedWeight,
    prepared: &'a Prepared,
    natural: &'a mut [f32],
    to: &'a mut [f32],
}

impl Kernel for Prepare<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, weight, prepared, natural, to } = self;
        let columns = x.columns;
        let group_size = weight.group_size();
        let steps = prepared.unit / S::LANES;
        for (row, to) in to.chunks_exact_mut(prepared.stride).enumerate() {
            // SAFETY: a row of `x`, and room for one in `natural`.
            unsafe {
                with_element!(x.dtype, E => widen::<S, E>(x.row::<E>(row), natural.as_mut_ptr(), columns));
            }
            let (ordered, sums) = to.split_at_mut(prepared.sums);
            if prepared.unit == NATURAL_UNIT {
                ordered[..columns].copy_from_slice(&natural[..columns]);
            } else {
                for (unit, ordered) in ordered.chunks_exact_mut(prepared.unit).enumerate() {
                    let from = &natural[unit * prepared.unit..columns.min((unit + 1) * prepared.unit)];
                    let words = from.len() / steps;
                    for (step, lanes) in ordered.chunks_exact_mut(S::LANES).enumerate() {
                        for (lane, value) in lanes[..words].iter_mut().enumerate() {
                            *value = from[lane * steps + step];
                        }
                        lanes[words..].fill(0.0);
                    }
                }
            }
            sums.fill(0.0);
            for (sum, group) in sums.iter_mut().zip(natural[..columns].chunks_exact(group_size)) {
                let mut acc = unsafe { S::splat(0.0) };
                for lanes in group.chunks_exact(S::LANES) {
                    // SAFETY: a whole vector.
                    acc = unsafe { S::add(acc, S::load(lanes.as_ptr())) };
                }
                *sum = unsafe { S::sum(acc) };
            }
        }
    }
}

/// How a unit is unpacked.
trait Layout {
    /// Steps of a unit, each a vector of columns.
    fn steps<S: Simd>() -> usize;

    /// The fields of the unit at `from`.
    ///
    /// # Safety
    /// The processor has `S`, and the unit can be read.
    unsafe fn unpack<S: Simd>(from: *const u8) -> [S::F; MAX_STEPS];

    /// The fields of the unit at `from`, of which the row has only `words` words; zero for the others.
    ///
    /// # Safety
    /// The processor has `S`, and the words can be read.
    unsafe fn unpack_last<S: Simd>(from: *const u8, words: usize) -> [S::F; MAX_STEPS];
}

/// Fields of `BITS` bits, by words.
struct Words<const BITS: u32>;
/// 4-bit floats, by words.
struct Codes;
/// Fields of `BITS` bits, in the order of the columns.
struct Natural<const BITS: u32>;

impl<const BITS: u32> Words<BITS> {
    #[inline(always)]
    unsafe fn fields<S: Simd>(mut word: S::W) -> [S::F; MAX_STEPS] {
        unsafe {
            let mut fields = [S::splat(0.0); MAX_STEPS];
            for field in fields.iter_mut().take(32 / BITS as usize) {
                *field = S::low::<BITS>(word);
                word = S::shift::<BITS>(word);
            }
            fields
        }
    }
}

impl<const BITS: u32> Layout for Words<BITS> {
    #[inline(always)]
    fn steps<S: Simd>() -> usize {
        32 / BITS as usize
    }
    #[inline(always)]
    unsafe fn unpack<S: Simd>(from: *const u8) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words(from.cast::<u32>())) }
    }
    #[inline(always)]
    unsafe fn unpack_last<S: Simd>(from: *const u8, words: usize) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words_partial(from.cast::<u32>(), words)) }
    }
}

impl Codes {
    #[inline(always)]
    unsafe fn fields<S: Simd>(mut word: S::W) -> [S::F; MAX_STEPS] {
        unsafe {
            let table = S::table(&E2M1);
            let mut fields = [S::splat(0.0); MAX_STEPS];
            for field in fields.iter_mut().take(8) {
                *field = S::lookup(table, word);
                word = S::shift::<4>(word);
            }
            fields
        }
    }
}

impl Layout for Codes {
    #[inline(always)]
    fn steps<S: Simd>() -> usize {
        8
    }
    #[inline(always)]
    unsafe fn unpack<S: Simd>(from: *const u8) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words(from.cast::<u32>())) }
    }
    #[inline(always)]
    unsafe fn unpack_last<S: Simd>(from: *const u8, words: usize) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words_partial(from.cast::<u32>(), words)) }
    }
}

impl<const BITS: u32> Layout for Natural<BITS> {
    #[inline(always)]
    fn steps<S: Simd>() -> usize {
        NATURAL_UNIT / S::LANES
    }
    #[inline(always)]
    unsafe fn unpack<S: Simd>(from: *const u8) -> [S::F; MAX_STEPS] {
        unsafe {
            let mut fields = [S::splat(0.0); MAX_STEPS];
            for (step, field) in fields.iter_mut().enumerate().take(Self::steps::<S>()) {
                let column = step * S::LANES;
                *field = S::to_floats(S::fields::<BITS>(from.add(column / 8 * BITS as usize)));
            }
            fields
        }
    }
    #[inline(always)]
    unsafe fn unpack_last<S: Simd>(_: *const u8, _: usize) -> [S::F; MAX_STEPS] {
        // A group is a whole number of these units, and so is a row.
        unsafe { [S::splat(0.0); MAX_STEPS] }
    }
}

/// A piece by floats.
struct ByFloats<'a>(Piece<'a>);

/// The units of a layout.
struct FloatUnits<L>(PhantomData<L>);

impl<S: Simd, L: Layout> Units<S> for FloatUnits<L> {
    type Fields = [S::F; MAX_STEPS];

    #[inline(always)]
    unsafe fn unpack(from: *const u8, bytes: usize, whole: usize) -> [S::F; MAX_STEPS] {
        unsafe { if bytes == whole { L::unpack::<S>(from) } else { L::unpack_last::<S>(from, bytes / 4) } }
    }

    #[inline(always)]
    unsafe fn add<const MB: usize>(
        fields: &[S::F; MAX_STEPS],
        scale: S::F,
        x: &[*const f32; MB],
        unit: usize,
        acc: &mut [S::F; MB],
    ) {
        unsafe {
            for (x, acc) in x.iter().zip(acc) {
                let x = x.add(unit * L::steps::<S>() * S::LANES);
                let mut inner = S::mul(fields[0], S::load(x));
                for (step, field) in fields.iter().enumerate().take(L::steps::<S>()).skip(1) {
                    inner = S::fma(*field, S::load(x.add(step * S::LANES)), inner);
                }
                *acc = S::fma(inner, scale, *acc);
            }
        }
    }
}

impl Kernel for ByFloats<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self(piece) = self;
        // SAFETY: as `products` arranges.
        unsafe {
            match piece.weight.scheme {
                Kind::Affine { bits: 2, .. } => piece.compute::<S, FloatUnits<Words<2>>>(),
                Kind::Affine { bits: 3, .. } => piece.compute::<S, FloatUnits<Natural<3>>>(),
                Kind::Affine { bits: 4, .. } => piece.compute::<S, FloatUnits<Words<4>>>(),
                Kind::Affine { bits: 5, .. } => piece.compute::<S, FloatUnits<Natural<5>>>(),
                Kind::Affine { bits: 6, .. } => piece.compute::<S, FloatUnits<Natural<6>>>(),
                Kind::Affine { .. } => piece.compute::<S, FloatUnits<Natural<8>>>(),
                Kind::Mxfp4 | Kind::Nvfp4 => piece.compute::<S, FloatUnits<Codes>>(),
            }
        }
    }
}
