//! Arguments of `sweep`, checked as far as the command line alone allows.
//!
//! What depends on files, on the host or on the backend is left to `sweep`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use mlxcel_reports::row::Limits;

/// Arguments of `sweep`.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("again").args(["resume", "rerun"]).multiple(true)))]
#[command(after_help = "\
Exit codes: 0 every measured row is valid; 1 a row of ours or of the reference failed, is invalid or missing, or fewer checkpoints were measured than in the last sweep \
of this host; 2 refused before measuring (the executable is not built from the working tree, or what is to be resumed is another \
run); 3 no valid row, though none failed; 4 bad input or output; 64 usage; 130 interrupted (finished rows stay).

Environment: MODELS_DIR and BENCHMARKS_DIR stand for --models and --out; MLXCEL_CACHE_DIR is where default models and the record \
of prompts that ran out of memory are kept; BENCH_ALLOW_STALE_BINARY=1 measures although the executable is not built from the \
working tree, and marks every row; QUIET_LIMIT, QUIET_HOLD and QUIET_GATE_TIMEOUT stand for the flags of the quiet gate, WAIT_FOR_QUIET=0 \
for --no-quiet-gate, BENCH_WATCH=0 for --no-watch; BENCH_MEM_OVERHEAD_FACTOR (default 1.0) multiplies the weights in the estimate of memory; \
MLXCEL_BENCH_IGNORE_OOM_RECORD=1 stands for --ignore-oom-record; MLXLM_PYTHON for the interpreter of --reference mlx-lm.")]
pub struct SweepArgs {
    /// A checkpoint folder, or `all` for every folder of the models folder. Without it, `all` where --models
    /// or MODELS_DIR is given; else the default models (SmolLM2-135M-Instruct, dense and in 4 bits) are
    /// fetched and measured.
    pub target: Option<PathBuf>,
    /// Models folder, for `all` [default: models].
    #[arg(long, value_name = "DIR")]
    pub models: Option<PathBuf>,
    /// Shape and repetitions.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Which rows, in which order.
    #[command(flatten)]
    pub roster: RosterArgs,
    /// Waits and limits.
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// Waiting for a quiet host.
    #[command(flatten)]
    pub quiet: QuietGateArgs,
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
    /// Name of the result files, in the place of the one made of backend, hardware and date.
    #[arg(long, value_name = "NAME", value_parser = suffix, conflicts_with = "suffix")]
    pub name: Option<String>,
    /// Folder of the result files; made when absent.
    #[arg(long, value_name = "DIR", env = "BENCHMARKS_DIR", default_value = "benchmarks")]
    pub out: PathBuf,
    /// Go on with a sweep that did not come to its end: the given one, or the newest in --out that has the same
    /// executable, workload and host.
    #[arg(long, value_name = "CSV", num_args = 0..=1, require_equals = true)]
    pub resume: Option<Option<PathBuf>>,
    /// With --resume, also measure finished rows of this kind again; with --rerun, measure these [default there: failed and
    /// invalid ones].
    #[arg(long, value_name = "ROWS", value_enum, requires = "again")]
    pub retry: Option<Retry>,
    /// Measure the same checkpoints with this runtime too, in turn, with the same token ids: `mlx-lm`, or
    /// `mlx-lm=PYTHON` with the interpreter that has it.
    #[arg(long, value_name = "RUNTIME", value_parser = reference)]
    pub reference: Option<Reference>,
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

/// Which rows there are, and in which order.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct RosterArgs {
    /// Print the roster with the expected outcome and minutes of each row, and measure nothing.
    #[arg(long)]
    pub plan: bool,
    /// Measure image prompts: only checkpoints that take images; the others are named.
    #[arg(long)]
    pub vlm: bool,
    /// The image of --vlm; implies it.
    #[arg(long, value_name = "PATH")]
    pub image: Option<PathBuf>,
    /// Order of measurement: by size class and shuffled within, or by name.
    #[arg(long, value_enum, default_value_t = Order::Size)]
    pub order: Order,
    /// Seed of the shuffle; a new one for each sweep when not given. It is kept in the provenance.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Measure the control checkpoint first, last and after every so many rows; 0 for never [default: 10, where
    /// at least four rows are measured].
    #[arg(long, value_name = "ROWS")]
    pub control_every: Option<u32>,
    /// How far two controls in a row may lie apart, in percent [default: the noise that doctor found of this host, at most
    /// 10; else 4]. Each row says it.
    #[arg(long, value_name = "PERCENT", value_parser = positive)]
    pub control_band: Option<f64>,
    /// The control checkpoint [default: the smallest that is measured].
    #[arg(long, value_name = "DIR")]
    pub control: Option<PathBuf>,
    /// Also start what ran out of memory before on this host, with this executable and these settings.
    #[arg(long)]
    pub ignore_oom_record: bool,
    /// Measure only the rows of this result file that are invalid or failed (--retry names others), in a result
    /// set of their own.
    #[arg(long, value_name = "CSV")]
    pub rerun: Option<PathBuf>,
    /// Accept that fewer checkpoints are measured than in the last sweep of this host.
    #[arg(long)]
    pub allow_fewer: bool,
}

