//! NEON, which every 64-bit Arm processor has: 8 lanes as two registers of 4, of which there are 32.
//!
//! Base Armv8-A converts 16-bit IEEE floats; nothing here asks for an extension (FP16 arithmetic, BF16, products of bytes).

use super::Simd;
use std::arch::aarch64::*;
use std::arch::asm;

/// NEON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neon;

/// Lanes 0 to 3, and 4 to 7.
type Floats = (float32x4_t, float32x4_t);
type Words = (uint32x4_t, uint32x4_t);

/// For 8 fields of `bits` bits, the two bytes that each takes from the stream, and how far these are then shifted (to the
/// left, so by less than nothing).
struct Placement {
    bytes: [u8; 16],
    shifts: [i16; 8],
}

impl Placement {
    #[expect(clippy::cast_possible_truncation, reason = "positions within 8 bytes")]
    const fn new(bits: u32) -> Self {
        let mut bytes = [0; 16];
        let mut shifts = [0; 8];
        let mut lane = 0;
        while lane < 8 {
            let bit = lane as u32 * bits;
            bytes[lane * 2] = (bit / 8) as u8;
            // Behind the last byte of the stream there are zeros.
            bytes[lane * 2 + 1] = (bit / 8 + 1) as u8;
            shifts[lane] = -((bit % 8) as i16);
            lane += 1;
        }
        Self { bytes, shifts }
    }
}

struct PlacementOf<const BITS: u32>;
impl<const BITS: u32> PlacementOf<BITS> {
    const PLACEMENT: Placement = Placement::new(BITS);
}

