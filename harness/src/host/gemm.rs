//! How fast the processor of this host multiplies matrices of f32: with a portable kernel of our own, on all cores that this
//! process may use, each with matrices of its own.
//!
//! The kernel holds a tile of the result in registers and is compiled for the processor family at large, without the widest
//! vector instructions and without a BLAS. So it is a yardstick that is the same everywhere and from day to day, far below
//! what the host can do at best.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mlxcel_reports::statistics::Summary;
use serde::{Deserialize, Serialize};

use super::threads::{passes, usable_cores};

/// Rows and columns of the matrices. Three of them take 768 KiB, which stays close to the core.
const SIZE: usize = 256;
/// Rows of a tile.
const ROWS: usize = 4;
/// Columns of a tile.
const COLUMNS: usize = 8;
/// Products a thread makes in one pass.
const PRODUCTS: usize = 4;
/// Passes that are not counted, in which clocks go up.
const DISCARDED: usize = 2;
/// A trial of the kernel as a control takes at least this long, and at least so many passes.
const CONTROL_TIME: Duration = Duration::from_millis(200);
/// See [`CONTROL_TIME`].
const CONTROL_PASSES: usize = 5;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gemm {
    /// Median of the passes: multiplications and additions a second, all threads together.
    pub median_flops: f64,
    /// The fastest pass.
    pub best_flops: f64,
    /// Rows and columns of the matrices.
    pub size: usize,
    /// Threads.
    pub threads: usize,
    /// Passes that count.
    pub passes: usize,
    /// What multiplied.
    pub kernel: String,
    /// Whether the kernel was compiled with optimizations; without, the figure is too low.
    pub optimized: bool,
}

/// What multiplies, for reports.
pub const KERNEL: &str = "portable f32, tile 4x8, no BLAS";

/// Matrices for every core, ready to be multiplied again and again.
#[derive(Debug)]
pub struct Kernel {
    matrices: Vec<Matrices>,
}

#[derive(Debug)]
struct Matrices {
    /// The left one in strips of [`ROWS`] rows, column by column.
    left: Vec<[f32; ROWS]>,
    /// The right one in strips of [`COLUMNS`] columns, row by row.
    right: Vec<[f32; COLUMNS]>,
    /// The result in tiles.
    result: Vec<[[f32; COLUMNS]; ROWS]>,
}

impl Kernel {
    /// For all cores that this process may use; `None` where the memory for its matrices cannot be had.
    pub fn new() -> Option<Self> {
        let matrices: Option<Vec<Matrices>> = (0..usable_cores()).map(|_| Matrices::new()).collect();
        Some(Self { matrices: matrices? })
    }

    /// Multiplies so many passes; the rate of each.
    pub fn rates(&mut self, count: usize) -> Vec<f64> {
        let operations = 2.0 * (SIZE * SIZE * SIZE * PRODUCTS * self.matrices.len()) as f64;
        let times = passes(&mut self.matrices, count, |matrices| {
            for _ in 0..PRODUCTS {
                black_box(&mut *matrices).multiply();
            }
        });
        // Threads that cannot be had give no rate.
        times
            .iter()
            .flatten()
            .filter(|time| **time > Duration::ZERO)
            .map(|time| operations / time.as_secs_f64())
            .collect()
    }
}

impl Kernel {
    /// One trial of it as a control: multiplies for a while and gives the median rate, which a lucky pass does not move and a
    /// disturbed one hardly. `None` when no pass took a measurable time.
    pub fn control_rate(&mut self) -> Option<f64> {
        // Clocks need a moment to go up.
        self.rates(DISCARDED);
        let begun = Instant::now();
        let mut rates = Vec::new();
        while rates.len() < CONTROL_PASSES || begun.elapsed() < CONTROL_TIME {
            let more = self.rates(CONTROL_PASSES);
            if more.is_empty() {
                return None;
            }
            rates.extend(more);
        }
        Summary::of(&rates).map(|summary| summary.median)
    }
}

impl Matrices {
    fn new() -> Option<Self> {
        // Small values that do not grow, denormal or not a number however often they are multiplied.
        let value = |number: usize| 0.5 + (number % 7) as f32 / 16.0;
        let strip = |number: usize| number / SIZE * 31 + number % SIZE;
        Some(Self {
            left: filled(SIZE / ROWS * SIZE, |at| std::array::from_fn(|row| value(strip(at) + row)))?,
            right: filled(SIZE / COLUMNS * SIZE, |at| {
                std::array::from_fn(|column| value(strip(at) + 3 * column))
            })?,
            result: filled(SIZE / ROWS * SIZE / COLUMNS, |_| [[0.0; COLUMNS]; ROWS])?,
        })
    }

    fn multiply(&mut self) {
        let mut tiles = self.result.iter_mut();
        for left in self.left.chunks_exact(SIZE) {
            for (right, to) in self.right.chunks_exact(SIZE).zip(&mut tiles) {
                *to = tile(left, right);
            }
        }
    }
}

/// So many values; `None` where the memory cannot be had.
fn filled<T>(count: usize, value: impl Fn(usize) -> T) -> Option<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    values.extend((0..count).map(value));
    Some(values)
}

fn tile(left: &[[f32; ROWS]], right: &[[f32; COLUMNS]]) -> [[f32; COLUMNS]; ROWS] {
    let mut sums = [[0.0_f32; COLUMNS]; ROWS];
    for (left, right) in left.iter().zip(right) {
        for (sums, left) in sums.iter_mut().zip(left) {
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum += left * right;
            }
        }
    }
    sums
}

/// Measures over so many passes; `None` when none took a measurable time, or the memory cannot be had.
pub fn measure(counted: usize) -> Option<Gemm> {
    let mut kernel = Kernel::new()?;
    let mut rates = kernel.rates(DISCARDED + counted.max(1));
    rates.drain(..DISCARDED.min(rates.len()));
    rates.sort_by(f64::total_cmp);
    Some(Gemm {
        median_flops: *rates.get(rates.len().saturating_sub(1) / 2)?,
        best_flops: *rates.last()?,
        size: SIZE,
        threads: kernel.matrices.len(),
        passes: rates.len(),
        kernel: KERNEL.to_owned(),
        optimized: !cfg!(debug_assertions),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_the_product() {
        let mut matrices = Matrices::new().expect("OK because there is a megabyte");
        matrices.multiply();
        for (row, column) in [(0, 0), (5, 9), (SIZE - 1, SIZE - 1), (17, 200)] {
            let left = |at: usize| matrices.left[row / ROWS * SIZE + at][row % ROWS];
            let right = |at: usize| matrices.right[column / COLUMNS * SIZE + at][column % COLUMNS];
            let expected: f64 = (0..SIZE).map(|at| f64::from(left(at)) * f64::from(right(at))).sum();
            let tile = matrices.result[row / ROWS * (SIZE / COLUMNS) + column / COLUMNS];
            let found = f64::from(tile[row % ROWS][column % COLUMNS]);
            assert!((found / expected - 1.0).abs() < 1e-5, "{row} {column}: {found} for {expected}");
        }
    }

    #[test]
    fn a_rate_is_one_that_can_be() {
        let gemm = measure(3);
        assert!(
            gemm.as_ref().is_some_and(|gemm| gemm.median_flops > 1e6
                && gemm.best_flops < 1e15
                && gemm.median_flops <= gemm.best_flops
                && gemm.passes == 3),
            "{gemm:?}"
        );
    }
}
