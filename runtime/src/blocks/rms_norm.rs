//! Root-mean-square normalization over the last axis.

use crate::kernels::cpu::{self, NormArrays};
use crate::kernels::mlx::Result;
use mlx_rs::{Array, fast};

/// `x / sqrt(mean(x²) + eps) · weight`.
#[derive(Debug)]
pub(crate) struct RmsNorm {
    weight: Array,
    eps: f32,
}

impl RmsNorm {
    pub(crate) fn new(weight: Array, eps: f32) -> Self {
        Self { weight, eps }
    }

    /// Its array, for kernels that take in more than this norm.
    pub(crate) fn arrays(&self) -> NormArrays<'_> {
        NormArrays { weight: &self.weight, eps: self.eps }
    }

    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        match cpu::rms_norm(x, &self.weight, self.eps)? {
            Some(normed) => Ok(normed),
            None => fast::rms_norm(x, Some(&self.weight), self.eps),
        }
    }
}