/// What is waited for, and what a valid row must keep to.
#[derive(Debug, Clone, Args)]
pub struct ConditionArgs {
    /// Wait before each measured row but the first, in seconds, or `auto`: until the host is as fast as at first.
    #[arg(long, value_name = "SECONDS|auto", default_value = "0", value_parser = cooldown)]
    pub cooldown: Cooldown,
    /// Wait so much longer after a checkpoint beyond --big-threshold-gb, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds_or_none)]
    pub big_cooldown: Duration,
    /// Weights of more than so many GiB make a checkpoint big.
    #[arg(long, value_name = "GIB", default_value = "10", value_parser = positive)]
    pub big_threshold_gb: f64,
    /// Longest wait of --cooldown auto, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds_or_none)]
    pub cooldown_limit: Duration,
    /// No wait at all, whatever the other flags say.
    #[arg(long)]
    pub no_cooldown: bool,
    /// Largest spread of a valid row's repetitions, (max - min) / median in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = Limits::MOST_SPREAD_PCT, value_parser = positive)]
    pub max_spread: f64,
}

/// Waiting for a host on which nobody else is busy, and watching it.
#[derive(Debug, Clone, Args)]
pub struct QuietGateArgs {
    /// Share of a core from which a foreign process counts as busy before measuring begins, in percent; --watch-limit is
    /// that of the time after it [default: 15].
    #[arg(long, value_name = "PERCENT", env = "QUIET_LIMIT", value_parser = positive)]
    pub quiet_limit: Option<f64>,
    /// How long nobody else may have been busy before measuring begins, in seconds [default: 90].
    #[arg(long, value_name = "SECONDS", env = "QUIET_HOLD", value_parser = seconds_or_none)]
    pub quiet_hold: Option<Duration>,
    /// How long is waited for that at most, in seconds; 0 for ever [default: 1800].
    #[arg(long, value_name = "SECONDS", env = "QUIET_GATE_TIMEOUT", value_parser = seconds_or_none)]
    pub quiet_timeout: Option<Duration>,
    /// Name of processes that never count as busy, neither before nor meanwhile; each row says it. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub quiet_ignore: Vec<String>,
    /// Share of a core from which a foreign process counts as busy while rows are measured, in percent; each row says it
    /// [default: 15].
    #[arg(long, value_name = "PERCENT", value_parser = positive)]
    pub watch_limit: Option<f64>,
    /// Begin at once; every row says so. The same as WAIT_FOR_QUIET=0.
    #[arg(long)]
    pub no_quiet_gate: bool,
    /// Do not look who else is busy while rows are measured. The same as BENCH_WATCH=0.
    #[arg(long)]
    pub no_watch: bool,
}

/// In which order rows are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// By size class, smallest first, shuffled within.
    Size,
    /// As a shell lists the folders.
    Name,
}

/// Which finished rows are measured again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Retry {
    /// Those that failed.
    Failed,
    /// Those that are invalid, as after a control row that moved.
    Invalid,
    /// Those that were skipped for something that may have changed: want of weights or memory.
    Skipped,
    /// All of these.
    All,
}

/// How long is waited before a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cooldown {
    /// So long.
    Fixed(Duration),
    /// Until the host is as fast as at first.
    Auto,
}

/// A reference runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The interpreter that has mlx-lm; found out when not given.
    pub python: Option<PathBuf>,
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

    /// Whether image prompts are measured.
    pub const fn is_vlm(&self) -> bool {
        self.roster.vlm || self.roster.image.is_some()
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
    /// Exact length of the synthetic prompt, in tokens; several, separated by commas, give each checkpoint a row
    /// for each, capped by its context [default: 512; less for the default models with MLX's own kernels on a CPU].
    #[arg(long, value_name = "N", value_parser = at_least_one, value_delimiter = ',')]
    pub prompt_tokens: Vec<NonZeroU64>,
    /// Exact number of tokens to generate [default: 128; less for the default models with MLX's own kernels on a CPU].
    #[arg(long, value_name = "N", value_parser = at_least_two)]
    pub max_tokens: Option<NonZeroU64>,
    /// Measured repetitions of each checkpoint, after one discarded warm-up of the same shape.
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one_small)]
    pub reps: NonZeroU32,
    /// Longest piece of the prompt that is read at once, in tokens.
    #[arg(long, value_name = "N", default_value = "2048", value_parser = at_least_one)]
    pub prefill_chunk: NonZeroU64,
    /// Let an end-of-sequence token end a generation instead of making it impossible.
    #[arg(long)]
    pub no_ignore_eos: bool,
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

