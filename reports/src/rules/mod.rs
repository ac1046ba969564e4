//! The preconditions of a comparison, one object a rule, and the table of them.
//!
//! A rule is an id, how far it reaches, the facts it looks at, what takes it back, its text, and a function that finds.
//! A new rule is one entry in a file of its subject and one line in [`RULES`]. Nothing is decided here about what findings
//! lead to; that is [`crate::compare`]'s.

mod baseline;
mod build;
mod checkpoint;
mod commit;
mod harness;
mod host;
mod identity;
mod measured;
mod output;
mod reference;
mod roster;
mod unknown;
mod workload;

use crate::compare::baseline::Readings;
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::{Acceptance, Options};
use crate::compare::pairing::{Pair, Pairing};
use crate::history::SourceFile;
use crate::record::Facts;

/// Everything that rules may look at.
#[derive(Debug)]
pub struct Case<'a> {
    /// The first file.
    pub before: &'a SourceFile,
    /// The second file.
    pub after: &'a SourceFile,
    /// What belongs together.
    pub pairing: &'a Pairing<'a>,
    /// What the user said.
    pub options: &'a Options,
    /// Other measurements of the first file's checkpoints.
    pub readings: &'a Readings,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// The two files.
    Files(fn(&Case<'_>) -> Vec<Finding>),
    /// The facts of each measured pair; called once for each two sets of facts.
    Facts(fn(&Case<'_>, &Facts, &Facts) -> Vec<Finding>),
    /// Each pair.
    Pair(fn(&Case<'_>, &Pair<'_>) -> Vec<Finding>),
    /// The pairs that nothing dropped.
    Survivors(fn(&Case<'_>, &[&Pair<'_>]) -> Vec<Finding>),
}

/// One precondition.
#[derive(Debug)]
pub struct Rule {
    /// Its id in reports.
    pub id: &'static str,
    /// How far it reaches at most.
    pub tier: Tier,
    /// The facts it looks at.
    pub fields: &'static [&'static str],
    /// What takes it back; none for nothing.
    pub accepted_by: &'static [Acceptance],
    /// What it demands.
    pub text: &'static str,
    /// What finds a breach.
    pub check: Check,
}

/// All rules, in the order of their ids.
pub const RULES: [&Rule; 33] = [
    &harness::FIGURE_PRESENT,
    &harness::SAME_KIND,
    &commit::ONE_COMMIT,
    &identity::ONLY_THE_AXIS,
    &commit::CLEAN_AND_KNOWN,
    &build::PROVED_EXECUTABLE,
    &build::SAME_MLX,
    &build::OPTIMISED_ALIKE,
    &host::SAME_HOST,
    &unknown::UNKNOWN_EQUALS_NOTHING,
    &checkpoint::SAME_CHECKPOINT,
    &workload::SAME_PROMPT,
    &workload::ALL_TOKENS,
    &workload::ENOUGH_TOKENS,
    &roster::REPETITIONS,
    &reference::NEAR_REFERENCE,
    &baseline::NOT_SUPERSEDED,
    &measured::CONTROL_DRIFT,
    &measured::CONTENDED,
    &measured::IMPLAUSIBLE,
    &measured::CACHE_HIT,
    &roster::UNIQUE_KEYS,
    &roster::EQUAL_ROSTER,
    &roster::SOME_PAIRS,
    &output::SAME_OUTPUT,
    &measured::MEASURED,
    &checkpoint::GENERATIVE,
    &measured::HAS_A_VALUE,
    &measured::READABLE,
    &measured::STATED_RATE,
    &measured::STEADY,
    &identity::AXIS_DIFFERS,
    &identity::TWO_MEASUREMENTS,
];

/// The rules in force.
#[derive(Debug, Clone)]
pub struct RuleSet(Vec<&'static Rule>);

impl RuleSet {
    /// Every rule.
    pub fn all() -> Self {
        Self(RULES.to_vec())
    }

    /// All but one: for showing that its test notices.
    #[must_use]
    pub fn without(&self, id: &str) -> Self {
        Self(self.0.iter().copied().filter(|rule| rule.id != id).collect())
    }

    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &'static Rule> {
        self.0.iter().copied()
    }
}

/// A text as an optional value, for findings.
fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}
