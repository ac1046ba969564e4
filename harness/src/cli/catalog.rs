//! The flags of `catalog`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

use super::Format;

/// What a catalog can be asked.
#[derive(Debug, Clone, Subcommand)]
pub enum CatalogCommand {
    /// Check that folders hold what they say: shards, index, configuration, tokenizer.
    Check(CheckArgs),
    /// Tell which folders hold the same checkpoint, and which only run alike.
    Identify(IdentifyArgs),
    /// Bring what this host holds into the catalog file.
    Scan(ScanArgs),
    /// Join the catalog files of two hosts.
    Merge(MergeArgs),
    /// Tell what a name is now and was before.
    Resolve(ResolveArgs),
    /// Give a checkpoint another name: tell what it costs, and record the old name.
    Rename(RenameArgs),
}

const EXITS: &str = "Exit codes: 0 everything is in order; 1 faults were found and are listed; 4 bad input or output; 64 usage.";

/// The catalog file, where none is named.
const TABLE: &str = "catalog/model-catalog.tsv";

/// Arguments of `catalog check`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXITS)]
pub struct CheckArgs {
    /// Checkpoint folders, or folders of such.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Arguments of `catalog identify`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXITS)]
pub struct IdentifyArgs {
    /// Checkpoint folders, or folders of such.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// How much is looked at: 0 paths, 1 configuration and sizes, 2 headers, 3 samples of the content, 4 all of it.
    #[arg(long, value_name = "LEVEL", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub level: u8,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Where names are used.
#[derive(Debug, Clone, Args)]
pub struct UseArgs {
    /// Folders of result files, in which rows are counted.
    #[arg(long, value_name = "DIR", default_value = "benchmarks")]
    pub results: Vec<PathBuf>,
    /// Documents or folders of them, in which mentions are counted.
    #[arg(long, value_name = "PATH", default_values = ["docs", "README.md"])]
    pub documents: Vec<PathBuf>,
}

/// Arguments of `catalog scan`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXITS)]
pub struct ScanArgs {
    /// Folders of checkpoint folders.
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// What this host is called in the catalog's columns.
    #[arg(long, value_name = "NAME", env = "MLXCEL_CATALOG_HOST")]
    pub host: String,
    /// The catalog file; made when absent.
    #[arg(long, value_name = "FILE", default_value = TABLE)]
    pub table: PathBuf,
    /// Digests are recorded up to this level.
    #[arg(long, value_name = "LEVEL", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub level: u8,
    /// Where names are used.
    #[command(flatten)]
    pub uses: UseArgs,
    /// Tell what would change and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Arguments of `catalog merge`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXITS)]
pub struct MergeArgs {
    /// The first catalog file.
    #[arg(value_name = "OURS")]
    pub ours: PathBuf,
    /// The second catalog file.
    #[arg(value_name = "THEIRS")]
    pub theirs: PathBuf,
    /// Where the joined catalog goes [default: the first file].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Whom to believe where both know and differ; without it, nothing is written then.
    #[arg(long, value_enum)]
    pub prefer: Option<Side>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// One of two catalog files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The first.
    Ours,
    /// The second.
    Theirs,
}

/// Arguments of `catalog resolve`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 every name is known; 1 one is unknown or leads to several; 4 bad input; 64 usage."
)]
pub struct ResolveArgs {
    /// Names to look up.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub names: Vec<String>,
    /// The catalog file.
    #[arg(long, value_name = "FILE", default_value = TABLE)]
    pub table: PathBuf,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Arguments of `catalog rename`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXITS)]
pub struct RenameArgs {
    /// The name now.
    #[arg(value_name = "OLD", value_parser = NonEmptyStringValueParser::new())]
    pub old: String,
    /// The name from now on.
    #[arg(value_name = "NEW", value_parser = NonEmptyStringValueParser::new())]
    pub new: String,
    /// The catalog file.
    #[arg(long, value_name = "FILE", default_value = TABLE)]
    pub table: PathBuf,
    /// Where names are used.
    #[command(flatten)]
    pub uses: UseArgs,
    /// Tell the price and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

impl CatalogCommand {
    /// How the result is printed.
    pub const fn format(&self) -> Format {
        match self {
            Self::Check(arguments) => arguments.format,
            Self::Identify(arguments) => arguments.format,
            Self::Scan(arguments) => arguments.format,
            Self::Merge(arguments) => arguments.format,
            Self::Resolve(arguments) => arguments.format,
            Self::Rename(arguments) => arguments.format,
        }
    }
}
