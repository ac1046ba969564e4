//! Array operations that `mlx-rs` has no binding for, or none with the options needed here.
//!
//! The only part of this crate that calls MLX's C interface itself; everything above it is safe code.

pub(crate) mod mlx;
