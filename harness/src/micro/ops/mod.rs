//! The operations that can be measured by themselves.

pub mod qmm;
