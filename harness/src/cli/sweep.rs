//! Arguments of `sweep`, checked as far as the command line alone allows.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// Arguments of `sweep`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Exit codes: 0 every measured row is valid; 1 a row failed or is invalid; 2 refused before measuring (the executable is not built \
from the working tree); 3 no valid row, though none failed; 4 bad input or output; 64 usage; 130 interrupted (finished rows stay).

Environment: MODELS_DIR and BENCHMARKS_DIR stand for --models and --out; MLXCEL_CACHE_DIR is where default models are kept; \
BENCH_ALLOW_STALE_BINARY=1 measures although the executable is not built from the working tree, and marks every row.")]
pub struct SweepArgs {
    /// A checkpoint folder, or `all` for every folder of the models folder. Without it, `all` where --models
    /// or MODELS_DIR is given; else the default models (SmolLM2-135M-Instruct, dense and in 4 bits) are
    /// fetched and measured.
    pub target: Option<PathBuf>,
    /// Models folder, for `all` [default: models].
    #[arg(long, value_name = "DIR", env = "MODELS_DIR", hide_env_values = true)]
    pub models: Option<PathBuf>,
    /// Shape and repetitions.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// What makes two folders of `all` one checkpoint, of which the first is measured and the others get a row
    /// that names it.
    #[arg(long, value_name = "BY", value_enum, default_value_t = Dedup::Config)]
    pub dedup: Dedup,
    /// Measure every folder; the same as --dedup none.
    #[arg(long, conflicts_with = "dedup")]
    pub no_dedup: bool,
    /// Text for the file name, to tell result sets apart.
    #[arg(long, value_name = "TAG", value_parser = suffix)]
    pub suffix: Option<String>,
    /// Folder of the result files; made when absent.
    #[arg(long, value_name = "DIR", env = "BENCHMARKS_DIR", default_value = "benchmarks")]
    pub out: PathBuf,
    /// Longest time for any one step of a checkpoint (start, load, warm-up, one repetition), in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = seconds)]
    pub timeout: Duration,
    /// How to print the results.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Run this program as the worker. For tests of the harness: every row is marked as not measured by this
    /// executable.
    #[arg(long, value_name = "PATH", hide = true)]
    pub worker_program: Option<PathBuf>,
}

/// What makes two folders one checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dedup {
    /// Nothing: every folder is measured.
    None,
    /// The canonical path.
    Path,
    /// The canonical path, or `config.json` and the names and sizes of the shards.
    Config,
    /// The same and the shards' headers.
    Headers,
    /// The same and every byte of the shards.
    Content,
}

/// What a sweep is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The default models.
    Default,
    /// Every folder of this one.
    All(PathBuf),
    /// This checkpoint.
    Single(PathBuf),
}

/// Where models are looked for unless told otherwise.
pub const MODELS: &str = "models";

impl SweepArgs {
    /// What makes two folders one checkpoint; a folder that was named is always measured.
    pub fn dedup(&self) -> Dedup {
        if self.no_dedup || matches!(self.target(), Target::Single(_)) { Dedup::None } else { self.dedup }
    }

    /// What the sweep is about.
    pub fn target(&self) -> Target {
        match (&self.target, &self.models) {
            (Some(path), models) if path.as_os_str() == "all" => {
                Target::All(models.clone().unwrap_or_else(|| MODELS.into()))
            }
            (Some(path), _) => Target::Single(path.clone()),
            (None, Some(models)) => Target::All(models.clone()),
            (None, None) => Target::Default,
        }
    }
}

/// The shape of a measurement.
#[derive(Debug, Clone, Args)]
pub struct ShapeArgs {
    /// Exact length of the synthetic prompt, in tokens [default: 512; less for the default models on the CPU
    /// backend].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub prompt_tokens: Option<NonZeroU64>,
    /// Exact number of tokens to generate [default: 128; less for the default models on the CPU backend].
    #[arg(long, value_name = "N", value_parser = at_least_two)]
    pub max_tokens: Option<NonZeroU64>,
    /// Measured repetitions of each checkpoint, after one discarded warm-up of the same shape.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one_small)]
    pub reps: NonZeroU32,
    /// Longest piece of the prompt that is read at once, in tokens.
    #[arg(long, value_name = "N", default_value = "2048", value_parser = at_least_one)]
    pub prefill_chunk: NonZeroU64,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    Table,
    /// One JSON document.
    Json,
}

/// The largest count any shape may ask for: no context is longer, and sums of two stay far from overflow.
const MOST_TOKENS: u64 = 100_000_000;

