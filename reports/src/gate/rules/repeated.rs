//! That nothing counts twice: P22 within a file, G01 over all of them.
//!
//! Each result file holds one fresh process a row, so several files a side are several independent measurements, and the
//! same one under two names would pass for two.

use std::collections::HashMap;
use std::path::Path;

use super::{GateCase, GateCheck, GateRule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Options;
use crate::compare::pairing;
use crate::history::SourceFile;
use crate::record::Record;

pub(super) static ONE_ROW_A_FILE: GateRule = GateRule {
    id: "P22",
    tier: Tier::Refuse,
    fields: &["model"],
    accepted_by: &[],
    text: "no file has two rows of one checkpoint and shape: a gate takes one fresh process a file",
    check: GateCheck::Files(rows_of_one_key),
};

pub(super) static EACH_MEASUREMENT_ONCE: GateRule = GateRule {
    id: "G01",
    tier: Tier::Refuse,
    fields: &["file", "row"],
    accepted_by: &[],
    text: "no file and no measurement stands in two places, of one side or of both",
    check: GateCheck::Files(measured_once),
};

fn measured_once(case: &GateCase<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut files: HashMap<&str, &Path> = HashMap::new();
    let mut rows: HashMap<(&str, u64, u64), (&Path, u64)> = HashMap::new();
    for file in case.baseline.iter().chain(case.candidate) {
        if let Some(first) = files.insert(&file.sha256, &file.path) {
            let message =
                "the same file stands in two places and would count as two measurements; name it once";
            findings.push(finding("file", message, first.display(), file.path.display()));
            continue;
        }
        // Nanoseconds of two runs do not agree by chance; the milliseconds of older layouts may.
        for record in file.records.iter().filter(|record| record.outcome.is_ok() && is_own(file)) {
            let Some(key) = times(record) else { continue };
            if let Some((first, line)) = rows.insert(key, (&file.path, record.line)) {
                let message = format!(
                    "one measurement of `{}` stands in two places, with the same times to the nanosecond; two runs never \
                     agree so closely",
                    record.model
                );
                let [one, other] = [(first, line), (&file.path, record.line)]
                    .map(|(path, line)| format!("{}:{line}", path.display()));
                findings.push(finding("row", message, one, other));
            }
        }
    }
    findings
}

fn rows_of_one_key(case: &GateCase<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sides = case.baseline.iter().map(|file| (true, file));
    for (is_before, file) in sides.chain(case.candidate.iter().map(|file| (false, file))) {
        let pairing = pairing::pair(&file.records, &[], case.names, &Options::default());
        findings.extend(pairing.duplicates.iter().map(|duplicate| {
            let lines: Vec<String> = duplicate.lines.iter().map(ToString::to_string).collect();
            let place = Some(format!("{}: lines {}", file.path.display(), lines.join(", ")));
            let (before, after) = if is_before { (place, None) } else { (None, place) };
            let message = format!(
                "{} was measured several times in one file; a gate takes one row a file, so give it one file a run",
                duplicate.label
            );
            Finding::new("P22", Tier::Refuse, "model", message).values(before, after)
        }));
    }
    findings
}

fn finding(
    field: &'static str,
    message: impl Into<String>,
    one: impl std::fmt::Display,
    other: impl std::fmt::Display,
) -> Finding {
    Finding::new("G01", Tier::Refuse, field, message).values(Some(one.to_string()), Some(other.to_string()))
}

fn is_own(file: &SourceFile) -> bool {
    file.layout.strip_prefix('v').is_some_and(|version| version.parse::<u32>().is_ok())
}

fn times(record: &Record) -> Option<(&str, u64, u64)> {
    Some((&record.model, record.prefill_nanos?, record.decode_nanos?))
}