impl Simd for Neon {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    type F = Floats;
    type W = Words;
    type Table = uint8x16x4_t;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Floats {
        unsafe { (vdupq_n_f32(value), vdupq_n_f32(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Floats {
        unsafe { (vld1q_f32(from), vld1q_f32(from.add(4))) }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Floats {
        unsafe {
            let mut floats = [0.0_f32; 8];
            std::ptr::copy_nonoverlapping(from, floats.as_mut_ptr(), count.min(8));
            Self::load(floats.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Floats {
        unsafe {
            let halves = vld1q_u16(from);
            (
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(halves))),
                vreinterpretq_f32_u32(vshll_high_n_u16::<16>(halves)),
            )
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Floats {
        unsafe {
            let halves = vreinterpretq_f16_u16(vld1q_u16(from));
            (vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves))
        }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Floats) {
        unsafe {
            vst1q_f32(to, value.0);
            vst1q_f32(to.add(4), value.1);
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, value: Floats) {
        unsafe {
            let low = vshrn_n_u32::<16>(rounded_to_bf16(value.0));
            vst1q_u16(to, vshrn_high_n_u32::<16>(low, rounded_to_bf16(value.1)));
        }
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, value: Floats) {
        unsafe {
            let halves = vcvt_high_f16_f32(vcvt_f16_f32(value.0), value.1);
            vst1q_u16(to, vreinterpretq_u16_f16(halves));
        }
    }
    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        unsafe { (vaddq_f32(a.0, b.0), vaddq_f32(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn mul(a: Floats, b: Floats) -> Floats {
        unsafe { (vmulq_f32(a.0, b.0), vmulq_f32(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn div(a: Floats, b: Floats) -> Floats {
        unsafe { (vdivq_f32(a.0, b.0), vdivq_f32(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn max(a: Floats, b: Floats) -> Floats {
        // The instructions for it would give what is not a number, wherever it stands.
        unsafe { (vbslq_f32(vcgtq_f32(a.0, b.0), a.0, b.0), vbslq_f32(vcgtq_f32(a.1, b.1), a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn min(a: Floats, b: Floats) -> Floats {
        unsafe { (vbslq_f32(vcltq_f32(a.0, b.0), a.0, b.0), vbslq_f32(vcltq_f32(a.1, b.1), a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn fma(a: Floats, b: Floats, c: Floats) -> Floats {
        unsafe { (vfmaq_f32(c.0, a.0, b.0), vfmaq_f32(c.1, a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn round(a: Floats) -> Floats {
        unsafe { (vrndnq_f32(a.0), vrndnq_f32(a.1)) }
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: Floats, n: Floats) -> Floats {
        unsafe { (vmulq_f32(a.0, power(n.0)), vmulq_f32(a.1, power(n.1))) }
    }
    #[inline(always)]
    unsafe fn sum(a: Floats) -> f32 {
        unsafe {
            let four = vaddq_f32(a.0, a.1);
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }
    #[inline(always)]
    unsafe fn load_words(from: *const u32) -> Words {
        // As bytes, since words of packed weights need not be aligned.
        unsafe {
            let bytes = from.cast::<u8>();
            (vreinterpretq_u32_u8(vld1q_u8(bytes)), vreinterpretq_u32_u8(vld1q_u8(bytes.add(16))))
        }
    }
    #[inline(always)]
    unsafe fn load_words_partial(from: *const u32, count: usize) -> Words {
        unsafe {
            let mut words = [0_u32; 8];
            let bytes = 4 * count.min(8);
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), words.as_mut_ptr().cast::<u8>(), bytes);
            Self::load_words(words.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn shift<const BITS: u32>(word: Words) -> Words {
        // A shift by a register: the immediate form takes a constant of another type.
        unsafe {
            let left = vdupq_n_s32(-BITS.cast_signed());
            (vshlq_u32(word.0, left), vshlq_u32(word.1, left))
        }
    }
    #[inline(always)]
    unsafe fn low<const BITS: u32>(word: Words) -> Floats {
        unsafe {
            let mask = vdupq_n_u32((1 << BITS) - 1);
            (vcvtq_f32_u32(vandq_u32(word.0, mask)), vcvtq_f32_u32(vandq_u32(word.1, mask)))
        }
    }
    #[inline(always)]
    unsafe fn fields<const BITS: u32>(from: *const u8) -> Words {
        unsafe {
            let mut bytes = [0_u8; 8];
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), BITS as usize);
            let stream = vld1_u8(bytes.as_ptr());
            let halves = if BITS == 8 {
                vmovl_u8(stream)
            } else {
                let placement = &PlacementOf::<BITS>::PLACEMENT;
                let stream = vcombine_u8(stream, vdup_n_u8(0));
                let placed = vreinterpretq_u16_u8(vqtbl1q_u8(stream, vld1q_u8(placement.bytes.as_ptr())));
                let shifted = vshlq_u16(placed, vld1q_s16(placement.shifts.as_ptr()));
                vandq_u16(shifted, vdupq_n_u16((1 << BITS) - 1))
            };
            (vmovl_u16(vget_low_u16(halves)), vmovl_high_u16(halves))
        }
    }
    #[inline(always)]
    unsafe fn to_floats(word: Words) -> Floats {
        unsafe { (vcvtq_f32_u32(word.0), vcvtq_f32_u32(word.1)) }
    }
    #[inline(always)]
    unsafe fn table(values: &[f32; 16]) -> uint8x16x4_t {
        unsafe {
            let part = |from: usize| vreinterpretq_u8_f32(vld1q_f32(values.as_ptr().add(from)));
            uint8x16x4_t(part(0), part(4), part(8), part(12))
        }
    }
    #[inline(always)]
    unsafe fn lookup(table: uint8x16x4_t, word: Words) -> Floats {
        unsafe {
            let one = |word: uint32x4_t| {
                let index = vandq_u32(word, vdupq_n_u32(15));
                vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(bytes_of_floats(index))))
            };
            (one(word.0), one(word.1))
        }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: it may change the caches, and nothing else.
        unsafe { asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) }
    }
    #[inline(always)]
    unsafe fn indices(of: &[u32; 16]) -> Words {
        unsafe {
            let words = Self::load_words(of.as_ptr());
            (bytes_of_floats(words.0), bytes_of_floats(words.1))
        }
    }
    #[inline(always)]
    unsafe fn pick(from: *const f32, indices: Words) -> Floats {
        unsafe {
            let floats = Self::load(from);
            let table = uint8x16x2_t(vreinterpretq_u8_f32(floats.0), vreinterpretq_u8_f32(floats.1));
            let one =
                |bytes: uint32x4_t| vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(bytes)));
            (one(indices.0), one(indices.1))
        }
    }
}

/// Rounded to the upper 16 bits, ties to even. What is not a number keeps them, made quiet: rounding could carry it into
/// another value.
#[inline(always)]
unsafe fn rounded_to_bf16(value: float32x4_t) -> uint32x4_t {
    unsafe {
        let bits = vreinterpretq_u32_f32(value);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x0040_0000));
        vbslq_u32(vceqq_f32(value, value), rounded, quiet)
    }
}

/// `2ⁿ`.
#[inline(always)]
unsafe fn power(n: float32x4_t) -> float32x4_t {
    unsafe {
        let exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
        vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
    }
}

/// Where the four bytes of a table's float number `index` lie, for indices below 64.
#[inline(always)]
unsafe fn bytes_of_floats(index: uint32x4_t) -> uint32x4_t {
    unsafe { vmlaq_u32(vdupq_n_u32(0x0302_0100), index, vdupq_n_u32(0x0404_0404)) }
}
