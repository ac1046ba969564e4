//! How fast the processor of this host reads memory: a plain sum over a buffer far larger than the last-level cache, on all
//! cores that this process may use.
//!
//! It is the bandwidth that programs on the processor get. A GPU has another one, also where it shares the memory, so this
//! bounds no rate that was measured on a GPU.

use std::hint::black_box;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::llc::LastLevelCache;
use super::threads::{passes, usable_cores};

/// Words that are summed side by side.
const LANES: usize = 16;
/// Smallest buffer, and the one where the cache's size is unknown.
const SMALLEST_BYTES: u64 = 512 << 20;
/// The buffer is this many times the cache: what is left of it in the cache from one pass to the next hardly counts.
const TIMES_THE_CACHE: u64 = 8;
/// No smaller buffer than this many times the cache is worth measuring.
const FEWEST_TIMES_THE_CACHE: u64 = 2;
/// The first passes are not counted: pages are touched, clocks go up.
const DISCARDED: usize = 2;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Median of the passes, in bytes a second.
    pub median_bytes_per_second: f64,
    /// The fastest pass. What a measured rate is held against, since nothing may be faster.
    pub best_bytes_per_second: f64,
    /// The slowest.
    pub worst_bytes_per_second: f64,
    /// Bytes of the buffer, each read once a pass.
    pub buffer_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Passes that count.
    pub passes: usize,
    /// Whether the kernel was compiled with optimizations; without, the figure is too low.
    pub optimized: bool,
}

/// The bandwidth could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Too little memory is free.
    #[error(
        "{available_bytes} bytes of memory are free, and reading at memory speed takes a buffer of {needed_bytes} in a quarter of \
         what is free; end other programs"
    )]
    TooLittleMemory {
        /// Free memory.
        available_bytes: u64,
        /// The smallest buffer.
        needed_bytes: u64,
    },
    /// The buffer cannot be had, or the threads: under a limit on the memory of this process, for example.
    #[error(
        "a buffer of {buffer_bytes} bytes, or a thread to read it, cannot be had ({reason}); lift the limit on this process (ulimit)"
    )]
    Refused {
        /// The buffer.
        buffer_bytes: u64,
        /// Why.
        reason: String,
    },
    /// A pass took no measurable time.
    #[error("a pass over {buffer_bytes} bytes took no measurable time")]
    NoTime {
        /// The buffer.
        buffer_bytes: u64,
    },
}

/// Measures with the buffer that fits this cache and this host's free memory.
///
/// # Errors
/// [`StreamError`].
pub fn measure(cache: Option<&LastLevelCache>, passes: usize) -> Result<Stream, StreamError> {
    measure_with(buffer_bytes(cache, available_bytes())?, usable_cores(), passes)
}

pub(crate) fn available_bytes() -> Option<u64> {
    let memory = sysinfo::MemoryRefreshKind::nothing().with_ram();
    let system =
        sysinfo::System::new_with_specifics(sysinfo::RefreshKind::nothing().with_memory(memory)).ok()?;
    // Of a control group with a limit only what is left of it.
    let of_group = system.cgroup_limits().map(|limits| limits.free_memory);
    [Some(system.available_memory()), of_group].into_iter().flatten().filter(|bytes| *bytes > 0).min()
}

fn buffer_bytes(cache: Option<&LastLevelCache>, available: Option<u64>) -> Result<u64, StreamError> {
    let cache = cache.map_or(0, |cache| cache.bytes);
    let wanted = cache.saturating_mul(TIMES_THE_CACHE).max(SMALLEST_BYTES);
    let Some(available_bytes) = available else { return Ok(wanted) };
    let needed_bytes = cache.saturating_mul(FEWEST_TIMES_THE_CACHE).max(64 << 20);
    let bytes = wanted.min(available_bytes / 4);
    if bytes < needed_bytes {
        return Err(StreamError::TooLittleMemory { available_bytes, needed_bytes });
    }
    Ok(bytes)
}

