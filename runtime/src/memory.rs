//! MLX's memory counters and the points at which its work is known to be done.

use crate::kernels::mlx;
use mlx_rs::memory;

/// Forgets the peak so far; the next one counts from what is in use now.
pub fn reset_peak() {
    // OK to ignore: the counter cannot fail, and a stale peak only reads high.
    let _ = memory::reset_peak_memory();
}

/// The most bytes of arrays in use at once since [`reset_peak`]; `None` where MLX does not say.
pub fn peak_bytes() -> Option<u64> {
    memory::peak_memory().ok().and_then(|bytes| u64::try_from(bytes).ok())
}

/// Bytes of arrays in use now.
pub fn active_bytes() -> Option<u64> {
    memory::active_memory().ok().and_then(|bytes| u64::try_from(bytes).ok())
}

/// Gives freed buffers that MLX keeps for reuse back to the system.
pub fn clear_cache() {
    let _ = memory::clear_cache();
}

/// Waits until all submitted work has run.
pub fn synchronize() -> Result<(), mlx_rs::error::Exception> {
    mlx::synchronize()
}
