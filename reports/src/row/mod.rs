//! One line of a result file: what was run ([`RowIdentity`]), and how it ended.
//!
//! A valid measurement is a [`Row<Measured>`], everything else a [`Row<Excluded>`]; code that compares takes the first
//! and so cannot be handed the second. The figures of a row are derived from its samples by [`Figures::of`] and by
//! nothing else. How rows lie on disk is [`crate::wire`]'s business.

mod conditions;
mod figures;
mod identity;

pub use conditions::{Conditions, Control, Generation, HostState, Limits, Memory, QuietGate, Traffic};
pub(crate) use conditions::{bandwidth_pct, implied_bandwidth};
pub use figures::{Figures, FiguresError};
pub use identity::{
    Backend, Build, BuildType, Checkpoint, CheckpointId, EosPolicy, HarnessKind, Host, RowIdentity, Run,
    Workload,
};

use crate::measure::Sample;
use crate::status::{Exclusion, Rule, Status};

/// A row; `Outcome` is [`Measured`] or [`Excluded`].
#[derive(Debug, Clone)]
pub struct Row<Outcome> {
    identity: RowIdentity,
    load_nanos: Option<u64>,
    detail: Option<String>,
    outcome: Outcome,
}

/// The outcome of a valid measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    figures: Figures,
}

/// The outcome of everything that is not a valid measurement.
#[derive(Debug, Clone)]
pub struct Excluded {
    exclusion: Exclusion,
    figures: Option<Figures>,
}

/// A row of either kind, as a file holds them.
#[derive(Debug, Clone)]
pub enum AnyRow {
    /// A valid measurement.
    Measured(Row<Measured>),
    /// No valid measurement.
    Excluded(Row<Excluded>),
}

/// Samples that do not make a valid measurement: the rule they break, ready for [`Row::excluded`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail} ({rule})")]
pub struct NotMeasured {
    /// The rule.
    pub rule: Rule,
    /// What was found, for the `status_detail` column.
    pub detail: String,
}

impl<Outcome> Row<Outcome> {
    /// What was run, by what, on what.
    pub const fn identity(&self) -> &RowIdentity {
        &self.identity
    }

    /// Nanoseconds to load the checkpoint, where it was loaded.
    pub const fn load_nanos(&self) -> Option<u64> {
        self.load_nanos
    }

    /// Milliseconds to load the checkpoint, where it was loaded.
    pub fn load_ms(&self) -> Option<f64> {
        self.load_nanos.map(|nanos| nanos as f64 / 1e6)
    }

    /// The `status_detail` column: the reason in words, or a remark on a valid row.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// The row with other conditions, which are often known only when the figures are.
    #[must_use]
    pub fn with_conditions(mut self, conditions: Conditions) -> Self {
        self.identity.conditions = conditions;
        self
    }

    /// The row with another `status_detail`; an empty text clears it.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = non_empty(detail.into());
        self
    }
}

impl Row<Measured> {
    /// A valid row from its samples.
    ///
    /// Refuses what no harness may publish as a measurement: samples that do not belong together, that lack a rate, or
    /// that stopped short although end-of-sequence was suppressed. Limits on spread and the like are the harness's to
    /// judge.
    pub fn measured(
        identity: RowIdentity,
        load_nanos: Option<u64>,
        samples: &[Sample],
    ) -> Result<Self, NotMeasured> {
        let figures = Figures::of(samples).map_err(|error| NotMeasured {
            rule: match error {
                FiguresError::NoSamples | FiguresError::RepetitionOrder { .. } => Rule::Inconclusive,
                FiguresError::PromptTokensDiffer { .. } => Rule::PromptMismatch,
                FiguresError::GeneratedTokensDiffer { .. } => Rule::ShortGeneration,
            },
            detail: error.to_string(),
        })?;
        Self::from_figures(identity, load_nanos, figures)
    }

    pub(crate) fn from_figures(
        identity: RowIdentity,
        load_nanos: Option<u64>,
        figures: Figures,
    ) -> Result<Self, NotMeasured> {
        let workload = &identity.workload;
        check_measured(workload.max_tokens, workload.eos_policy, workload.prompt_target_len, &figures)?;
        Ok(Self { identity, load_nanos, detail: None, outcome: Measured { figures } })
    }

    /// The figures of the row.
    pub const fn figures(&self) -> &Figures {
        &self.outcome.figures
    }

    /// The same row, no longer valid: `rule` was broken, as `detail` says.
    #[must_use]
    pub fn invalidated(self, rule: Rule, detail: impl Into<String>) -> Row<Excluded> {
        Row {
            identity: self.identity,
            load_nanos: self.load_nanos,
            detail: non_empty(detail.into()),
            outcome: Excluded { exclusion: rule.into(), figures: Some(self.outcome.figures) },
        }
    }
}

impl Row<Excluded> {
    /// A row without a valid measurement. Samples that do not belong together leave no figures; they stay in the
    /// samples file.
    pub fn excluded(
        identity: RowIdentity,
        load_nanos: Option<u64>,
        exclusion: impl Into<Exclusion>,
        detail: impl Into<String>,
        samples: &[Sample],
    ) -> Self {
        Self::from_exclusion(identity, load_nanos, exclusion.into(), Figures::of(samples).ok())
            .with_detail(detail)
    }

