//! The same checkpoint, and one that generates: P11, M02.

use mlxcel_catalog::architecture::never_generative;
use mlxcel_catalog::identity::Relation;

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Acceptance;
use crate::compare::pairing::Pair;
use crate::record::{Harness, Record};
use crate::row::CheckpointId;

pub(super) static SAME_CHECKPOINT: Rule = Rule {
    id: "P11",
    tier: Tier::Drop,
    fields: &["checkpoint_id", "model"],
    accepted_by: &[],
    text: "both rows are of the same checkpoint: equal digests of the same level; a name alone is a warning, and so is a digest \
           alone, under two names",
    check: Check::Pair(same_checkpoint),
};

fn id(record: &Record) -> Option<&CheckpointId> {
    record.extra.as_deref()?.checkpoint.as_ref()
}

fn same_checkpoint(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let twins = pair.twins.as_ref().map(|twins| {
        let relation = match Relation::of_level(twins.level) {
            Relation::SpeedEquivalent => "speed-equivalent, and may be different trainings of one network",
            relation => relation.name(),
        };
        let message = format!(
            "rows of two names were joined by the digest of level {}: the checkpoints are {relation}",
            twins.level
        );
        Finding::new("P11", Tier::Warn, "model", message)
            .values(Some(&*twins.before), Some(&*twins.after))
            .about(pair.label())
    });
    twins.into_iter().chain(by_digest(pair)).collect()
}

/// A difference anywhere in a pair outweighs what is not known of its other rows.
fn by_digest(pair: &Pair<'_>) -> Option<Finding> {
    let shown = |id: Option<&CheckpointId>| id.map(ToString::to_string);
    let mut remark = None;
    for (before, after) in pair.combinations() {
        let (one, other) = (id(before), id(after));
        let finding = |tier, message: &str| {
            Finding::new("P11", tier, "checkpoint_id", message)
                .values(shown(one), shown(other))
                .about(pair.label())
        };
        let found = match (one, other) {
            (Some(one), Some(other)) if one == other => continue,
            (Some(one), Some(other)) if one.level == other.level => {
                let message = "the name is the same, the content of the checkpoint is not";
                return Some(finding(Tier::Drop, message));
            }
            (Some(_), Some(_)) => {
                finding(Tier::Warn, "the digests are of different levels and were not compared")
            }
            (None, None) => {
                // One remark for all: that historical files know names only.
                let message = "rows were joined by name alone: neither side has a digest of the checkpoint";
                Finding::new("P11", Tier::Warn, "checkpoint_id", message)
            }
            _ => {
                let message = "the digest of the checkpoint is known on one side only; joined by name alone";
                finding(Tier::Warn, message)
            }
        };
        remark.get_or_insert(found);
    }
    remark
}

pub(super) static GENERATIVE: Rule = Rule {
    id: "M02",
    tier: Tier::Drop,
    fields: &["model_type", "status", "model"],
    accepted_by: &[Acceptance::NonGenerative],
    text: "embedders and rerankers are not part of a roster of generators: by status and model_type where a row has one, by \
           name where not; a name that says otherwise than they do is a warning",
    check: Check::Pair(generative),
};

/// Parts of names by which the historical files' embedders, rerankers and image retrievers are told.
const NON_GENERATIVE: [&str; 6] = ["embedding", "rerank", "-embed-", "colqwen", "colsmol", "colpali"];

fn generative(_: &Case<'_>, pair: &Pair<'_>) -> Vec<Finding> {
    let rows = || pair.before.iter().chain(&pair.after).copied();
    if !rows().any(|row| matches!(row.facts.harness, Harness::Text | Harness::Vlm)) {
        return Vec::new();
    }
    let first =
        |rows: &[&Record], shown: fn(&Record) -> Option<String>| rows.first().and_then(|row| shown(row));
    let finding = |tier, field, message: &str, shown: fn(&Record) -> Option<String>| {
        Finding::new("M02", tier, field, message)
            .values(first(&pair.before, shown), first(&pair.after, shown))
            .about(pair.label())
    };
    let name: fn(&Record) -> Option<String> = |row| Some(row.model.to_string());
    let drop = |field, message, shown| {
        vec![finding(Tier::Drop, field, message, shown).unless(Acceptance::NonGenerative)]
    };
    if rows().any(|row| row.outcome.is_not_generative()) {
        let message = "its status says that it generates no text";
        return drop("status", message, |row| Some(row.outcome.shown()));
    }
    if rows().filter_map(model_type).any(|model_type| never_generative(model_type).is_some()) {
        let message =
            "models of this type turn text into vectors or scores, and generate nothing to be timed";
        return drop("model_type", message, |row| model_type(row).map(str::to_owned));
    }
    // Of a million rows most have the name of their pair.
    if !is_named_so(&pair.model) && !rows().any(|row| row.model != pair.model && is_named_so(&row.model)) {
        return Vec::new();
    }
    // A row with a type is one whose folder was judged before it was measured.
    if rows().any(|row| row.outcome.is_ok() && model_type(row).is_some()) {
        let message =
            "its name is that of an embedder or reranker, its type and status are those of a generator";
        return vec![finding(Tier::Warn, "model", message, name)];
    }
    drop("model", "its name is that of an embedder or reranker, which generates nothing to be timed", name)
}

fn model_type(record: &Record) -> Option<&str> {
    record.extra.as_deref()?.model_type.as_deref()
}

fn is_named_so(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NON_GENERATIVE.iter().any(|part| name.contains(part)) || name.ends_with("-embed")
}
