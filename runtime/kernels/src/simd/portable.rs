//! Plain code in vectors of 8, of which the compiler makes what it can for the target.

use super::Simd;
use half::{bf16, f16};

/// Plain code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

type Floats = [f32; 8];
type Words = [u32; 8];

#[inline(always)]
fn each(value: impl FnMut(usize) -> f32) -> Floats {
    std::array::from_fn(value)
}
impl Simd for Portable {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 4;
    type F = Floats;
    type W = Words;
    type Table = [f32; 16];

    #[inline(always)]
    unsafe fn splat(value: f32) -> Floats {
        [value; 8]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Floats {
        unsafe { from.cast::<Floats>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Floats {
        let mut floats = [0.0; 8];
        unsafe { std::ptr::copy_nonoverlapping(from, floats.as_mut_ptr(), count.min(8)) };
        floats
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Floats {
        let bits = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        each(|lane| f32::from_bits(u32::from(bits[lane]) << 16))
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Floats {
        let bits = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        each(|lane| f16::from_bits(bits[lane]).to_f32())
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Floats) {
        unsafe { to.cast::<Floats>().write_unaligned(value) }
    }
    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, value: Floats) {
        let bits: [u16; 8] = std::array::from_fn(|lane| bf16::from_f32(value[lane]).to_bits());
        unsafe { to.cast::<[u16; 8]>().write_unaligned(bits) }
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, value: Floats) {
        let bits: [u16; 8] = std::array::from_fn(|lane| f16::from_f32(value[lane]).to_bits());
        unsafe { to.cast::<[u16; 8]>().write_unaligned(bits) }
    }
    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        each(|lane| a[lane] + b[lane])
    }
    #[inline(always)]
    unsafe fn mul(a: Floats, b: Floats) -> Floats {
        each(|lane| a[lane] * b[lane])
    }
    #[inline(always)]
    unsafe fn div(a: Floats, b: Floats) -> Floats {
        each(|lane| a[lane] / b[lane])
    }
    #[inline(always)]
    unsafe fn max(a: Floats, b: Floats) -> Floats {
        each(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
    }
    #[inline(always)]
    unsafe fn min(a: Floats, b: Floats) -> Floats {
        each(|lane| if a[lane] < b[lane] { a[lane] } else { b[lane] })
    }
    #[inline(always)]
    #[expect(
        clippy::suboptimal_flops,
        reason = "without the instruction, a fused multiply-add is a slow call"
    )]
    unsafe fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            each(|lane| a[lane].mul_add(b[lane], c[lane]))
        } else {
            each(|lane| a[lane] * b[lane] + c[lane])
        }
    }
    #[inline(always)]
    unsafe fn round(a: Floats) -> Floats {
        each(|lane| a[lane].round_ties_even())
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "n is integral and small")]
    unsafe fn scale_by_power(a: Floats, n: Floats) -> Floats {
        each(|lane| a[lane] * f32::from_bits(((n[lane] as i32 + 127) << 23).cast_unsigned()))
    }
    #[inline(always)]
    unsafe fn sum(a: Floats) -> f32 {
        ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
    }
    #[inline(always)]
    unsafe fn load_words(from: *const u32) -> Words {
        unsafe { from.cast::<Words>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_words_partial(from: *const u32, count: usize) -> Words {
        let mut words = [0; 8];
        unsafe { std::ptr::copy_nonoverlapping(from, words.as_mut_ptr(), count.min(8)) };
        words
    }
    #[inline(always)]
    unsafe fn shift<const BITS: u32>(word: Words) -> Words {
        word.map(|word| word >> BITS)
    }
    #[inline(always)]
    unsafe fn low<const BITS: u32>(word: Words) -> Floats {
        unsafe { Self::to_floats(word.map(|word| word & ((1 << BITS) - 1))) }
    }
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "masked to 8 bits")]
    unsafe fn fields<const BITS: u32>(from: *const u8) -> Words {
        let mut bytes = [0_u8; 8];
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), BITS as usize) };
        let stream = u64::from_le_bytes(bytes);
        std::array::from_fn(|lane| ((stream >> (lane as u32 * BITS)) & ((1 << BITS) - 1)) as u32)
    }
    #[inline(always)]
    unsafe fn to_floats(word: Words) -> Floats {
        each(|lane| word[lane] as f32)
    }
    #[inline(always)]
    unsafe fn table(values: &[f32; 16]) -> [f32; 16] {
        *values
    }
    #[inline(always)]
    unsafe fn lookup(table: [f32; 16], word: Words) -> Floats {
        each(|lane| table[word[lane] as usize & 15])
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        let _ = at;
    }
    #[inline(always)]
    unsafe fn indices(of: &[u32; 16]) -> Words {
        std::array::from_fn(|lane| of[lane])
    }
    #[inline(always)]
    unsafe fn pick(from: *const f32, indices: Words) -> Floats {
        let floats = unsafe { Self::load(from) };
        each(|lane| floats[indices[lane] as usize & 7])
    }
}
