//! Vectors of 32-bit floats and of 32-bit words, one implementation for each instruction set.
//!
//! A kernel is written once, generic over [`Simd`], as a [`Kernel`]; [`Isa::run`] compiles it for every instruction
//! set and enters the one asked for. Everything between the entry and the intrinsics is `inline(always)`, since only
//! code inlined into a function with a target feature is compiled for that feature.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512vnni;
mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub use isa::Isa;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use portable::Portable;

/// The most lanes that any instruction set has.
pub(crate) const MAX_LANES: usize = 16;

/// One instruction set.
///
/// # Safety of the methods
/// The processor must have the instruction set, and a pointer must be good for what is read or written: `LANES`
/// elements, or the number given. No alignment is asked for.
pub(crate) trait Simd: Copy + 'static {
    /// Lanes of a vector.
    const LANES: usize;
    /// Output rows of one tile of the blocked product: as many accumulators as there are registers for.
    const TILE_ROWS: usize;
    /// A vector of floats.
    type F: Copy;
    /// A vector of words.
    type W: Copy;
    /// A table of 16 floats.
    type Table: Copy;

    unsafe fn splat(value: f32) -> Self::F;
    unsafe fn load(from: *const f32) -> Self::F;
    /// The first `count` floats, and zeros.
    unsafe fn load_partial(from: *const f32, count: usize) -> Self::F;
    unsafe fn load_bf16(from: *const u16) -> Self::F;
    unsafe fn load_f16(from: *const u16) -> Self::F;
    unsafe fn store(to: *mut f32, value: Self::F);
    /// Rounded to nearest, ties to even.
    unsafe fn store_bf16(to: *mut u16, value: Self::F);
    /// Rounded to nearest, ties to even.
    unsafe fn store_f16(to: *mut u16, value: Self::F);

    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `b` where either is not a number.
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// `b` where either is not a number.
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// To the nearest integer, ties to even.
    unsafe fn round(a: Self::F) -> Self::F;
    /// `a · 2ⁿ`, for an integral `n` from -126 to 127.
    unsafe fn scale_by_power(a: Self::F, n: Self::F) -> Self::F;
    /// The sum of the lanes, in an order of its own that is always the same.
    unsafe fn sum(a: Self::F) -> f32;

    unsafe fn load_words(from: *const u32) -> Self::W;
    /// The first `count` words, and zeros.
    unsafe fn load_words_partial(from: *const u32, count: usize) -> Self::W;
    /// Each word shifted right by `BITS`.
    unsafe fn shift<const BITS: u32>(word: Self::W) -> Self::W;
    /// The lowest `BITS` bits (2, 4 or 8) of each word, as a float.
    unsafe fn low<const BITS: u32>(word: Self::W) -> Self::F;
    /// `LANES` consecutive fields of `BITS` bits (2 to 8) from a little-endian stream of bits that begins at `from`:
    /// reads `LANES · BITS / 8` bytes. What is above the field in a word is not cleared for fields that
    /// [`lookup`](Self::lookup) takes.
    unsafe fn fields<const BITS: u32>(from: *const u8) -> Self::W;
    /// Words below 2²⁴ as floats.
    unsafe fn to_floats(word: Self::W) -> Self::F;

    unsafe fn table(values: &[f32; 16]) -> Self::Table;
    /// The table's entry at the lowest 4 bits of each word.
    unsafe fn lookup(table: Self::Table, word: Self::W) -> Self::F;

    /// Asks for the cache line at `at`, which need not be in any array.
    unsafe fn prefetch(at: *const u8);
    /// Indices for [`pick`](Self::pick): each below `LANES`.
    unsafe fn indices(of: &[u32; MAX_LANES]) -> Self::W;
    /// For each lane one of the `LANES` floats at `from`.
    unsafe fn pick(from: *const f32, indices: Self::W) -> Self::F;
}

/// An instruction set with products of bytes, so far one of x86-64. A vector of words is then a vector of four times as many bytes, too.
///
/// # Safety of the methods
/// As of [`Simd`].
#[cfg(target_arch = "x86_64")]
pub(crate) trait Dot: Simd {
    unsafe fn zero() -> Self::W;
    /// The first `count` bytes (at most `4 · LANES`), and zeros.
    unsafe fn load_bytes(from: *const u8, count: usize) -> Self::W;
    /// The lowest `BITS` bits of each byte.
    unsafe fn low_of_bytes<const BITS: u32>(bytes: Self::W) -> Self::W;
    /// `4 · LANES` consecutive fields of `BITS` bits (3, 5 or 6) from a little-endian stream of bits, a byte each.
    unsafe fn bytes_of_stream<const BITS: u32>(stream: Self::W) -> Self::W;
    /// A table for [`lookup_bytes`](Self::lookup_bytes).
    unsafe fn byte_table(values: &[u8; 16]) -> Self::W;
    /// The table's entry at each byte, which is below 16.
    unsafe fn lookup_bytes(table: Self::W, bytes: Self::W) -> Self::W;
    /// To each word of `to` the sum of the products of its four unsigned bytes with its four signed ones.
    unsafe fn dot(to: Self::W, unsigned: Self::W, signed: Self::W) -> Self::W;
    unsafe fn add_words(a: Self::W, b: Self::W) -> Self::W;
    /// Each word times 256.
    unsafe fn up_a_byte(words: Self::W) -> Self::W;
    /// Signed words as floats, rounded to nearest.
    unsafe fn signed_to_floats(words: Self::W) -> Self::F;
}

/// A computation that wants products of bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) trait DotKernel {
    /// Computes.
    ///
    /// # Safety
    /// The processor must have the instruction set `S`; and what the kernel itself asks for.
    unsafe fn run<S: Dot>(self);
}

/// A computation that can be compiled for any instruction set.
pub(crate) trait Kernel {
    /// What it gives.
    type Output;

    /// Computes.
    ///
    /// # Safety
    /// The processor must have the instruction set `S`; and what the kernel itself asks for.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// `eˣ`: Cody and Waite's reduction to `|r| ≤ ln 2 / 2`, and the polynomial of Cephes' `expf`. Relative error below
/// 2e-7 from -87.3 to 88.3, the values at whose ends stand beyond them (so that e^-∞ is about 1e-38, not 0).
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::F) -> S::F {
    // SAFETY: arithmetic; the caller runs on a processor that has S.
    unsafe {
        // In this order, since the second operand stands where one is not a number: it stays one.
        let x = S::min(S::splat(88.37), S::max(S::splat(-87.33), x));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        let r = S::fma(n, S::splat(-0.693_359_4), x);
        let r = S::fma(n, S::splat(2.121_944_4e-4), r);
        let mut p = S::splat(1.987_569_1e-4);
        for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            p = S::fma(p, r, S::splat(coefficient));
        }
        let p = S::fma(p, S::mul(r, r), S::add(r, S::splat(1.0)));
        S::scale_by_power(p, n)
    }
}
