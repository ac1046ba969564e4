//! The element and block types of GGUF tensors: their numbers, names and sizes.
//!
//! Source of the table: the GGUF specification and `GGML_QUANT_SIZES` of the Python package `gguf`.

use std::fmt;

macro_rules! block_types {
    ($($variant:ident, $number:literal, $name:literal, $elements:literal, $bytes:literal;)*) => {
        /// A tensor type that this converter can turn into `f32`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum BlockType {
            $(#[doc = concat!("`", $name, "`: ", $elements, " element(s) in ", $bytes, " bytes.")] $variant,)*
        }

        impl BlockType {
            /// Every supported type.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The type of a number found in a file, if it is a supported one.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// The type's number in a file.
            pub const fn number(self) -> u32 {
                match self { $(Self::$variant => $number),* }
            }

            /// The usual spelling.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Elements of one block.
            pub const fn block_elements(self) -> usize {
                match self { $(Self::$variant => $elements),* }
            }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> usize {
                match self { $(Self::$variant => $bytes),* }
            }
        }
    };
}

block_types! {
    F32, 0, "F32", 1, 4;
    F16, 1, "F16", 1, 2;
    Q4_0, 2, "Q4_0", 32, 18;
    Q4_1, 3, "Q4_1", 32, 20;
    Q5_0, 6, "Q5_0", 32, 22;
    Q5_1, 7, "Q5_1", 32, 24;
    Q8_0, 8, "Q8_0", 32, 34;
    Q2K, 10, "Q2_K", 256, 84;
    Q3K, 11, "Q3_K", 256, 110;
    Q4K, 12, "Q4_K", 256, 144;
    Q5K, 13, "Q5_K", 256, 176;
    Q6K, 14, "Q6_K", 256, 210;
    Bf16, 30, "BF16", 1, 2;
}

impl BlockType {
    /// Whether the elements are plain floating-point numbers.
    pub const fn is_float(self) -> bool {
        self.block_elements() == 1
    }

    /// Bytes of a row of `elements`; `None` when the row is no whole number of blocks or the size overflows.
    pub const fn row_bytes(self, elements: usize) -> Option<usize> {
        if !elements.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for BlockType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The name of a type number, for messages about types that are not supported.
pub fn number_name(number: u32) -> String {
    let name = match number {
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        40 => "NVFP4",
        _ => {
            return BlockType::from_number(number)
                .map_or_else(|| format!("type number {number}"), |t| t.to_string());
        }
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_agree_both_ways() {
        for &block_type in BlockType::ALL {
            assert_eq!(BlockType::from_number(block_type.number()), Some(block_type));
        }
        assert_eq!(BlockType::from_number(4), None);
        assert_eq!(number_name(20), "IQ4_NL");
        assert_eq!(number_name(12), "Q4_K");
        assert_eq!(number_name(77), "type number 77");
    }

    #[test]
    fn a_row_that_cuts_a_block_has_no_size() {
        assert_eq!(BlockType::Q4_1.row_bytes(64), Some(40));
        assert_eq!(BlockType::Q4_1.row_bytes(48), None);
        assert_eq!(BlockType::Q6K.row_bytes(0), Some(0));
        assert_eq!(BlockType::F32.row_bytes(usize::MAX), None);
    }
}
