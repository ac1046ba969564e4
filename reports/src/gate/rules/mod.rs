//! The preconditions that a gate adds to those of a comparison, and the table of them.
//!
//! As with [`crate::rules`], a rule is an id, how far it reaches, the facts it looks at, what takes it back, its text, and a
//! function that finds. P22 and P24 are those of a comparison, asked of a side of several files.

mod age;
mod order;
mod protected;
mod repeated;
mod share;
mod threshold;

use super::policy::Policy;
use super::report::GateRow;
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::compare::pairing::Pairing;
use crate::compare::report::Comparison;
use crate::history::SourceFile;
use crate::names::NameResolver;
use crate::record::Record;

pub use protected::{Copy, Protected};

/// What rules about the files may look at.
pub struct GateCase<'a> {
    /// The baseline's files.
    pub baseline: &'a [SourceFile],
    /// The candidate's files.
    pub candidate: &'a [SourceFile],
    /// What is demanded.
    pub policy: &'a Policy,
    /// Which names mean one checkpoint.
    pub names: &'a dyn NameResolver,
    /// The baseline's files as a protected branch has them, where that is asked.
    pub protected: Option<&'a Protected>,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub enum GateCheck {
    /// The files of both sides.
    Files(fn(&GateCase<'_>) -> Vec<Finding>),
    /// What one metric's comparison left.
    Metric(fn(&Comparison, &Pairing<'_>, &Policy) -> Vec<Finding>),
    /// The rows of all metrics.
    Rows(fn(&[GateRow], &Policy) -> Vec<Finding>),
}

/// One precondition of a gate.
#[derive(Debug)]
pub struct GateRule {
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
    pub check: GateCheck,
}

/// All of them, in the order of their ids.
pub const GATE_RULES: [&GateRule; 7] = [
    &repeated::ONE_ROW_A_FILE,
    &share::ENOUGH_ROWS,
    &protected::PROTECTED_BASELINE,
    &age::RECENT_BASELINE,
    &repeated::EACH_MEASUREMENT_ONCE,
    &order::CANDIDATE_COMES_LATER,
    &threshold::THRESHOLDS_FIT,
];

/// The rules in force.
#[derive(Debug, Clone)]
pub struct GateRuleSet(Vec<&'static GateRule>);

impl GateRuleSet {
    /// Every rule.
    pub fn all() -> Self {
        Self(GATE_RULES.to_vec())
    }

    /// Those of a second stage. Which rows there must be was settled by the first one, the baseline's files are fresh, and
    /// thresholds of rows that were not flagged fit none.
    pub fn of_second_stage() -> Self {
        Self::all().without("P24").without("P26").without("P27").without("G02").without("G03")
    }

    /// All but one: for showing that its test notices.
    #[must_use]
    pub fn without(&self, id: &str) -> Self {
        Self(self.0.iter().copied().filter(|rule| rule.id != id).collect())
    }

    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = &'static GateRule> {
        self.0.iter().copied()
    }
}

/// The rows of files that are valid by their status.
fn measured(files: &[SourceFile]) -> impl Iterator<Item = &Record> {
    files.iter().flat_map(|file| &file.records).filter(|record| record.outcome.is_ok())
}
