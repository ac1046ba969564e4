//! Copies of a weight in turn, so many that none is left in the last-level cache when its turn comes again.
//!
//! A model reads all its weights before it reads one a second time, so a kernel that reads the same matrix again and again
//! from a cache is faster than it is in any model.

use std::num::NonZeroUsize;

/// All copies together are at least this many times as large as the last-level cache: caches do not always throw out what was
/// read longest ago, and of four times their size hardly anything survives a round.
pub const TIMES_THE_CACHE: u64 = 4;

/// Copies that a weight needs to come from memory each time.
pub fn copies_for(cache_bytes: u64, weight_bytes: u64) -> u64 {
    cache_bytes.saturating_mul(TIMES_THE_CACHE).div_ceil(weight_bytes.max(1)).max(2)
}

/// Whose turn it is. Arms that alternate share one rotation, so that neither finds in the cache what the other has read.
#[derive(Debug)]
pub struct Rotation {
    copies: NonZeroUsize,
    next: usize,
}

impl Rotation {
    /// Begins with the first copy.
    pub fn of(copies: NonZeroUsize) -> Self {
        Self { copies, next: 0 }
    }

    /// The copies whose turn it is, from 0.
    pub fn take(&mut self, count: usize) -> Vec<usize> {
        let copies = self.copies.get();
        (0..count)
            .map(|_| {
                let copy = self.next;
                self.next = (copy + 1) % copies;
                copy
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_has_its_turn_before_the_first_has_it_again() {
        let mut rotation = Rotation::of(NonZeroUsize::MIN.saturating_add(2));
        assert_eq!(rotation.take(2), [0, 1]);
        assert_eq!(rotation.take(5), [2, 0, 1, 2, 0]);
        assert_eq!(rotation.take(1), [1]);
    }

    #[test]
    fn copies_exceed_the_cache_several_times_and_are_never_one() {
        assert_eq!(copies_for(32 << 20, 1 << 20), 128);
        assert_eq!(copies_for(32 << 20, (1 << 20) + 1), 128);
        assert_eq!(copies_for(32 << 20, 3 << 20), 43);
        assert_eq!(copies_for(32 << 20, 1 << 30), 2);
        assert_eq!(copies_for(u64::MAX, 0), u64::MAX);
    }
}
