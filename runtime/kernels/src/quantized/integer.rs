//! The row kernel of quantized products on processors that multiply bytes and add up the products in one instruction.
//!
//! Fields are unsigned bytes once unpacked. The activations of each group of a row become integers of 24 bits, by a power
//! of two that the group shares, and each integer three signed bytes: so a product with a field is three products of
//! bytes, and their sums are exact. What is lost is a part in 2²³ of the largest activation of the group, about what a sum
//! in 32-bit floats loses. Scales and biases are then applied as in `rows`, in floats.
//!
//! The columns of a unit come to lie in the order in which unpacking leaves the fields: of 2 or 4 bits, every fourth
//! or every other field of a byte's worth; of other widths their own order.

use super::planes::{MAX_STEPS, PLANES, Planes, Prepare};
use super::{Kind, QuantizedWeight, Scheme};
use crate::pieces::{STREAMS, Streams, in_pieces, write_sums};
use crate::product::{Means, Output, Rows, Width};
use crate::quantized::rows;
use crate::scratch::{self, PIECE, PREPARED, lines};
use crate::share::Shared;
use crate::simd::{Dot, DotKernel, Isa, MAX_LANES};

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
    let layout = Planes::new(lanes, like);
    let x_rows = x.rows;
    let mut endless = Vec::new();
    scratch::with(&PREPARED, x.rows * layout.stride + lines(x.columns), |floats| {
        let (floats, natural) = floats.split_at_mut(x.rows * layout.stride);
        // SAFETY: the scratch has `stride` floats for each row of `x`.
        unsafe {
            means.isa.run_dot(Prepare {
                x,
                weight: like,
                layout,
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
                    means.isa.run_dot(Piece {
                        x,
                        x_rows,
                        layout,
                        weight,
                        out,
                        first,
                        rows,
                        width,
                        threads,
                        scales,
                        tables: [std::ptr::null(); 2],
                        indices: [0; MAX_LANES],
                        sums,
                    });
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

/// Computes the output columns `first..first + rows` for every row of activations.
struct Piece<'a> {
    x: *const f32,
    x_rows: usize,
    layout: Planes,
    weight: &'a QuantizedWeight,
    out: &'a Output,
    first: usize,
    rows: usize,
    width: Width,
    /// How many threads take pieces.
    threads: usize,
    /// Memory for the scales of all rows and their biases.
    scales: &'a mut [f32],
    /// Where the scales of the first row lie, and its biases.
    tables: [*const f32; 2],
    /// Which of a unit's scales each lane needs, where it spans several groups.
    indices: [u32; MAX_LANES],
    /// `rows` sums for each row of activations.
    sums: &'a mut [f32],
}

impl DotKernel for Piece<'_> {
    #[inline(always)]
    unsafe fn run<S: Dot>(mut self) {
        // SAFETY: as `products` arranges.
        unsafe {
            let behind = (self.out.columns - self.first - self.rows) * self.weight.groups();
            self.tables = self.weight.scales_of_rows::<S>(self.first, self.rows, behind, self.scales);
            self.indices = rows::scale_of_lanes(self.layout.unit, self.weight.group_size(), S::LANES);
            match self.weight.scheme {
                Kind::Affine { bits: 2, .. } => self.all::<S, Words<2>>(),
                Kind::Affine { bits: 3, .. } => self.all::<S, Stream<3>>(),
                Kind::Affine { bits: 4, .. } => self.all::<S, Words<4>>(),
                Kind::Affine { bits: 5, .. } => self.all::<S, Stream<5>>(),
                Kind::Affine { .. } => self.all::<S, Stream<6>>(),
                Kind::Mxfp4 | Kind::Nvfp4 => self.all::<S, Codes>(),
            }
            write_sums::<S>(self.sums, self.x_rows, self.out, self.first, self.rows);
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    fn streams(&self) -> Streams {
        Streams::new(self.rows, self.weight.row_bytes, self.threads)
    }

    #[inline(always)]
    unsafe fn all<S: Dot, L: Layout>(&mut self) {
        // One pass over the piece for all rows, or one for each.
        let together = if self.width == Width::Wide { self.x_rows } else { 1 };
        for m in (0..self.x_rows).step_by(together.max(1)) {
            for block in 0..self.streams().blocks {
                // Meanwhile, of the piece that this thread is likely to take next.
                let later = self.first + self.threads * self.rows + STREAMS * block;
                self.weight.ask_for_scales::<S>(later, STREAMS);
                unsafe {
                    let mut done = 0;
                    while done < together {
                        let m_rows = (together - done).min(4);
                        if m_rows == 1 {
                            self.block::<S, L, STREAMS, 1>(block, 0, m + done, m_rows);
                        } else {
                            for stream in (0..STREAMS).step_by(2) {
                                self.block::<S, L, 2, 4>(block, stream, m + done, m_rows);
                            }
                        }
                        done += m_rows;
                    }
                }
            }
        }
    }

    /// `NB` rows of a block of the weight, beginning with stream `stream`, against `m_rows` of activations, at most `MB`. Rows
    /// that are not there are others once more.
    #[inline(always)]
    unsafe fn block<S: Dot, L: Layout, const NB: usize, const MB: usize>(
        &mut self,
        block: usize,
        stream: usize,
        m: usize,
        m_rows: usize,
    ) {
        let Planes { stride, sums, unit: unit_columns, .. } = self.layout;
        let unit_floats = self.layout.unit_floats();
        let group_size = self.weight.group_size();
        let groups = self.weight.groups();
        let row_bytes = self.weight.row_bytes;
        let unit_bytes = unit_columns / 8 * Scheme(self.weight.scheme).bits() as usize;
        let units = self.weight.columns.div_ceil(unit_columns);
        let whole_units = self.weight.columns / unit_columns;
        let ahead = self.streams().ahead::<NB>(block, stream);
        let block = self.streams().block::<NB>(block, stream);
        unsafe {
            let indices = S::indices(&self.indices);
            let fields = self.weight.fields.pointer().cast_const();
            let piece = fields.add(self.first * row_bytes);
            let row = block.at.map(|at| piece.add(at * row_bytes));
            let [all_scales, all_biases] = self.tables;
            let scales = block.at.map(|at| all_scales.add(at * groups));
            let biases = block.at.map(|at| all_biases.add(at * groups));
            let x: [*const f32; MB] =
                std::array::from_fn(|index| self.x.add((m + index.min(m_rows - 1)) * stride));
            let mut acc = [[S::splat(0.0); MB]; NB];
            for unit in 0..units {
                let group = unit * unit_columns / group_size;
                let bytes = if unit < whole_units { unit_bytes } else { row_bytes - unit * unit_bytes };
                for (((row, scales), acc), ahead) in row.iter().zip(&scales).zip(&mut acc).zip(ahead) {
                    let fields = L::unpack::<S>(row.add(unit * unit_bytes), bytes);
                    S::prefetch(piece.wrapping_add(ahead + unit * unit_bytes));
                    let scale = S::pick(scales.add(group), indices);
                    for (x, acc) in x.iter().zip(acc) {
                        let planes = x.add(unit * unit_floats);
                        let own = planes.add(PLANES * L::STEPS * S::LANES);
                        let sum = L::join::<S>(&fields, planes, own.add(S::LANES));
                        *acc = S::fma(sum, S::mul(scale, S::load(own)), *acc);
                    }
                }
            }
            if matches!(self.weight.scheme, Kind::Affine { .. }) {
                rows::add_biases::<S, NB, MB>(biases, x.map(|x| x.add(sums)), groups, &mut acc);
            }
            block.keep_sums::<S, MB>(&acc, self.sums, self.rows, (m, m_rows));
        }
    }
}
