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

use super::scales::E2M1;
use super::{Kind, QuantizedWeight, Scheme};
use crate::dense::{in_pieces, keep_sums, write_sums};
use crate::element::{widen, with_element};
use crate::product::{Means, Output, Rows, Width};
use crate::scratch::{self, PIECE, PREPARED, lines};
use crate::share::Shared;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd};

/// Columns of a unit in the layouts that keep the columns' order.
const NATURAL_UNIT: usize = 32;
/// Steps of a unit, at most.
const MAX_STEPS: usize = 16;
/// Rows of the weight that are computed together.
const MAX_BLOCK: usize = 4;

/// The activations of a product, prepared.
struct Prepared {
    /// Floats from one row to the next.
    stride: usize,
    /// Where in a row the group sums begin.
    sums: usize,
    /// Columns of a unit.
    unit: usize,
    /// Groups, filled up to whole vectors.
    groups: usize,
}

impl Prepared {
    fn new(isa: Isa, weight: &QuantizedWeight) -> Self {
        let scheme = Scheme(weight.scheme);
        let unit = match scheme.bits() {
            bits @ (2 | 4) => isa.lanes() * 32 / bits as usize,
            _ => NATURAL_UNIT,
        };
        let sums = weight.columns.next_multiple_of(unit);
        // Scales are read a vector at a time, from any group on.
        let groups = (weight.groups() + MAX_LANES).next_multiple_of(MAX_LANES);
        Self { stride: lines(sums) + groups, sums: lines(sums), unit, groups }
    }
}

