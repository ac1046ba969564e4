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
use crate::element::{widen, with_element};
use crate::pieces::{STREAMS, Streams, in_pieces, write_sums};
use crate::product::{Means, Output, Rows, Width};
use crate::scratch::{self, PIECE, PREPARED, lines};
use crate::share::Shared;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd};

/// Columns of a unit in the layouts that keep the columns' order.
const NATURAL_UNIT: usize = 32;
/// Steps of a unit, at most.
const MAX_STEPS: usize = 16;

/// The activations of a product, prepared.
struct Prepared {
    /// Floats from one row to the next.
    stride: usize,
    /// Where in a row the group sums begin.
    sums: usize,
    /// Columns of a unit.
    unit: usize,
}

impl Prepared {
    fn new(isa: Isa, weight: &QuantizedWeight) -> Self {
        let scheme = Scheme(weight.scheme);
        let unit = match scheme.bits() {
            bits @ (2 | 4) => isa.lanes() * 32 / bits as usize,
            _ => NATURAL_UNIT,
        };
        let sums = weight.columns.next_multiple_of(unit);
        let groups = weight.groups().next_multiple_of(MAX_LANES);
        Self { stride: lines(sums) + groups, sums: lines(sums), unit }
    }
}

/// Computes the products of one `x` with several weights of one scheme.
///
/// # Safety
/// `x` and the outputs are good for what they say, and each output and weight have as many columns and rows.
pub(crate) unsafe fn products(means: Means<'_>, x: &Rows, jobs: &[(QuantizedWeight, &Output)]) {
    let Some((like, _)) = jobs.first() else { return };
    let prepared = Prepared::new(means.isa, like);
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
                let (prepared, width, threads) = (&prepared, means.width, means.pool.threads());
                // SAFETY: the activations are only read from here on; each piece writes its own columns of its output.
                unsafe {
                    means.isa.run(Piece {
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
                        tables: [std::ptr::null(); 2],
                        indices: [0; MAX_LANES],
                        sums,
                    });
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

    /// The fields of unit `unit` of the row at `row`.
    ///
    /// # Safety
    /// The processor has `S`, and the row has the unit.
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize) -> [S::F; MAX_STEPS];

    /// The fields of unit `unit`, of which the row has only `words` words; zero for the others.
    ///
    /// # Safety
    /// The processor has `S`, and the row has the words.
    unsafe fn unpack_last<S: Simd>(row: *const u8, unit: usize, words: usize) -> [S::F; MAX_STEPS];
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
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words(row.cast::<u32>().add(unit * S::LANES))) }
    }
    #[inline(always)]
    unsafe fn unpack_last<S: Simd>(row: *const u8, unit: usize, words: usize) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words_partial(row.cast::<u32>().add(unit * S::LANES), words)) }
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
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words(row.cast::<u32>().add(unit * S::LANES))) }
    }
    #[inline(always)]
    unsafe fn unpack_last<S: Simd>(row: *const u8, unit: usize, words: usize) -> [S::F; MAX_STEPS] {
        unsafe { Self::fields::<S>(S::load_words_partial(row.cast::<u32>().add(unit * S::LANES), words)) }
    }
}

