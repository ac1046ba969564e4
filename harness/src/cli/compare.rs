//! The flags of `compare`, `history` and `selftest`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use mlxcel_reports::compare::options::{Acceptance, Axis, Repeat};
use mlxcel_reports::record::Metric;

/// Two result files against each other.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit codes: 0 compared, 2 refused, 4 a file cannot be read, 64 wrong command line.")]
pub struct CompareArgs {
    /// Result file of the first side, the baseline.
    #[arg(long, value_name = "FILE")]
    pub before: PathBuf,
    /// Result file of the second side.
    #[arg(long, value_name = "FILE")]
    pub after: PathBuf,
    /// The one thing that may differ: commit, mlx, host, runtime or setting=NAME.
    #[arg(long, value_name = "WHAT")]
    pub vary: Option<Axis>,
    /// The same as --vary runtime.
    #[arg(long, conflicts_with_all = ["vary", "allow_commit_change"])]
    pub reference: bool,
    /// The same as --vary commit.
    #[arg(long, conflicts_with = "vary")]
    pub allow_commit_change: bool,
    /// What is compared: decode, prefill, load, peak-memory or bandwidth.
    #[arg(long, value_name = "METRIC", default_value = "decode")]
    pub metric: Metric,
    /// Take a refusal on yourself, by the name that the refusal gives; it stands in the report. May be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub accept: Vec<Acceptance>,
    /// Keep embedders and rerankers; the same as --accept non-generative.
    #[arg(long)]
    pub include_non_generative: bool,
    /// How several rows of one checkpoint and shape are taken: median, last or all. Without it they are refused.
    #[arg(long, value_name = "HOW")]
    pub repeat: Option<Repeat>,
    /// By which share of the smaller count prompt tokens may differ [default: 0.1 between different programs, else 0].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub prompt_tolerance: Option<f64>,
    /// Largest number of calendar days between a reference and the run.
    #[arg(long, value_name = "DAYS", default_value_t = 1)]
    pub max_date_gap_days: u32,
    /// Fewest generated tokens from which a decode rate is taken.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub min_generated: u64,
    /// Relative change from which a pair counts as moved.
    #[arg(long, value_name = "SHARE", default_value_t = 0.10, value_parser = share)]
    pub moved_threshold: f64,
    /// Noise floor of the host: a smaller change is none, whatever --moved-threshold says [default: what `doctor` found of the
    /// host that both files name, where it was asked]; 0 for none.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub noise_floor: Option<f64>,
    /// Refuse when fewer than this share of the smaller side's rows are compared.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_share: Option<f64>,
    /// Folder in which newer readings of the baseline are looked for [default: that of the baseline].
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Table of checkpoint names and their aliases.
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub format: CompareFormat,
    /// Write the result to this file instead of standard output. A refusal writes no file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// A table for people.
    Table,
    /// One JSON document.
    Json,
    /// For a page or a comment.
    Markdown,
    /// One line a pair.
    Csv,
}

/// What lies in result files.
#[derive(Debug, Clone, Subcommand)]
pub enum HistoryCommand {
    /// List what each result file of a folder holds and what is wrong with it.
    Scan {
        /// A folder, or one file.
        #[arg(value_name = "DIR")]
        path: PathBuf,
        /// How the list is printed.
        #[arg(long, value_enum, default_value_t = ListFormat::Table)]
        format: ListFormat,
    },
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A table for people.
    Table,
    /// One JSON document.
    Json,
}

/// A share from 0 on; NaN and infinity are none.
fn share(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|share| share.is_finite() && (0.0..=1e6).contains(share))
        .ok_or_else(|| "it must be a number from 0 on, such as 0.1 for 10%".to_owned())
}

impl CompareArgs {
    /// The one thing that may differ.
    pub fn axis(&self) -> Axis {
        match self.vary {
            Some(axis) => axis,
            None if self.reference => Axis::Runtime,
            None if self.allow_commit_change => Axis::Commit,
            None => Axis::Nothing,
        }
    }
}
