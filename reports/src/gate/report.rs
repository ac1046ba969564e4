//! What a gate came to, before anybody renders it. The field names are those of the JSON form.

use jiff::civil::Date;
use serde::Serialize;

use super::policy::Policy;
use super::rules::Protected;
use super::spread::Spread;
use crate::compare::finding::Finding;
use crate::compare::report::{Input, Source};
use crate::record::Metric;
use crate::stats::verdict::Answer;
use crate::text::words;

words! {
    /// How a gate ended.
    pub enum Outcome ("gate outcome") {
        /// Nothing speaks against the candidate.
        Pass = "pass",
        /// A row is slower beyond doubt, or gone.
        Regression = "regression",
        /// A precondition is broken; nothing was compared.
        Refused = "refused",
        /// A row looks worse and is not proved to be, or could not be compared.
        Inconclusive = "inconclusive",
        /// Nothing is worse and something better; only when that is asked for.
        Improved = "improved",
    }
}

impl Outcome {
    /// The exit code of the program.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Regression => 1,
            Self::Refused => 2,
            Self::Inconclusive => 3,
            Self::Improved => 5,
        }
    }
}

words! {
    /// What a gate makes of a row.
    pub enum State ("state of a row") {
        /// `SLOWER` by the test: a confirmed regression.
        Regressed = "regressed",
        /// The baseline measured it and the candidate did not.
        Vanished = "vanished",
        /// Worse than its floor, and not proved to be.
        Flagged = "flagged",
        /// A rule keeps it from being compared.
        Dropped = "dropped",
        /// Regressed or flagged, and on the list of known noise.
        Noisy = "noisy",
        /// Neither shown to have changed nor shown not to have; not worse than its floor.
        Unclear = "unclear",
        /// One measurement a side, not worse than its floor.
        Within = "within",
        /// `SAME` by the test.
        Same = "same",
        /// `FASTER` by the test.
        Improved = "improved",
        /// Of a kind that gates leave out: embedders and rerankers.
        Excluded = "excluded",
    }
}

impl State {
    /// What the row alone makes of the gate.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Regressed | Self::Vanished => Outcome::Regression,
            Self::Flagged | Self::Dropped => Outcome::Inconclusive,
            Self::Improved => Outcome::Improved,
            Self::Noisy | Self::Unclear | Self::Within | Self::Same | Self::Excluded => Outcome::Pass,
        }
    }
}

/// One row and metric.
#[derive(Debug, Clone, Serialize)]
pub struct GateRow {
    /// The row's name, with its shape where the name alone does not tell rows apart.
    pub model: String,
    /// The metric.
    pub metric: Metric,
    /// What the gate makes of it.
    pub state: State,
    /// Median of the baseline's measurements, in the metric's unit.
    pub before: Option<f64>,
    /// Median of the candidate's.
    pub after: Option<f64>,
    /// Candidate over baseline: of one measurement a side the quotient, else the Hodges-Lehmann estimate.
    pub ratio: Option<f64>,
    /// What the test found; none for one measurement a side.
    pub test: Option<Answer>,
    /// The smallest change that matters, as a share.
    pub floor: f64,
    /// The row's A/A spread on this host, where one is known.
    pub aa_spread: Option<f64>,
    /// The entry of known noise that covers it.
    pub known_noise: Option<String>,
    /// Why it was not compared, or what must be known.
    pub reason: Option<String>,
    /// The baseline's measurements, each of a fresh process.
    pub values_before: Vec<f64>,
    /// The candidate's.
    pub values_after: Vec<f64>,
    /// What flagged the row before it was measured anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screened: Option<Box<Screened>>,
}

/// The measurements that flagged a row.
#[derive(Debug, Clone, Serialize)]
pub struct Screened {
    /// Candidate over baseline.
    pub ratio: Option<f64>,
    /// The baseline's measurements.
    pub values_before: Vec<f64>,
    /// The candidate's.
    pub values_after: Vec<f64>,
}

impl GateRow {
    /// Whether there is at most one measurement on a side.
    pub fn is_single(&self) -> bool {
        self.ratio.is_some() && self.test.is_none()
    }
}

/// A required row that is not there.
#[derive(Debug, Clone, Serialize)]
pub struct MissingRow {
    /// The pattern of the policy.
    pub pattern: String,
    /// What is the matter.
    pub message: String,
    /// What it makes of the gate.
    pub outcome: Outcome,
}

/// The result of a gate.
#[derive(Debug, Clone, Serialize)]
pub struct GateReport {
    /// How it ended.
    pub outcome: Outcome,
    /// The program's exit code.
    pub exit_code: u8,
    /// Rows and metrics; none when refused.
    pub rows: Vec<GateRow>,
    /// Required rows that are not there.
    pub missing: Vec<MissingRow>,
    /// Rows that only the candidate measured.
    pub new: Vec<String>,
    /// What refused.
    pub refused: Vec<Finding>,
    /// Pairs left out, each with the rule.
    pub dropped: Vec<Finding>,
    /// Refusals that the policy accepted.
    pub accepted: Vec<Finding>,
    /// What a reader must know.
    pub warnings: Vec<Finding>,
    /// What a reader must know of the gate as a whole.
    pub notes: Vec<String>,
    /// Where files and spreads came from, in the words of whoever found them.
    pub remarks: Vec<String>,
    /// The day of the gate, by which entries of known noise expire.
    pub today: Date,
    /// The A/A spreads of the baseline's hosts.
    pub spreads: Vec<Spread>,
    /// The baseline's files as a protected branch has them, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<Protected>,
    /// The result files.
    pub inputs: Vec<Input>,
    /// The other files that the result depends on.
    pub sources: Vec<Source>,
    /// The policy in force.
    pub policy: Policy,
    /// The command line.
    pub command: Vec<String>,
}

impl GateReport {
    /// How many rows are in a state.
    pub fn count(&self, state: State) -> usize {
        self.rows.iter().filter(|row| row.state == state).count()
    }
}
