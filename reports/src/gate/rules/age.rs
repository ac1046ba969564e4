//! How old the baseline is: P27.

use jiff::civil::Date;

use super::{GateCase, GateCheck, GateRule, measured};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::history::SourceFile;

pub(super) static RECENT_BASELINE: GateRule = GateRule {
    id: "P27",
    tier: Tier::Refuse,
    fields: &["date"],
    accepted_by: &[Acceptance::MissingDate],
    text: "the baseline is not more than `max_baseline_age_days` older than the candidate, where the policy sets that: from its \
           oldest measured row to the candidate's newest",
    check: GateCheck::Files(too_old),
};

/// The days of all measured rows; none where one has no date.
pub(super) fn days(files: &[SourceFile]) -> Option<Vec<Date>> {
    measured(files).map(|record| record.facts.date).collect()
}

fn too_old(case: &GateCase<'_>) -> Vec<Finding> {
    let Some(most) = case.policy.max_baseline_age_days else { return Vec::new() };
    let oldest = days(case.baseline).and_then(|days| days.into_iter().min());
    let newest = days(case.candidate).and_then(|days| days.into_iter().max());
    let finding = |message: String| {
        Finding::new("P27", Tier::Refuse, "date", message)
            .values(oldest.map(|day| day.to_string()), newest.map(|day| day.to_string()))
    };
    let (Some(oldest), Some(newest)) = (oldest, newest) else {
        let message = "the age of the baseline is unknown: a row has no date";
        return vec![finding(message.to_owned()).unless(Acceptance::MissingDate)];
    };
    let age = oldest.until(newest).map_or(i64::MAX, |span| i64::from(span.get_days()));
    if age <= i64::from(most) {
        return Vec::new();
    }
    vec![finding(format!(
        "the baseline is {age} days older than the candidate, and the policy allows {most}; measure a new baseline, or the \
         gate blames one change for all since"
    ))]
}
