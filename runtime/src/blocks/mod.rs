//! The layers that architectures are made of, each in one file. What is particular to one architecture stays in its
//! file under `models/`.

pub(crate) mod attention;
pub(crate) mod embedding;
pub(crate) mod linear;
pub(crate) mod mlp;
pub(crate) mod pre_norm_decoder;
pub(crate) mod rms_norm;
pub(crate) mod rope;
