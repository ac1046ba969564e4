//! AVX-512: 16 lanes, 32 registers.

use super::Simd;
use std::arch::x86_64::*;

/// AVX-512 F, BW, DQ, VL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512;

/// The value of an index's lowest two bits, four times over, so that a lookup by four bits needs no mask.
const TWO_BITS: [f32; 16] = [0., 1., 2., 3., 0., 1., 2., 3., 0., 1., 2., 3., 0., 1., 2., 3.];
const FOUR_BITS: [f32; 16] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

/// For 16 fields of `bits` bits, the two bytes that each field's word takes from the stream (the upper two bytes are
/// zero), and how far it is then shifted.
struct Placement {
    bytes: [u8; 64],
    shifts: [u32; 16],
}

impl Placement {
    #[expect(clippy::cast_possible_truncation, reason = "positions within 16 bytes")]
    const fn new(bits: u32) -> Self {
        let mut bytes = [0x80; 64];
        let mut shifts = [0; 16];
        let mut lane = 0;
        while lane < 16 {
            let bit = lane as u32 * bits;
            bytes[lane * 4] = (bit / 8) as u8;
            // The sixteenth byte is the last one that can be taken.
            if bit / 8 < 15 {
                bytes[lane * 4 + 1] = (bit / 8 + 1) as u8;
            }
            shifts[lane] = bit % 8;
            lane += 1;
        }
        Self { bytes, shifts }
    }
}

struct PlacementOf<const BITS: u32>;
impl<const BITS: u32> PlacementOf<BITS> {
    const PLACEMENT: Placement = Placement::new(BITS);
}
impl Simd for Avx512 {
    const LANES: usize = 16;
    const TILE_ROWS: usize = 12;
    type F = __m512;
    type W = __m512i;
    type Table = __m512;

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(first(count), from) }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> __m512 {
        unsafe {
            let halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(halves))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: __m512) {
        unsafe { _mm512_storeu_ps(to, value) }
    }
    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, value: __m512) {
        unsafe {
            let bits = _mm512_castps_si512(value);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            // Rounding could carry a NaN into another value: those keep their upper half, made quiet.
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
            let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040_0000));
            let bits = _mm512_mask_mov_epi32(rounded, nan, quiet);
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(bits)));
        }
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, value: __m512) {
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value)) }
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512 {
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m512, n: __m512) -> __m512 {
        unsafe { _mm512_scalef_ps(a, n) }
    }
    #[inline(always)]
    unsafe fn sum(a: __m512) -> f32 {
        unsafe { _mm512_reduce_add_ps(a) }
    }
    #[inline(always)]
    unsafe fn load_words(from: *const u32) -> __m512i {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_words_partial(from: *const u32, count: usize) -> __m512i {
        unsafe { _mm512_maskz_loadu_epi32(first(count), from.cast()) }
    }
    #[inline(always)]
    unsafe fn shift<const BITS: u32>(word: __m512i) -> __m512i {
        unsafe { _mm512_srli_epi32::<BITS>(word) }
    }
    #[inline(always)]
    unsafe fn low<const BITS: u32>(word: __m512i) -> __m512 {
        unsafe {
            match BITS {
                2 => _mm512_permutexvar_ps(word, _mm512_loadu_ps(TWO_BITS.as_ptr())),
                4 => _mm512_permutexvar_ps(word, _mm512_loadu_ps(FOUR_BITS.as_ptr())),
                _ => _mm512_cvtepi32_ps(_mm512_and_si512(word, mask(BITS))),
            }
        }
    }
    #[inline(always)]
    unsafe fn fields<const BITS: u32>(from: *const u8) -> __m512i {
        unsafe {
            if BITS == 8 {
                return _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()));
            }
            let placement = &PlacementOf::<BITS>::PLACEMENT;
            // Only the bytes of these fields: what follows may lie outside the array.
            let stream = _mm_maskz_loadu_epi8(first(2 * BITS as usize), from.cast());
            let placed = _mm512_shuffle_epi8(
                _mm512_broadcast_i32x4(stream),
                _mm512_loadu_si512(placement.bytes.as_ptr().cast()),
            );
            let shifted = _mm512_srlv_epi32(placed, _mm512_loadu_si512(placement.shifts.as_ptr().cast()));
            _mm512_and_si512(shifted, mask(BITS))
        }
    }
    #[inline(always)]
    unsafe fn to_floats(word: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(word) }
    }
    #[inline(always)]
    unsafe fn table(values: &[f32; 16]) -> __m512 {
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn lookup(table: __m512, word: __m512i) -> __m512 {
        unsafe { _mm512_permutexvar_ps(word, table) }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn indices(of: &[u32; 16]) -> __m512i {
        unsafe { _mm512_loadu_si512(of.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn pick(from: *const f32, indices: __m512i) -> __m512 {
        unsafe { _mm512_permutexvar_ps(indices, _mm512_loadu_ps(from)) }
    }
}

/// A mask of the first `count` lanes, at most 16.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "16 bits hold every case")]
const fn first(count: usize) -> u16 {
    ((1_u32 << count) - 1) as u16
}

#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "at most 8 bits")]
unsafe fn mask(bits: u32) -> __m512i {
    unsafe { _mm512_set1_epi32(((1_u32 << bits) - 1) as i32) }
}
