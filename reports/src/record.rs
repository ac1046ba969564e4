//! One measurement of any harness, runtime and layout, as a comparison looks at it.
//!
//! What a column of a file really held was decided before ([`crate::history`]); here every number has its unit and every
//! fact is known, unknown, or of a kind that the file's layout has no place for. A rate is never stored: it follows from
//! counts and times by one convention, (N-1) decode steps over the time of those steps.

mod extra;

use std::borrow::Cow;
use std::sync::Arc;

use jiff::civil::Date;

use crate::measure::{Decode, Prefill};
use crate::revision;
use crate::status::{Exclusion, Fail, Rule, Skip, Status};
use crate::text::words;

pub use extra::{Controls, Extra, Generated, Rare, RateDisagreement};

words! {
    /// Kind of measurement, over all layouts. Rows of two kinds are never compared.
    pub enum Harness ("harness kind") {
        /// A text prompt.
        Text = "text",
        /// A prompt with an image.
        Vlm = "vlm",
        /// Forms of the key/value cache, over context lengths.
        KvCache = "kv-cache",
        /// Variants of one checkpoint's weights.
        Variants = "variants",
        /// Kernels alone, whether warm or cold was not recorded.
        Micro = "micro",
        /// Kernels alone, with the last-level cache warm.
        MicroWarm = "micro-warm",
        /// Kernels alone, with the last-level cache cold.
        MicroCold = "micro-cold",
        /// Fused and separate expert kernels, side by side in one row.
        MoeCrossover = "moe-crossover",
        /// Batched serving.
        Batch = "batch",
        /// Speculative decoding.
        Speculative = "speculative",
        /// Quality of the output, not speed.
        Perplexity = "perplexity",
        /// A trace of skipped cache blocks.
        SparseTrace = "sparse-trace",
    }
}

words! {
    /// A fact about how a row was measured, as rules and reports name it.
    pub enum Field ("field") {
        /// The program that ran the model.
        Runtime = "runtime",
        /// Its version.
        RuntimeVersion = "runtime_version",
        /// Its source commit.
        Commit = "commit",
        /// Version of MLX.
        MlxVersion = "mlx_version",
        /// Commit of MLX.
        MlxCommit = "mlx_commit",
        /// How the program was compiled.
        BuildType = "build_type",
        /// Its compile-time features.
        Features = "features",
        /// Processor it was compiled for.
        TargetCpu = "target_cpu",
        /// Which kernels ran.
        Kernels = "kernels",
        /// What MLX computed on.
        Backend = "backend",
        /// Chip and memory.
        Hardware = "hardware",
        /// Digest that tells hosts apart.
        HostId = "host_id",
        /// Processors that the process may use.
        UsableCores = "usable_cores",
        /// Operating system.
        Os = "os",
        /// Device driver.
        Driver = "driver",
        /// Tokens asked for.
        MaxTokens = "max_tokens",
        /// What was prompted.
        Prompt = "prompt",
        /// Requested prompt length.
        PromptTarget = "prompt_target",
        /// Form of the key/value cache.
        KvMode = "kv_mode",
        /// How tokens were chosen.
        Sampling = "sampling",
        /// Sequences at once.
        BatchSize = "batch_size",
        /// Longest piece of the prompt read at once.
        PrefillChunk = "prefill_chunk",
        /// Treatment of end-of-sequence tokens.
        EosPolicy = "eos_policy",
        /// What a historical file calls variant, stage, repack or notes.
        Variant = "variant",
        /// Whether measuring with an unproved executable was allowed.
        StaleBinary = "stale_binary_allowed",
        /// Digest of the MLX library that was loaded.
        MlxLibrary = "libmlx_sha256",
    }
}

/// What is known of one fact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fact {
    /// The layout has no column for it.
    #[default]
    NotRecorded,
    /// The column is there, and empty.
    Unknown,
    /// The value.
    Known(Arc<str>),
}

impl Fact {
    /// A known value; an empty text or the word `unknown` makes an unknown.
    pub fn of(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() || text.eq_ignore_ascii_case("unknown") {
            Self::Unknown
        } else {
            Self::Known(text.into())
        }
    }

    /// Revisions are commits, those of MLX tags as well; anything else names nothing, so it is unknown.
    pub(crate) fn revision(field: Field, text: &str) -> Self {
        let named = match field {
            Field::MlxCommit => revision::mlx(text),
            _ => revision::commit(text),
        };
        named.map_or(Self::Unknown, |named| Self::Known(named.into()))
    }

    /// The value, where it is known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::NotRecorded | Self::Unknown => None,
        }
    }
}