impl<const BITS: u32> Layout for Natural<BITS> {
    #[inline(always)]
    fn steps<S: Simd>() -> usize {
        NATURAL_UNIT / S::LANES
    }
    #[inline(always)]
    unsafe fn unpack<S: Simd>(row: *const u8, unit: usize) -> [S::F; MAX_STEPS] {
        unsafe {
            let mut fields = [S::splat(0.0); MAX_STEPS];
            for (step, field) in fields.iter_mut().enumerate().take(Self::steps::<S>()) {
                let column = unit * NATURAL_UNIT + step * S::LANES;
                *field = S::to_floats(S::fields::<BITS>(row.add(column / 8 * BITS as usize)));
            }
            fields
        }
    }
    #[inline(always)]
    unsafe fn unpack_last<S: Simd>(_: *const u8, _: usize, _: usize) -> [S::F; MAX_STEPS] {
        // A group is a whole number of these units, and so is a row.
        unsafe { [S::splat(0.0); MAX_STEPS] }
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

impl Kernel for Piece<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        // SAFETY: as `product` arranges.
        unsafe {
            let behind = (self.out.columns - self.first - self.rows) * self.weight.groups();
            self.tables = self.weight.scales_of_rows::<S>(self.first, self.rows, behind, self.scales);
            self.indices = scale_of_lanes(self.prepared.unit, self.weight.group_size(), S::LANES);
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
    fn streams(&self) -> Streams {
        Streams::new(self.rows, self.weight.row_bytes, self.threads)
    }

    #[inline(always)]
    unsafe fn all<S: Simd, L: Layout>(&mut self) {
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
    unsafe fn block<S: Simd, L: Layout, const NB: usize, const MB: usize>(
        &mut self,
        block: usize,
        stream: usize,
        m: usize,
        m_rows: usize,
    ) {
        let Prepared { stride, sums, unit: unit_columns, .. } = *self.prepared;
        let group_size = self.weight.group_size();
        let groups = self.weight.groups();
        let bits = Scheme(self.weight.scheme).bits() as usize;
        let row_words = self.weight.row_bytes / 4;
        let whole_units = self.weight.columns / unit_columns;
        let ahead = self.streams().ahead::<NB>(block, stream);
        let block = self.streams().block::<NB>(block, stream);
        unsafe {
            let indices = S::indices(&self.indices);
            let fields = self.weight.fields.pointer().cast_const();
            let piece = fields.add(self.first * self.weight.row_bytes);
            let row = block.at.map(|at| piece.add(at * self.weight.row_bytes));
            let [all_scales, all_biases] = self.tables;
            let scales = block.at.map(|at| all_scales.add(at * groups));
            let biases = block.at.map(|at| all_biases.add(at * groups));
            let x: [*const f32; MB] =
                std::array::from_fn(|index| self.x.add((m + index.min(m_rows - 1)) * stride));
            let mut acc = [[S::splat(0.0); MB]; NB];
            for unit in 0..whole_units {
                let group = unit * unit_columns / group_size;
                for (((row, scales), acc), ahead) in row.iter().zip(&scales).zip(&mut acc).zip(ahead) {
                    let fields = L::unpack::<S>(*row, unit);
                    S::prefetch(piece.wrapping_add(ahead + unit * unit_columns / 8 * bits));
                    let scale = S::pick(scales.add(group), indices);
                    add_unit::<S, L, MB>(&fields, scale, x.map(|x| x.add(unit * unit_columns)), acc);
                }
            }
            if whole_units * unit_columns < self.weight.columns {
                let words = row_words - whole_units * S::LANES;
                let group = whole_units * unit_columns / group_size;
                for ((row, scales), acc) in row.iter().zip(&scales).zip(&mut acc) {
                    let fields = L::unpack_last::<S>(*row, whole_units, words);
                    let scale = S::pick(scales.add(group), indices);
                    add_unit::<S, L, MB>(&fields, scale, x.map(|x| x.add(whole_units * unit_columns)), acc);
                }
            }
            if matches!(self.weight.scheme, Kind::Affine { .. }) {
                add_biases::<S, NB, MB>(biases, x.map(|x| x.add(sums)), groups, &mut acc);
            }
            block.keep_sums::<S, MB>(&acc, self.sums, self.rows, (m, m_rows));
        }
    }
}

/// Which of a unit's scales, counted from that of its first column, each of its lanes needs.
#[inline(always)]
pub(super) fn scale_of_lanes(unit: usize, group_size: usize, lanes: usize) -> [u32; MAX_LANES] {
    let lanes_of_a_scale = lanes / (unit / group_size).clamp(1, lanes);
    let mut indices = [0; MAX_LANES];
    for (scale, lanes) in (0_u32..).zip(indices[..lanes].chunks_mut(lanes_of_a_scale)) {
        lanes.fill(scale);
    }
    indices
}

/// Adds the products of some weight rows' biases with the sums of each group of the activations.
///
/// # Safety
/// The processor has `S`; the rows have `groups` biases, and of the sums whole vectors.
#[inline(always)]
pub(super) unsafe fn add_biases<S: Simd, const NB: usize, const MB: usize>(
    biases: [*const f32; NB],
    sums: [*const f32; MB],
    groups: usize,
    acc: &mut [[S::F; MB]; NB],
) {
    let whole = groups - groups % S::LANES;
    unsafe {
        for (biases, acc) in biases.iter().zip(acc) {
            for group in (0..whole).step_by(S::LANES) {
                let bias = S::load(biases.add(group));
                for (sums, acc) in sums.iter().zip(&mut *acc) {
                    *acc = S::fma(bias, S::load(sums.add(group)), *acc);
                }
            }
            if whole < groups {
                let bias = S::load_partial(biases.add(whole), groups - whole);
                for (sums, acc) in sums.iter().zip(acc) {
                    *acc = S::fma(bias, S::load(sums.add(whole)), *acc);
                }
            }
        }
    }
}

/// Adds the sum of a unit of one row of the weight, scaled, for each row of activations.
#[inline(always)]
unsafe fn add_unit<S: Simd, L: Layout, const MB: usize>(
    fields: &[S::F; MAX_STEPS],
    scale: S::F,
    x: [*const f32; MB],
    acc: &mut [S::F; MB],
) {
    unsafe {
        for (x, acc) in x.iter().zip(acc) {
            let mut inner = S::mul(fields[0], S::load(*x));
            for (step, field) in fields.iter().enumerate().take(L::steps::<S>()).skip(1) {
                inner = S::fma(*field, S::load(x.add(step * S::LANES)), inner);
            }
            *acc = S::fma(inner, scale, *acc);
        }
    }
}
