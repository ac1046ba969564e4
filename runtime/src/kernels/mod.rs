//! Array operations below the level of `mlx-rs`: what it has no binding for, or none with the options needed here, and our
//! own kernels.
//!
//! The only part of this crate that calls MLX's C interface itself; everything above it is safe code.

pub(crate) mod compiled;
pub mod cpu;
pub mod cuda;
pub(crate) mod mlx;
pub mod setting;
