//! The arithmetic of language models on a processor: products with quantized and dense weights, attention, and what
//! stands between them.
//!
//! Kernels work on memory that their caller vouches for, take their instruction set and threads as an argument
//! ([`Means`]), and know nothing of MLX: turning arrays into arguments is the caller's part.
#![allow(unsafe_code, reason = "kernels are what this crate is for")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "in a kernel compiled for an instruction set, every line stands on the contract of `Simd` and of the kernel"
)]
#![allow(clippy::inline_always, reason = "code is compiled for an instruction set only where it is inlined")]
#![allow(
    clippy::cast_ptr_alignment,
    reason = "whoever hands memory over vouches for its alignment; words of packed weights are read unaligned"
)]
#![allow(clippy::wildcard_imports, reason = "the intrinsics of an instruction set are one vocabulary")]
#![allow(clippy::struct_field_names, reason = "an array of heads has heads, a table of rows has rows")]
#![allow(clippy::needless_range_loop, reason = "an index that walks several arrays at once")]
#![allow(clippy::similar_names, reason = "gate and gates, weight and weights are different things here")]
#![allow(clippy::many_single_char_names, reason = "m, n, k, x, w are the names of the field")]

mod attention;
mod blocked;
mod dense;
mod element;
mod layer;
mod pieces;
mod pool;
mod product;
mod quantized;
mod row_wise;
mod scratch;
mod share;
mod simd;

pub use attention::{Heads, Sight, attention};
pub use element::Dtype;
pub use layer::{HeadsOf, HeadsOutput, Norm, Projection, attention_inputs, attention_output, gated_mlp};
pub use pool::Pool;
pub use product::{Addend, DenseWeight, Means, Output, Rows, SMALL_ROWS, Weight, Width, products};
pub use quantized::{QuantizedWeight, Scheme};
pub use row_wise::{Gate, HeadRows, Rotation, gated, rms_norm, rope};
pub use simd::Isa;
