//! The data types of activations, weights and scales, and their conversion to and from 32-bit floats.

use crate::simd::Simd;
use half::{bf16, f16};

/// A floating-point data type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// 16-bit IEEE floats.
    F16,
    /// 16-bit brain floats.
    Bf16,
}

impl Dtype {
    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// A data type known at compile time.
pub(crate) trait Element: Copy + 'static {
    /// How it lies in memory.
    type Bits: Copy;

    /// `S::LANES` elements.
    ///
    /// # Safety
    /// The processor has `S`, and `from` is good for `S::LANES` elements.
    unsafe fn load<S: Simd>(from: *const Self::Bits) -> S::F;
    /// # Safety
    /// The processor has `S`, and `to` is good for `S::LANES` elements.
    unsafe fn store<S: Simd>(to: *mut Self::Bits, value: S::F);
    /// One element.
    fn to_f32(bits: Self::Bits) -> f32;
    /// One element, rounded to nearest.
    fn from_f32(value: f32) -> Self::Bits;
}

macro_rules! element {
    ($name:ident, $bits:ty, $load:ident, $store:ident, $to:expr, $from:expr) => {
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name;
        impl Element for $name {
            type Bits = $bits;
            #[inline(always)]
            unsafe fn load<S: Simd>(from: *const $bits) -> S::F {
                // SAFETY: as the trait asks.
                unsafe { S::$load(from) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(to: *mut $bits, value: S::F) {
                // SAFETY: as the trait asks.
                unsafe { S::$store(to, value) }
            }
            #[inline(always)]
            fn to_f32(bits: $bits) -> f32 {
                ($to)(bits)
            }
            #[inline(always)]
            fn from_f32(value: f32) -> $bits {
                ($from)(value)
            }
        }
    };
}

element!(F32, f32, load, store, |value| value, |value| value);
element!(F16, u16, load_f16, store_f16, |bits| f16::from_bits(bits).to_f32(), |value| f16::from_f32(value)
    .to_bits());
element!(Bf16, u16, load_bf16, store_bf16, |bits| f32::from_bits(u32::from(bits) << 16), |value| {
    bf16::from_f32(value).to_bits()
});

/// Calls a function or builds an expression with `$type` standing for the element type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            $crate::element::Dtype::F32 => {
                type $type = $crate::element::F32;
                $body
            }
            $crate::element::Dtype::F16 => {
                type $type = $crate::element::F16;
                $body
            }
            $crate::element::Dtype::Bf16 => {
                type $type = $crate::element::Bf16;
                $body
            }
        }
    };
}
pub(crate) use with_element;

/// `count` elements as floats.
///
/// # Safety
/// The processor has `S`; both pointers are good for `count` elements.
#[inline(always)]
pub(crate) unsafe fn widen<S: Simd, E: Element>(from: *const E::Bits, to: *mut f32, count: usize) {
    let whole = count - count % S::LANES;
    // SAFETY: whole vectors, then the rest one by one, all below `count`.
    unsafe {
        for index in (0..whole).step_by(S::LANES) {
            S::store(to.add(index), E::load::<S>(from.add(index)));
        }
        for index in whole..count {
            *to.add(index) = E::to_f32(*from.add(index));
        }
    }
}
