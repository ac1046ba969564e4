//! The blocked product, for many rows of activations: `out[m][n] = Σ x[m][k] · w[n][k]`.
//!
//! Activations are packed once, in panels of as many rows as two vectors have lanes, so that a vector holds one column
//! of a panel. A piece is a band of rows of the weight; it turns a stretch of them at a time into floats, which then
//! meet every panel from the nearest cache. Each weight element is spread over a vector, so the weight needs no
//! rearranging. Sums run along the columns in order, whoever computes them.

use crate::element::{Dtype, Element, with_element};
use crate::product::{Means, Output, Rows};
use crate::scratch::{self, PIECE, PREPARED, lines};
use crate::share::Shared;
use crate::simd::{Kernel, Simd};

/// Rows of the weight in one piece: a multiple of every instruction set's `TILE_ROWS`.
const BAND: usize = 24;
/// Columns that are turned into floats at a time: with `BAND` rows, half of a first-level cache of 48 KiB.
const STRETCH: usize = 256;

/// A weight matrix that can be turned into floats, a stretch of a row at a time.
pub(crate) trait Source: Copy + Sync {
    /// Writes the elements `from..from + count` of row `row`; `from` and `count` are multiples of 32 where the row
    /// allows it, that is but for the end of a row whose length is none.
    ///
    /// # Safety
    /// The processor has `S`; `row` and the columns are within the matrix, `to` is good for `count` floats.
    unsafe fn fill<S: Simd>(self, row: usize, from: usize, count: usize, to: *mut f32);
}

/// The most rows that any instruction set takes at once.
const MAX_TILE_ROWS: usize = 12;

/// Adds to `sums[r][lane]` (two vectors a row) `Σ w[r · row_step + k · column_step] · panel[k][lane]`, for `rows` rows, a
/// multiple of `S::TILE_ROWS`, and the steps given.
///
/// # Safety
/// The processor has `S`; the pointers are good for what is named.
#[inline(always)]
pub(crate) unsafe fn tiles<S: Simd>(
    rows: usize,
    depth: usize,
    weight: *const f32,
    (row_step, column_step): (usize, usize),
    panel: *const f32,
    sums: *mut f32,
) {
    for first in (0..rows).step_by(S::TILE_ROWS) {
        unsafe {
            let weight = weight.add(first * row_step);
            let sums = sums.add(first * 2 * S::LANES);
            let mut acc = [[S::splat(0.0); 2]; MAX_TILE_ROWS];
            for (row, acc) in acc.iter_mut().enumerate().take(S::TILE_ROWS) {
                acc[0] = S::load(sums.add(row * 2 * S::LANES));
                acc[1] = S::load(sums.add(row * 2 * S::LANES + S::LANES));
            }
            for k in 0..depth {
                let left = S::load(panel.add(k * 2 * S::LANES));
                let right = S::load(panel.add(k * 2 * S::LANES + S::LANES));
                for (row, acc) in acc.iter_mut().enumerate().take(S::TILE_ROWS) {
                    let w = S::splat(*weight.add(row * row_step + k * column_step));
                    acc[0] = S::fma(w, left, acc[0]);
                    acc[1] = S::fma(w, right, acc[1]);
                }
            }
            for (row, acc) in acc.iter().enumerate().take(S::TILE_ROWS) {
                S::store(sums.add(row * 2 * S::LANES), acc[0]);
                S::store(sums.add(row * 2 * S::LANES + S::LANES), acc[1]);
            }
        }
    }
}

/// Computes the products of one `x` with several weights.
///
/// # Safety
/// `x` and the outputs are good for what they say, and each output and weight have as many columns and rows.
pub(crate) unsafe fn products<W: Source>(means: Means<'_>, x: &Rows, jobs: &[(W, &Output)]) {
    let Means { isa, pool, .. } = means;
    let width = 2 * isa.lanes();
    let panels = x.rows.div_ceil(width);
    scratch::with(&PREPARED, panels * x.columns * width, |packed| {
        let packed = Shared::new(packed.as_mut_ptr());
        pool.run(panels, &|panel| {
            // SAFETY: each panel has its own part of the scratch.
            unsafe {
                let to = packed.pointer().add(panel * x.columns * width);
                isa.run(Pack { x, first: panel * width, to });
            }
        });
        let bands = jobs.iter().map(|(_, out)| out.columns.div_ceil(BAND)).sum();
        pool.run(bands, &|mut band| {
            for (weight, out) in jobs {
                let count = out.columns.div_ceil(BAND);
                if band >= count {
                    band -= count;
                    continue;
                }
                let sums = lines(panels * BAND * width);
                scratch::with(&PIECE, sums + BAND * STRETCH, |memory| {
                    let (sums, floats) = memory.split_at_mut(sums);
                    let (first, weight) = (band * BAND, *weight);
                    let packed = packed.pointer();
                    // SAFETY: the panels are only read from here on; each band writes its own columns of its output.
                    unsafe { isa.run(Band { packed, panels, x, weight, out, first, sums, floats }) };
                });
                return;
            }
        });
    });
}

