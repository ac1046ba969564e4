//! How fast the device that MLX computes on reaches its memory, by MLX's own operations in a worker: what rates that were
//! measured on a GPU are held against.
//!
//! The processor of a host has another figure, [`super::stream`], also where it shares the memory.

use std::time::Duration;

use mlxcel_reports::row::Traffic;
use serde::{Deserialize, Serialize};

use crate::worker::child::WorkerProgram;
use crate::worker::protocol::StreamPass;
use crate::worker::session::{Surroundings, stream};

/// Passes with each operation that count: enough for clocks to go up, since a pass takes about a millisecond.
const PASSES: u32 = 40;
/// How long a worker may take to start and to do them.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The most bytes of the arrays.
const MOST_BYTES: u64 = 4 << 30;
/// The fewest, and as many where the device's memory is unknown.
const FEWEST_BYTES: u64 = 1 << 30;
/// The arrays take this share of the device's memory at most.
const SHARE: u64 = 16;
/// No GPU has a larger last-level cache. What is smaller may come from the cache, and faster than from memory.
pub const LARGEST_CACHE_BYTES: u64 = Traffic::LARGEST_DEVICE_CACHE_BYTES;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceStream {
    /// The fastest pass of all operations. What a measured rate is held against.
    pub best_bytes_per_second: f64,
    /// Median of the operation that had it.
    pub median_bytes_per_second: f64,
    /// That operation.
    pub operation: String,
    /// Bytes of the arrays.
    pub buffer_bytes: u64,
    /// Passes of that operation.
    pub passes: usize,
}

/// Measures in a fresh worker.
///
/// # Errors
/// Why it is not known, in words.
pub fn measure(
    program: &WorkerProgram,
    device_memory_bytes: Option<u64>,
    limit: Duration,
    interrupted: &dyn Fn() -> bool,
) -> Result<DeviceStream, String> {
    let buffer = buffer_bytes(device_memory_bytes);
    let mut around = Surroundings { program, interrupted, progress: &mut |_| {} };
    let session = stream((buffer, PASSES), limit.min(TIMEOUT), &mut around);
    match (DeviceStream::of(&session.streamed, buffer), session.cut) {
        (Some(found), _) => Ok(found),
        (None, Some((_, cut))) => Err(format!("the worker that was to measure it {}", cut.describe())),
        (None, None) => Err("the worker's passes over memory took no measurable time".to_owned()),
    }
}

/// Bytes of the arrays on a device with so much memory.
fn buffer_bytes(device_memory_bytes: Option<u64>) -> u64 {
    device_memory_bytes.map_or(FEWEST_BYTES, |memory| (memory / SHARE).clamp(FEWEST_BYTES / 4, MOST_BYTES))
}

impl DeviceStream {
    /// By the passes of a worker; `None` where none took a measurable time.
    pub fn of(passes: &[StreamPass], buffer_bytes: u64) -> Option<Self> {
        let rate = |pass: &StreamPass| pass.bytes as f64 * 1e9 / pass.nanos as f64;
        let timed = || passes.iter().filter(|pass| pass.nanos > 0 && pass.bytes > 0);
        let best = timed().max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
        let mut rates: Vec<f64> = timed().filter(|pass| pass.operation == best.operation).map(rate).collect();
        rates.sort_by(f64::total_cmp);
        Some(Self {
            best_bytes_per_second: rate(best),
            median_bytes_per_second: *rates.get(rates.len().saturating_sub(1) / 2)?,
            operation: best.operation.clone(),
            buffer_bytes,
            passes: rates.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(operation: &str, nanos: u64) -> StreamPass {
        StreamPass { operation: operation.to_owned(), bytes: 1000, nanos }
    }

    #[test]
    fn the_fastest_pass_of_all_operations_is_the_peak_and_the_median_is_of_its_operation() {
        let passes = [pass("sum", 400), pass("addition", 250), pass("addition", 200), pass("addition", 500)];
        let found = DeviceStream::of(&passes, 7);
        let expected = DeviceStream {
            best_bytes_per_second: 5e9,
            median_bytes_per_second: 4e9,
            operation: "addition".to_owned(),
            buffer_bytes: 7,
            passes: 3,
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn passes_without_time_or_bytes_are_none() {
        assert_eq!(DeviceStream::of(&[], 7), None);
        assert_eq!(DeviceStream::of(&[pass("sum", 0)], 7), None);
        assert_eq!(DeviceStream::of(&[StreamPass { bytes: 0, ..pass("sum", 5) }], 7), None);
    }

    #[test]
    fn the_arrays_leave_the_memory_to_others_and_exceed_every_cache() {
        assert_eq!(buffer_bytes(None), 1 << 30);
        assert_eq!(buffer_bytes(Some(8 << 30)), 512 << 20);
        assert_eq!(buffer_bytes(Some(143_771 << 20)), 4 << 30);
        assert!(buffer_bytes(Some(0)) >= LARGEST_CACHE_BYTES);
    }
}