/// The facts that many rows of a file share.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Kind of measurement.
    pub harness: Harness,
    /// Day of the measurement.
    pub date: Option<Date>,
    values: [Fact; Field::ALL.len()],
}

impl Facts {
    /// Nothing but the kind is known.
    pub fn new(harness: Harness) -> Self {
        Self { harness, date: None, values: std::array::from_fn(|_| Fact::NotRecorded) }
    }

    /// One fact.
    pub fn get(&self, field: Field) -> &Fact {
        self.values.get(field as usize).unwrap_or(&Fact::NotRecorded)
    }

    /// The value of one fact, where it is known.
    pub fn known(&self, field: Field) -> Option<&str> {
        self.get(field).known()
    }

    /// Sets one fact.
    pub fn set(&mut self, field: Field, fact: Fact) {
        if let Some(value) = self.values.get_mut(field as usize) {
            *value = fact;
        }
    }
}

/// How a row ended, where old files have words of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A status of the project's vocabulary.
    Status(Status),
    /// A status of an older vocabulary, kept as it is.
    Foreign(Arc<str>),
    /// The row could not be understood; the text says why.
    Unreadable(Arc<str>),
}

impl Outcome {
    /// Reads a status token; one of an older vocabulary is kept.
    pub fn of(token: &str) -> Self {
        token.parse().map_or_else(|_| Self::Foreign(token.into()), Self::Status)
    }

    /// A valid measurement, as far as the status says.
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Status(Status::Ok))
    }

    /// Left out on purpose.
    pub fn is_skip(&self) -> bool {
        match self {
            Self::Status(status) => status.is_skip(),
            Self::Foreign(text) => text.starts_with("SKIP"),
            Self::Unreadable(_) => false,
        }
    }

    /// Measured, but a rule was broken.
    pub const fn is_invalid(&self) -> bool {
        matches!(self, Self::Status(status) if status.is_invalid())
    }

    /// The validity rule that was broken, if one was.
    pub const fn broken(&self) -> Option<Rule> {
        match self {
            Self::Status(Status::Excluded(Exclusion::Invalid(rule))) => Some(*rule),
            _ => None,
        }
    }

    /// The same checkpoint was measured under another name.
    pub const fn is_duplicate(&self) -> bool {
        matches!(self, Self::Status(Status::Excluded(Exclusion::Skip(Skip::DuplicateOf(_)))))
    }

    /// The model generates no text.
    pub const fn is_not_generative(&self) -> bool {
        matches!(self, Self::Status(Status::Excluded(Exclusion::Skip(Skip::NotGenerative))))
    }

    /// The image was not part of what was run.
    pub const fn is_image_missing(&self) -> bool {
        matches!(self, Self::Status(Status::Excluded(Exclusion::Fail(Fail::ImageNotApplied))))
    }

    /// The token, or `ok`.
    pub fn shown(&self) -> String {
        match self {
            Self::Status(Status::Ok) => "ok".to_owned(),
            Self::Status(status) => status.to_string(),
            Self::Foreign(text) => text.to_string(),
            Self::Unreadable(reason) => format!("unreadable: {reason}"),
        }
    }
}

words! {
    /// What is compared.
    pub enum Metric ("metric") {
        /// Decode steps a second.
        Decode = "decode",
        /// Prompt tokens a second.
        Prefill = "prefill",
        /// Milliseconds to load the checkpoint; less is better.
        Load = "load",
        /// Peak memory in bytes; less is better.
        PeakMemory = "peak-memory",
        /// Bytes a second of a kernel.
        Bandwidth = "bandwidth",
    }
}

impl Metric {
    /// The unit of the values.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Decode | Self::Prefill => "tok/s",
            Self::Load => "ms",
            Self::PeakMemory => "bytes",
            Self::Bandwidth => "bytes/s",
        }
    }

    /// Whether a larger value is the better one. Stated, never guessed from a name.
    pub const fn higher_is_better(self) -> bool {
        matches!(self, Self::Decode | Self::Prefill | Self::Bandwidth)
    }
}

/// One row of any file.
#[derive(Debug, Clone)]
pub struct Record {
    /// Line of the file it was read from.
    pub line: u64,
    /// Name of the checkpoint, or of the kernel's shape.
    pub model: Arc<str>,
    /// Its folder; two spellings of one path are one.
    pub model_path: Option<Arc<str>>,
    /// How it was measured.
    pub facts: Arc<Facts>,
    /// How it ended.
    pub outcome: Outcome,
    /// Tokens of the prompt that ran.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub generated_tokens: Option<u64>,
    /// Time of prefill.
    pub prefill_nanos: Option<u64>,
    /// Time of decode.
    pub decode_nanos: Option<u64>,
    /// What few layouts have.
    pub extra: Option<Box<Extra>>,
}

