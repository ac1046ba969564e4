//! A stretch of the rows of a quantized weight, as a thread computes it: blocks along streams, units along the rows.
//!
//! What a unit is and how it meets the activations is the affair of `rows` (floats) and `integer` (bytes), as [`Units`].

use super::{Kind, QuantizedWeight, Scheme};
use crate::pieces::{STREAMS, Streams, write_sums};
use crate::product::{Output, Width};
use crate::simd::{MAX_LANES, Simd};

/// How the activations of a product were prepared: each row's units, then the sums of its groups.
#[derive(Clone, Copy)]
pub(super) struct Prepared {
    /// Floats from one row to the next.
    pub(super) stride: usize,
    /// Where in a row the group sums begin.
    pub(super) sums: usize,
    /// Columns of a unit.
    pub(super) unit: usize,
}

/// The units of a row of a weight.
pub(super) trait Units<S: Simd> {
    /// The fields of a unit.
    type Fields;

    /// The fields of the unit at `from`, of which `bytes` are there, `whole` in a whole one; zero for the others.
    ///
    /// # Safety
    /// The processor has `S`, and the bytes can be read.
    unsafe fn unpack(from: *const u8, bytes: usize, whole: usize) -> Self::Fields;

    /// Adds the sum of unit `unit`, scaled, for each row of activations.
    ///
    /// # Safety
    /// The processor has `S`, and each row of `x` has the unit.
    unsafe fn add<const MB: usize>(
        fields: &Self::Fields,
        scale: S::F,
        x: &[*const f32; MB],
        unit: usize,
        acc: &mut [S::F; MB],
    );
}

/// Computes the output columns `first..first + rows` for every row of activations.
pub(super) struct Piece<'a> {
    pub(super) x: *const f32,
    pub(super) x_rows: usize,
    pub(super) prepared: Prepared,
    pub(super) weight: &'a QuantizedWeight,
    pub(super) out: &'a Output,
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) width: Width,
    /// How many threads take pieces.
    pub(super) threads: usize,
    /// Memory for the scales of all rows and their biases.
    pub(super) scales: &'a mut [f32],
    /// `rows` sums for each row of activations.
    pub(super) sums: &'a mut [f32],
}

/// What all blocks of a piece need.
#[derive(Clone, Copy)]
struct Tables {
    /// Where the scales of the first row lie, and its biases.
    scales: [*const f32; 2],
    /// Which of a unit's scales each lane needs, where it spans several groups.
    indices: [u32; MAX_LANES],
}

impl Piece<'_> {
    #[inline(always)]
    fn streams(&self) -> Streams {
        Streams::new(self.rows, self.weight.row_bytes, self.threads)
    }

    /// Computes the piece.
    ///
    /// # Safety
    /// The processor has `S`; the activations were prepared as `prepared` says for units of `U`; the weight and the output have
    /// the rows, and no other thread writes these columns.
    #[inline(always)]
    pub(super) unsafe fn compute<S: Simd, U: Units<S>>(mut self) {
        unsafe {
            let behind = (self.out.columns - self.first - self.rows) * self.weight.groups();
            let tables = Tables {
                scales: self.weight.scales_of_rows::<S>(self.first, self.rows, behind, self.scales),
                indices: scale_of_lanes(self.prepared.unit, self.weight.group_size(), S::LANES),
            };
            self.all::<S, U>(&tables);
            write_sums::<S>(self.sums, self.x_rows, self.out, self.first, self.rows);
        }
    }

    #[inline(always)]
    unsafe fn all<S: Simd, U: Units<S>>(&mut self, tables: &Tables) {
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
                            self.block::<S, U, STREAMS, 1>(tables, block, 0, m + done, m_rows);
                        } else {
                            for stream in (0..STREAMS).step_by(2) {
                                self.block::<S, U, 2, 4>(tables, block, stream, m + done, m_rows);
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
    unsafe fn block<S: Simd, U: Units<S>, const NB: usize, const MB: usize>(
        &mut self,
        tables: &Tables,
        block: usize,
        stream: usize,
        m: usize,
        m_rows: usize,
    ) {
        let Prepared { stride, sums, unit: unit_columns } = self.prepared;
        let group_size = self.weight.group_size();
        let groups = self.weight.groups();
        let row_bytes = self.weight.row_bytes;
        let unit_bytes = unit_columns / 8 * Scheme(self.weight.scheme).bits() as usize;
        let units = self.weight.columns.div_ceil(unit_columns);
        let whole_units = self.weight.columns / unit_columns;
        let ahead = self.streams().ahead::<NB>(block, stream);
        let block = self.streams().block::<NB>(block, stream);
        unsafe {
            let indices = S::indices(&tables.indices);
            let piece = self.weight.fields.pointer().cast_const().add(self.first * row_bytes);
            let row = block.at.map(|at| piece.add(at * row_bytes));
            let [all_scales, all_biases] = tables.scales;
            let scales = block.at.map(|at| all_scales.add(at * groups));
            let biases = block.at.map(|at| all_biases.add(at * groups));
            let x: [*const f32; MB] =
                std::array::from_fn(|index| self.x.add((m + index.min(m_rows - 1)) * stride));
            let mut acc = [[S::splat(0.0); MB]; NB];
            for unit in 0..units {
                let group = unit * unit_columns / group_size;
                let bytes = if unit < whole_units { unit_bytes } else { row_bytes - unit * unit_bytes };
                for (((row, scales), acc), ahead) in row.iter().zip(&scales).zip(&mut acc).zip(ahead) {
                    let fields = U::unpack(row.add(unit * unit_bytes), bytes, unit_bytes);
                    S::prefetch(piece.wrapping_add(ahead + unit * unit_bytes));
                    let scale = S::pick(scales.add(group), indices);
                    U::add::<MB>(&fields, scale, &x, unit, acc);
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
fn scale_of_lanes(unit: usize, group_size: usize, lanes: usize) -> [u32; MAX_LANES] {
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
unsafe fn add_biases<S: Simd, const NB: usize, const MB: usize>(
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