    pub(crate) const fn from_exclusion(
        identity: RowIdentity,
        load_nanos: Option<u64>,
        exclusion: Exclusion,
        figures: Option<Figures>,
    ) -> Self {
        Self { identity, load_nanos, detail: None, outcome: Excluded { exclusion, figures } }
    }

    /// Why there is no valid measurement.
    pub const fn exclusion(&self) -> &Exclusion {
        &self.outcome.exclusion
    }

    /// What was measured before the row was excluded, if anything. Not to be compared or averaged.
    pub const fn figures(&self) -> Option<&Figures> {
        self.outcome.figures.as_ref()
    }
}

impl AnyRow {
    /// What was run, by what, on what.
    pub const fn identity(&self) -> &RowIdentity {
        match self {
            Self::Measured(row) => &row.identity,
            Self::Excluded(row) => &row.identity,
        }
    }

    /// How the row ended.
    pub fn status(&self) -> Status {
        match self {
            Self::Measured(_) => Status::Ok,
            Self::Excluded(row) => Status::Excluded(row.outcome.exclusion.clone()),
        }
    }

    /// Says what became known after the row was written: the controls around it.
    pub fn set_control(&mut self, control: Control) {
        match self {
            Self::Measured(row) => row.identity.conditions.control = control,
            Self::Excluded(row) => row.identity.conditions.control = control,
        }
    }

    /// The `status_detail` column.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Measured(row) => row.detail(),
            Self::Excluded(row) => row.detail(),
        }
    }

    /// Nanoseconds to load the checkpoint, where it was loaded.
    pub const fn load_nanos(&self) -> Option<u64> {
        match self {
            Self::Measured(row) => row.load_nanos,
            Self::Excluded(row) => row.load_nanos,
        }
    }

    /// What was measured, valid or not. For showing and for checking, not for comparing.
    pub const fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Measured(row) => Some(&row.outcome.figures),
            Self::Excluded(row) => row.outcome.figures.as_ref(),
        }
    }

    /// Bytes a second that the decode rate needs from memory, valid or not; none where bytes or rate are unknown.
    pub fn implied_bandwidth_bytes_s(&self) -> Option<f64> {
        conditions::implied_bandwidth(&self.identity().conditions.traffic, self.decode_tok_s())
    }

    /// The same as a share of what the host can stream, in percent.
    pub fn bandwidth_pct(&self) -> Option<f64> {
        conditions::bandwidth_pct(&self.identity().conditions.traffic, self.decode_tok_s())
    }

    /// The decode rate needs more memory bandwidth than the host has, whose processor has a last-level cache of
    /// `processor_cache_bytes`, where that was recorded.
    pub fn is_implausible(&self, processor_cache_bytes: Option<u64>) -> bool {
        let RowIdentity { build, conditions, .. } = self.identity();
        is_implausible(build.backend, &conditions.traffic, self.decode_tok_s(), processor_cache_bytes)
    }

    fn decode_tok_s(&self) -> Option<f64> {
        self.figures().and_then(|figures| figures.decode().tok_s())
    }

    /// The valid measurement, if it is one.
    pub const fn as_measured(&self) -> Option<&Row<Measured>> {
        match self {
            Self::Measured(row) => Some(row),
            Self::Excluded(_) => None,
        }
    }
}

impl From<Row<Measured>> for AnyRow {
    fn from(row: Row<Measured>) -> Self {
        Self::Measured(row)
    }
}

impl From<Row<Excluded>> for AnyRow {
    fn from(row: Row<Excluded>) -> Self {
        Self::Excluded(row)
    }
}

/// Whether a decode rate needs more memory bandwidth than the host has.
pub(crate) fn is_implausible(
    backend: Backend,
    traffic: &Traffic,
    decode_tok_s: Option<f64>,
    processor_cache_bytes: Option<u64>,
) -> bool {
    let cache_bytes = match backend {
        Backend::Cpu => processor_cache_bytes,
        Backend::Metal | Backend::Cuda => Some(Traffic::LARGEST_DEVICE_CACHE_BYTES),
    };
    traffic.is_implausible(decode_tok_s, cache_bytes)
}

/// What figures must be that a valid row of this workload has.
pub(crate) fn check_measured(
    max_tokens: u64,
    eos_policy: EosPolicy,
    prompt_target_len: Option<u64>,
    figures: &Figures,
) -> Result<(), NotMeasured> {
    let generated = figures.decode().generated();
    let broken = |rule, detail| Err(NotMeasured { rule, detail });
    if generated == 0 {
        return broken(Rule::NoTokens, "no token was generated".to_owned());
    }
    if generated > max_tokens {
        let detail = format!("{generated} tokens were generated where at most {max_tokens} were asked for");
        return broken(Rule::Inconclusive, detail);
    }
    if eos_policy == EosPolicy::Suppress && generated < max_tokens {
        let detail = format!("{generated} of {max_tokens} tokens were generated");
        return broken(Rule::ShortGeneration, detail);
    }
    if let Some(target) = prompt_target_len
        && figures.prefill().tokens() != target
    {
        let detail = format!("the prompt had {} tokens instead of {target}", figures.prefill().tokens());
        return broken(Rule::PromptMismatch, detail);
    }
    if figures.prefill().tok_s().is_none() {
        return broken(Rule::ZeroTime, "prefill took no measurable time".to_owned());
    }
    if figures.decode().steps() > 0 && figures.decode().tok_s().is_none() {
        return broken(Rule::ZeroTime, "decode took no measurable time".to_owned());
    }
    Ok(())
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
