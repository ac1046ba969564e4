//! The row kernel of dense products: few rows of activations, the weight read once.

use crate::element::{Element, widen, with_element};
use crate::pieces::{STREAMS, Streams, in_pieces, write_sums};
use crate::product::{DenseWeight, Means, Output, Rows, Width};
use crate::scratch::{self, PIECE, PREPARED};
use crate::share::Shared;
use crate::simd::{Kernel, MAX_LANES, Simd};

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
                let (width, threads) = (means.width, means.pool.threads());
                // SAFETY: the floats are only read from here on; each piece writes its own columns of its output.
                unsafe {
                    means.isa.run(Piece { x, x_rows, depth, weight, out, first, rows, width, threads, sums });
                };
            });
        });
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
    /// How many threads take pieces.
    threads: usize,
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
    fn streams(&self) -> Streams {
        Streams::new(self.rows, self.weight.columns * self.weight.dtype.bytes(), self.threads)
    }

    #[inline(always)]
    unsafe fn all<S: Simd, E: Element>(&mut self) {
        let mut m = 0;
        while m < self.x_rows {
            let together = if self.width == Width::Wide { (self.x_rows - m).min(4) } else { 1 };
            unsafe {
                for block in 0..self.streams().blocks {
                    if together == 1 {
                        self.block::<S, E, 1>(block, m, 1);
                    } else {
                        self.block::<S, E, 4>(block, m, together);
                    }
                }
            }
            m += together;
        }
    }

    /// A block of the weight against `m_rows` of activations, at most `MB`. Rows that are not there are others once more.
    #[inline(always)]
    unsafe fn block<S: Simd, E: Element, const MB: usize>(&mut self, block: usize, m: usize, m_rows: usize) {
        let columns = self.weight.columns;
        let whole = columns - columns % S::LANES;
        unsafe {
            let data = self.weight.data.pointer().cast::<E::Bits>().cast_const();
            let piece = data.add(self.first * columns);
            let ahead = self.streams().ahead::<STREAMS>(block, 0);
            let block = self.streams().block::<STREAMS>(block, 0);
            let weight = block.at.map(|row| piece.add(row * columns));
            let x: [*const f32; MB] =
                std::array::from_fn(|row| self.x.add((m + row.min(m_rows - 1)) * self.depth));
            let mut acc = [[S::splat(0.0); MB]; STREAMS];
            for k in (0..whole).step_by(S::LANES) {
                for ((weight, acc), ahead) in weight.iter().zip(&mut acc).zip(ahead) {
                    let w = E::load::<S>(weight.add(k));
                    S::prefetch(piece.cast::<u8>().wrapping_add(ahead + k * size_of::<E::Bits>()));
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
            block.keep_sums::<S, MB>(&acc, self.sums, self.rows, (m, m_rows));
        }
    }
}