fn seconds_or_none(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "it must be a number of seconds, at least 0".to_owned())
}

fn cooldown(text: &str) -> Result<Cooldown, String> {
    if text == "auto" {
        return Ok(Cooldown::Auto);
    }
    seconds_or_none(text)
        .map(Cooldown::Fixed)
        .map_err(|_| "it must be `auto` or a number of seconds, at least 0".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| "it must be a number above 0".to_owned())
}

fn reference(text: &str) -> Result<Reference, String> {
    match text.split_once('=') {
        None if text == "mlx-lm" => Ok(Reference { python: None }),
        Some(("mlx-lm", python)) if !python.is_empty() => Ok(Reference { python: Some(python.into()) }),
        _ => Err("it must be `mlx-lm`, or `mlx-lm=` and a Python interpreter".to_owned()),
    }
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
pub(super) mod tests {
    use super::*;
    use clap::Parser as _;

    pub(in crate::cli) fn parse(arguments: &[&str]) -> Result<SweepArgs, String> {
        let line = ["mlxcel-bench", "sweep"].iter().chain(arguments);
        match crate::cli::Cli::try_parse_from(line) {
            Ok(crate::cli::Cli { command: crate::cli::Command::Sweep(arguments) }) => Ok(*arguments),
            Ok(_) => Err("another command".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_methodology() -> Result<(), String> {
        let arguments = parse(&["models/x"])?;
        assert_eq!(arguments.shape.reps.get(), 3);
        assert_eq!(arguments.shape.prefill_chunk.get(), 2048);
        assert_eq!((arguments.shape.prompt_tokens, arguments.shape.max_tokens), (Vec::new(), None));
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
    fn waits_are_seconds_or_auto() -> Result<(), String> {
        assert_eq!(parse(&["x", "--cooldown", "auto"])?.conditions.cooldown, Cooldown::Auto);
        let half = Cooldown::Fixed(Duration::from_millis(500));
        assert_eq!(parse(&["x", "--cooldown", "0.5"])?.conditions.cooldown, half);
        for bad in ["soon", "-1", "nan", "inf"] {
            assert!(parse(&["x", &format!("--cooldown={bad}")]).is_err(), "{bad}");
        }
        Ok(())
    }

    #[test]
    fn a_reference_is_mlx_lm_with_or_without_its_interpreter() -> Result<(), String> {
        assert_eq!(parse(&["x", "--reference", "mlx-lm"])?.reference, Some(Reference { python: None }));
        let named = Reference { python: Some("env/bin/python".into()) };
        assert_eq!(parse(&["x", "--reference", "mlx-lm=env/bin/python"])?.reference, Some(named));
        for bad in ["llama.cpp", "mlx-lm=", "=python"] {
            assert!(parse(&["x", "--reference", bad]).is_err(), "{bad}");
        }
        Ok(())
    }

    #[test]
    fn resume_takes_a_file_only_behind_an_equals_sign() -> Result<(), String> {
        assert_eq!(parse(&["--resume", "all"])?.resume, Some(None));
        assert_eq!(parse(&["--resume=a.csv.partial", "all"])?.resume, Some(Some("a.csv.partial".into())));
        assert_eq!(parse(&["all"])?.resume, None);
        assert!(parse(&["all", "--retry", "failed"]).is_err());
        Ok(())
    }

    #[test]
    fn prompt_lengths_may_be_several() -> Result<(), String> {
        let lengths: Vec<u64> = parse(&["x", "--prompt-tokens", "512,2048"])?
            .shape
            .prompt_tokens
            .iter()
            .map(|n| n.get())
            .collect();
        assert_eq!(lengths, [512, 2048]);
        assert!(parse(&["x", "--prompt-tokens", "512,0"]).is_err());
        Ok(())
    }

    #[test]
    fn a_suffix_cannot_leave_the_folder() {
        assert!(parse(&["x", "--suffix", "../y"]).is_err());
        assert!(parse(&["x", "--suffix", ""]).is_err());
        assert!(parse(&["x", "--suffix", "post-reboot_2"]).is_ok());
    }
}
