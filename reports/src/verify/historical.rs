//! Files of older layouts: they say little twice, and that little is derived again.

use std::path::Path;

use super::report::{Discrepancy, Verification, VerifyError};
use crate::history::{self, Problem, SourceFile};

/// Problems of a file in which something that it states does not follow; others are remarks.
const DISAGREEMENTS: [&str; 6] =
    ["rate_disagrees", "zero_tokens", "missing_status", "ragged_row", "unreadable_cell", "no_rows"];

pub(super) fn verify(path: &Path) -> Result<Verification, VerifyError> {
    let file = history::read(path)?;
    let mut verification = Verification::new(path, "historical result file");
    verification.sources.push(path.to_owned());
    verification.count("rows", file.records.len());
    let cells = Cells::read(path).unwrap_or_default();
    for problem in &file.problems {
        if DISAGREEMENTS.contains(&problem.rule) {
            verification.found(discrepancy(&file, problem, &cells));
        } else {
            let line = problem.line.map_or_else(String::new, |line| format!("line {line}: "));
            verification.notes.push(format!("{line}{} ({})", problem.message, problem.rule));
        }
    }
    let note = format!(
        "layout `{}` has neither samples nor provenance, so times and stamps were not derived",
        file.layout
    );
    verification.notes.push(note);
    Ok(verification)
}

fn discrepancy(file: &SourceFile, problem: &Problem, cells: &Cells) -> Discrepancy {
    let column =
        problem.message.strip_prefix("column `").and_then(|rest| rest.split_once('`')).map(|(name, _)| name);
    let field = match (column, problem.rule) {
        (Some(column), _) => column,
        (None, "zero_tokens") => "generated_tokens",
        (None, "ragged_row") => "fields",
        (None, "missing_status") => "status",
        (None, _) => "rows",
    };
    let mut discrepancy = Discrepancy::new(&file.path, field, &problem.message);
    let Some(line) = problem.line else { return discrepancy };
    let stated = cells.get(line, field);
    let derived = match (problem.rule, field) {
        ("rate_disagrees", "decode_tok_s") => {
            cells.rate(line, &["generated_tokens", "gen_tokens"], "decode_ms")
        }
        ("rate_disagrees", "prefill_tok_s") => {
            cells.rate(line, &["prompt_tokens", "context_tokens"], "prefill_ms")
        }
        ("ragged_row", _) => Some(cells.header.len().to_string()),
        _ => None,
    };
    let stated =
        if problem.rule == "ragged_row" { cells.width(line).map(|width| width.to_string()) } else { stated };
    discrepancy = discrepancy.at(line).values(stated, derived);
    discrepancy
}

/// The texts of a file's cells, for saying what stands where.
#[derive(Default)]
struct Cells {
    header: Vec<String>,
    rows: Vec<(u64, csv::StringRecord)>,
}

impl Cells {
    /// Only called for a file that was read as CSV just before.
    fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let skipped = text.split(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#")).count();
        let start: usize = text.split(|byte| *byte == b'\n').take(skipped).map(|line| line.len() + 1).sum();
        let mut reader =
            csv::ReaderBuilder::new().flexible(true).from_reader(text.get(start..).unwrap_or_default());
        let header = reader.headers().ok()?.iter().map(str::to_owned).collect();
        let rows = reader
            .into_records()
            .map_while(Result::ok)
            .map(|record| (record.position().map_or(0, csv::Position::line) + skipped as u64, record))
            .collect();
        Some(Self { header, rows })
    }

    fn row(&self, line: u64) -> Option<&csv::StringRecord> {
        let index = self.rows.binary_search_by_key(&line, |(line, _)| *line).ok()?;
        self.rows.get(index).map(|(_, record)| record)
    }

    fn width(&self, line: u64) -> Option<usize> {
        self.row(line).map(csv::StringRecord::len)
    }

    fn get(&self, line: u64, column: &str) -> Option<String> {
        let index = self.header.iter().position(|name| name == column)?;
        self.row(line)?.get(index).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Count over time, as the tools of that time computed it.
    fn rate(&self, line: u64, counts: &[&str], millis: &str) -> Option<String> {
        let count: u64 = counts.iter().find_map(|column| self.get(line, column))?.parse().ok()?;
        let millis: f64 = self.get(line, millis)?.parse().ok()?;
        (millis > 0.0).then(|| format!("{:.2}", count as f64 * 1e3 / millis))
    }
}