fn measure_with(bytes: u64, threads: usize, counted: usize) -> Result<Stream, StreamError> {
    let threads = threads.max(1);
    let counted = counted.max(1);
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX) / threads / LANES * LANES;
    let refused = |reason: String| StreamError::Refused {
        buffer_bytes: (words as u64).saturating_mul(8).saturating_mul(threads as u64),
        reason,
    };
    // Zero pages are one page for all until they are written, so each thread writes its own, close to its core.
    let mut parts: Vec<(Vec<u64>, u64)> = Vec::new();
    for _ in 0..threads {
        let mut part = Vec::new();
        part.try_reserve_exact(words).map_err(|error| refused(error.to_string()))?;
        parts.push((part, 0));
    }
    let times = passes(&mut parts, DISCARDED + counted, |(words_read, sum)| {
        if words_read.is_empty() {
            words_read.extend((0_u64..).take(words));
        }
        *sum = sum.wrapping_add(add_up(black_box(words_read)));
    })
    .map_err(|error| refused(error.to_string()))?;
    black_box(&parts);
    let buffer_bytes = parts.iter().map(|(words, _)| words.len() as u64 * 8).sum::<u64>();
    let mut rates: Vec<f64> = times.iter().skip(DISCARDED).map(|time| rate(buffer_bytes, *time)).collect();
    rates.sort_by(f64::total_cmp);
    match (rates.first(), rates.get(rates.len().saturating_sub(1) / 2), rates.last()) {
        (Some(worst), Some(median), Some(best)) if best.is_finite() && *worst > 0.0 => Ok(Stream {
            median_bytes_per_second: *median,
            best_bytes_per_second: *best,
            worst_bytes_per_second: *worst,
            buffer_bytes,
            threads,
            passes: rates.len(),
            optimized: !cfg!(debug_assertions),
        }),
        _ => Err(StreamError::NoTime { buffer_bytes }),
    }
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64()
}

fn add_up(words: &[u64]) -> u64 {
    let mut lanes = [0_u64; LANES];
    for chunk in words.chunks_exact(LANES) {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().fold(0, |sum: u64, lane| sum.wrapping_add(*lane))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::llc::LlcSource;

    fn cache(bytes: u64) -> LastLevelCache {
        LastLevelCache { bytes, slices: 1, source: LlcSource::System }
    }

    #[test]
    fn the_buffer_is_far_larger_than_the_cache_and_leaves_memory_to_others() {
        assert_eq!(buffer_bytes(None, None), Ok(512 << 20));
        assert_eq!(buffer_bytes(Some(&cache(96 << 20)), Some(64 << 30)), Ok(768 << 20));
        assert_eq!(buffer_bytes(Some(&cache(96 << 20)), Some(2 << 30)), Ok(512 << 20));
        let refused = StreamError::TooLittleMemory { available_bytes: 1 << 30, needed_bytes: 512 << 20 };
        assert_eq!(buffer_bytes(Some(&cache(256 << 20)), Some(1 << 30)), Err(refused));
    }

    #[test]
    fn every_word_is_read() {
        assert_eq!(add_up(&(0..160).collect::<Vec<u64>>()), 159 * 80);
    }

    #[test]
    fn a_buffer_that_cannot_be_had_is_an_error_in_words() {
        let message = measure_with(1 << 62, 1, 1).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("cannot be had") && message.contains("ulimit"), "{message}");
    }

    #[test]
    fn a_small_buffer_is_read_at_a_rate_that_can_be() {
        let stream = measure_with(8 << 20, 2, 4);
        let in_range = |stream: &Stream| {
            stream.worst_bytes_per_second > 1e7
                && stream.best_bytes_per_second < 1e14
                && stream.worst_bytes_per_second <= stream.median_bytes_per_second
                && stream.median_bytes_per_second <= stream.best_bytes_per_second
        };
        assert!(stream.as_ref().is_ok_and(in_range), "{stream:?}");
        assert_eq!(stream.map(|stream| (stream.buffer_bytes, stream.passes)), Ok((8 << 20, 4)));
    }
}
