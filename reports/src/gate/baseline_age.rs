//! How old the baseline is: P27.

use jiff::civil::Date;

use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::record::Record;

/// A refusal for a baseline that is more days older than the candidate than `most`, or whose age is unknown. A baseline
/// counts from its oldest measured row to the candidate's newest.
pub(super) fn too_old(baseline: &[Record], candidate: &[Record], most: Option<u32>) -> Option<Finding> {
    let most = most?;
    let days = |records: &[Record]| -> Option<Vec<Date>> {
        records.iter().filter(|record| record.outcome.is_ok()).map(|record| record.facts.date).collect()
    };
    let oldest = days(baseline).and_then(|days| days.into_iter().min());
    let newest = days(candidate).and_then(|days| days.into_iter().max());
    let finding = |message: String| {
        Finding::new("P27", Tier::Refuse, "date", message)
            .values(oldest.map(|day| day.to_string()), newest.map(|day| day.to_string()))
    };
    let (Some(oldest), Some(newest)) = (oldest, newest) else {
        let message = "the age of the baseline is unknown: a row has no date";
        return Some(finding(message.to_owned()).unless(Acceptance::MissingDate));
    };
    let age = oldest.until(newest).map_or(i64::MAX, |span| i64::from(span.get_days()));
    (age > i64::from(most)).then(|| {
        finding(format!(
            "the baseline is {age} days older than the candidate, and the policy allows {most}; measure a new baseline, or \
             the gate blames one change for all since"
        ))
    })
}
