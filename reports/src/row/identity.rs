//! What a row is about: the run, the checkpoint, the workload, the executable and the host.
//!
//! The run, the build and the host are the same for every row of a sweep and are cloned into each, so that a row can be
//! read alone. Facts that may be unknown are [`Stamp`]s. Each field names its column where the two differ.

use jiff::Timestamp;
use jiff::civil::Date;
pub use mlxcel_catalog::identity::CheckpointId;

use super::conditions::Conditions;
use crate::stamp::{Stamp, StampValue};
use crate::text::words;

words! {
    /// Which kind of measurement produced a row.
    pub enum HarnessKind ("harness kind") {
        /// A text prompt.
        Text = "text",
        /// A prompt with an image.
        Vlm = "vlm",
    }
}

words! {
    /// What MLX computed on.
    pub enum Backend ("backend") {
        /// Apple GPU.
        Metal = "metal",
        /// NVIDIA GPU.
        Cuda = "cuda",
        /// Processor.
        Cpu = "cpu",
    }
}

words! {
    /// How the executable was compiled.
    pub enum BuildType ("build type") {
        /// Optimized.
        Release = "release",
        /// Not optimized.
        Debug = "debug",
        /// Not compiled: a reference that Python runs.
        Python = "python",
    }
}

words! {
    /// What happens when the model ends its text before the requested length.
    pub enum EosPolicy ("end-of-sequence policy") {
        /// Generation stops.
        Stop = "stop",
        /// The end-of-sequence tokens cannot be chosen.
        Suppress = "suppress",
    }
}

/// Everything that says what a row is a measurement of.
#[derive(Debug, Clone)]
pub struct RowIdentity {
    /// The run that wrote the row.
    pub run: Run,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// What was asked of it.
    pub workload: Workload,
    /// The executable that did it.
    pub build: Build,
    /// The machine it ran on.
    pub host: Host,
    /// The conditions it ran under.
    pub conditions: Conditions,
}

/// The run that wrote a row, and the row's place in it.
#[derive(Debug, Clone)]
pub struct Run {
    /// The same for all rows of one invocation and for no others.
    pub run_id: String,
    /// Kind of measurement.
    pub harness: HarnessKind,
    /// Local day on which the run began.
    pub date: Date,
    /// When this row's measurement began.
    pub started_at: Timestamp,
    /// Place in the order of measurement, from 0.
    pub order_index: u32,
    /// Measuring was allowed although the executable was not shown to match the tree.
    pub stale_binary_allowed: bool,
}

impl StampValue for CheckpointId {
    fn is_blank(&self) -> bool {
        self.digest.is_blank()
    }
}

/// The checkpoint a row is about.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Name: the folder's last component (`model`).
    pub model: String,
    /// The folder as it was named to the harness (`model_path`).
    pub model_path: String,
    /// `model_type` of its `config.json`.
    pub model_type: Stamp<String>,
    /// Dtype of the weights that are not quantized, for example `f32`.
    pub weight_dtype: Stamp<String>,
    /// Stored bits for each parameter, scales and biases included.
    pub bits_per_weight: Stamp<f64>,
    /// Parameters.
    pub parameters: Stamp<u64>,
    /// Bytes of all tensors in the weight files.
    pub weight_bytes: Stamp<u64>,
    /// `none`, or mode, bits and group size, for example `affine:4:64`.
    pub quantization: Stamp<String>,
    /// The weights are made up, not trained.
    pub synthetic: Stamp<bool>,
    /// Identity of the content.
    pub checkpoint_id: Stamp<CheckpointId>,
    /// SHA-256 of `tokenizer.json`.
    pub tokenizer_sha256: Stamp<String>,
    /// Longest context, in tokens.
    pub context_length: Stamp<u64>,
}

/// What was asked of the checkpoint.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Tokens to generate.
    pub max_tokens: u64,
    /// What was really measured: the text, or `synthetic:v1` and the like.
    pub prompt: String,
    /// Length of a synthetic prompt that was to be run, in tokens: the requested one, or what the context allows of it.
    pub prompt_target_len: Option<u64>,
    /// Requested length of a synthetic prompt, in tokens; larger than the target where the context capped it.
    pub prompt_requested_len: Option<u64>,
    /// SHA-256 of the prompt's token ids.
    pub prompt_sha256: Stamp<String>,
    /// Tokens generated in the discarded warm-up; unknown when none took place.
    pub warmup_tokens: Option<u64>,
    /// Sequences run at once.
    pub batch_size: u32,
    /// Form of the key/value cache, for example its dtype.
    pub kv_mode: Stamp<String>,
    /// Longest piece in which the prompt was read, in tokens.
    pub prefill_chunk: u64,
    /// `greedy`, or the settings, for example `temperature=0.7,top_p=0.9,seed=1`.
    pub sampling: String,
    /// Treatment of end-of-sequence tokens.
    pub eos_policy: EosPolicy,
}

/// The executable that measured, as it describes itself.
#[derive(Debug, Clone)]
pub struct Build {
    /// Backend MLX really ran on.
    pub backend: Backend,
    /// Crate version.
    pub mlxcel_version: Stamp<String>,
    /// First 8 hex digits of the source commit, `-dirty` when the sources differed from it.
    pub mlxcel_commit: Stamp<String>,
    /// How it was compiled.
    pub build_type: BuildType,
    /// Cargo features, comma separated; `none` when there were none.
    pub features: Stamp<String>,
    /// Processor it was compiled for.
    pub target_cpu: Stamp<String>,
    /// SHA-256 of the executable file.
    pub executable_sha256: Stamp<String>,
    /// Version of MLX.
    pub mlx_version: Stamp<String>,
    /// First 8 hex digits of MLX's commit, or its release tag.
    pub mlx_commit: Stamp<String>,
    /// SHA-256 of the MLX library that was loaded.
    pub libmlx_sha256: Stamp<String>,
    /// Which kernels ran, for example `mlx`.
    pub kernels: Stamp<String>,
    /// Package and version of a reference runtime, for example `mlx-lm-0.31.3`; unknown in rows of our own.
    pub baseline_version: Stamp<String>,
}

impl Build {
    /// Whether the sources differed from the commit; none when the commit is unknown.
    pub fn is_dirty(&self) -> Option<bool> {
        self.mlxcel_commit.as_known().map(|commit| commit.ends_with("-dirty"))
    }
}

/// The machine a row was measured on. Its name is not recorded.
#[derive(Debug, Clone)]
pub struct Host {
    /// Chip and memory in one word, as in the historical files, for example `Apple_M5_Max_128GB`.
    pub hardware: Stamp<String>,
    /// Operating system and its version.
    pub os: Stamp<String>,
    /// Version of the operating system's kernel.
    pub kernel_version: Stamp<String>,
    /// Device MLX computed on.
    pub device_name: Stamp<String>,
    /// Memory of that device.
    pub device_memory_bytes: Stamp<u64>,
    /// Memory of the host.
    pub host_memory_bytes: Stamp<u64>,
    /// Version of the device driver.
    pub driver: Stamp<String>,
    /// Digest that tells hosts apart without naming them.
    pub host_id: Stamp<String>,
    /// Processors that the measuring process may use, by its affinity and the quota of its group.
    pub usable_cores: Stamp<u32>,
}
