//! What AVX-512 VNNI and VBMI add to AVX-512: products of bytes, and fields of a stream of bits.

use super::{Avx512, Dot};
use std::arch::x86_64::*;

/// For 64 fields of `bits` bits: the bytes that each eight of them take from the stream, to each eight bytes of a vector, and
/// at which bit of these each field begins.
struct Placement {
    bytes: [u8; 64],
    begins: [u8; 64],
}

struct PlacementOf<const BITS: u32>;

impl<const BITS: u32> PlacementOf<BITS> {
    #[expect(clippy::cast_possible_truncation, reason = "positions within 64 bytes")]
    const PLACEMENT: Placement = {
        let mut placement = Placement { bytes: [0; 64], begins: [0; 64] };
        let mut at = 0;
        while at < 64 {
            let (eight, index) = (at / 8, at % 8);
            // The stream has `BITS` bytes for eight fields; what stands behind them is not looked at.
            if index < BITS as usize {
                placement.bytes[at] = (eight * BITS as usize + index) as u8;
            }
            placement.begins[at] = (index * BITS as usize) as u8;
            at += 1;
        }
        placement
    };
}

impl Dot for Avx512 {
    #[inline(always)]
    unsafe fn zero() -> __m512i {
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, count: usize) -> __m512i {
        unsafe {
            if count >= 64 {
                _mm512_loadu_si512(from.cast())
            } else {
                _mm512_maskz_loadu_epi8((1_u64 << count) - 1, from.cast())
            }
        }
    }
    #[inline(always)]
    unsafe fn low_of_bytes<const BITS: u32>(bytes: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(bytes, low::<BITS>()) }
    }
    #[inline(always)]
    unsafe fn bytes_of_stream<const BITS: u32>(stream: __m512i) -> __m512i {
        unsafe {
            let placement = &PlacementOf::<BITS>::PLACEMENT;
            let bytes = _mm512_loadu_si512(placement.bytes.as_ptr().cast());
            let begins = _mm512_loadu_si512(placement.begins.as_ptr().cast());
            let fields = _mm512_multishift_epi64_epi8(begins, _mm512_permutexvar_epi8(bytes, stream));
            _mm512_and_si512(fields, low::<BITS>())
        }
    }
    #[inline(always)]
    unsafe fn byte_table(values: &[u8; 16]) -> __m512i {
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(values.as_ptr().cast())) }
    }
    #[inline(always)]
    unsafe fn lookup_bytes(table: __m512i, bytes: __m512i) -> __m512i {
        unsafe { _mm512_shuffle_epi8(table, bytes) }
    }
    #[inline(always)]
    unsafe fn dot(to: __m512i, unsigned: __m512i, signed: __m512i) -> __m512i {
        unsafe { _mm512_dpbusd_epi32(to, unsigned, signed) }
    }
    #[inline(always)]
    unsafe fn add_words(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn up_a_byte(words: __m512i) -> __m512i {
        unsafe { _mm512_slli_epi32::<8>(words) }
    }
    #[inline(always)]
    unsafe fn signed_to_floats(words: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(words) }
    }
}

/// The lowest `BITS` bits of every byte.
#[inline(always)]
unsafe fn low<const BITS: u32>() -> __m512i {
    unsafe { _mm512_set1_epi8((1_i8 << BITS) - 1) }
}
