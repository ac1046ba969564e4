//! NVIDIA GPUs: what driver and libraries say of themselves, and our own kernels, which MLX compiles at run time.
//!
//! A kernel is CUDA C++ in a `.cu` file, included here as text. They serve what decoding consists of, products of one row,
//! and its attention; for everything else the caller takes MLX's own operation. See
//! `docs/decisions/0005-products-of-one-row-on-cuda.md`.

mod attention;
pub(crate) mod facts;
mod operation;
mod row_product;
mod text;
pub mod trial;

pub(crate) use attention::attention;
pub(crate) use row_product::RowProduct;
