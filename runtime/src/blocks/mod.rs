//! The layers that architectures are made of, each in one file. What is particular to one architecture stays in its
//! file under `models/`.

pub(crate) mod attention;
pub(crate) mod embedding;
pub(crate) mod linear;
pub(crate) mod mlp;
pub(crate) mod parallel;
pub(crate) mod pre_norm_decoder;
pub(crate) mod rms_norm;
pub(crate) mod rope;

use crate::version::Backend;
use std::sync::OnceLock;

/// Whether MLX computes on the processor; asked once.
fn on_cpu() -> bool {
    static ON_CPU: OnceLock<bool> = OnceLock::new();
    *ON_CPU.get_or_init(|| Backend::current() == Backend::Cpu)
}
