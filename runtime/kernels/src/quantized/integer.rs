//! The row kernel of quantized products on processors that multiply bytes and add up the products in one instruction.
//!
//! Fields are unsigned bytes once unpacked. The activations of each group of a row become integers of 24 bits, by a power
//! of two that the group shares, and each integer three signed bytes: so a product with a field is three products of
//! bytes, and their sums are exact. What is lost is a part in 2²³ of the largest activation of the group, about what a sum
//! in 32-bit floats loses. Scales and biases are then applied as in `rows`, in floats.
//!
//! The columns of a unit come to lie in the order in which unpacking leaves the fields: of 2 or 4 bits, every fourth
//! or every other field of a byte's worth; of other widths their own order.

use super::piece::{Piece, Units};
use super::planes::{MAX_STEPS, PLANES, Prepare, prepared_for, unit_floats};
use super::{Kind, QuantizedWeight, Scheme};
use crate::pieces::in_pieces;
use crate::product::{Means, Output, Rows};
use crate::quantized::rows;
use crate::scratch::{self, PIECE, PREPARED, lines};
use crate::share::Shared;
use crate::simd::{Dot, DotKernel, Isa, MAX_LANES};
use std::marker::PhantomData;

/// The raised, doubled values of 4-bit floats.
const RAISED_E2M1: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

/// Whether products with this weight are computed here. Fields of 8 bits are not: three products of bytes for each would cost what
/// one of floats does.
pub(crate) fn serves(isa: Isa, weight: &QuantizedWeight) -> bool {
    isa.dot_lanes().is_some() && Scheme(weight.scheme).bits() < 8
}

