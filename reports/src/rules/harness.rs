//! Files and kinds of measurement: P01, P02.

use std::collections::BTreeSet;

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::history::SourceFile;
use crate::record::Harness;

pub(super) static FIGURE_PRESENT: Rule = Rule {
    id: "P01",
    tier: Tier::Refuse,
    fields: &["layout"],
    accepted_by: &[],
    text: "both files are of a known layout, and that layout holds what is compared",
    check: Check::Files(figure_present),
};

/// Unknown layouts are refused by the reader; here remains a layout without the counts and times of the metric.
fn figure_present(case: &Case<'_>) -> Vec<Finding> {
    let metric = case.options.metric;
    let lacks = |file: &SourceFile| {
        file.records.iter().any(|record| record.outcome.is_ok())
            && !file.records.iter().any(|record| record.value(metric).is_some())
    };
    if !lacks(case.before) && !lacks(case.after) {
        return Vec::new();
    }
    let shown =
        |file: &SourceFile| Some(format!("{} ({})", file.layout, if lacks(file) { "no" } else { "yes" }));
    let message = format!(
        "no row of a side has the counts and times from which `{metric}` is computed; name another --metric or file"
    );
    vec![Finding::new("P01", Tier::Refuse, "layout", message).values(shown(case.before), shown(case.after))]
}

pub(super) static SAME_KIND: Rule = Rule {
    id: "P02",
    tier: Tier::Refuse,
    fields: &["harness"],
    accepted_by: &[],
    text: "both sides are of one kind of measurement: text never with vlm, a warm cache never with a cold or unknown one",
    check: Check::Files(same_kind),
};

fn same_kind(case: &Case<'_>) -> Vec<Finding> {
    let kinds = |file: &SourceFile| -> BTreeSet<Harness> {
        file.records.iter().map(|record| record.facts.harness).collect()
    };
    let (before, after) = (kinds(case.before), kinds(case.after));
    let unknown_memory = before.contains(&Harness::Micro) || after.contains(&Harness::Micro);
    if before.is_empty() || after.is_empty() || (before == after && before.len() == 1 && !unknown_memory) {
        return Vec::new();
    }
    let shown = |kinds: &BTreeSet<Harness>| {
        Some(kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", "))
    };
    let message = if before == after && unknown_memory {
        "neither side says whether the last-level cache was warm or cold, and an unknown equals nothing"
    } else {
        "the sides are of different kinds of measurement, or a side mixes kinds; compare files of one kind"
    };
    vec![Finding::new("P02", Tier::Refuse, "harness", message).values(shown(&before), shown(&after))]
}
