//! How a row ended: one vocabulary for every harness.
//!
//! The text form is the token in the `status` column. It is empty for a valid measurement, as in the historical files;
//! otherwise `SKIP:` (never measured, on purpose), `FAIL:` (tried, did not work) or `INVALID:` (measured, but the numbers
//! must not be used). Deciding which one applies is the harness's business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::text::UnknownWord;
use crate::text::words;

/// Why a checkpoint was left out on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Skip {
    /// The folder has no `config.json`.
    NotACheckpoint,
    /// There is a `config.json` but the weights are absent, unreadable or incomplete.
    MissingWeights,
    /// The same checkpoint is measured under another name, given here.
    DuplicateOf(String),
    /// The weights are estimated not to fit in memory; nothing was started.
    OomEstimate,
    /// The run ended for want of memory.
    Oom,
    /// The checkpoint does not generate text (embedder, reranker, drafter and the like).
    NotGenerative,
    /// An image prompt was asked for and the image is absent.
    VlmImageNotFound,
    /// An image prompt was asked for, and the runtime runs none of this checkpoint's kind.
    VlmUnsupported,
}

words! {
    /// Where a run failed.
    pub enum Fail ("failure stage") {
        /// The checkpoint could not be loaded.
        Load = "load",
        /// The warm-up generation failed.
        Warmup = "warmup",
        /// A measured repetition failed.
        Bench = "bench",
        /// The time limit was reached.
        Timeout = "timeout",
        /// The worker ended well but handed back no measurement.
        NoOutput = "no_output",
        /// The worker process died (a signal, an abort).
        Crash = "crash",
        /// The image was not part of the prompt that was run.
        ImageNotApplied = "image_not_applied",
    }
}

words! {
    /// The rule a finished measurement broke.
    pub enum Rule ("validity rule") {
        /// Fewer tokens were generated than asked for.
        ShortGeneration = "short_generation",
        /// No token was generated.
        NoTokens = "no_tokens",
        /// A timed part took no measurable time, so that it has no rate.
        ZeroTime = "zero_time",
        /// The repetitions differ by more than the limit.
        Spread = "spread",
        /// Other work ran on the host during the measurement.
        Contended = "contended",
        /// The rate would need more memory bandwidth than the host has.
        ImplausibleBandwidth = "implausible",
        /// The prompt that was run is not the prompt that was asked for.
        PromptMismatch = "prompt_mismatch",
        /// The control row moved during the sweep.
        ControlDrift = "control_drift",
        /// A cache served what should have been computed.
        CacheHit = "cache_hit",
        /// The kernel or path that was to be measured did not run.
        NotDispatched = "not_dispatched",
        /// No speculation took place in a speculative run.
        NotSpeculating = "not_speculating",
        /// The batch or block width that ran is not the one asked for.
        WidthMismatch = "width_mismatch",
        /// The executable was not built from the tree it is recorded with.
        StaleBinary = "stale_binary",
        /// What ran could not be established.
        Provenance = "provenance",
        /// The measurement allows no conclusion.
        Inconclusive = "inconclusive",
    }
}

/// Why a row holds no valid measurement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// Left out on purpose.
    Skip(Skip),
    /// Tried, and failed.
    Fail(Fail),
    /// Measured, but a rule was broken.
    Invalid(Rule),
}

/// How a row ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Status {
    /// A valid measurement.
    Ok,
    /// No valid measurement.
    Excluded(Exclusion),
}

impl Status {
    /// A valid measurement.
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Ok)
    }

    /// Left out on purpose.
    pub const fn is_skip(&self) -> bool {
        matches!(self, Self::Excluded(Exclusion::Skip(_)))
    }

    /// Tried, and failed.
    pub const fn is_fail(&self) -> bool {
        matches!(self, Self::Excluded(Exclusion::Fail(_)))
    }

    /// Measured, but a rule was broken.
    pub const fn is_invalid(&self) -> bool {
        matches!(self, Self::Excluded(Exclusion::Invalid(_)))
    }
}

impl From<Skip> for Exclusion {
    fn from(skip: Skip) -> Self {
        Self::Skip(skip)
    }
}

impl From<Fail> for Exclusion {
    fn from(fail: Fail) -> Self {
        Self::Fail(fail)
    }
}

impl From<Rule> for Exclusion {
    fn from(rule: Rule) -> Self {
        Self::Invalid(rule)
    }
}

