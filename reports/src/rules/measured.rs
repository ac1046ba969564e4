//! Rows that hold no measurement: P18 to P21 by their status, M01, M03, M04.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::pairing::Pair;
use crate::record::{Outcome, Record};
use crate::status;

macro_rules! broken_rule {
    ($name:ident, $id:literal, $rule:ident, $text:literal, $message:literal) => {
        pub(super) static $name: Rule = Rule {
            id: $id,
            tier: Tier::Drop,
            fields: &["status"],
            accepted_by: &[],
            text: $text,
            check: Check::Pair(|_, pair| {
                let broke = |record: &Record| record.outcome.broken() == Some(status::Rule::$rule);
                by_status(pair, $id, broke, $message)
            }),
        };
    };
}

broken_rule!(
    CONTROL_DRIFT,
    "P18",
    ControlDrift,
    "the control runs around a row agree",
    "the control row moved while it was measured"
);
broken_rule!(
    CONTENDED,
    "P19",
    Contended,
    "nothing else worked on the host during a row",
    "other work ran on the host while it was measured"
);
broken_rule!(
    IMPLAUSIBLE,
    "P20",
    ImplausibleBandwidth,
    "a rate needs no more memory bandwidth than the host has",
    "the rate would need more memory bandwidth than the host has"
);
broken_rule!(
    CACHE_HIT,
    "P21",
    CacheHit,
    "no cache served what should have been computed",
    "a cache served what should have been computed"
);

/// What has a rule of its own.
const OWN_RULES: [status::Rule; 4] = [
    status::Rule::ControlDrift,
    status::Rule::Contended,
    status::Rule::ImplausibleBandwidth,
    status::Rule::CacheHit,
];

fn by_status(
    pair: &Pair<'_>,
    rule: &'static str,
    broken: impl Fn(&Record) -> bool,
    message: &str,
) -> Vec<Finding> {
    let found = |rows: &[&Record]| rows.iter().find(|row| broken(row)).copied().is_some();
    if !found(&pair.before) && !found(&pair.after) {
        return Vec::new();
    }
    let shown = |rows: &[&Record]| {
        let worst = rows.iter().find(|row| broken(row)).or_else(|| rows.first());
        worst.map(|row| row.outcome.shown())
    };
    vec![
        Finding::new(rule, Tier::Drop, "status", message)
            .values(shown(&pair.before), shown(&pair.after))
            .about(pair.label()),
    ]
}

pub(super) static MEASURED: Rule = Rule {
    id: "M01",
    tier: Tier::Drop,
    fields: &["status"],
    accepted_by: &[],
    text: "both rows are valid measurements by their status",
    check: Check::Pair(measured),
};

fn measured(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let other = |record: &Record| {
        !record.outcome.is_ok()
            && !matches!(record.outcome, Outcome::Unreadable(_))
            && !record.outcome.broken().is_some_and(|rule| OWN_RULES.contains(&rule))
    };
    by_status(pair, "M01", other, "a side has no valid measurement")
}

pub(super) static HAS_A_VALUE: Rule = Rule {
    id: "M03",
    tier: Tier::Drop,
    fields: &["value"],
    accepted_by: &[],
    text: "the compared value follows from counts and times above zero on both sides",
    check: Check::Pair(has_a_value),
};

fn has_a_value(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let metric = case.options.metric;
    let lacks = |record: &&&Record| record.outcome.is_ok() && record.value(metric).is_none();
    if !pair.before.iter().chain(&pair.after).any(|record| lacks(&record)) {
        return Vec::new();
    }
    let shown = |rows: &[&Record]| {
        let row = rows.iter().find(|row| lacks(row)).or_else(|| rows.first())?;
        row.value(metric).map(|value| format!("{value:.2}"))
    };
    let message = format!("`{metric}` cannot be computed: a count or a time is missing or zero");
    vec![
        Finding::new("M03", Tier::Drop, "value", message)
            .values(shown(&pair.before), shown(&pair.after))
            .about(pair.label()),
    ]
}

pub(super) static READABLE: Rule = Rule {
    id: "M04",
    tier: Tier::Drop,
    fields: &["line"],
    accepted_by: &[],
    text: "both rows can be read: as many fields as the header, numbers where there are to be numbers",
    check: Check::Pair(readable),
};

fn readable(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let unreadable = |record: &Record| matches!(record.outcome, Outcome::Unreadable(_));
    let mut findings = by_status(pair, "M04", unreadable, "a row could not be read");
    for finding in &mut findings {
        finding.field = "line";
    }
    findings
}
