//! The flags of `gate`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use mlxcel_reports::compare::options::{Acceptance, Axis};
use mlxcel_reports::gate::policy::Overrides;
use mlxcel_reports::record::Metric;

/// Whether a candidate may pass: its measurements against a baseline's, by a policy.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Every result file holds one fresh process a row: several files a side give each row the repetitions that a verdict needs. With one \
file a side there are ratios alone, which screen and confirm nothing.

Exit codes: 0 pass; 1 confirmed regression, vanished or missing row; 2 refused (nothing was compared); 3 inconclusive; 4 a file or \
the policy cannot be used; 5 improvements only, with --tell-improvements; 64 wrong command line.")]
pub struct GateArgs {
    /// Result file of the baseline, or a folder of such files. May be repeated.
    #[arg(long, value_name = "PATH", required = true)]
    pub baseline: Vec<PathBuf>,
    /// Result file of the candidate, or a folder of such files. May be repeated.
    #[arg(long, value_name = "PATH", required = true)]
    pub candidate: Vec<PathBuf>,
    /// Take the baseline from the commit where this branch, tag or commit (for example origin/main) and the checked-out one
    /// part: --baseline then names paths within the repository, and of the files there those of the nearest ancestor count.
    #[arg(long, value_name = "REVISION")]
    pub baseline_from_git: Option<String>,
    /// Refuse a baseline whose files are not byte for byte those of the commit where this branch, tag or commit and the
    /// checked-out one part, in place of the policy's `protected_branch`.
    #[arg(long, value_name = "REVISION", conflicts_with = "baseline_from_git")]
    pub protected_branch: Option<String>,
    /// Policy file (docs/gating.md).
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// File of A/A spreads: how far measurements of one and the same build lie apart on a host (docs/gating.md) [default: what
    /// `doctor` found of the host that all files name, where it was asked].
    #[arg(long, value_name = "FILE")]
    pub spreads: Option<PathBuf>,
    /// Leave out what `doctor` found of the host.
    #[arg(long, conflicts_with = "spreads")]
    pub no_doctor: bool,
    /// The one thing that may differ, in place of the policy's: nothing, commit, mlx, host, runtime or setting=NAME.
    #[arg(long, value_name = "WHAT", value_parser = axis)]
    pub vary: Option<Axis>,
    /// What is looked at, in place of the policy's. May be repeated.
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    pub metric: Vec<Metric>,
    /// Take a refusal on yourself, by the name that the refusal gives; it stands in the report. May be repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub accept: Vec<Acceptance>,
    /// Measure the rows that were flagged anew, in the order baseline, candidate, candidate, baseline, and decide on those
    /// measurements. The programs of both sides must be at hand, each in the tree it was built from.
    #[arg(long, requires = "baseline_program")]
    pub confirm: bool,
    /// The baseline's mlxcel-bench, for --confirm.
    #[arg(long, value_name = "FILE", requires = "confirm")]
    pub baseline_program: Option<PathBuf>,
    /// The candidate's mlxcel-bench, for --confirm [default: this program].
    #[arg(long, value_name = "FILE", requires = "confirm")]
    pub candidate_program: Option<PathBuf>,
    /// Processes a side of each row that --confirm measures, at least 8.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=30))]
    pub confirm_processes: u32,
    /// Folder for the result files of --confirm; it must not exist [default: a new one among the temporary files].
    #[arg(long, value_name = "DIR", requires = "confirm")]
    pub confirm_out: Option<PathBuf>,
    /// Table of checkpoint names and their aliases.
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// End with 5 when something is faster and nothing speaks against the candidate.
    #[arg(long)]
    pub tell_improvements: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = GateFormat::Table)]
    pub format: GateFormat,
    /// Write the result to a file as well, for example junit=gate.xml. May be repeated. No file is replaced.
    #[arg(long, value_name = "FORMAT=FILE")]
    pub report: Vec<ReportFile>,
}

impl GateArgs {
    /// What stands in place of the policy's.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            vary: self.vary,
            metrics: self.metric.clone(),
            accept: self.accept.clone(),
            protected_branch: self.protected_branch.clone(),
        }
    }
}

/// A form of a gate's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GateFormat {
    /// A table for people.
    Table,
    /// One JSON document.
    Json,
    /// A comment on a change.
    Markdown,
    /// JUnit XML, for CI services.
    Junit,
    /// The text form of Go's benchmarks, for benchstat.
    Benchstat,
}

/// A file to write, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFile {
    /// The form.
    pub format: GateFormat,
    /// The file.
    pub path: PathBuf,
}

impl FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((format, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty()) else {
            return Err("it must be a format and a file, such as junit=gate.xml".to_owned());
        };
        Ok(Self { format: GateFormat::from_str(format, false)?, path: path.into() })
    }
}

fn axis(text: &str) -> Result<Axis, String> {
    if text == "nothing" { Ok(Axis::Nothing) } else { text.parse().map_err(|error| format!("{error}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_its_form_and_its_file() {
        let expected = ReportFile { format: GateFormat::Junit, path: "a=b.xml".into() };
        assert_eq!("junit=a=b.xml".parse(), Ok(expected));
        for text in ["", "junit", "junit=", "xml=a"] {
            assert!(text.parse::<ReportFile>().is_err(), "{text}");
        }
    }
}
