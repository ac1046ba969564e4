//! What a comparison amounts to, before anybody renders it. The field names are those of the JSON form.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::finding::Finding;
use super::pairing::Twins;
use crate::history::SourceFile;
use crate::stats::verdict::Answer;
use crate::store::sha256_of;

/// Whether there is a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// There are pairs, and no rule refused.
    Ok,
    /// A rule refused; no figure is given.
    Refused,
}

/// One pair.
#[derive(Debug, Clone, Serialize)]
pub struct PairFigures {
    /// The checkpoint.
    pub model: Arc<str>,
    /// The shape, where the name alone does not tell pairs apart.
    pub shape: Option<Arc<str>>,
    /// The two names and the level, where the digest of the checkpoint joined rows of different names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twins: Option<Arc<Twins>>,
    /// Value of the first side, in the metric's unit.
    pub before: f64,
    /// Value of the second side.
    pub after: f64,
    /// `after / before`.
    pub ratio: f64,
    /// Smallest ratio of any repetition of one side to any of the other, where there are repetitions.
    pub ratio_low: Option<f64>,
    /// Largest such ratio.
    pub ratio_high: Option<f64>,
    /// Rows behind the first value.
    pub rows_before: usize,
    /// Rows behind the second value.
    pub rows_after: usize,
    /// Larger spread of the repetitions within a row, of both sides, in percent.
    pub spread_pct: Option<f64>,
    /// Line of the first row of the first side.
    pub before_line: u64,
    /// Line of the first row of the second side.
    pub after_line: u64,
    /// Changed by more than the threshold and more than the spread.
    pub moved: bool,
    /// Test, interval and verdict, where each side has several rows of processes of their own; the threshold is the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Box<Answer>>,
}

/// The ratios together.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RatioSummary {
    /// How many.
    pub pairs: usize,
    /// Their median.
    pub median_ratio: Option<f64>,
    /// First quartile.
    pub q1: Option<f64>,
    /// Third quartile.
    pub q3: Option<f64>,
    /// Smallest.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Geometric mean, over all pairs.
    pub geomean: Option<f64>,
    /// How many moved.
    pub moved: usize,
}

/// Names that only one side has.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OneSided {
    /// Only the first.
    pub before: Vec<String>,
    /// Only the second.
    pub after: Vec<String>,
}

/// One of the two files.
#[derive(Debug, Clone, Serialize)]
pub struct Input {
    /// `before` or `after`.
    pub side: &'static str,
    /// The file.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// SHA-256 of the samples beside it, which the ranges over repetitions follow from; none where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_sha256: Option<String>,
    /// Its layout.
    pub layout: String,
    /// Its rows.
    pub rows: usize,
}

impl Input {
    /// What a report says of a file.
    pub fn of(side: &'static str, file: &SourceFile) -> Self {
        Self {
            side,
            path: file.path.display().to_string(),
            sha256: file.sha256.clone(),
            samples_sha256: file.samples_sha256.clone(),
            layout: file.layout.clone(),
            rows: file.records.len(),
        }
    }
}

/// Another file that a report depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// What it is: `catalog`, `store` (looked through for newer readings of the baseline), `policy` or `spreads`.
    pub what: &'static str,
    /// The file.
    pub path: String,
    /// SHA-256 of its bytes; none where they could not be read.
    pub sha256: Option<String>,
}

impl Source {
    /// The file at `path`, which reports call `shown`.
    pub fn of(what: &'static str, path: &Path, shown: &Path) -> Self {
        Self { what, path: shown.display().to_string(), sha256: sha256_of(path).ok() }
    }
}

/// A comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Whether there is a result.
    pub verdict: Verdict,
    /// What was compared.
    pub metric: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    /// Whether a ratio above one is the better one.
    pub higher_is_better: bool,
    /// The one thing that may differ.
    pub axis: String,
    /// The pairs; none when refused.
    pub pairs: Vec<PairFigures>,
    /// The ratios together.
    pub summary: RatioSummary,
    /// Pairs left out, each with the rule.
    pub dropped: Vec<Finding>,
    /// What refused.
    pub refused: Vec<Finding>,
    /// What a reader must know.
    pub warnings: Vec<Finding>,
    /// Refusals that the user accepted.
    pub accepted: Vec<Finding>,
    /// Limits that the user set.
    pub limits: Limits,
    /// Names that only one side has.
    pub one_sided: OneSided,
    /// The two files.
    pub inputs: Vec<Input>,
    /// The other files that the result depends on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The command line.
    pub command: Vec<String>,
}

/// The limits in force.
#[derive(Debug, Clone, Serialize)]
pub struct Limits {
    /// By which share of the smaller count prompt tokens may differ; none for the default of the rule.
    pub prompt_tolerance: Option<f64>,
    /// Largest age of a reference in days.
    pub max_date_gap_days: u32,
    /// Fewest tokens from which a decode rate is taken.
    pub min_generated: u64,
    /// Relative change from which a pair counts as moved.
    pub moved_threshold: f64,
    /// How far two measurements of the same thing lie apart on this host; a smaller change is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_floor: Option<f64>,
    /// How several rows of one key were taken.
    pub repeat: Option<&'static str>,
    /// Smallest share of the smaller side that had to be compared.
    pub min_share: Option<f64>,
}
