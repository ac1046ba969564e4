//! Which side was measured first: G02.

use jiff::Timestamp;
use jiff::civil::Date;

use super::age::days;
use super::{GateCase, GateCheck, GateRule, measured};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::history::SourceFile;

pub(super) static CANDIDATE_COMES_LATER: GateRule = GateRule {
    id: "G02",
    tier: Tier::Refuse,
    fields: &["date", "started_at"],
    accepted_by: &[Acceptance::OlderCandidate, Acceptance::MissingDate],
    text: "the candidate was not measured before its baseline: its newest row is at most a day older than the baseline's newest \
           one, and the sides were measured in turn or the baseline first",
    check: GateCheck::Files(candidate_is_older),
};

/// The days of a side, first and last.
fn span(files: &[SourceFile]) -> Option<(Date, Date)> {
    let days = days(files)?;
    Some((days.iter().copied().min()?, days.iter().copied().max()?))
}

/// When the measurements of a side began, first and last; none where a row does not say.
fn starts(files: &[SourceFile]) -> Option<(Timestamp, Timestamp)> {
    let starts: Option<Vec<Timestamp>> =
        measured(files).map(|record| record.extra.as_deref()?.started_at).collect();
    let starts = starts?;
    Some((starts.iter().copied().min()?, starts.iter().copied().max()?))
}

/// Sides that are measured in turn overlap, and a midnight may lie between; so the candidate is older where all of it was
/// measured before all of the baseline, or where the baseline was measured again a day and more after it.
fn candidate_is_older(case: &GateCase<'_>) -> Vec<Finding> {
    let measured_both = measured(case.baseline).next().is_some() && measured(case.candidate).next().is_some();
    if !measured_both {
        return Vec::new();
    }
    let finding = |field, message: &str| Finding::new("G02", Tier::Refuse, field, message);
    let (baseline, candidate) = (span(case.baseline), span(case.candidate));
    let newest = |side: Option<(Date, Date)>| side.map(|(_, newest)| newest.to_string());
    let (Some((oldest, last)), Some((_, newest_candidate))) = (baseline, candidate) else {
        let message = "which side was measured first is unknown: a row has no date";
        return vec![
            finding("date", message)
                .values(newest(baseline), newest(candidate))
                .unless(Acceptance::MissingDate),
        ];
    };
    let message = "the candidate was measured before its baseline, so that what came since counts against it backwards; measure \
                   the candidate again, or swap --baseline and --candidate";
    let a_day_later = newest_candidate.tomorrow().is_ok_and(|tomorrow| tomorrow < last);
    if newest_candidate < oldest || a_day_later {
        return vec![
            finding("date", message)
                .values(newest(baseline), newest(candidate))
                .unless(Acceptance::OlderCandidate),
        ];
    }
    match (starts(case.baseline), starts(case.candidate)) {
        (Some((first, _)), Some((_, last))) if last < first => vec![
            finding("started_at", message)
                .values(Some(first.to_string()), Some(last.to_string()))
                .unless(Acceptance::OlderCandidate),
        ],
        _ => Vec::new(),
    }
}
