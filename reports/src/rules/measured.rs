//! Rows that hold no measurement: P18 to P21 by their status and by what the row counts, M01, M03 to M06.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::compare::pairing::Pair;
use crate::record::{Controls, Metric, Outcome, RateDisagreement, Record};
use crate::row::Limits;
use crate::status;

pub(super) static CONTROL_DRIFT: Rule = Rule {
    id: "P18",
    tier: Tier::Drop,
    fields: &["status", "control_drift_pct"],
    accepted_by: &[],
    text: "the control runs around a row agree within the host's band",
    check: Check::Pair(control_drift),
};

fn control_drift(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let message = "the control row moved while it was measured";
    let broke = |record: &Record| record.outcome.broken() == Some(status::Rule::ControlDrift);
    let found = by_status(pair, "P18", broke, message);
    if !found.is_empty() {
        return found;
    }
    let moved = |record: &Record| record.extra.as_deref().is_some_and(|extra| extra.control.moved());
    let shown = |record: &Record| {
        let Controls { model, drift_pct, band_pct } = &record.extra.as_deref()?.control;
        Some(format!("{:.1}% of {:.1}% by {}", (*drift_pct)?, (*band_pct)?, model.as_deref()?))
    };
    by_count(pair, ("P18", "control_drift_pct"), moved, shown, message)
}

pub(super) static CONTENDED: Rule = Rule {
    id: "P19",
    tier: Tier::Drop,
    fields: &["status", "contended_pct", "swap_growth_bytes", "thermal_worst", "power"],
    accepted_by: &[],
    text: "nothing else worked on the host for more than a fifth of a row; that swap grew, that the host was throttled, or that the sides had \
           different power is a warning",
    check: Check::Pair(contended),
};

fn contended(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let broke = |record: &Record| record.outcome.broken() == Some(status::Rule::Contended);
    let message = "other work ran on the host while it was measured";
    let found = by_status(pair, "P19", broke, message);
    if !found.is_empty() {
        return found;
    }
    let share = |record: &Record| record.rare()?.too_contended_pct;
    let shown = |record: &Record| share(record).map(|share| format!("{share:.1}"));
    let found = by_count(pair, ("P19", "contended_pct"), |record| share(record).is_some(), shown, message);
    if !found.is_empty() {
        return found;
    }
    let swap = |record: &Record| record.extra.as_deref()?.swap_growth_bytes.filter(|bytes| *bytes > 0);
    let swapped = by_count(
        pair,
        ("P19", "swap_growth_bytes"),
        |record| swap(record).is_some(),
        |record| record.extra.as_deref()?.swap_growth_bytes.map(|bytes| bytes.to_string()),
        "the use of swap grew while it was measured",
    );
    let thermal = |record: &Record| record.extra.as_deref()?.thermal_worst.as_deref().map(str::to_owned);
    let throttled = by_count(
        pair,
        ("P19", "thermal_worst"),
        |record| thermal(record).is_some_and(|state| state.contains("throttled")),
        thermal,
        "the host was throttled while it was measured",
    );
    let power = pair.combinations().find_map(|(before, after)| {
        let power = |record: &Record| record.extra.as_deref()?.power.as_deref().map(str::to_owned);
        let (one, other) = (power(before)?, power(after)?);
        let message = "the sides were measured on different power";
        let valid = before.outcome.is_ok() && after.outcome.is_ok() && one != other;
        valid.then(|| Finding::new("P19", Tier::Warn, "power", message).values(Some(one), Some(other)))
    });
    let warn = |finding: Finding| Finding { tier: Tier::Warn, ..finding };
    swapped.into_iter().chain(throttled).map(warn).chain(power).collect()
}

pub(super) static IMPLAUSIBLE: Rule = Rule {
    id: "P20",
    tier: Tier::Drop,
    fields: &["status", "bandwidth_pct"],
    accepted_by: &[],
    text: "a rate needs no more memory bandwidth than the host has",
    check: Check::Pair(implausible),
};

fn implausible(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let broke = |record: &Record| record.outcome.broken() == Some(status::Rule::ImplausibleBandwidth);
    let message = "the rate would need more memory bandwidth than the host has";
    let found = by_status(pair, "P20", broke, message);
    if !found.is_empty() {
        return found;
    }
    let share = |record: &Record| record.rare()?.implausible_pct;
    let shown = |record: &Record| share(record).map(|share| format!("{share:.1}"));
    by_count(pair, ("P20", "bandwidth_pct"), |record| share(record).is_some(), shown, message)
}

pub(super) static CACHE_HIT: Rule = Rule {
    id: "P21",
    tier: Tier::Drop,
    fields: &["status", "cached_prompt_tokens"],
    accepted_by: &[],
    text: "no cache served what should have been computed, of which the row has a count; a count on one side only is a warning",
    check: Check::Pair(cache_hit),
};

