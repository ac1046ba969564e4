//! Repacks 32-element GGUF blocks into MLX's affine packing without changing a value.
//!
//! An affine group of MLX is `scale * code + bias`. Q4_1 and Q5_1 are that already; Q4_0, Q5_0 and Q8_0 store codes
//! around zero, so the bias is the scale times the smallest code. That product shifts the exponent only, so `f16`
//! holds it exactly unless it overflows. Codes become a stream of `bits` each, element 0 in the lowest bits of the
//! first byte, which is MLX's `u32` words stored little-endian.

use half::f16;

use super::block_type::BlockType;
use super::dequantize::{five_bit_codes, nibbles};

/// Elements of a group, in every format that can be repacked.
pub const GROUP_SIZE: u32 = 32;

/// A row or more in MLX's form.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Repacked {
    /// The packed codes, `bits * 4` bytes a group.
    pub codes: Vec<u8>,
    /// One scale a group.
    pub scales: Vec<f32>,
    /// One bias a group.
    pub biases: Vec<f32>,
}

/// Bits of a code in MLX's packing of the type; `None` when the type cannot be repacked exactly.
pub const fn repacked_bits(block_type: BlockType) -> Option<u32> {
    match block_type {
        BlockType::Q4_0 | BlockType::Q4_1 => Some(4),
        BlockType::Q5_0 | BlockType::Q5_1 => Some(5),
        BlockType::Q8_0 => Some(8),
        _ => None,
    }
}

/// Repacks `bytes`, a whole number of blocks, in place of what `out` held. Returns false, with `out` empty, when the
/// type cannot be repacked.
pub fn repack(block_type: BlockType, bytes: &[u8], out: &mut Repacked) -> bool {
    out.codes.clear();
    out.scales.clear();
    out.biases.clear();
    match block_type {
        BlockType::Q4_0 => {
            for block in bytes.as_chunks::<18>().0 {
                let scale = stored([block[0], block[1]]);
                out.push(scale, scale * -8.0, nibbles(&block[2..]), 4);
            }
        }
        BlockType::Q4_1 => {
            for block in bytes.as_chunks::<20>().0 {
                let (scale, bias) = (stored([block[0], block[1]]), stored([block[2], block[3]]));
                out.push(scale, bias, nibbles(&block[4..]), 4);
            }
        }
        BlockType::Q5_0 => {
            for block in bytes.as_chunks::<22>().0 {
                let scale = stored([block[0], block[1]]);
                let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
                out.push(scale, scale * -16.0, five_bit_codes(high, &block[6..]), 5);
            }
        }
        BlockType::Q5_1 => {
            for block in bytes.as_chunks::<24>().0 {
                let (scale, bias) = (stored([block[0], block[1]]), stored([block[2], block[3]]));
                let high = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
                out.push(scale, bias, five_bit_codes(high, &block[8..]), 5);
            }
        }
        BlockType::Q8_0 => {
            for block in bytes.as_chunks::<34>().0 {
                let scale = stored([block[0], block[1]]);
                out.push(scale, scale * -128.0, block[2..].iter().map(|code| code ^ 0x80), 8);
            }
        }
        _ => return false,
    }
    true
}

fn stored(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

impl Repacked {
    fn push(&mut self, scale: f32, bias: f32, codes: impl Iterator<Item = u8>, width: u32) {
        self.scales.push(scale);
        self.biases.push(bias);
        let (mut pending, mut held) = (0_u32, 0_u32);
        for code in codes {
            pending |= u32::from(code) << held;
            held += width;
            while held >= 8 {
                self.codes.push(pending.to_le_bytes()[0]);
                pending >>= 8;
                held -= 8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::gguf::dequantize::dequantize;

    /// MLX's affine dequantization, written from its definition: the bit stream read bit by bit.
    fn affine(packed: &Repacked, bits: usize) -> Vec<f32> {
        let bit = |at: usize| u32::from(packed.codes[at / 8] >> (at % 8) & 1);
        (0..packed.scales.len() * GROUP_SIZE as usize)
            .map(|element| {
                let code: u32 = (0..bits).map(|place| bit(element * bits + place) << place).sum();
                let group = element / GROUP_SIZE as usize;
                packed.scales[group] * code as f32 + packed.biases[group]
            })
            .collect()
    }

    #[test]
    fn every_repackable_type_keeps_every_value() {
        for &block_type in BlockType::ALL {
            let Some(bits) = repacked_bits(block_type) else {
                assert!(!repack(block_type, &[0; 512], &mut Repacked::default()));
                continue;
            };
            // Bytes of a fixed sequence; the scales (first 2 or 4 bytes) are forced to ordinary finite values.
            let mut bytes: Vec<u8> =
                (0..block_type.block_bytes() * 64).map(|at| (at * 151 + at / 7).to_le_bytes()[0]).collect();
            for (number, block) in bytes.chunks_exact_mut(block_type.block_bytes()).enumerate() {
                block[1] = 0x20 | (number % 16).to_le_bytes()[0];
                if matches!(block_type, BlockType::Q4_1 | BlockType::Q5_1) {
                    block[3] = 0xa0 | (number % 13).to_le_bytes()[0];
                }
            }
            let mut packed = Repacked::default();
            assert!(repack(block_type, &bytes, &mut packed));
            assert_eq!(packed.codes.len(), 64 * bits as usize * 4, "{block_type}");
            let mut expected = Vec::new();
            dequantize(block_type, &bytes, &mut expected);
            assert_eq!(affine(&packed, bits as usize), expected, "{block_type}");
        }
    }
}
