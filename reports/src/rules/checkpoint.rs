//! The same checkpoint, and one that generates: P11, M02.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::compare::pairing::Pair;
use crate::record::{Harness, Record};
use crate::row::CheckpointId;

pub(super) static SAME_CHECKPOINT: Rule = Rule {
    id: "P11",
    tier: Tier::Drop,
    fields: &["checkpoint_id"],
    accepted_by: &[],
    text: "both rows are of the same checkpoint: equal digests of the same level; a name alone is a warning",
    check: Check::Pair(same_checkpoint),
};

fn id(record: &Record) -> Option<&CheckpointId> {
    record.extra.as_deref()?.checkpoint.as_ref()
}

fn same_checkpoint(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let shown = |id: Option<&CheckpointId>| id.map(ToString::to_string);
    for (before, after) in pair.combinations() {
        let (one, other) = (id(before), id(after));
        let (tier, message) = match (one, other) {
            (Some(one), Some(other)) if one.level == other.level && one.digest == other.digest => continue,
            (Some(one), Some(other)) if one.level == other.level => {
                (Tier::Drop, "the name is the same, the content of the checkpoint is not")
            }
            (Some(_), Some(_)) => (Tier::Warn, "the digests are of different levels and were not compared"),
            (None, None) => {
                // One remark for all: that historical files know names only.
                let message = "rows were joined by name alone: neither side has a digest of the checkpoint";
                return vec![Finding::new("P11", Tier::Warn, "checkpoint_id", message)];
            }
            _ => (Tier::Warn, "the digest of the checkpoint is known on one side only; joined by name alone"),
        };
        return vec![
            Finding::new("P11", tier, "checkpoint_id", message)
                .values(shown(one), shown(other))
                .about(pair.label()),
        ];
    }
    Vec::new()
}

pub(super) static GENERATIVE: Rule = Rule {
    id: "M02",
    tier: Tier::Drop,
    fields: &["model"],
    accepted_by: &[Acceptance::NonGenerative],
    text: "embedders and rerankers are not part of a roster of generators",
    check: Check::Pair(generative),
};

/// Parts of names by which the historical files' embedders, rerankers and image retrievers are told.
const NON_GENERATIVE: [&str; 6] = ["embedding", "rerank", "-embed-", "colqwen", "colsmol", "colpali"];

fn generative(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let named = |name: &str| {
        let name = name.to_ascii_lowercase();
        NON_GENERATIVE.iter().any(|part| name.contains(part)) || name.ends_with("-embed")
    };
    let told = |record: &&Record| {
        matches!(record.facts.harness, Harness::Text | Harness::Vlm)
            && (named(&record.model) || record.outcome.is_not_generative())
    };
    let all = pair.before.iter().chain(&pair.after);
    if !named(&pair.model) && !all.copied().any(|record| told(&record)) {
        return Vec::new();
    }
    let name = |rows: &[&Record]| rows.first().map(|row| row.model.to_string());
    let message =
        "its name or status is that of an embedder or reranker, which generates nothing to be timed";
    vec![
        Finding::new("M02", Tier::Drop, "model", message)
            .values(name(&pair.before), name(&pair.after))
            .about(pair.label())
            .unless(Acceptance::NonGenerative),
    ]
}
