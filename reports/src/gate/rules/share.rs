//! How many rows are compared: P24 for a side of several files, where a row of one name is one row however many files have it.

use super::{GateCheck, GateRule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::pairing::Pairing;
use crate::compare::report::Comparison;
use crate::gate::policy::Policy;

pub(super) static ENOUGH_ROWS: GateRule = GateRule {
    id: "P24",
    tier: Tier::Refuse,
    fields: &["pairs"],
    accepted_by: &[],
    text: "no smaller share of the smaller side's rows is compared than the policy's `min_share`",
    check: GateCheck::Metric(too_few),
};

fn too_few(comparison: &Comparison, pairing: &Pairing<'_>, policy: &Policy) -> Vec<Finding> {
    let Some(least) = policy.min_share.filter(|_| comparison.refused.is_empty()) else { return Vec::new() };
    let paired = pairing.pairs.len();
    let smaller = paired + pairing.only_before.len().min(pairing.only_after.len());
    let compared = comparison.pairs.len();
    if (compared as f64) >= least * smaller as f64 {
        return Vec::new();
    }
    let message = format!(
        "{compared} of {smaller} rows are compared ({}), less than the share of {least} that the policy demands",
        comparison.metric
    );
    let rows = |alone: usize| Some(format!("{} rows", paired + alone));
    vec![
        Finding::new("P24", Tier::Refuse, "pairs", message)
            .values(rows(pairing.only_before.len()), rows(pairing.only_after.len())),
    ]
}
