//! Turns GGUF blocks into `f32`: the plain number types and the 32-element formats.
//!
//! The 256-element formats are in [`super::k_quants`]. The order of operations is that of the formats' definition in
//! ggml (as the Python package `gguf` carries it out), so that every value is the same to the last bit.

use half::{bf16, f16};

use super::block_type::BlockType;
use super::k_quants;

/// Appends the elements of `bytes`, a whole number of blocks of `block_type`, to `out`. Bytes after the last whole block
/// are ignored.
pub fn dequantize(block_type: BlockType, bytes: &[u8], out: &mut Vec<f32>) {
    out.reserve(bytes.len() / block_type.block_bytes() * block_type.block_elements());
    match block_type {
        BlockType::F32 => out.extend(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes))),
        BlockType::F16 => out.extend(bytes.as_chunks::<2>().0.iter().map(|&bytes| half(bytes))),
        BlockType::Bf16 => {
            out.extend(bytes.as_chunks::<2>().0.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()));
        }
        BlockType::Q4_0 => {
            for block in bytes.as_chunks::<18>().0 {
                let scale = half([block[0], block[1]]);
                out.extend(nibbles(&block[2..]).map(|code| scale * (f32::from(code) - 8.0)));
            }
        }
        BlockType::Q4_1 => {
            for block in bytes.as_chunks::<20>().0 {
                let (scale, minimum) = (half([block[0], block[1]]), half([block[2], block[3]]));
                out.extend(nibbles(&block[4..]).map(|code| scale * f32::from(code) + minimum));
            }
        }
        BlockType::Q5_0 => {
            for block in bytes.as_chunks::<22>().0 {
                let scale = half([block[0], block[1]]);
                let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
                out.extend(five_bit_codes(high, &block[6..]).map(|code| scale * (f32::from(code) - 16.0)));
            }
        }
        BlockType::Q5_1 => {
            for block in bytes.as_chunks::<24>().0 {
                let (scale, minimum) = (half([block[0], block[1]]), half([block[2], block[3]]));
                let high = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
                out.extend(five_bit_codes(high, &block[8..]).map(|code| scale * f32::from(code) + minimum));
            }
        }
        BlockType::Q8_0 => {
            for block in bytes.as_chunks::<34>().0 {
                let scale = half([block[0], block[1]]);
                out.extend(block[2..].iter().map(|code| scale * f32::from(code.cast_signed())));
            }
        }
        BlockType::Q2K => bytes.as_chunks::<84>().0.iter().for_each(|block| k_quants::q2(block, out)),
        BlockType::Q3K => bytes.as_chunks::<110>().0.iter().for_each(|block| k_quants::q3(block, out)),
        BlockType::Q4K => bytes.as_chunks::<144>().0.iter().for_each(|block| k_quants::q4(block, out)),
        BlockType::Q5K => bytes.as_chunks::<176>().0.iter().for_each(|block| k_quants::q5(block, out)),
        BlockType::Q6K => bytes.as_chunks::<210>().0.iter().for_each(|block| k_quants::q6(block, out)),
    }
}

/// An `f16` stored little-endian, as `f32`.
pub(super) fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// The 4-bit codes of a block in element order: all low halves first, then all high halves.
pub(super) fn nibbles(packed: &[u8]) -> impl Iterator<Item = u8> + '_ {
    packed.iter().map(|byte| byte & 0x0f).chain(packed.iter().map(|byte| byte >> 4))
}

/// The 5-bit codes of a block in element order: the fifth bits are in `high`, element 0 lowest.
pub(super) fn five_bit_codes(high: u32, packed: &[u8]) -> impl Iterator<Item = u8> + '_ {
    nibbles(packed).enumerate().map(move |(element, low)| low | (u8::from((high >> element) & 1 == 1) << 4))
}
