//! A gate's result: a table for people, a Markdown comment, and for machines JSON, JUnit XML and benchstat's text form.

mod benchstat;
mod junit;
mod markdown;
mod table;

use serde_json::Value;

pub use benchstat::benchstat;
pub use junit::junit;
pub use markdown::markdown;
pub use table::table;

use crate::gate::ONE_MEASUREMENT;
use crate::gate::report::{GateReport, GateRow, Outcome, State};
use crate::render::inputs_and_command;
use crate::text::one_line;

/// The result as one JSON document.
pub fn json(report: &GateReport) -> Result<Value, serde_json::Error> {
    serde_json::to_value(report)
}

/// The outcome in a sentence.
pub fn headline(report: &GateReport) -> String {
    let count = |state| report.count(state);
    let words = match report.outcome {
        Outcome::Pass if count(State::Unclear) > 0 => {
            format!("PASS: nothing speaks against the candidate; unclear {}", count(State::Unclear))
        }
        Outcome::Pass => "PASS: nothing speaks against the candidate".to_owned(),
        Outcome::Improved => format!("IMPROVED: faster {}, slower none", count(State::Improved)),
        Outcome::Regression => format!(
            "REGRESSION: slower beyond doubt {}, vanished {}, required and missing {}",
            count(State::Regressed),
            count(State::Vanished),
            report.missing.iter().filter(|missing| missing.outcome == Outcome::Regression).count()
        ),
        Outcome::Inconclusive => {
            let unclear = if report.policy.unclear == crate::gate::policy::OnUnclear::Inconclusive {
                format!(", unclear {}", count(State::Unclear))
            } else {
                String::new()
            };
            format!(
                "INCONCLUSIVE: looking slower and not proved to be {}, not comparable {}{unclear}",
                count(State::Flagged),
                count(State::Dropped)
            )
        }
        Outcome::Refused => {
            format!("REFUSED: preconditions broken {}; nothing was compared", report.refused.len())
        }
    };
    format!("{words} (exit code {})", report.exit_code)
}

/// How many rows are in each state that any is in.
fn counts(report: &GateReport) -> String {
    let counts: Vec<String> = State::ALL
        .iter()
        .filter_map(|state| {
            let count = report.count(*state);
            (count > 0).then(|| format!("{count} {state}"))
        })
        .collect();
    if counts.is_empty() { "no rows".to_owned() } else { counts.join(", ") }
}

/// The verdict, or the words that stand in its place.
fn verdict(row: &GateRow) -> String {
    match (&row.test, row.ratio) {
        (Some(answer), _) => answer.verdict.to_string(),
        (None, Some(_)) => ONE_MEASUREMENT.to_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn interval(row: &GateRow) -> String {
    match row.test.as_ref().and_then(|answer| answer.ratio_low.zip(answer.ratio_high)) {
        Some((low, high)) => format!("{low:.3}..{high:.3}"),
        None => "-".to_owned(),
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// The smallest effect that could have been shown, where there was a test.
fn smallest_effect(row: &GateRow) -> String {
    match &row.test {
        None => "-".to_owned(),
        Some(answer) => answer.smallest_effect.map_or_else(|| "none".to_owned(), percent),
    }
}

fn units(row: &GateRow) -> String {
    format!("{}/{}", row.values_before.len(), row.values_after.len())
}

/// What else must be known of a row.
fn remark(row: &GateRow) -> String {
    let noise = row.known_noise.as_ref().map(|noise| format!("known noise: {noise}"));
    [row.reason.clone(), noise].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The lines that every form for people ends with.
fn closing(report: &GateReport) -> Vec<String> {
    let mut lines = vec![counts(report)];
    let accepted: Vec<String> = report.policy.accept.iter().map(ToString::to_string).collect();
    if !accepted.is_empty() {
        lines.push(format!("accepted in advance: {}", accepted.join(", ")));
    }
    lines.push(format!("may differ: {}", report.policy.vary));
    lines.extend(inputs_and_command(&report.inputs, &report.sources, &report.command));
    lines
}
