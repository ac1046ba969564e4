//! What this host can do at best, as far as this very run has seen: the rate at which its processor reads memory, and the
//! rate at which it multiplies matrices of f32.
//!
//! Memory is read plainly before and after the measurements ([`stream`]); the faster pass of all counts. The arithmetic
//! peak is the best product of the run: the host's portable kernel ([`gemm`]), our dense f32 product, MLX's, or a measured
//! row that was faster than all of these. So it is what was reached, not what the data sheet promises, and no share
//! exceeds 100 % of it.

use anyhow::Context as _;
use mlxcel::kernels::cpu::trial::{FloatType, Isa, ProductShape, ProductTrial, WeightForm, Width};
use serde::Serialize;
use std::time::Duration;

use super::timer::{Budget, block};
use crate::host::llc::LastLevelCache;
use crate::host::{gemm, stream};

/// Passes over memory, each time.
const PASSES: usize = 12;
/// The product that stands for the arithmetic peak: large enough for every core, small enough for their caches.
const SHAPE: ProductShape = ProductShape { m: 512, n: 1024, k: 512 };
/// How long it is repeated.
const TIME: Duration = Duration::from_millis(300);

/// A rate at which matrices were multiplied, and by what.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arithmetic {
    /// Multiplications and additions a second, in 10^9.
    pub gflop_per_s: f64,
    /// What multiplied.
    pub by: String,
}

/// Reading of memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// Fastest pass before the measurements, in 10^9 bytes a second.
    pub before_gb_per_s: f64,
    /// Fastest pass after them.
    pub after_gb_per_s: f64,
    /// Bytes of the buffer.
    pub buffer_bytes: u64,
    /// Threads.
    pub threads: usize,
}

impl Reading {
    /// What measured rates are held against.
    pub fn peak_gb_per_s(&self) -> f64 {
        self.before_gb_per_s.max(self.after_gb_per_s)
    }

    /// By how much the slower of the two lies below the faster, in percent.
    pub fn drift_pct(&self) -> f64 {
        100.0 * (1.0 - self.before_gb_per_s.min(self.after_gb_per_s) / self.peak_gb_per_s())
    }
}

/// Reads memory.
///
/// # Errors
/// When too little memory is free, or no time passes.
pub fn read(cache: Option<&LastLevelCache>) -> anyhow::Result<stream::Stream> {
    stream::measure(cache, PASSES).context("how fast this host reads memory cannot be measured")
}

/// Both readings as one.
pub fn reading(before: &stream::Stream, after: &stream::Stream) -> Reading {
    Reading {
        before_gb_per_s: before.best_bytes_per_second / 1e9,
        after_gb_per_s: after.best_bytes_per_second / 1e9,
        buffer_bytes: before.buffer_bytes,
        threads: before.threads,
    }
}

/// The fastest of the products that stand for the peak.
///
/// # Errors
/// When a product fails, or none takes a measurable time.
pub fn arithmetic((isa, width): (Isa, Width), with_mlx: bool) -> anyhow::Result<Vec<Arithmetic>> {
    let mut found = Vec::new();
    if let Some(gemm) = gemm::measure(PASSES) {
        found.push(Arithmetic { gflop_per_s: gemm.best_flops / 1e9, by: gemm.kernel });
    }
    let form = WeightForm::Dense(FloatType::F32);
    let mut trial = ProductTrial::new(form, FloatType::F32, SHAPE, 1)?;
    let operations = flop(SHAPE);
    let budget = Budget { time: TIME, least: 3, most: usize::MAX };
    let ours = block(budget, &mut || trial.ours(isa, width, 0))?;
    found.extend(fastest(operations, &ours, format!("mlxcel-{isa} dense f32")));
    if with_mlx {
        let mlx = block(budget, &mut || trial.mlx(&[0]))?;
        found.extend(fastest(operations, &mlx, "mlx dense f32".to_owned()));
    }
    anyhow::ensure!(!found.is_empty(), "no product of matrices took a measurable time");
    Ok(found)
}

/// Multiplications and additions of a product.
pub fn flop(shape: ProductShape) -> f64 {
    2.0 * shape.m as f64 * shape.n as f64 * shape.k as f64
}

fn fastest(operations: f64, times: &[Duration], by: String) -> Option<Arithmetic> {
    let seconds = times.iter().min()?.as_secs_f64();
    (seconds > 0.0).then(|| Arithmetic { gflop_per_s: operations / seconds / 1e9, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_held_against_the_faster_reading_and_the_drift_is_told() {
        let reading = Reading { before_gb_per_s: 12.0, after_gb_per_s: 16.0, buffer_bytes: 1, threads: 2 };
        assert!((reading.peak_gb_per_s() - 16.0).abs() < 1e-9);
        assert!((reading.drift_pct() - 25.0).abs() < 1e-9);
    }

    #[test]
    fn the_fastest_repetition_is_the_peak() {
        let times = [Duration::from_millis(4), Duration::from_millis(2), Duration::ZERO];
        let of = |times: &[Duration]| fastest(1e9, times, String::new()).map(|found| found.gflop_per_s);
        assert_eq!(of(&times[..2]), Some(500.0));
        assert_eq!(of(&times), None);
        assert_eq!(of(&[]), None);
    }
}