/// Packs rows `first..` into one panel; missing rows are zero.
struct Pack<'a> {
    x: &'a Rows,
    first: usize,
    to: *mut f32,
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the panel has `columns · 2 · LANES` floats; rows are within `x`.
        unsafe { with_element!(self.x.dtype, E => self.pack::<S, E>()) }
    }
}

impl Pack<'_> {
    #[inline(always)]
    unsafe fn pack<S: Simd, E: Element>(self) {
        /// Columns at a time, so that what is read row by row and written column by column stays in the nearest cache.
        const STRIP: usize = 16;
        let Self { x, first, to } = self;
        let width = 2 * S::LANES;
        let mut strip = [0.0_f32; STRIP];
        unsafe {
            for from in (0..x.columns).step_by(STRIP) {
                let count = STRIP.min(x.columns - from);
                for lane in 0..width {
                    if first + lane < x.rows {
                        let row = x.row::<E>(first + lane).add(from);
                        crate::element::widen::<S, E>(row, strip.as_mut_ptr(), count);
                    } else {
                        strip = [0.0; STRIP];
                    }
                    for (column, value) in strip.iter().enumerate().take(count) {
                        *to.add((from + column) * width + lane) = *value;
                    }
                }
            }
        }
    }
}

/// Computes the output columns `first..first + BAND`, as many as there are.
struct Band<'a, W> {
    packed: *const f32,
    panels: usize,
    x: &'a Rows,
    weight: W,
    out: &'a Output,
    first: usize,
    sums: &'a mut [f32],
    floats: &'a mut [f32],
}

impl<W: Source> Kernel for Band<'_, W> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { packed, panels, x, weight, out, first, sums, floats } = self;
        let width = 2 * S::LANES;
        let rows = BAND.min(out.columns - first);
        let depth = x.columns;
        sums.fill(0.0);
        // Rows that are not there count as zero.
        floats.fill(0.0);
        // SAFETY: the sums hold `panels · BAND` rows of `width`, the floats `BAND` rows of `STRETCH`; the rest is within
        // the matrices.
        unsafe {
            for from in (0..depth).step_by(STRETCH) {
                let count = STRETCH.min(depth - from);
                for row in 0..rows {
                    weight.fill::<S>(first + row, from, count, floats.as_mut_ptr().add(row * STRETCH));
                }
                for panel in 0..panels {
                    tiles::<S>(
                        rows.next_multiple_of(S::TILE_ROWS),
                        count,
                        floats.as_ptr(),
                        (STRETCH, 1),
                        packed.add((panel * depth + from) * width),
                        sums.as_mut_ptr().add(panel * BAND * width),
                    );
                }
            }
            finish::<S>(sums.as_ptr(), x.rows, rows, first, out);
        }
    }
}

/// Turns the sums of a band (by panel, weight row, activation row) into its part of the output.
#[inline(always)]
unsafe fn finish<S: Simd>(sums: *const f32, m_rows: usize, n_rows: usize, first: usize, out: &Output) {
    let width = 2 * S::LANES;
    let mut line = [0.0_f32; BAND];
    for m in 0..m_rows {
        unsafe {
            let sums = sums.add((m / width) * BAND * width + m % width);
            for (n, value) in line.iter_mut().enumerate().take(n_rows) {
                *value = *sums.add(n * width);
            }
            out.write::<S>(m, first, &mut line[..n_rows]);
        }
    }
}

/// A dense weight of any data type, one row after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DenseSource {
    pub(crate) dtype: Dtype,
    pub(crate) data: Shared<u8>,
    /// Elements from one row to the next.
    pub(crate) row_step: usize,
}

impl Source for DenseSource {
    #[inline(always)]
    unsafe fn fill<S: Simd>(self, row: usize, from: usize, count: usize, to: *mut f32) {
        // SAFETY: within the matrix, as the caller promises.
        unsafe {
            with_element!(self.dtype, E => {
                let data = self.data.pointer().cast::<<E as Element>::Bits>().add(row * self.row_step + from);
                crate::element::widen::<S, E>(data, to, count);
            });
        }
    }
}