fn count(text: &str, least: u64, why: &str) -> Result<NonZeroU64, String> {
    let number: u64 = text.parse().map_err(|_| format!("it must be a whole number, at least {least}"))?;
    if number > MOST_TOKENS {
        return Err(format!("it must be at most {MOST_TOKENS}"));
    }
    NonZeroU64::new(number)
        .filter(|number| number.get() >= least)
        .ok_or_else(|| format!("it must be at least {least}: {why}"))
}

pub(super) fn at_least_one(text: &str) -> Result<NonZeroU64, String> {
    count(text, 1, "with 0 tokens there is nothing to run")
}

pub(super) fn at_least_two(text: &str) -> Result<NonZeroU64, String> {
    count(text, 2, "the first token belongs to prefill, so decode needs a second one")
}

pub(super) fn at_least_one_small(text: &str) -> Result<NonZeroU32, String> {
    let number = count(text, 1, "with 0 repetitions nothing is measured")?;
    NonZeroU32::try_from(number).map_err(|_| format!("it must be at most {}", u32::MAX))
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "it must be a number of seconds above 0".to_owned())
}

fn suffix(text: &str) -> Result<String, String> {
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || "-.+".contains(character) || character == '_';
    if text.is_empty() || text.len() > 64 || !text.chars().all(allowed) {
        return Err("it goes into the file name: 1 to 64 letters, digits, '_', '-', '.' or '+'".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn parse(arguments: &[&str]) -> Result<SweepArgs, String> {
        let line = ["mlxcel-bench", "sweep"].iter().chain(arguments);
        match crate::cli::Cli::try_parse_from(line) {
            Ok(crate::cli::Cli { command: crate::cli::Command::Sweep(arguments) }) => Ok(arguments),
            Ok(_) => Err("another command".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_methodology() -> Result<(), String> {
        let arguments = parse(&["models/x"])?;
        assert_eq!(arguments.shape.reps.get(), 3);
        assert_eq!(arguments.shape.prefill_chunk.get(), 2048);
        assert_eq!((arguments.shape.prompt_tokens, arguments.shape.max_tokens), (None, None));
        Ok(())
    }

    #[test]
    fn a_models_folder_that_was_named_is_never_passed_over() -> Result<(), String> {
        for (line, target) in [
            (vec!["all"], Target::All("models".into())),
            (vec!["all", "--models", "m"], Target::All("m".into())),
            (vec!["--models", "m"], Target::All("m".into())),
            (vec!["x"], Target::Single("x".into())),
            (vec!["./all"], Target::Single("./all".into())),
        ] {
            assert_eq!(parse(&line)?.target(), target, "{line:?}");
        }
        Ok(())
    }

    #[test]
    fn counts_of_nothing_are_refused_in_words() {
        for (flag, words) in [
            ("--max-tokens", "at least 2"),
            ("--prompt-tokens", "at least 1"),
            ("--reps", "nothing is measured"),
            ("--prefill-chunk", "at least 1"),
        ] {
            let message = parse(&["x", flag, "0"]).err().unwrap_or_default();
            assert!(message.contains(words) && message.contains(flag), "{flag}: {message}");
        }
        assert!(parse(&["x", "--max-tokens", "1"]).is_err());
        assert!(parse(&["x", "--max-tokens", "99999999999999999999"]).is_err());
        assert!(parse(&["x", "--timeout", "0"]).is_err());
        assert!(parse(&["x", "--timeout", "nan"]).is_err());
    }

    #[test]
    fn duplicates_are_looked_for_among_all_folders_and_never_about_a_named_one() -> Result<(), String> {
        for (line, dedup) in [
            (vec![], Dedup::Config),
            (vec!["all"], Dedup::Config),
            (vec!["all", "--dedup", "content"], Dedup::Content),
            (vec!["all", "--no-dedup"], Dedup::None),
            (vec!["x"], Dedup::None),
            (vec!["x", "--dedup", "path"], Dedup::None),
        ] {
            assert_eq!(parse(&line)?.dedup(), dedup, "{line:?}");
        }
        assert!(parse(&["all", "--no-dedup", "--dedup", "path"]).is_err());
        Ok(())
    }

    #[test]
    fn a_suffix_cannot_leave_the_folder() {
        assert!(parse(&["x", "--suffix", "../y"]).is_err());
        assert!(parse(&["x", "--suffix", ""]).is_err());
        assert!(parse(&["x", "--suffix", "post-reboot_2"]).is_ok());
    }
}
