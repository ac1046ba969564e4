//! Measurements of single operations: how fast a kernel is by itself, beside MLX's own and beside what the host can do.
//!
//! - [`rotation`] sees to it that weights come from memory and not from a cache.
//! - [`arms`] alternates two arms, A B B A, so that a host that gets slower or faster touches both alike.
//! - [`timer`] repeats until there is time and number enough.
//! - [`peaks`] finds out how fast this host reads memory and multiplies matrices, in the same run.
//! - [`load`] loads checkpoints beside reading their bytes.
//! - [`ops`] has one room for each operation.
//!
//! What a model makes of its kernels is measured by `sweep`, whose rows are what results are compared by; nothing here is
//! stored or compared.

pub mod arms;
mod columns;
pub mod load;
pub mod ops;
pub mod peaks;
pub mod rotation;
pub mod timer;
