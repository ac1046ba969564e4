//! The command line.

mod catalog;
mod compare;
mod contradictions;
mod doctor;
mod gate;
mod micro;
mod quiet;
mod sweep;
mod verify;

use clap::{Parser, Subcommand};

pub use catalog::{
    CatalogCommand, CheckArgs, IdentifyArgs, MergeArgs, RenameArgs, ResolveArgs, ScanArgs, Side, UseArgs,
};
pub use compare::{CompareArgs, CompareFormat, HistoryCommand, ListFormat};
pub use doctor::DoctorArgs;
pub use gate::{GateArgs, GateFormat, ReportFile};
pub use micro::{FloatName, LoadArgs, MicroCommand, QmmArgs, QmmMode, WeightShape};
pub use quiet::{QuietArgs, QuietWatcherArgs};
pub use sweep::{
    ConditionArgs, Cooldown, Dedup, Format, MODELS, Order, QuietGateArgs, Reference, Retry, RosterArgs,
    ShapeArgs, SweepArgs, Target,
};
pub use verify::VerifyArgs;

/// Measures local language models and stamps every row with what really ran.
#[derive(Debug, Parser)]
#[command(name = "mlxcel-bench", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure one checkpoint, every checkpoint of a folder, or the default models.
    Sweep(Box<SweepArgs>),
    /// Compare two result files: refuses whatever cannot be compared.
    Compare(Box<CompareArgs>),
    /// Say whether a candidate may pass: its measurements against a baseline's, by a policy.
    Gate(Box<GateArgs>),
    /// Read result files of every layout.
    #[command(subcommand)]
    History(HistoryCommand),
    /// What checkpoints are, whether they are whole, which are the same, and what they are called.
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Derive again what result sets and comparisons state: rates, figures, digests, stamps, rules.
    Verify(VerifyArgs),
    /// Say how small a difference this host can tell from noise.
    Doctor(DoctorArgs),
    /// Measure single operations: our kernels beside MLX's and what this host can do at best.
    #[command(subcommand)]
    Micro(MicroCommand),
    /// Run a command with other programs suspended, such as the indexers of macOS.
    Quiet(QuietArgs),
    /// Prove every rule of a comparison on a built-in corpus of bad pairs.
    Selftest {
        /// How the cases are printed.
        #[arg(long, value_enum, default_value_t = ListFormat::Table)]
        format: ListFormat,
    },
    /// Print what this program knows of itself.
    Version {
        /// How it is printed: in a few lines, or everything as JSON.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
        /// The same as --format json.
        #[arg(long, conflicts_with = "format")]
        json: bool,
    },
    /// Serve one sweep over standard input and output.
    #[command(hide = true)]
    Worker,
    /// Suspend and resume for `quiet`.
    #[command(hide = true)]
    QuietWatcher(QuietWatcherArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
