//! What is wrong with the rows of one file, seen together.

use std::collections::{BTreeMap, HashMap};

use super::Problem;
use crate::record::{Field, Harness, Record};

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
    for record in records {
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
    let measured: Vec<&Record> = records.iter().filter(|record| record.outcome.is_ok()).collect();
    let missing = measured.iter().filter(|record| record.facts.known(Field::Commit).is_none()).count();
    if missing > 0 {
        let line = measured.iter().find(|record| record.facts.known(Field::Commit).is_none());
        let message = format!("{missing} of {} measured rows name no source commit", measured.len());
        problems.push(Problem { rule: "missing_commit", line: line.map(|record| record.line), message });
    }
}

fn duplicates(records: &[Record], problems: &mut Vec<Problem>) {
    let mut first: HashMap<(&str, Harness, String), u64> = HashMap::new();
    for record in records {
        if record.facts.harness == Harness::SparseTrace {
            continue;
        }
        let key = (record.model.as_ref(), record.facts.harness, record.shape(None));
        match first.get(&key) {
            None => {
                first.insert(key, record.line);
            }
            Some(line) => problems.push(Problem {
                rule: "duplicate_name",
                line: Some(record.line),
                message: format!("`{}` was measured the same way in line {line} already", record.model),
            }),
        }
    }
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
