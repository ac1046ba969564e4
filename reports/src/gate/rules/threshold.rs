//! Thresholds that no row has: G03.

use super::{GateCheck, GateRule};
use crate::compare::finding::{Finding, Tier};
use crate::gate::name_of;
use crate::gate::pattern::Pattern;
use crate::gate::policy::Policy;
use crate::gate::report::GateRow;

pub(super) static THRESHOLDS_FIT: GateRule = GateRule {
    id: "G03",
    tier: Tier::Warn,
    fields: &["threshold"],
    accepted_by: &[],
    text: "each threshold of the policy fits a row; one that fits none is often a name that was changed or mistyped",
    check: GateCheck::Rows(fit_none),
};

fn fit_none(rows: &[GateRow], policy: &Policy) -> Vec<Finding> {
    let fits_none = policy
        .threshold
        .iter()
        .zip(1..)
        .filter(|(threshold, _)| !rows.iter().any(|row| threshold.fits(name_of(&row.model), row.metric)));
    fits_none
        .map(|(threshold, number): (_, u32)| {
            let models: Vec<&str> = threshold.models.iter().map(Pattern::as_str).collect();
            let unseen = threshold.metric.filter(|metric| !policy.metrics.contains(metric));
            let why = unseen.map_or_else(String::new, |metric| format!(", since {metric} is not looked at"));
            let message = format!(
                "threshold {number} of the policy ({}, floor {}) fits no row{why}, so it holds for nothing; put its models right \
                 or take it out",
                models.join(", "),
                threshold.floor
            );
            let metric = threshold.metric.map_or_else(String::new, |metric| format!("{metric}: "));
            Finding::new("G03", Tier::Warn, "threshold", message)
                .values(Some(format!("{metric}{}", models.join(", "))), None::<String>)
        })
        .collect()
}
