//! What is wrong with the rows of one file, seen together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Problem;
use crate::record::{Facts, Field, Harness, Record};

/// Mixed commits and hosts, unclean and missing commits, duplicate names and early stops.
pub(super) fn of_records(records: &[Record]) -> Vec<Problem> {
    let mut problems = Vec::new();
    mixed(records, Field::Commit, "mixed_commits", &mut problems);
    mixed(records, Field::MlxCommit, "mixed_mlx", &mut problems);
    mixed(records, Field::Hardware, "mixed_hosts", &mut problems);
    commits(records, &mut problems);
    duplicates(records, &mut problems);
    early_stops(records, &mut problems);
    problems
}

fn mixed(records: &[Record], field: Field, rule: &'static str, problems: &mut Vec<Problem>) {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    let mut last = None;
    for record in records {
        // Rows share their facts, most often with the row before.
        let facts = Arc::as_ptr(&record.facts);
        if last.replace(facts) == Some(facts) {
            continue;
        }
        if let Some(value) = record.facts.known(field) {
            seen.entry(value).or_insert(record.line);
        }
    }
    if seen.len() > 1 {
        let line = seen.values().max().copied();
        let values: Vec<&str> = seen.into_keys().collect();
        problems.push(Problem { rule, line, message: format!("`{field}` is {}", values.join(", ")) });
    }
}

fn commits(records: &[Record], problems: &mut Vec<Problem>) {
    let dirty = records
        .iter()
        .find(|record| record.facts.known(Field::Commit).is_some_and(|commit| commit.ends_with("-dirty")));
    if let Some(record) = dirty {
        let message = "measured with sources that differ from the commit".to_owned();
        problems.push(Problem { rule: "dirty_commit", line: Some(record.line), message });
    }
    let measured = || records.iter().filter(|record| record.outcome.is_ok());
    let nameless = || measured().filter(|record| record.facts.known(Field::Commit).is_none());
    if let Some(first) = nameless().next() {
        let message =
            format!("{} of {} measured rows name no source commit", nameless().count(), measured().count());
        problems.push(Problem { rule: "missing_commit", line: Some(first.line), message });
    }
}

/// Shapes are numbered by the facts they follow from, which many rows share: a million rows are told apart quickly.
fn duplicates(records: &[Record], problems: &mut Vec<Problem>) {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut shapes: HashMap<*const Facts, u32> = HashMap::new();
    let mut keyed: Vec<(&str, u32, u64)> = Vec::with_capacity(records.len());
    for record in records.iter().filter(|record| record.facts.harness != Harness::SparseTrace) {
        let shape = *shapes.entry(Arc::as_ptr(&record.facts)).or_insert_with(|| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(format!("{} {}", record.facts.harness, record.shape(None))).or_insert(next)
        });
        keyed.push((&record.model, shape, record.line));
    }
    keyed.sort_unstable();
    let mut first = None;
    let mut found = Vec::new();
    for (model, shape, line) in keyed {
        match first {
            Some((known, known_shape, at)) if known == model && known_shape == shape => found.push(Problem {
                rule: "duplicate_name",
                line: Some(line),
                message: format!("`{model}` was measured the same way in line {at} already"),
            }),
            _ => first = Some((model, shape, line)),
        }
    }
    found.sort_by_key(|problem| problem.line);
    problems.extend(found);
}

fn early_stops(records: &[Record], problems: &mut Vec<Problem>) {
    for record in records.iter().filter(|record| record.outcome.is_ok()) {
        let asked = record.facts.known(Field::MaxTokens).and_then(|text| text.parse::<u64>().ok());
        if let (Some(generated), Some(asked)) = (record.generated_tokens, asked)
            && generated > 0
            && generated < asked
        {
            let message = format!("`{}` generated {generated} of {asked} tokens", record.model);
            problems.push(Problem { rule: "early_stop", line: Some(record.line), message });
        }
    }
}
