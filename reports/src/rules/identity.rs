//! The sides differ in the declared axis and in nothing else: P04, and V01 where they do not differ at all.

use std::collections::{BTreeSet, HashMap};

use super::{Case, Check, Rule, owned};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Axis;
use crate::compare::pairing::Pair;
use crate::history::SourceFile;
use crate::record::{Facts, Field, Record, SHAPE};
use crate::revision;

pub(super) static ONLY_THE_AXIS: Rule = Rule {
    id: "P04",
    tier: Tier::Refuse,
    fields: &[
        "runtime",
        "runtime_version",
        "commit",
        "max_tokens",
        "prompt",
        "prompt_target",
        "kv_mode",
        "sampling",
        "batch_size",
        "prefill_chunk",
        "eos_policy",
        "variant",
        "backend",
    ],
    accepted_by: &[],
    text: "the sides differ in what --vary names and in nothing else: program, version, commit and every setting agree",
    check: Check::Facts(only_the_axis),
};

fn only_the_axis(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    let fields = [Field::Runtime, Field::RuntimeVersion, Field::Commit].into_iter().chain(SHAPE);
    differing("P04", case.options.axis, fields.chain([Field::Backend]), before, after)
}

/// A refusal for each of these facts that is known on both sides, differs, and is not what may differ.
pub(super) fn differing(
    rule: &'static str,
    axis: Axis,
    fields: impl IntoIterator<Item = Field>,
    before: &Facts,
    after: &Facts,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for field in fields.into_iter().filter(|field| !axis.covers(*field)) {
        let (one, other) = (before.known(field), after.known(field));
        if let (Some(one), Some(other)) = (one, other)
            && !same(field, one, other)
        {
            let message = format!("`{field}` differs, and {axis} is all that may; {}", remedy(field));
            findings.push(
                Finding::new(rule, Tier::Refuse, field.as_str(), message).values(Some(one), Some(other)),
            );
        }
    }
    findings
}

fn remedy(field: Field) -> String {
    match field {
        Field::Commit | Field::RuntimeVersion => {
            "name --vary commit if the change is what you measure".to_owned()
        }
        Field::MlxCommit | Field::MlxVersion | Field::MlxLibrary => {
            "name --vary mlx if MLX is what you measure".to_owned()
        }
        Field::Runtime => "name --vary runtime to compare with a reference".to_owned(),
        Field::Hardware | Field::HostId | Field::Os | Field::Driver => {
            "name --vary host if the hosts are what you compare".to_owned()
        }
        field => format!("name --vary setting={field} if it is what you measure, or measure one side anew"),
    }
}

fn same(field: Field, one: &str, other: &str) -> bool {
    match field {
        Field::Commit | Field::MlxCommit => revision::same(one, other),
        _ => one == other,
    }
}

pub(super) static AXIS_DIFFERS: Rule = Rule {
    id: "V01",
    tier: Tier::Warn,
    fields: &["axis"],
    accepted_by: &[],
    text: "what --vary names differs between the sides",
    check: Check::Survivors(axis_differs),
};

fn axis_differs(case: &Case<'_>, pairs: &[&Pair<'_>]) -> Vec<Finding> {
    let Some(field) = case.options.axis.principal() else {
        return Vec::new();
    };
    let mut values = None;
    for (before, after) in pairs.iter().flat_map(|pair| pair.combinations()) {
        let (one, other) = (before.facts.known(field), after.facts.known(field));
        match (one, other) {
            (Some(one), Some(other)) if same(field, one, other) => values = Some(one),
            _ => return Vec::new(),
        }
    }
    let Some(value) = values else { return Vec::new() };
    let message =
        format!("`{field}` may differ and is the same on both sides: this shows noise, not a change");
    vec![
        Finding::new("V01", Tier::Warn, field.as_str(), message)
            .values(owned(Some(value)), owned(Some(value))),
    ]
}

pub(super) static TWO_MEASUREMENTS: Rule = Rule {
    id: "V02",
    tier: Tier::Refuse,
    fields: &["file", "row"],
    accepted_by: &[],
    text: "the sides are two measurements, not one twice",
    check: Check::Files(two_measurements),
};

/// Sides of several files have no digest; a gate looks for the same file or row in both itself.
fn two_measurements(case: &Case<'_>) -> Vec<Finding> {
    let (before, after) = (case.before, case.after);
    if before.sha256.is_empty() || before.records.is_empty() {
        return Vec::new();
    }
    if before.sha256 != after.sha256 {
        return one_row_twice(before, after);
    }
    let shown = |file: &SourceFile| Some(file.path.display().to_string());
    let message =
        "both sides are one and the same file, so every ratio is 1 and none says anything; name another file";
    vec![Finding::new("V02", Tier::Refuse, "file", message).values(shown(before), shown(after))]
}

/// A copy of a file with other line ends, or with a column changed by hand, still holds rows of the same run with the same
/// times.
fn one_row_twice(before: &SourceFile, after: &SourceFile) -> Vec<Finding> {
    fn key(record: &Record) -> Option<(&str, &str, u64, u64)> {
        let run = record.extra.as_deref()?.run_id.as_deref()?;
        let times = record.prefill_nanos.zip(record.decode_nanos).filter(|_| record.outcome.is_ok())?;
        Some((run, &record.model, times.0, times.1))
    }
    let runs: BTreeSet<&str> = before.records.iter().filter_map(key).map(|(run, ..)| run).collect();
    let of_same_run = |record: &&Record| key(record).is_some_and(|(run, ..)| runs.contains(run));
    let others: HashMap<_, u64> = after
        .records
        .iter()
        .filter(of_same_run)
        .filter_map(|record| Some((key(record)?, record.line)))
        .collect();
    let mut twice = before.records.iter().filter_map(|record| Some((record, *others.get(&key(record)?)?)));
    let Some((record, other)) = twice.next() else { return Vec::new() };
    let count = 1 + twice.count();
    let shown = |file: &SourceFile, line: u64| Some(format!("{}:{line}", file.path.display()));
    let message = format!(
        "{count} rows of both sides are one measurement, that of `{}` the first of them: of one run and with the same times to \
         the nanosecond; name a file of another run",
        record.model
    );
    vec![
        Finding::new("V02", Tier::Refuse, "row", message)
            .values(shown(before, record.line), shown(after, other)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_of_different_lengths_agree_only_when_clean() {
        assert!(same(Field::Commit, "9be59134", "9be591346"));
        assert!(!same(Field::Commit, "9be59134", "9be59134-dirty"));
        assert!(!same(Field::MlxCommit, "v0.32.2", "v0.32.20"));
        assert!(!same(Field::TargetCpu, "abcdef01", "abcdef012"));
    }
}