/// Computes the products of one `x` with several weights of one scheme.
///
/// # Safety
/// `x` and the outputs are good for what they say, and each output and weight have as many columns and rows.
pub(crate) unsafe fn products(means: Means<'_>, x: &Rows, jobs: &[(QuantizedWeight, &Output)]) {
    let (Some((like, _)), Some(lanes)) = (jobs.first(), means.isa.dot_lanes()) else { return };
    let prepared = prepared_for(lanes, like);
    let x_rows = x.rows;
    let mut endless = Vec::new();
    scratch::with(&PREPARED, x.rows * prepared.stride + lines(x.columns), |floats| {
        let (floats, natural) = floats.split_at_mut(x.rows * prepared.stride);
        // SAFETY: the scratch has `stride` floats for each row of `x`.
        unsafe {
            means.isa.run_dot(Prepare {
                x,
                weight: like,
                prepared,
                natural,
                to: floats,
                endless: &mut endless,
            });
        }
        let floats = Shared::new(floats.as_mut_ptr());
        let sizes = jobs.iter().map(|(weight, out)| (out.columns, weight.row_bytes));
        in_pieces(means.pool, sizes, &|job, first, rows| {
            let (weight, out) = jobs[job];
            // A vector more, since scales are read a vector at a time from any group on.
            let scales_len = lines(rows * weight.groups() + MAX_LANES);
            scratch::with(&PIECE, 2 * scales_len + x_rows * rows, |memory| {
                let (scales, sums) = memory.split_at_mut(2 * scales_len);
                let x = floats.pointer().cast_const();
                let (width, threads) = (means.width, means.pool.threads());
                let weight = &weight;
                // SAFETY: the activations are only read from here on; each piece writes its own columns of its output.
                unsafe {
                    means.isa.run_dot(ByBytes(Piece {
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
    for row in endless {
        let outs: Vec<_> = jobs.iter().map(|(_, out)| out.stretch(row, 1)).collect();
        let jobs: Vec<_> = jobs.iter().zip(&outs).map(|((weight, _), out)| (*weight, out)).collect();
        // SAFETY: the caller's promise, for one row.
        unsafe { rows::products(means, &x.stretch(row, 1), &jobs) };
    }
}

/// How a unit is unpacked.
trait Layout {
    const STEPS: usize;

    /// The fields of the unit at `from`, as bytes, of which `bytes` are there; zero for the others.
    ///
    /// # Safety
    /// The processor has `S`, and the bytes can be read.
    unsafe fn unpack<S: Dot>(from: *const u8, bytes: usize) -> [S::W; MAX_STEPS];

    /// The sums of four products each from those of the planes, and what is added to them.
    ///
    /// # Safety
    /// The processor has `S`.
    #[inline(always)]
    unsafe fn join<S: Dot>(fields: &[S::W; MAX_STEPS], planes: *const f32, _added: *const f32) -> S::F {
        unsafe { S::signed_to_floats(joined::<S>(fields, planes, Self::STEPS)) }
    }
}

/// Fields of 2 or 4 bits.
struct Words<const BITS: u32>;
/// 4-bit floats.
struct Codes;
/// Fields of 3, 5 or 6 bits.
struct Stream<const BITS: u32>;

/// The sums over the steps of a unit, all planes together: below 2³¹, since a field is below 64 and four of them (eight below
/// 16, sixteen below 4) make a sum.
#[inline(always)]
unsafe fn joined<S: Dot>(fields: &[S::W; MAX_STEPS], planes: *const f32, steps: usize) -> S::W {
    unsafe {
        let plane = |sum: S::W, plane: usize| {
            let planes = planes.add(plane * steps * S::LANES).cast::<u32>();
            let mut sum = sum;
            for (step, fields) in fields.iter().enumerate().take(steps) {
                sum = S::dot(sum, *fields, S::load_words(planes.add(step * S::LANES)));
            }
            sum
        };
        let high = S::up_a_byte(plane(S::zero(), 2));
        let middle = S::up_a_byte(plane(high, 1));
        plane(middle, 0)
    }
}

impl<const BITS: u32> Layout for Words<BITS> {
    const STEPS: usize = 8 / BITS as usize;

    #[inline(always)]
    unsafe fn unpack<S: Dot>(from: *const u8, bytes: usize) -> [S::W; MAX_STEPS] {
        unsafe {
            let mut word = S::load_bytes(from, bytes);
            let mut fields = [S::zero(); MAX_STEPS];
            for (step, field) in fields.iter_mut().enumerate().take(Self::STEPS) {
                if step > 0 {
                    word = S::shift::<BITS>(word);
                }
                *field = S::low_of_bytes::<BITS>(word);
            }
            fields
        }
    }
}

impl Layout for Codes {
    const STEPS: usize = 2;

    #[inline(always)]
    unsafe fn unpack<S: Dot>(from: *const u8, bytes: usize) -> [S::W; MAX_STEPS] {
        unsafe {
            let table = S::byte_table(&RAISED_E2M1);
            let mut fields = Words::<4>::unpack::<S>(from, bytes);
            for field in fields.iter_mut().take(Self::STEPS) {
                *field = S::lookup_bytes(table, *field);
            }
            fields
        }
    }

    #[inline(always)]
    unsafe fn join<S: Dot>(fields: &[S::W; MAX_STEPS], planes: *const f32, added: *const f32) -> S::F {
        unsafe {
            let added = S::load_words(added.cast());
            S::signed_to_floats(S::add_words(joined::<S>(fields, planes, Self::STEPS), added))
        }
    }
}

impl<const BITS: u32> Layout for Stream<BITS> {
    const STEPS: usize = 1;

    #[inline(always)]
    unsafe fn unpack<S: Dot>(from: *const u8, bytes: usize) -> [S::W; MAX_STEPS] {
        unsafe {
            let mut fields = [S::zero(); MAX_STEPS];
            fields[0] = S::bytes_of_stream::<BITS>(S::load_bytes(from, bytes));
            fields
        }
    }
}

/// A piece by bytes.
struct ByBytes<'a>(Piece<'a>);

/// The units of a layout.
struct ByteUnits<L>(PhantomData<L>);

impl<S: Dot, L: Layout> Units<S> for ByteUnits<L> {
    type Fields = [S::W; MAX_STEPS];

    #[inline(always)]
    unsafe fn unpack(from: *const u8, bytes: usize, _: usize) -> [S::W; MAX_STEPS] {
        unsafe { L::unpack::<S>(from, bytes) }
    }

    #[inline(always)]
    unsafe fn add<const MB: usize>(
        fields: &[S::W; MAX_STEPS],
        scale: S::F,
        x: &[*const f32; MB],
        unit: usize,
        acc: &mut [S::F; MB],
    ) {
        unsafe {
            for (x, acc) in x.iter().zip(acc) {
                let planes = x.add(unit * unit_floats(L::STEPS, S::LANES));
                let own = planes.add(PLANES * L::STEPS * S::LANES);
                let sum = L::join::<S>(fields, planes, own.add(S::LANES));
                *acc = S::fma(sum, S::mul(scale, S::load(own)), *acc);
            }
        }
    }
}

impl DotKernel for ByBytes<'_> {
    #[inline(always)]
    unsafe fn run<S: Dot>(self) {
        let Self(piece) = self;
        // SAFETY: as `products` arranges.
        unsafe {
            match piece.weight.scheme {
                Kind::Affine { bits: 2, .. } => piece.compute::<S, ByteUnits<Words<2>>>(),
                Kind::Affine { bits: 3, .. } => piece.compute::<S, ByteUnits<Stream<3>>>(),
                Kind::Affine { bits: 4, .. } => piece.compute::<S, ByteUnits<Words<4>>>(),
                Kind::Affine { bits: 5, .. } => piece.compute::<S, ByteUnits<Stream<5>>>(),
                Kind::Affine { .. } => piece.compute::<S, ByteUnits<Stream<6>>>(),
                Kind::Mxfp4 | Kind::Nvfp4 => piece.compute::<S, ByteUnits<Codes>>(),
            }
        }
    }
}
