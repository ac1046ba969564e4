//! The row kernel of dense products: few rows of activations, the weight read once.

use crate::element::{Element, widen, with_element};
use crate::pool::Pool;
use crate::product::{DenseWeight, Means, Output, Rows, Width};
use crate::scratch::{self, PIECE, PREPARED};
use crate::share::Shared;
use crate::simd::{Kernel, MAX_LANES, Simd};

/// Bytes of the weight in one piece: enough that taking a piece costs nothing beside it, and few enough that
/// threads end together.
const PIECE_BYTES: usize = 48 << 10;

/// How many rows of a weight, whose rows have `row_bytes`, make a piece; a multiple of 4.
pub(crate) fn piece_rows(row_bytes: usize) -> usize {
    (PIECE_BYTES / row_bytes.max(1)).next_multiple_of(4).max(4)
}

/// Computes the products of one `x` with several weights.
///
/// # Safety
/// `x` and the outputs are good for what they say, and each output and weight have as many columns and rows.
pub(crate) unsafe fn products(means: Means<'_>, x: &Rows, jobs: &[(DenseWeight, &Output)]) {
    let x_rows = x.rows;
    let depth = x.columns.next_multiple_of(MAX_LANES);
    scratch::with(&PREPARED, x.rows * depth, |floats| {
        // SAFETY: a row of scratch for each row of `x`.
        unsafe { means.isa.run(Widen { x, depth, to: floats.as_mut_ptr() }) };
        let floats = Shared::new(floats.as_mut_ptr());
        let sizes = jobs.iter().map(|(weight, out)| (out.columns, weight.columns * weight.dtype.bytes()));
        in_pieces(means.pool, sizes, &|job, first, rows| {
            let (weight, out) = jobs[job];
            scratch::with(&PIECE, x_rows * rows, |sums| {
                let x = floats.pointer().cast_const();
                let width = means.width;
                // SAFETY: the floats are only read from here on; each piece writes its own columns of its output.
                unsafe { means.isa.run(Piece { x, x_rows, depth, weight, out, first, rows, width, sums }) };
            });
        });
    });
}

/// Calls `body` for stretches of the rows of some weights (how many, and the bytes of one), on the pool: which weight, the
/// first row, and how many.
pub(crate) fn in_pieces(
    pool: &Pool,
    sizes: impl Iterator<Item = (usize, usize)>,
    body: &(dyn Fn(usize, usize, usize) + Sync),
) {
    let jobs: Vec<_> = sizes.map(|(rows, row_bytes)| (rows, piece_rows(row_bytes))).collect();
    let pieces = jobs.iter().map(|(rows, step)| rows.div_ceil(*step)).sum();
    pool.run(pieces, &|mut piece| {
        for (job, (rows, step)) in jobs.iter().enumerate() {
            let count = rows.div_ceil(*step);
            if piece < count {
                let first = piece * step;
                return body(job, first, (*step).min(rows - first));
            }
            piece -= count;
        }
    });
}

/// Turns every row of `x` into floats, filled up with zeros.
struct Widen<'a> {
    x: &'a Rows,
    depth: usize,
    to: *mut f32,
}

impl Kernel for Widen<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, depth, to } = self;
        for row in 0..x.rows {
            // SAFETY: `to` has `depth` floats for each row, which is not less than the columns.
            unsafe {
                let to = to.add(row * depth);
                with_element!(x.dtype, E => widen::<S, E>(x.row::<E>(row), to, x.columns));
                for column in x.columns..depth {
                    *to.add(column) = 0.0;
                }
            }
        }
    }
}

/// Computes the output columns `first..first + rows` for every row of `x`.
struct Piece<'a> {
    x: *const f32,
    x_rows: usize,
    depth: usize,
    weight: DenseWeight,
    out: &'a Output,
    first: usize,
    rows: usize,
    width: Width,
    /// `rows` sums for each row of `x`.
    sums: &'a mut [f32],
}