impl<T: Into<Exclusion>> From<T> for Status {
    fn from(exclusion: T) -> Self {
        Self::Excluded(exclusion.into())
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACheckpoint => f.write_str("not_a_checkpoint"),
            Self::MissingWeights => f.write_str("missing_weights"),
            Self::DuplicateOf(name) => write!(f, "duplicate_of={name}"),
            Self::OomEstimate => f.write_str("oom_estimate"),
            Self::Oom => f.write_str("oom"),
            Self::NotGenerative => f.write_str("not_generative"),
            Self::VlmImageNotFound => f.write_str("vlm_image_not_found"),
            Self::VlmUnsupported => f.write_str("vlm_unsupported"),
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip(skip) => write!(f, "SKIP:{skip}"),
            Self::Fail(fail) => write!(f, "FAIL:{fail}"),
            Self::Invalid(rule) => write!(f, "INVALID:{rule}"),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => Ok(()),
            Self::Excluded(exclusion) => exclusion.fmt(f),
        }
    }
}

impl FromStr for Skip {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "not_a_checkpoint" => Ok(Self::NotACheckpoint),
            "missing_weights" => Ok(Self::MissingWeights),
            "oom_estimate" => Ok(Self::OomEstimate),
            "oom" => Ok(Self::Oom),
            "not_generative" => Ok(Self::NotGenerative),
            "vlm_image_not_found" => Ok(Self::VlmImageNotFound),
            "vlm_unsupported" => Ok(Self::VlmUnsupported),
            other => match other.strip_prefix("duplicate_of=") {
                Some(name) if !name.is_empty() => Ok(Self::DuplicateOf(name.to_owned())),
                _ => Err(UnknownWord {
                    what: "reason to skip",
                    found: other.to_owned(),
                    known: "not_a_checkpoint, missing_weights, duplicate_of=<name>, oom_estimate, oom, not_generative, \
                            vlm_image_not_found, vlm_unsupported"
                        .to_owned(),
                }),
            },
        }
    }
}

impl FromStr for Status {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::Ok);
        }
        match text.split_once(':') {
            Some(("SKIP", rest)) => rest.parse::<Skip>().map(Self::from),
            Some(("FAIL", rest)) => rest.parse::<Fail>().map(Self::from),
            Some(("INVALID", rest)) => rest.parse::<Rule>().map(Self::from),
            _ => Err(UnknownWord {
                what: "status",
                found: text.to_owned(),
                known: "empty, SKIP:<reason>, FAIL:<stage>, INVALID:<rule>".to_owned(),
            }),
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_status() -> impl Strategy<Value = Status> {
        prop_oneof![
            Just(Status::Ok),
            prop_oneof![
                Just(Skip::NotACheckpoint),
                Just(Skip::MissingWeights),
                Just(Skip::OomEstimate),
                Just(Skip::Oom),
                Just(Skip::NotGenerative),
                Just(Skip::VlmImageNotFound),
                Just(Skip::VlmUnsupported),
                "(?s).{1,20}".prop_map(Skip::DuplicateOf),
            ]
            .prop_map(Status::from),
            proptest::sample::select(Fail::ALL).prop_map(Status::from),
            proptest::sample::select(Rule::ALL).prop_map(Status::from),
        ]
    }

    proptest! {
        #[test]
        fn every_status_reads_back_from_its_token(status in any_status()) {
            prop_assert_eq!(status.to_string().parse::<Status>(), Ok(status.clone()));
            let kinds = [status.is_ok(), status.is_skip(), status.is_fail(), status.is_invalid()];
            prop_assert_eq!(kinds.iter().filter(|kind| **kind).count(), 1);
        }

        #[test]
        fn a_token_that_parses_is_written_the_same_way(text in "(SKIP|FAIL|INVALID|OK)?:?[a-z_=]{0,20}") {
            if let Ok(status) = text.parse::<Status>() {
                prop_assert_eq!(status.to_string(), text);
            }
        }
    }

    #[test]
    fn tokens_are_those_of_the_documentation() {
        let tokens: Vec<String> = [
            Status::Ok,
            Skip::DuplicateOf("smollm2-135m".to_owned()).into(),
            Skip::OomEstimate.into(),
            Fail::NoOutput.into(),
            Rule::ImplausibleBandwidth.into(),
        ]
        .iter()
        .map(ToString::to_string)
        .collect();
        assert_eq!(
            tokens,
            [
                "",
                "SKIP:duplicate_of=smollm2-135m",
                "SKIP:oom_estimate",
                "FAIL:no_output",
                "INVALID:implausible"
            ]
        );
    }

    #[test]
    fn refuses_words_that_are_no_status() {
        for text in
            ["ok", "SKIP:", "SKIP:duplicate_of=", "FAIL:", "INVALID:nonsense", "skip:oom", " ", "FAIL:bench "]
        {
            assert!(text.parse::<Status>().is_err(), "{text:?} was read as a status");
        }
    }
}
