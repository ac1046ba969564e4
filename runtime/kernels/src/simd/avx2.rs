//! AVX2 with FMA and F16C: 8 lanes, 16 registers.

use super::Simd;
use std::arch::x86_64::*;

/// AVX2, FMA, F16C.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2;

/// As for AVX-512: two bytes of the stream for each of 8 fields, and a shift. The stream's 8 bytes stand in both halves
/// of the register.
struct Placement {
    bytes: [u8; 32],
    shifts: [u32; 8],
}

impl Placement {
    #[expect(clippy::cast_possible_truncation, reason = "positions within 8 bytes")]
    const fn new(bits: u32) -> Self {
        let mut bytes = [0x80; 32];
        let mut shifts = [0; 8];
        let mut lane = 0;
        while lane < 8 {
            let bit = lane as u32 * bits;
            bytes[lane * 4] = (bit / 8) as u8;
            bytes[lane * 4 + 1] = (bit / 8 + 1) as u8;
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
impl Simd for Avx2 {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;
    type F = __m256;
    type W = __m256i;
    type Table = (__m256, __m256);

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m256 {
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> __m256 {
        unsafe {
            let mut floats = [0.0_f32; 8];
            std::ptr::copy_nonoverlapping(from, floats.as_mut_ptr(), count.min(8));
            Self::load(floats.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> __m256 {
        unsafe {
            let halves = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(halves))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: __m256) {
        unsafe { _mm256_storeu_ps(to, value) }
    }
    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, value: __m256) {
        unsafe {
            let bits = _mm256_castps_si256(value);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
            let bits = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
            let packed = _mm256_packus_epi32(bits, bits);
            let packed = _mm256_permute4x64_epi64::<0b1000>(packed);
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, value: __m256) {
        unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value)) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256 {
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m256, n: __m256) -> __m256 {
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        }
    }
    #[inline(always)]
    unsafe fn sum(a: __m256) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    unsafe fn load_words(from: *const u32) -> __m256i {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_words_partial(from: *const u32, count: usize) -> __m256i {
        unsafe {
            let mut words = [0_u32; 8];
            std::ptr::copy_nonoverlapping(from, words.as_mut_ptr(), count.min(8));
            Self::load_words(words.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn shift<const BITS: u32>(word: __m256i) -> __m256i {
        // A shift by a register: the immediate form takes a constant of another type.
        unsafe { _mm256_srlv_epi32(word, _mm256_set1_epi32(BITS.cast_signed())) }
    }
    #[inline(always)]
    unsafe fn low<const BITS: u32>(word: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_and_si256(word, mask(BITS))) }
    }
    #[inline(always)]
    unsafe fn fields<const BITS: u32>(from: *const u8) -> __m256i {
        unsafe {
            let mut bytes = [0_u8; 8];
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), BITS as usize);
            let stream = i64::from_le_bytes(bytes);
            if BITS == 8 {
                return _mm256_cvtepu8_epi32(_mm_set_epi64x(0, stream));
            }
            let placement = &PlacementOf::<BITS>::PLACEMENT;
            let placed = _mm256_shuffle_epi8(
                _mm256_set1_epi64x(stream),
                _mm256_loadu_si256(placement.bytes.as_ptr().cast()),
            );
            let shifted = _mm256_srlv_epi32(placed, _mm256_loadu_si256(placement.shifts.as_ptr().cast()));
            _mm256_and_si256(shifted, mask(BITS))
        }
    }
    #[inline(always)]
    unsafe fn to_floats(word: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(word) }
    }
    #[inline(always)]
    unsafe fn table(values: &[f32; 16]) -> (__m256, __m256) {
        unsafe { (_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(8))) }
    }
    #[inline(always)]
    unsafe fn lookup(table: (__m256, __m256), word: __m256i) -> __m256 {
        unsafe {
            let low = _mm256_permutevar8x32_ps(table.0, word);
            let high = _mm256_permutevar8x32_ps(table.1, word);
            // The fourth bit, moved to the sign, chooses the half.
            _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(word)))
        }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn indices(of: &[u32; 16]) -> __m256i {
        unsafe { _mm256_loadu_si256(of.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn pick(from: *const f32, indices: __m256i) -> __m256 {
        unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), indices) }
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "at most 8 bits")]
unsafe fn mask(bits: u32) -> __m256i {
    unsafe { _mm256_set1_epi32(((1_u32 << bits) - 1) as i32) }
}
