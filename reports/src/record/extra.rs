//! Figures of a row that few layouts have. A file may have a million rows, so texts that rows share stand once in memory, and
//! what few rows have is boxed.

use std::sync::Arc;

use jiff::Timestamp;

use super::Metric;
use crate::row::CheckpointId;

/// A rate that a row states and its counts and times do not give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateDisagreement {
    /// Whose rate it is.
    pub metric: Metric,
    /// As it stands in the file, in tokens a second.
    pub stated: f64,
    /// Tokens over time, as the tools of the file's layout computed it.
    pub derived: f64,
}

/// Figures that few layouts have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extra {
    /// When its measurement began.
    pub started_at: Option<Timestamp>,
    /// Peak of MLX's memory.
    pub peak_memory_bytes: Option<u64>,
    /// Time to load the checkpoint.
    pub load_nanos: Option<u64>,
    /// `100 * (max - min) / median` of the repetitions' decode rates.
    pub decode_spread_pct: Option<f64>,
    /// The same of their prefill rates.
    pub prefill_spread_pct: Option<f64>,
    /// Identity of the checkpoint's content.
    pub checkpoint: Option<CheckpointId>,
    /// SHA-256 of the prompt's token ids.
    pub prompt_sha256: Option<Arc<str>>,
    /// Why generation ended, the digest of what it gave, and prompt tokens that a cache had.
    pub generation: Generated,
    /// The control rows around it.
    pub control: Controls,
    /// How often it was measured until it was this row.
    pub attempts: Option<u32>,
    /// The run that wrote the row.
    pub run_id: Option<Arc<str>>,
    /// The checkpoint's model type.
    pub model_type: Option<Arc<str>>,
    /// By how much the use of swap grew during the measurement.
    pub swap_growth_bytes: Option<u64>,
    /// The worst thermal state during it.
    pub thermal_worst: Option<Arc<str>>,
    /// Source of power, and its mode.
    pub power: Option<Arc<str>>,
    /// What few rows have.
    pub rare: Option<Box<Rare>>,
}

/// What few rows have: a file of a million is not larger by it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rare {
    /// Memory read a second by a kernel.
    pub bandwidth_bytes_s: Option<f64>,
    /// Decode steps a second of each repetition, where a samples file has them.
    pub decode_rates: Vec<f64>,
    /// Prompt tokens a second of each repetition.
    pub prefill_rates: Vec<f64>,
    /// Share of the measured time in which other work ran, in percent, where that is too much.
    pub too_contended_pct: Option<f64>,
    /// Share of the host's memory bandwidth that the decode rate needs, in percent, where that cannot be.
    pub implausible_pct: Option<f64>,
    /// Rates that the row states and that do not follow from it.
    pub rate_disagreements: Vec<RateDisagreement>,
}

/// What the generations of a row were, besides their times, in texts that rows share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generated {
    /// Why generation ended.
    pub finish: Option<Arc<str>>,
    /// SHA-256 of the generated token ids.
    pub output_sha256: Option<Arc<str>>,
    /// Prompt tokens that a cache had.
    pub cached_prompt_tokens: Option<u64>,
}

/// The two control rows around a row, in texts that rows share.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Controls {
    /// Name of the control checkpoint.
    pub model: Option<Arc<str>>,
    /// How far apart the two lie, in percent.
    pub drift_pct: Option<f64>,
    /// How far apart they may lie on this host.
    pub band_pct: Option<f64>,
}

impl Controls {
    /// The controls are known to lie further apart than they may.
    pub fn moved(&self) -> bool {
        matches!((self.drift_pct, self.band_pct), (Some(drift), Some(band)) if drift > band)
    }
}
