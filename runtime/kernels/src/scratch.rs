//! Working memory that a thread keeps from one kernel to the next, on cache-line boundaries.

use std::cell::RefCell;
use std::thread::LocalKey;

/// A cache line of floats.
#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "memory, read through a pointer")]
#[repr(align(64))]
struct Line([f32; 16]);

thread_local! {
    /// For what a kernel prepares before its pieces are computed.
    pub(crate) static PREPARED: Scratch = const { Scratch(RefCell::new(Vec::new())) };
    /// For what lies between two kernels of one call.
    pub(crate) static BETWEEN: Scratch = const { Scratch(RefCell::new(Vec::new())) };
    /// For what a piece works with.
    pub(crate) static PIECE: Scratch = const { Scratch(RefCell::new(Vec::new())) };
}

/// Memory of one thread for one purpose.
pub(crate) struct Scratch(RefCell<Vec<Line>>);

/// `floats` rounded up to a whole number of cache lines.
pub(crate) const fn lines(floats: usize) -> usize {
    floats.div_ceil(16) * 16
}

/// Calls `body` with `floats` floats of whatever value, on a cache-line boundary. Within another use of the same
/// scratch, with new memory.
pub(crate) fn with<R>(
    key: &'static LocalKey<Scratch>,
    floats: usize,
    body: impl FnOnce(&mut [f32]) -> R,
) -> R {
    key.with(|scratch| match scratch.0.try_borrow_mut() {
        Ok(mut lines) => body(as_floats(&mut lines, floats)),
        Err(_) => body(as_floats(&mut Vec::new(), floats)),
    })
}
fn as_floats(lines: &mut Vec<Line>, floats: usize) -> &mut [f32] {
    let needed = floats.div_ceil(16);
    if lines.len() < needed {
        lines.resize(needed, Line([0.0; 16]));
    }
    // SAFETY: a `Line` is 16 floats without padding, and there are enough of them.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), floats) }
}