/// Computes the product.
///
/// # Safety
/// `x` and `out` are good for what they say and have as many columns and rows as the weight.
pub(crate) unsafe fn product(means: Means<'_>, x: &Rows, weight: &QuantizedWeight, out: &Output) {
    let prepared = Prepared::new(means.isa, weight);
    let x_rows = x.rows;
    scratch::with(&PREPARED, x.rows * prepared.stride + lines(x.columns), |floats| {
        let (floats, natural) = floats.split_at_mut(x.rows * prepared.stride);
        // SAFETY: the scratch has `stride` floats for each row of `x`.
        unsafe { means.isa.run(Prepare { x, weight, prepared: &prepared, natural, to: floats }) };
        let floats = Shared::new(floats.as_mut_ptr());
        in_pieces(means.pool, out.columns, weight.row_bytes, &|first, rows| {
            let scales_len = lines(2 * MAX_BLOCK * prepared.groups);
            scratch::with(&PIECE, scales_len + x_rows * rows, |memory| {
                let (scales, sums) = memory.split_at_mut(scales_len);
                // Beyond the last group the scales are zero.
                scales.fill(0.0);
                let x = floats.pointer().cast_const();
                let (prepared, width) = (&prepared, means.width);
                // SAFETY: the activations are only read from here on; each piece writes its own columns of the output.
                unsafe {
                    means.isa.run(Piece { x, x_rows, prepared, weight, out, first, rows, width, scales, sums });
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

    /// The fields of unit `unit` of the row at `row`, of which `words` words are left in the row.
    ///
    /// # Safety
    /// The processor has `S`, and the row has the unit, or as much of it as `words` says.
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize, words: usize) -> [S::F; MAX_STEPS];
}

/// Fields of `BITS` bits, by words.
struct Words<const BITS: u32>;
/// 4-bit floats, by words.
struct Codes;
/// Fields of `BITS` bits, in the order of the columns.
struct Natural<const BITS: u32>;

#[inline(always)]
unsafe fn unit_of_words<S: Simd>(row: *const u8, unit: usize, words: usize) -> S::W {
    unsafe {
        let from = row.cast::<u32>().add(unit * S::LANES);
        if words < S::LANES { S::load_words_partial(from, words) } else { S::load_words(from) }
    }
}

impl<const BITS: u32> Layout for Words<BITS> {
    #[inline(always)]
    fn steps<S: Simd>() -> usize {
        32 / BITS as usize
    }
    #[inline(always)]
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize, words: usize) -> [S::F; MAX_STEPS] {
        unsafe {
            let mut word = unit_of_words::<S>(row, unit, words);
            let mut fields = [S::splat(0.0); MAX_STEPS];
            for field in fields.iter_mut().take(Self::steps::<S>()) {
                *field = S::low::<BITS>(word);
                word = S::shift::<BITS>(word);
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
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize, words: usize) -> [S::F; MAX_STEPS] {
        unsafe {
            let table = S::table(&E2M1);
            let mut word = unit_of_words::<S>(row, unit, words);
            let mut fields = [S::splat(0.0); MAX_STEPS];
            for field in fields.iter_mut().take(8) {
                *field = S::lookup(table, word);
                word = S::shift::<4>(word);
            }
            fields
        }
    }
}

impl<const BITS: u32> Layout for Natural<BITS> {
    #[inline(always)]
    fn steps<S: Simd>() -> usize {
        NATURAL_UNIT / S::LANES
    }
    #[inline(always)]
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize, _: usize) -> [S::F; MAX_STEPS] {
        unsafe {
            let mut fields = [S::splat(0.0); MAX_STEPS];
            for (step, field) in fields.iter_mut().enumerate().take(Self::steps::<S>()) {
                let column = unit * NATURAL_UNIT + step * S::LANES;
                *field = S::to_floats(S::fields::<BITS>(row.add(column / 8 * BITS as usize)));
            }
            fields
        }
    }
}

/// Computes the output columns `first..first + rows` for every row of activations.
struct Piece<'a> {
    x: *const f32,
    x_rows: usize,
    prepared: &'a Prepared,
    weight: &'a QuantizedWeight,
    out: &'a Output,
    first: usize,
    rows: usize,
    width: Width,
    /// Scales of `MAX_BLOCK` rows, then their biases.
    scales: &'a mut [f32],
    /// `rows` sums for each row of activations.
    sums: &'a mut [f32],
}

impl Kernel for Piece<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        // SAFETY: as `product` arranges.
        unsafe {
            match self.weight.scheme {
                Kind::Affine { bits: 2, .. } => self.all::<S, Words<2>>(),
                Kind::Affine { bits: 3, .. } => self.all::<S, Natural<3>>(),
                Kind::Affine { bits: 4, .. } => self.all::<S, Words<4>>(),
                Kind::Affine { bits: 5, .. } => self.all::<S, Natural<5>>(),
                Kind::Affine { bits: 6, .. } => self.all::<S, Natural<6>>(),
                Kind::Affine { .. } => self.all::<S, Natural<8>>(),
                Kind::Mxfp4 | Kind::Nvfp4 => self.all::<S, Codes>(),
            }
            write_sums::<S>(self.sums, self.x_rows, self.out, self.first, self.rows);
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    unsafe fn all<S: Simd, L: Layout>(&mut self) {
        // One pass over the piece for all rows, or one for each.
        let together = if self.width == Width::Wide { self.x_rows } else { 1 };
        for m in (0..self.x_rows).step_by(together.max(1)) {
            for n in (0..self.rows).step_by(MAX_BLOCK) {
                unsafe {
                    self.read_scales::<S>(n);
                    let mut done = 0;
                    while done < together {
                        let m_rows = (together - done).min(4);
                        if m_rows == 1 {
                            self.block::<S, L, MAX_BLOCK, 1>(n, 0, m + done, m_rows);
                        } else {
                            for skip in (0..MAX_BLOCK.min(self.rows - n)).step_by(2) {
                                self.block::<S, L, 2, 4>(n, skip, m + done, m_rows);
                            }
                        }
                        done += m_rows;
                    }
                }
            }
        }
    }

    /// Reads the scales of the block of rows at `n`.
    #[inline(always)]
    unsafe fn read_scales<S: Simd>(&mut self, n: usize) {
        for row in 0..MAX_BLOCK.min(self.rows - n) {
            let at = row * self.prepared.groups;
            let (scales, biases) = self.scales.split_at_mut(MAX_BLOCK * self.prepared.groups);
            unsafe {
                self.weight.row_scales::<S>(
                    self.first + n + row,
                    0..self.weight.groups(),
                    scales.as_mut_ptr().add(at),
                    biases.as_mut_ptr().add(at),
                );
            }
        }
    }

    /// `NB` rows of the weight, beginning with `skip` within the block at `n`, against `m_rows` of activations, at most
    /// `MB`. Rows that are not there are others once more.
    #[inline(always)]
    unsafe fn block<S: Simd, L: Layout, const NB: usize, const MB: usize>(
        &mut self,
        n: usize,
        skip: usize,
        m: usize,
        m_rows: usize,
    ) {
        let Prepared { stride, sums, unit: unit_columns, groups } = *self.prepared;
        let group_size = self.weight.group_size();
        let steps = L::steps::<S>();
        let row_words = self.weight.row_bytes / 4;
        let units = self.weight.columns.div_ceil(unit_columns);
        let n_rows = NB.min(self.rows - n - skip);
        // Which of a unit's scales a lane needs, where it spans several groups.
        let spread = (unit_columns / group_size).clamp(1, S::LANES);
        let mut indices = [0; MAX_LANES];
        for (lane, index) in (0_u32..).zip(&mut indices[..S::LANES]) {
            *index = lane * spread as u32 / S::LANES as u32;
        }
        unsafe {
            let indices = S::indices(&indices);
            let fields = self.weight.fields.pointer().cast_const();
            let at: [usize; NB] = std::array::from_fn(|index| skip + index.min(n_rows - 1));
            let row = at.map(|at| fields.add((self.first + n + at) * self.weight.row_bytes));
            let scales = at.map(|at| self.scales.as_ptr().add(at * groups));
            let x: [*const f32; MB] =
                std::array::from_fn(|index| self.x.add((m + index.min(m_rows - 1)) * stride));
            let mut acc = [[S::splat(0.0); MB]; NB];
            for unit in 0..units {
                let group = unit * unit_columns / group_size;
                let words = row_words.saturating_sub(unit * S::LANES);
                for (index, acc) in acc.iter_mut().enumerate() {
                    let fields = L::unpack::<S>(row[index], unit, words);
                    let scale = S::pick(scales[index].add(group), indices);
                    for (x, acc) in x.iter().zip(acc) {
                        let x = x.add(unit * unit_columns);
                        let mut inner = S::mul(fields[0], S::load(x));
                        for (step, field) in fields.iter().enumerate().take(steps).skip(1) {
                            inner = S::fma(*field, S::load(x.add(step * S::LANES)), inner);
                        }
                        *acc = S::fma(inner, scale, *acc);
                    }
                }
            }
            if matches!(self.weight.scheme, Kind::Affine { .. }) {
                for group in (0..self.weight.groups()).step_by(S::LANES) {
                    for (index, acc) in acc.iter_mut().enumerate() {
                        let bias = S::load(scales[index].add(MAX_BLOCK * groups + group));
                        for (x, acc) in x.iter().zip(acc) {
                            *acc = S::fma(bias, S::load(x.add(sums + group)), *acc);
                        }
                    }
                }
            }
            keep_sums::<S, NB, MB>(&acc, self.sums, self.rows, (n + skip, n_rows), (m, m_rows));
        }
    }
}
