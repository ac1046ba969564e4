//! Element types of safetensors files: their spelling and size.

use std::fmt;

macro_rules! dtypes {
    ($($variant:ident, $name:literal, $bytes:literal;)*) => {
        /// Element type of a tensor in a safetensors file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Dtype {
            $(#[doc = concat!("`", $name, "`, ", $bytes, " byte(s) an element.")] $variant,)*
        }

        impl Dtype {
            /// Every known element type.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The spelling used in safetensors headers.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Bytes of one element.
            pub const fn bytes(self) -> u64 {
                match self { $(Self::$variant => $bytes),* }
            }

            /// The element type that a header spells so, if it is a known one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

dtypes! {
    Bool, "BOOL", 1;
    U8, "U8", 1;
    I8, "I8", 1;
    F8E4M3, "F8_E4M3", 1;
    F8E5M2, "F8_E5M2", 1;
    F8E8M0, "F8_E8M0", 1;
    U16, "U16", 2;
    I16, "I16", 2;
    F16, "F16", 2;
    Bf16, "BF16", 2;
    U32, "U32", 4;
    I32, "I32", 4;
    F32, "F32", 4;
    U64, "U64", 8;
    I64, "I64", 8;
    F64, "F64", 8;
}

impl fmt::Display for Dtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
