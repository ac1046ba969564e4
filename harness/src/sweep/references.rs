//! Which row of the reference belongs to which of ours, and the pairs that have none.
//!
//! A pair is one folder and one requested prompt length. What the reference did belongs to the row of ours that was measured
//! right before it: measured again, ours needs a new one.

use mlxcel_reports::row::{AnyRow, Row};
use mlxcel_reports::status::Rule;
use serde_json::{Value, json};

use super::results::Results;
use super::resume::again;
use crate::cli::Retry;

/// The setting of the provenance that says why there is no row of the reference.
pub(super) const NO_REFERENCE: &str = "no_reference_row";

/// A row of ours without one of the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoReference {
    pub(super) model: String,
    /// As rows hold it.
    pub(super) path: String,
    /// The requested length of the prompt.
    pub(super) requested: u64,
    pub(super) why: String,
}

impl NoReference {
    fn is_of(&self, path: &str, requested: u64) -> bool {
        self.path == path && self.requested == requested
    }

    fn json(&self) -> Value {
        json!({ "model": self.model, "path": self.path, "prompt_requested_len": self.requested, "why": self.why })
    }

    fn of(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        Some(Self {
            model: text("model")?,
            path: text("path")?,
            requested: value.get("prompt_requested_len")?.as_u64()?,
            why: text("why")?,
        })
    }
}

/// Every row of ours without one of the reference.
#[derive(Debug, Default)]
pub(super) struct NoReferences(Vec<NoReference>);

impl NoReferences {
    /// What the parts of the sweep before this one have said.
    pub(super) fn of(main: &Results) -> Self {
        let said = main.setting(NO_REFERENCE).and_then(Value::as_array);
        Self(said.into_iter().flatten().filter_map(NoReference::of).collect())
    }

    /// Adds one, in the place of what was said of the pair before, and keeps it.
    pub(super) fn add(&mut self, main: &mut Results, one: NoReference) -> anyhow::Result<()> {
        self.0.retain(|old| !old.is_of(&one.path, one.requested));
        self.0.push(one);
        self.keep(main)
    }

    /// The pair is measured again.
    pub(super) fn forget(&mut self, main: &mut Results, path: &str, requested: u64) -> anyhow::Result<()> {
        let count = self.0.len();
        self.0.retain(|old| !old.is_of(path, requested));
        if self.0.len() == count { Ok(()) } else { self.keep(main) }
    }

    fn keep(&self, main: &mut Results) -> anyhow::Result<()> {
        main.set_setting(NO_REFERENCE, self.0.iter().map(NoReference::json).collect())
    }

    /// Whether the reference has done its part for this row of ours: a row of its own that was measured after it, or a reason
    /// why there is none; and neither is to be tried again. A kill between the two leaves neither.
    pub(super) fn is_settled(
        &self,
        reference: Option<&Results>,
        own: &AnyRow,
        (path, requested): (&str, u64),
        retry: Option<Retry>,
    ) -> bool {
        if let Some((set, row)) = reference.and_then(|set| Some((set, set.find(path, requested)?))) {
            let after = row.identity().run.started_at >= own.identity().run.started_at;
            if after && !again(row, retry, &set.lost) {
                return true;
            }
        }
        let none = self.0.iter().any(|one| one.is_of(path, requested));
        let stale = reference.is_some_and(|set| set.find(path, requested).is_some());
        none && !stale && !matches!(retry, Some(Retry::Failed | Retry::All))
    }
}

/// A row of the reference whose partner was measured again, and that has no successor: it is none to compare with any more,
/// and says why. Nothing where the pair has no such row.
pub(super) fn withdraw(
    references: &mut Results,
    path: &str,
    requested: u64,
    why: &str,
) -> anyhow::Result<()> {
    let Some(old) = references.find(path, requested) else { return Ok(()) };
    let seat = references.seat(path, requested);
    let mut identity = old.identity().clone();
    identity.run.started_at = jiff::Timestamp::now();
    identity.conditions.attempts = seat.attempt(true);
    identity.conditions.generation = mlxcel_reports::row::Generation::default();
    identity.conditions.control = mlxcel_reports::row::Control::default();
    let detail =
        format!("our own row was measured again, and no reference row came of that: {why}; {}", seat.words());
    let row = Row::excluded(identity, None, Rule::Inconclusive, detail, &[]);
    references.put(row.into(), Vec::new())
}
