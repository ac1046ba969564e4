//! The 256-element block formats Q2_K to Q6_K, one block at a time.
//!
//! A block has one or two `f16` factors, a small scale (and minimum) for each group of 16 or 32 elements, and the codes
//! with their bits spread over several planes. Layouts: `block_q*_K` in ggml's `ggml-common.h`.

use super::dequantize::half;

/// Q2_K: 16 bytes of scale and minimum nibbles, 64 bytes of 2-bit codes, factor, factor of the minimums.
pub(super) fn q2(block: &[u8; 84], out: &mut Vec<f32>) {
    let factor = half([block[80], block[81]]);
    let minimum_factor = half([block[82], block[83]]);
    for element in 0..256 {
        let scales = block[element / 16];
        let (half_block, within) = (element / 128, element % 128);
        let code = (block[16 + half_block * 32 + within % 32] >> (within / 32 * 2)) & 3;
        let scale = factor * f32::from(scales & 0x0f);
        let minimum = minimum_factor * f32::from(scales >> 4);
        out.push(scale * f32::from(code) - minimum);
    }
}

/// Q3_K: 32 bytes of third bits (0 means minus 4), 64 bytes of 2-bit codes, 12 bytes of 6-bit scales, factor.
pub(super) fn q3(block: &[u8; 110], out: &mut Vec<f32>) {
    let factor = half([block[108], block[109]]);
    let packed_scales = &block[96..108];
    for element in 0..256 {
        let group = element / 16;
        let low = packed_scales[group % 8] >> (group / 8 * 4) & 0x0f;
        let high = packed_scales[8 + group % 4] >> (group / 4 * 2) & 3;
        let scale = factor * (f32::from(low | high << 4) - 32.0);
        let (half_block, within) = (element / 128, element % 128);
        let low = (block[32 + half_block * 32 + within % 32] >> (within / 32 * 2)) & 3;
        let high = (block[within % 32] >> (element / 32)) & 1;
        out.push(scale * (f32::from(low) - if high == 1 { 0.0 } else { 4.0 }));
    }
}

/// The 6-bit scale and minimum of each of the eight groups of a Q4_K or Q5_K block.
fn scales_and_minimums(packed: &[u8]) -> [(f32, f32); 8] {
    std::array::from_fn(|group| {
        let (scale, minimum) = if group < 4 {
            (packed[group] & 0x3f, packed[group + 4] & 0x3f)
        } else {
            let low = packed[group + 4];
            ((low & 0x0f) | (packed[group - 4] >> 6 << 4), (low >> 4) | (packed[group] >> 6 << 4))
        };
        (f32::from(scale), f32::from(minimum))
    })
}

/// Q4_K: factor, factor of the minimums, 12 bytes of scales and minimums, 128 bytes of codes.
pub(super) fn q4(block: &[u8; 144], out: &mut Vec<f32>) {
    let (factor, minimum_factor) = (half([block[0], block[1]]), half([block[2], block[3]]));
    for (group, (scale, minimum)) in scales_and_minimums(&block[4..16]).into_iter().enumerate() {
        let (scale, minimum) = (factor * scale, minimum_factor * minimum);
        let codes = &block[16 + group / 2 * 32..][..32];
        out.extend(codes.iter().map(|byte| scale * f32::from((byte >> (group % 2 * 4)) & 0x0f) - minimum));
    }
}

/// Q5_K: as Q4_K, with 32 bytes of fifth bits before the codes.
pub(super) fn q5(block: &[u8; 176], out: &mut Vec<f32>) {
    let (factor, minimum_factor) = (half([block[0], block[1]]), half([block[2], block[3]]));
    for (group, (scale, minimum)) in scales_and_minimums(&block[4..16]).into_iter().enumerate() {
        let (scale, minimum) = (factor * scale, minimum_factor * minimum);
        let codes = &block[48 + group / 2 * 32..][..32];
        out.extend(codes.iter().zip(&block[16..48]).map(|(low, high)| {
            let code = (low >> (group % 2 * 4)) & 0x0f | ((high >> group) & 1) << 4;
            scale * f32::from(code) - minimum
        }));
    }
}

/// Q6_K: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, factor.
pub(super) fn q6(block: &[u8; 210], out: &mut Vec<f32>) {
    let factor = half([block[208], block[209]]);
    for element in 0..256 {
        let (half_block, within) = (element / 128, element % 128);
        let low = (block[half_block * 64 + within % 64] >> (within / 64 * 4)) & 0x0f;
        let high = (block[128 + half_block * 32 + within % 32] >> (within / 32 * 2)) & 3;
        let scale = factor * f32::from(block[192 + element / 16].cast_signed());
        out.push(scale * (f32::from(low | high << 4) - 32.0));
    }
}
