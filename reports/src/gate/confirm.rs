//! The second stage of a gate: rows that the first one flagged, measured anew.
//!
//! Those fresh measurements take the place of the ones that flagged a row, which stay beside it. The second stage is a gate over
//! them alone: its family is theirs.

use super::policy::Policy;
use super::report::{GateReport, GateRow, Outcome, Screened, State};
use super::rules::GateRuleSet;
use super::{Request, excuse, name_of, outcome, remarks, run_under, test};
use crate::compare::report::Input;
use crate::record::Metric;
use crate::statistics::Summary;

/// What reports call the fresh files of the baseline.
pub(crate) const CONFIRM_BASELINE: &str = "confirm-baseline";
/// What reports call those of the candidate.
pub(crate) const CONFIRM_CANDIDATE: &str = "confirm-candidate";

/// Compares the fresh measurements. Which rows there must be was settled by the first stage.
pub fn second_stage(request: Request<'_>) -> GateReport {
    let policy = Policy {
        required: Vec::new(),
        max_baseline_age_days: None,
        min_share: None,
        protected_branch: None,
        ..request.policy
    };
    run_under(Request { policy, protected: None, ..request }, &GateRuleSet::of_second_stage())
}

/// The fresh measurements of one row, as a report states them.
pub struct Fresh {
    /// The row's name in the report.
    pub model: String,
    /// The metric.
    pub metric: Metric,
    /// The baseline's.
    pub before: Vec<f64>,
    /// The candidate's.
    pub after: Vec<f64>,
    /// What became of a row that could not be compared, and why.
    pub not_compared: Option<(State, Option<String>)>,
}

/// A second stage from fresh measurements alone, where the files that they came from are gone.
pub fn from_samples(first: &GateReport, fresh: Vec<Fresh>) -> GateReport {
    let flagged = |one: &Fresh| {
        first
            .rows
            .iter()
            .find(|row| row.state == State::Flagged && row.metric == one.metric && row.model == one.model)
    };
    let row = |one: Fresh| {
        let row = flagged(&one)?.clone();
        let median = |values: &[f64]| Summary::of(values).map(|summary| summary.median);
        let (before, after) = (median(&one.before), median(&one.after));
        let ratio = before.zip(after).map(|(before, after)| after / before);
        let (state, reason) = one.not_compared.clone().unwrap_or((State::Within, None));
        Some(GateRow {
            state,
            before,
            after,
            ratio: ratio.filter(|_| one.not_compared.is_none()),
            reason,
            known_noise: None,
            values_before: one.before,
            values_after: one.after,
            ..row
        })
    };
    let mut rows: Vec<GateRow> = fresh.into_iter().filter_map(row).collect();
    let mut notes = Vec::new();
    test(&mut rows, &first.policy);
    excuse(&mut rows, &first.policy, first.today, &mut notes);
    notes.extend(remarks(&rows, &first.policy));
    let outcome = outcome(&rows, &[], &first.policy, false);
    GateReport {
        outcome,
        exit_code: outcome.exit_code(),
        rows,
        missing: Vec::new(),
        new: Vec::new(),
        refused: Vec::new(),
        dropped: Vec::new(),
        accepted: Vec::new(),
        warnings: Vec::new(),
        notes,
        remarks: Vec::new(),
        inputs: Vec::new(),
        sources: Vec::new(),
        ..first.clone()
    }
}

/// Puts what a second stage measured in the place of the rows that the first one flagged. The second stage is a gate over
/// fresh measurements of those rows alone, so its family is theirs.
pub fn confirmed(mut first: GateReport, second: GateReport, tell_improvements: bool) -> GateReport {
    first.inputs.extend(second.inputs.into_iter().map(|input| {
        let side = if input.side == "baseline" { CONFIRM_BASELINE } else { CONFIRM_CANDIDATE };
        Input { side, ..input }
    }));
    // What was said of the rows as they were is said anew of the rows as they are.
    let stale = [remarks(&first.rows, &first.policy), remarks(&second.rows, &second.policy)].concat();
    first.notes.extend(second.notes);
    first.notes.retain(|note| !stale.contains(note));
    for (to, from) in [
        (&mut first.dropped, second.dropped),
        (&mut first.accepted, second.accepted),
        (&mut first.warnings, second.warnings),
    ] {
        to.extend(from);
    }
    if second.outcome == Outcome::Refused {
        first.refused = second.refused;
        first.rows.clear();
        first.outcome = Outcome::Refused;
    } else {
        for row in first.rows.iter_mut().filter(|row| row.state == State::Flagged) {
            let anew = second.rows.iter().find(|other| {
                other.metric == row.metric && (other.model == row.model || other.model == name_of(&row.model))
            });
            let Some(anew) = anew else { continue };
            let screened = row.ratio.map_or_else(String::new, |ratio| format!(": {ratio:.3} before"));
            let reason = anew.reason.as_ref().map_or_else(String::new, |reason| format!("; {reason}"));
            *row = GateRow {
                model: row.model.clone(),
                reason: Some(format!("flagged and measured anew{screened}{reason}")),
                screened: Some(Box::new(Screened {
                    ratio: row.ratio,
                    values_before: std::mem::take(&mut row.values_before),
                    values_after: std::mem::take(&mut row.values_after),
                })),
                ..anew.clone()
            };
        }
        first.rows.sort_by(|one, other| {
            (one.state, &one.model, one.metric).cmp(&(other.state, &other.model, other.metric))
        });
        first.outcome = outcome(&first.rows, &first.missing, &first.policy, tell_improvements);
        first.notes.extend(remarks(&first.rows, &first.policy));
    }
    first.exit_code = first.outcome.exit_code();
    first
}