impl Kernel for Piece<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(mut self) {
        // SAFETY: as `product` arranges.
        unsafe {
            with_element!(self.weight.dtype, E => self.all::<S, E>());
            write_sums::<S>(self.sums, self.x_rows, self.out, self.first, self.rows);
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    unsafe fn all<S: Simd, E: Element>(&mut self) {
        let mut m = 0;
        while m < self.x_rows {
            let together = if self.width == Width::Wide { (self.x_rows - m).min(4) } else { 1 };
            unsafe {
                for n in (0..self.rows).step_by(4) {
                    if together == 1 {
                        self.block::<S, E, 1>(n, m, 1);
                    } else {
                        self.block::<S, E, 4>(n, m, together);
                    }
                }
            }
            m += together;
        }
    }

    /// Four rows of the weight against `m_rows` of activations, at most `MB`. Rows that are not there are others once
    /// more.
    #[inline(always)]
    unsafe fn block<S: Simd, E: Element, const MB: usize>(&mut self, n: usize, m: usize, m_rows: usize) {
        let columns = self.weight.columns;
        let whole = columns - columns % S::LANES;
        unsafe {
            let data = self.weight.data.pointer().cast::<E::Bits>().cast_const();
            let weight: [*const E::Bits; 4] =
                std::array::from_fn(|row| data.add((self.first + (n + row).min(self.rows - 1)) * columns));
            let x: [*const f32; MB] =
                std::array::from_fn(|row| self.x.add((m + row.min(m_rows - 1)) * self.depth));
            let mut acc = [[S::splat(0.0); MB]; 4];
            for k in (0..whole).step_by(S::LANES) {
                for (weight, acc) in weight.iter().zip(&mut acc) {
                    let w = E::load::<S>(weight.add(k));
                    for (x, acc) in x.iter().zip(acc) {
                        *acc = S::fma(w, S::load(x.add(k)), *acc);
                    }
                }
            }
            if whole < columns {
                for (weight, acc) in weight.iter().zip(&mut acc) {
                    let mut rest = [0.0_f32; MAX_LANES];
                    for (index, value) in rest.iter_mut().enumerate().take(columns - whole) {
                        *value = E::to_f32(*weight.add(whole + index));
                    }
                    let w = S::load(rest.as_ptr());
                    for (x, acc) in x.iter().zip(acc) {
                        *acc = S::fma(w, S::load(x.add(whole)), *acc);
                    }
                }
            }
            keep_sums::<S, 4, MB>(&acc, self.sums, self.rows, (n, 4.min(self.rows - n)), (m, m_rows));
        }
    }
}

/// Adds up the lanes of the accumulators of some weight rows (first, count) and activation rows, and keeps the sums, of
/// which there are `rows` for each row of activations.
///
/// # Safety
/// The processor has `S`.
#[inline(always)]
pub(crate) unsafe fn keep_sums<S: Simd, const NB: usize, const MB: usize>(
    acc: &[[S::F; MB]; NB],
    sums: &mut [f32],
    rows: usize,
    (n, n_rows): (usize, usize),
    (m, m_rows): (usize, usize),
) {
    for (column, acc) in acc.iter().enumerate().take(n_rows) {
        for (row, acc) in acc.iter().enumerate().take(m_rows) {
            // SAFETY: arithmetic.
            sums[(m + row) * rows + n + column] = unsafe { S::sum(*acc) };
        }
    }
}

/// Writes the sums of a piece.
///
/// # Safety
/// The processor has `S`; the columns `first..first + rows` are within the output, and no other thread writes them.
#[inline(always)]
pub(crate) unsafe fn write_sums<S: Simd>(
    sums: &mut [f32],
    x_rows: usize,
    out: &Output,
    first: usize,
    rows: usize,
) {
    for (m, line) in sums.chunks_exact_mut(rows).enumerate().take(x_rows) {
        // SAFETY: as the caller promises.
        unsafe { out.write::<S>(m, first, line) };
    }
}
