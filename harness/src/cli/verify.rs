//! The flags of `verify`.

use std::path::PathBuf;

use clap::Args;

use super::ListFormat;

/// Files whose statements are derived again.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit codes: 0 everything follows; 1 something does not; 3 what was looked at follows, but a file that the rest follows from is \
missing; 4 a file cannot be read or holds nothing that could be derived; 64 wrong command line.

The paths in a comparison or a gate's report are looked for as they stand, seen from the current folder, then from the folder of the document, then \
beside it.")]
pub struct VerifyArgs {
    /// Result files (.csv, with samples and provenance beside them), the JSON or Markdown output of compare, and the JSON
    /// output of gate.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Fail unless the rows that everything was derived from are committed: in the git repository around them, in the
    /// commit that is checked out, byte for byte.
    #[arg(long)]
    pub committed: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub format: ListFormat,
}
