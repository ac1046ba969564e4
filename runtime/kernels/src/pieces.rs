//! How the row kernels go over a weight: in pieces that threads take one by one, and within a piece along streams.
//!
//! None of it shows in a result: each row of a weight is computed by itself.

use crate::pool::Pool;
use crate::product::Output;
use crate::simd::Simd;

/// Streams of a piece: rows that are computed together lie this far apart in a piece, so that each is read from front to back
/// over the whole piece. Rows side by side would be streams as short as a row, and the processor's prefetching would begin anew
/// with every row. Measured on an AMD EPYC (4-bit weight of 8192 x 2048): 1.5 times the rate.
pub(crate) const STREAMS: usize = 4;

/// Bytes of the weight in one piece: at most so many that threads end together, at least so many that taking a piece and starting
/// its streams cost little.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 24 << 10..=192 << 10;
/// Pieces of a product for each thread, where they are not too small or large for it.
const PIECES_PER_THREAD: usize = 4;

/// How many bytes ahead of what is read a stream is asked for. The processor's own prefetching stops at every page. One line is
/// asked for with each that is read: many at once would wait for each other, and the computation for them.
const AHEAD_BYTES: usize = 2048;

/// Calls `body` for stretches of the rows of some weights (how many, and the bytes of one), on the pool: which weight, the
/// first row, and how many.
pub(crate) fn in_pieces(
    pool: &Pool,
    sizes: impl Iterator<Item = (usize, usize)> + Clone,
    body: &(dyn Fn(usize, usize, usize) + Sync),
) {
    let all: usize = sizes.clone().map(|(rows, row_bytes)| rows * row_bytes).sum();
    let piece = (all / (pool.threads() * PIECES_PER_THREAD)).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
    let step = |row_bytes: usize| (piece / row_bytes.max(1)).next_multiple_of(STREAMS).max(STREAMS);
    let jobs: Vec<_> = sizes.map(|(rows, row_bytes)| (rows, step(row_bytes))).collect();
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

/// The rows of a piece, as streams: block number `b` takes row `b` of each stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    rows: usize,
    row_bytes: usize,
    /// Rows from the beginning of this piece to that of the piece which this thread is likely to take next.
    later: usize,
    /// Rows of a stream, which is how many blocks there are.
    pub(crate) blocks: usize,
}

impl Streams {
    /// The streams of `rows` rows, at least one, in one of the pieces that so many threads take.
    pub(crate) fn new(rows: usize, row_bytes: usize, threads: usize) -> Self {
        Self { rows, row_bytes, later: threads * rows, blocks: rows.div_ceil(STREAMS) }
    }

    /// What to ask for while a block is read, one line with each that is read there: bytes from the beginning of the piece on, for
    /// each stream. Towards its end, that is the beginning of the same stream in the piece which this thread is likely to take
    /// next. It may lie outside the weight.
    #[inline(always)]
    pub(crate) fn ahead<const N: usize>(&self, block: usize, first: usize) -> [usize; N] {
        let stream_bytes = self.blocks * self.row_bytes;
        let at = block * self.row_bytes + AHEAD_BYTES;
        let skipped = if at < stream_bytes {
            0
        } else {
            self.later * self.row_bytes - stream_bytes.min(self.later * self.row_bytes)
        };
        std::array::from_fn(|stream| (first + stream) * stream_bytes + at + skipped)
    }

    /// The rows of a block, of the streams from `first` on. Those that are not there are the last row once more.
    #[inline(always)]
    pub(crate) fn block<const N: usize>(&self, block: usize, first: usize) -> Block<N> {
        let at = std::array::from_fn(|stream| block + self.blocks * (first + stream));
        Block {
            at: at.map(|row| row.min(self.rows - 1)),
            count: at.iter().filter(|row| **row < self.rows).count(),
        }
    }
}

/// Rows of a piece that are computed together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<const N: usize> {
    /// Which rows.
    pub(crate) at: [usize; N],
    /// How many of them are rows of their own, the first ones.
    pub(crate) count: usize,
}

impl<const N: usize> Block<N> {
    /// Adds up the lanes of the accumulators of these rows and of some activation rows (first, count), and keeps the sums, of
    /// which there are `rows` for each row of activations.
    ///
    /// # Safety
    /// The processor has `S`.
    #[inline(always)]
    pub(crate) unsafe fn keep_sums<S: Simd, const MB: usize>(
        &self,
        acc: &[[S::F; MB]; N],
        sums: &mut [f32],
        rows: usize,
        (m, m_rows): (usize, usize),
    ) {
        for (at, acc) in self.at.iter().zip(acc).take(self.count) {
            for (row, acc) in acc.iter().enumerate().take(m_rows) {
                // SAFETY: arithmetic.
                sums[(m + row) * rows + at] = unsafe { S::sum(*acc) };
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;
    use std::sync::Mutex;

    #[test]
    fn every_row_is_in_exactly_one_block() {
        for rows in 1..40 {
            let streams = Streams::new(rows, 64, 2);
            let mut seen = vec![0; rows];
            for block in 0..streams.blocks {
                for first in [0, 2] {
                    let block = streams.block::<2>(block, first);
                    block.at.iter().take(block.count).for_each(|row| seen[*row] += 1);
                }
            }
            assert!(seen.iter().all(|count| *count == 1), "{rows}: {seen:?}");
        }
    }

    #[test]
    fn what_is_asked_for_is_further_on_in_the_stream_and_then_in_the_piece_after_the_next() {
        // Four streams of 100 rows of 64 bytes; two threads.
        let streams = Streams::new(400, 64, 2);
        assert_eq!(streams.ahead::<2>(0, 1), [6400 + 2048, 12800 + 2048]);
        assert_eq!(streams.ahead::<1>(67, 0), [67 * 64 + 2048]);
        assert_eq!(streams.ahead::<1>(68, 3), [800 * 64 + 3 * 6400]);
        assert_eq!(streams.ahead::<1>(99, 0), [800 * 64 + 31 * 64]);
    }

    #[test]
    fn every_row_is_in_exactly_one_piece() {
        let pool = Pool::new(NonZeroUsize::new(2).expect("OK because it is not zero"));
        for (rows, bytes) in [(1, 1), (7, 100_000), (3000, 1152), (5, usize::MAX / 8)] {
            let seen = Mutex::new([vec![0; rows], vec![0; 9]]);
            in_pieces(&pool, [(rows, bytes), (9, 64)].into_iter(), &|job, first, count| {
                let mut seen = seen.lock().expect("OK because nothing panics");
                seen[job][first..first + count].iter_mut().for_each(|count| *count += 1);
            });
            let seen = seen.into_inner().expect("OK because nothing panics");
            assert!(seen.iter().flatten().all(|count| *count == 1), "{rows} {bytes}");
        }
    }
}
