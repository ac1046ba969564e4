//! Products of activations `[M, K]` with a weight `[N, K]`, quantized or dense: our kernels on the processor beside MLX's own
//! operation.
//!
//! `plan` says which products, `measure` measures them, `render` shows them. What a row holds is here.
//!
//! Both arms compute the same product of the same arrays: MLX's operation gets the graph of a whole repetition at once, so
//! that the cost of an evaluation is shared by all its products, as in a model; our kernels are called directly, one product
//! after another, into memory that is there already. What the graph costs in a model is in a sweep's host time, not here.

pub mod measure;
pub mod plan;
pub mod render;

use serde::Serialize;

use crate::host::llc::LastLevelCache;
use crate::micro::peaks::{Arithmetic, Reading};

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema_version: u32,
    /// What measured, and where.
    pub host: Host,
    /// How fast memory is read.
    pub read_bandwidth: Reading,
    /// The fastest product of the run: the arithmetic peak.
    pub f32_peak: Arithmetic,
    /// The products that stand for the peak, measured before the others.
    pub f32_products: Vec<Arithmetic>,
    /// A row for each product and arm.
    pub rows: Vec<QmmRow>,
}

/// What measured, and where.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Host {
    /// Chip and memory.
    pub hardware: Option<String>,
    /// The last-level cache.
    pub last_level_cache: Option<LastLevelCache>,
    /// Threads that our kernels compute with.
    pub threads: usize,
    /// Their instruction set.
    pub isa: String,
    /// `wide` or `narrow`: how they go over several rows of activations, up to `small_rows`.
    pub width: &'static str,
    /// The most rows of activations for which the width counts.
    pub small_rows: usize,
    /// Version of MLX.
    pub mlx_version: Option<String>,
    /// SHA-256 of its library.
    pub libmlx_sha256: Option<String>,
    /// Version of this program.
    pub mlxcel_version: String,
    /// SHA-256 of its file.
    pub executable_sha256: Option<String>,
    /// Commit of its sources, `-dirty` where they differed.
    pub mlxcel_commit: Option<String>,
    /// Whether this program was compiled with optimizations; without, its figures mean nothing.
    pub optimized: bool,
}

/// One product by one of the two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QmmRow {
    /// `mlx`, or `mlxcel-` and the instruction set.
    pub kernel: String,
    /// Whose instruction set and width it is; `None` where the width does not count.
    pub width: Option<&'static str>,
    /// `affine`, `mxfp4`, `nvfp4` or `dense`.
    pub mode: String,
    /// Bits of a weight.
    pub bits: u32,
    /// Weights that share a scale; `None` for a dense weight.
    pub group_size: Option<u32>,
    /// Data type of the activations.
    pub dtype: &'static str,
    /// Data type of scales and biases; `None` for a dense weight, and where scales are bytes.
    pub scales_dtype: Option<&'static str>,
    /// Rows of activations.
    pub m: usize,
    /// Rows of the weight.
    pub n: usize,
    /// Columns.
    pub k: usize,
    /// Bytes of one weight: fields, scales, biases.
    pub weight_bytes: u64,
    /// Copies of it that were read in turn; 1 where it was read from the cache as far as it fits.
    pub copies: usize,
    /// The times; `None` where it was not measured.
    pub figures: Option<Figures>,
    /// Why it was not measured.
    pub not_measured: Option<String>,
    /// MLX's median time over ours; in our rows.
    pub times_mlx: Option<f64>,
    /// Largest difference of an element from MLX's, as a share of the largest element; in our rows.
    pub largest_difference: Option<f64>,
}

/// The times of one product by one of the two, and what follows from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Repetitions that count.
    pub repetitions: usize,
    /// Products in each of them; times are of one product.
    pub products_a_repetition: usize,
    /// Median of the repetitions.
    pub median_ms: f64,
    /// The fastest.
    pub min_ms: f64,
    /// The slowest.
    pub max_ms: f64,
    /// First quartile; `None` of fewer than 4 repetitions.
    pub first_quartile_ms: Option<f64>,
    /// Third quartile.
    pub third_quartile_ms: Option<f64>,
    /// Spread of the middle half: 100 * (third quartile - first quartile) / median.
    pub quartile_spread_pct: Option<f64>,
    /// Median of each block, in the order they were measured.
    pub block_medians_ms: Vec<f64>,
    /// Bytes of the weight over the median, in 10^9 a second.
    pub gb_per_s: f64,
    /// Multiplications and additions over the median, in 10^9 a second.
    pub gflop_per_s: f64,
    /// Share of the host's read bandwidth.
    pub read_bandwidth_pct: f64,
    /// Share of the arithmetic peak.
    pub f32_peak_pct: f64,
}
