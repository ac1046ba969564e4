//! The flags of `doctor`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::compare::ListFormat;
use super::sweep::{at_least_one, at_least_one_small, at_least_two, seconds};

/// How small a difference can this host tell from noise?
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Measures a small checkpoint with this very program as two sides, in turn, each time in a fresh process. What the sides differ by \
is the noise of this host. The result is kept for this host; `gate` and `compare` take it as the noise floor of its rows.

Exit codes: 0 measured and kept; 1 the checkpoint could not be measured; 3 others were at work for over a fifth of the time, so \
nothing was kept (--keep-contended keeps it); 4 bad input; 64 usage; 130 interrupted.

Environment: MLXCEL_CACHE_DIR is where the result is kept; MLXCEL_BENCH_LLC_BYTES is the size of the last-level cache where the \
system does not tell it.")]
pub struct DoctorArgs {
    /// The checkpoint to measure with, a small one [default: the 4-bit one of the default models].
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Only four processes a side, of one repetition of a small shape: a first impression.
    #[arg(long)]
    pub quick: bool,
    /// Processes of each side [default: 8; 4 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=30))]
    pub rounds: Option<u32>,
    /// Repetitions in each process [default: 3; 1 with --quick].
    #[arg(long, value_name = "N", value_parser = at_least_one_small)]
    pub reps: Option<NonZeroU32>,
    /// Length of the prompt, in tokens [default: 512; 128 on the CPU backend; 64 with --quick].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub prompt_tokens: Option<NonZeroU64>,
    /// Tokens to generate [default: 128; 64 on the CPU backend; 32 with --quick].
    #[arg(long, value_name = "N", value_parser = at_least_two)]
    pub max_tokens: Option<NonZeroU64>,
    /// Begin without waiting for a quiet host.
    #[arg(long)]
    pub no_quiet_gate: bool,
    /// How long nobody else may have been busy before it begins, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "90", value_parser = seconds)]
    pub quiet_hold: Duration,
    /// How long is waited for that at most, in seconds; 0 for ever.
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = limit)]
    pub quiet_timeout: Duration,
    /// From when on another process is busy, in percent of one core.
    #[arg(long, value_name = "PERCENT", default_value_t = 15.0, value_parser = percent)]
    pub quiet_limit: f64,
    /// Keep the result although others were at work.
    #[arg(long)]
    pub keep_contended: bool,
    /// Longest time for any one step of a process, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = seconds)]
    pub timeout: Duration,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub format: ListFormat,
    /// Run this program as the worker, for tests of the harness.
    #[arg(long, value_name = "PATH", hide = true)]
    pub worker_program: Option<PathBuf>,
}

fn limit(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { seconds(text) }
}

fn percent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|pct: &f64| pct.is_finite() && *pct > 0.0)
        .ok_or_else(|| "it must be a number of percent above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::{Cli, Command};

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for line in [
            ["--rounds", "1"],
            ["--reps", "0"],
            ["--quiet-limit", "0"],
            ["--quiet-limit", "NaN"],
            ["--quiet-hold", "-1"],
            ["--max-tokens", "1"],
        ] {
            assert!(Cli::try_parse_from(["mlxcel-bench", "doctor"].iter().chain(&line)).is_err(), "{line:?}");
        }
        let parsed = Cli::try_parse_from(["mlxcel-bench", "doctor", "--quiet-timeout", "0"]);
        let is_for_ever = |cli: &Cli| matches!(&cli.command, Command::Doctor(arguments) if arguments.quiet_timeout.is_zero());
        assert!(parsed.as_ref().is_ok_and(is_for_ever), "{parsed:?}");
    }
}