fn cache_hit(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    const COUNT: (&str, &str) = ("P21", "cached_prompt_tokens");
    let message = "a cache served what should have been computed";
    let broke = |record: &Record| record.outcome.broken() == Some(status::Rule::CacheHit);
    let found = by_status(pair, "P21", broke, message);
    if !found.is_empty() {
        return found;
    }
    let cached = |record: &Record| record.extra.as_deref()?.generation.cached_prompt_tokens;
    let shown = |record: &Record| cached(record).map(|cached| cached.to_string());
    let found =
        by_count(pair, COUNT, |record| cached(record).is_some_and(|cached| cached > 0), shown, message);
    if !found.is_empty() {
        return found;
    }
    let counted = |rows: &[&Record]| rows.iter().all(|row| cached(row).is_some());
    if counted(&pair.before) == counted(&pair.after) {
        return Vec::new();
    }
    // One remark for all: that one file is of a layout without the count.
    let message =
        "one side does not count the prompt tokens that a cache had, so that it had none is taken on trust";
    vec![Finding::new(COUNT.0, Tier::Warn, COUNT.1, message)]
}

/// A drop for a row that is valid by its status and not by what it counts.
fn by_count(
    pair: &Pair<'_>,
    (rule, field): (&'static str, &'static str),
    broke: impl Fn(&Record) -> bool,
    shown: impl Fn(&Record) -> Option<String>,
    message: &str,
) -> Vec<Finding> {
    let broke = |record: &Record| record.outcome.is_ok() && broke(record);
    if !pair.before.iter().chain(&pair.after).any(|record| broke(record)) {
        return Vec::new();
    }
    let worst = |rows: &[&Record]| {
        let worst = rows.iter().find(|row| broke(row)).or_else(|| rows.first());
        worst.and_then(|row| shown(row))
    };
    vec![
        Finding::new(rule, Tier::Drop, field, message)
            .values(worst(&pair.before), worst(&pair.after))
            .about(pair.label()),
    ]
}

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

pub(super) static STEADY: Rule = Rule {
    id: "M06",
    tier: Tier::Warn,
    fields: &["decode_spread_pct", "prefill_spread_pct", "attempts"],
    accepted_by: &[],
    text: "the repetitions of a row lie at most 4% apart, and it was valid at once; that a higher limit was allowed (--max-spread), or \
           that it was measured again until it was valid, is a warning",
    check: Check::Pair(steady),
};

fn steady(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let spread = |record: &Record| {
        let extra = record.extra.as_deref()?;
        match case.options.metric {
            Metric::Decode => extra.decode_spread_pct,
            Metric::Prefill => extra.prefill_spread_pct,
            _ => None,
        }
    };
    let field =
        if case.options.metric == Metric::Prefill { "prefill_spread_pct" } else { "decode_spread_pct" };
    let wide = by_count(
        pair,
        ("M06", field),
        |record| spread(record).is_some_and(|spread| spread > Limits::MOST_SPREAD_PCT),
        |record| spread(record).map(|spread| format!("{spread:.1}")),
        "the repetitions lie further apart than 4%: a higher limit was allowed, and differences within it are noise",
    );
    let attempts = |record: &Record| record.extra.as_deref()?.attempts;
    let again = by_count(
        pair,
        ("M06", "attempts"),
        |record| attempts(record).is_some_and(|attempts| attempts > 1),
        |record| attempts(record).map(|attempts| attempts.to_string()),
        "it was measured again until it was valid, which chooses among measurements",
    );
    let warn = |finding: Finding| Finding { tier: Tier::Warn, ..finding };
    wide.into_iter().chain(again).map(warn).collect()
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

pub(super) static STATED_RATE: Rule = Rule {
    id: "M05",
    tier: Tier::Drop,
    fields: &["decode_tok_s", "prefill_tok_s"],
    accepted_by: &[Acceptance::StatedRate],
    text: "a rate that a row states is that of its counts and times, within the rounding of its digits; another metric's is a \
           warning. Accepted, the one from counts and times is compared",
    check: Check::Pair(stated_rate),
};

/// Which of the three numbers is the wrong one nobody can say. Files of the project's own layout in which they disagree are
/// not read at all.
fn stated_rate(case: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    [(Metric::Decode, "decode_tok_s"), (Metric::Prefill, "prefill_tok_s")]
        .into_iter()
        .filter_map(|(metric, field)| {
            let stated = |rows: &[&Record]| {
                rows.iter().filter(|row| row.outcome.is_ok()).find_map(|row| disagreement(row, metric))
            };
            let (before, after) = (stated(&pair.before), stated(&pair.after));
            let RateDisagreement { stated, derived, .. } = before.or(after)?;
            let message = format!(
                "{stated} tok/s stands in the row, its counts and times give {derived:.2}, and nobody knows which is right"
            );
            let tier = if metric == case.options.metric { Tier::Drop } else { Tier::Warn };
            let shown = |side: Option<RateDisagreement>| side.map(|side| side.stated.to_string());
            let finding = Finding::new("M05", tier, field, message)
                .values(shown(before), shown(after))
                .about(pair.label());
            Some(if tier == Tier::Drop { finding.unless(Acceptance::StatedRate) } else { finding })
        })
        .collect()
}

fn disagreement(record: &Record, metric: Metric) -> Option<RateDisagreement> {
    let disagreements = &record.rare()?.rate_disagreements;
    disagreements.iter().copied().find(|disagreement| disagreement.metric == metric)
}