impl Record {
    /// Whether another row says the same in everything but its place in the file.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let Self { line: _, model, model_path, facts, outcome, .. } = self;
        let figures = |record: &Self| {
            (record.prompt_tokens, record.generated_tokens, record.prefill_nanos, record.decode_nanos)
        };
        *model == other.model
            && figures(self) == figures(other)
            && *model_path == other.model_path
            && *outcome == other.outcome
            && (Arc::ptr_eq(facts, &other.facts) || *facts == other.facts)
            && self.extra == other.extra
    }

    /// The value of a metric in its unit, recomputed. None where counts, times or both are missing or zero.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let extra = self.extra.as_deref();
        let value = match metric {
            Metric::Decode => Decode::new(self.generated_tokens?, self.decode_nanos?).tok_s(),
            Metric::Prefill => Prefill::new(self.prompt_tokens?, self.prefill_nanos?).tok_s(),
            Metric::Load => extra?.load_nanos.map(|nanos| nanos as f64 / 1e6),
            Metric::PeakMemory => extra?.peak_memory_bytes.map(|bytes| bytes as f64),
            Metric::Bandwidth => extra?.rare.as_deref()?.bandwidth_bytes_s,
        };
        value.filter(|value| value.is_finite() && *value > 0.0)
    }

    /// What few rows have.
    pub fn rare(&self) -> Option<&Rare> {
        self.extra.as_deref()?.rare.as_deref()
    }

    /// Spread of the repetitions behind a metric, in percent.
    pub fn spread_pct(&self, metric: Metric) -> Option<f64> {
        let extra = self.extra.as_deref()?;
        match metric {
            Metric::Decode => extra.decode_spread_pct,
            Metric::Prefill => extra.prefill_spread_pct,
            _ => None,
        }
    }

    /// The values of the repetitions behind a metric; the row's own where none are known.
    pub fn repetitions(&self, metric: Metric) -> Vec<f64> {
        let rates = self.rare().map(|rare| match metric {
            Metric::Decode => rare.decode_rates.as_slice(),
            Metric::Prefill => rare.prefill_rates.as_slice(),
            _ => &[],
        });
        match rates {
            Some(rates) if !rates.is_empty() => rates.to_vec(),
            _ => self.value(metric).into_iter().collect(),
        }
    }

    /// The shape that tells rows of one name apart: every setting that is known, but for one that may differ.
    pub fn shape(&self, but: Option<Field>) -> String {
        SHAPE
            .iter()
            .filter(|field| Some(**field) != but)
            .filter_map(|field| self.facts.known(*field).map(|value| format!("{field}={value}")))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// The facts that make two rows of one name two different measurements.
pub(crate) const SHAPE: [Field; 9] = [
    Field::MaxTokens,
    Field::Prompt,
    Field::PromptTarget,
    Field::KvMode,
    Field::Sampling,
    Field::BatchSize,
    Field::PrefillChunk,
    Field::EosPolicy,
    Field::Variant,
];

/// One spelling for a path: no leading `./`, no trailing or doubled slash.
pub fn normal_path(path: &str) -> Cow<'_, str> {
    let is_normal = !path.split('/').any(|part| part.is_empty() || part == ".");
    if is_normal && !path.is_empty() {
        return Cow::Borrowed(path);
    }
    let absolute = path.starts_with('/');
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let joined = parts.join("/");
    Cow::Owned(if absolute { format!("/{joined}") } else { joined })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_are_one() {
        for path in ["./models/x/", "models/x", "models//x/", "./models/./x"] {
            assert_eq!(normal_path(path), "models/x", "{path}");
        }
        assert_eq!(normal_path("/models/x/"), "/models/x");
        assert_ne!(normal_path("../models/x"), normal_path("models/x"));
    }

    #[test]
    fn a_blank_fact_is_unknown_and_facts_start_unrecorded() {
        assert_eq!(Fact::of(" unknown "), Fact::Unknown);
        assert_eq!(Fact::of("").known(), None);
        let mut facts = Facts::new(Harness::Text);
        for field in Field::ALL {
            assert_eq!(facts.get(*field), &Fact::NotRecorded, "{field}");
            facts.set(*field, Fact::of(field.as_str()));
            assert_eq!(facts.known(*field), Some(field.as_str()));
        }
    }
}
