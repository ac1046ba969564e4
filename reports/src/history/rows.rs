//! Reading a historical file row by row. Whatever cannot be understood is kept as an unreadable row and named by line and
//! column; no row is dropped.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use super::columns::{self, FactCells, NameHints, Role};
use super::layouts::{self, Layout};
use super::{HistoryError, Problem};
use crate::record::{Extra, Facts, Harness, Metric, Outcome, Rare, RateDisagreement, Record, normal_path};

const NANOS_PER_MILLI: f64 = 1e6;
/// A time above this is no measurement: eleven days.
const MAX_MILLIS: f64 = 1e9;
const GIGABYTE: f64 = 1e9;
/// Different sets of facts that are remembered; a file with more of them is read correctly, only slower.
const REMEMBERED: usize = 4096;

pub(super) struct Parsed {
    pub(super) layout: &'static str,
    pub(super) records: Vec<Record>,
    pub(super) problems: Vec<Problem>,
}

/// Reads rows after the header was read. `first_line` is the number of lines before the header.
pub(super) fn parse(
    name: &str,
    header: &csv::StringRecord,
    rows: &mut csv::Reader<impl Read>,
    skipped_lines: u64,
) -> Result<Parsed, HistoryError> {
    let Some(layout) = layouts::of_header(header) else {
        let (column, found, expected, layout) = layouts::nearest(header);
        return Err(HistoryError::UnknownLayout {
            path: name.into(),
            line: skipped_lines + 1,
            column,
            found,
            expected,
            layout,
        });
    };
    let roles = columns::roles(layout, header);
    let mut reader = RowReader {
        layout,
        header,
        fact_columns: roles
            .iter()
            .enumerate()
            .filter_map(|(index, role)| role.is_fact().then_some(index))
            .collect(),
        roles,
        last: None,
        hints: NameHints::of(file_name(name)),
        facts: HashMap::new(),
        key: String::new(),
        problems: Vec::new(),
    };
    let mut records = Vec::new();
    let mut row = csv::StringRecord::new();
    while let Some(line) =
        next_row(rows, &mut row).map_err(|error| HistoryError::not_csv(name, skipped_lines, error))?
    {
        records.push(reader.record(&row, line.saturating_add(skipped_lines)));
    }
    Ok(Parsed { layout: layout.id, records, problems: reader.problems })
}

/// A reader of lines that end in `\n` or `\r\n`; the last one need not end.
pub(super) fn lines(reader: impl Read) -> csv::Reader<impl Read> {
    csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .terminator(csv::Terminator::Any(b'\n'))
        .from_reader(reader.chain(&b"\n"[..]))
}

/// The next row that is not an empty line, and its line. The CSV reader's own position is that of the row before where
/// empty lines lie between, so the line is counted back from the row's end.
pub(super) fn next_row(
    rows: &mut csv::Reader<impl Read>,
    row: &mut csv::StringRecord,
) -> Result<Option<u64>, csv::Error> {
    // A quote that is never closed takes the end of its line with it.
    let first_possible = rows.position().line();
    while rows.read_record(row)? {
        if row.len() == 1 && row.get(0) == Some("\r") {
            continue;
        }
        if let Some(last) = row.iter().next_back().and_then(|cell| cell.strip_suffix('\r')) {
            let last = last.to_owned();
            row.truncate(row.len().saturating_sub(1));
            row.push_field(&last);
        }
        let within = row.as_slice().bytes().filter(|byte| *byte == b'\n').count() as u64;
        return Ok(Some(rows.position().line().saturating_sub(within + 1).max(first_possible)));
    }
    Ok(None)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

struct RowReader<'a> {
    layout: &'static Layout,
    header: &'a csv::StringRecord,
    roles: Vec<Role>,
    hints: NameHints,
    fact_columns: Vec<usize>,
    facts: HashMap<String, Arc<Facts>>,
    last: Option<(String, Arc<Facts>)>,
    key: String,
    problems: Vec<Problem>,
}

/// The numbers of one row as they stand in the file.
#[derive(Default)]
struct Cells {
    prompt_tokens: Option<u64>,
    generated: Option<u64>,
    prefill_ms: Option<f64>,
    prefill_rate: Option<f64>,
    decode_ms: Option<f64>,
    decode_rate: Option<f64>,
    peak_gb: Option<f64>,
    load_s: Option<f64>,
    bandwidth_gb: Option<f64>,
}

impl RowReader<'_> {
    fn record(&mut self, row: &csv::StringRecord, line: u64) -> Record {
        let width = self.header.len();
        let facts = self.facts(row, line);
        let mut record = Record {
            line,
            model: row.get(self.index(Role::Model)).unwrap_or_default().into(),
            model_path: self
                .cell(row, Role::ModelPath)
                .filter(|p| !p.is_empty())
                .map(|p| normal_path(p).into()),
            facts,
            outcome: Outcome::of(""),
            prompt_tokens: None,
            generated_tokens: None,
            prefill_nanos: None,
            decode_nanos: None,
            extra: None,
        };
        let token = match row.len() {
            len if len == width => self.cell(row, Role::Status).unwrap_or_default(),
            len if len == width + 1 && is_status(row.get(width).unwrap_or_default()) => {
                row.get(width).unwrap_or_default()
            }
            len => {
                let reason = format!("the row has {len} fields, the header {width}");
                self.problem("ragged_row", line, reason.clone());
                record.outcome = Outcome::Unreadable(reason.into());
                return record;
            }
        };
        record.outcome = if token == "ok" { Outcome::of("") } else { Outcome::of(token) };
        match self.cells(row) {
            Ok(cells) => self.fill(&mut record, &cells),
            Err((column, reason)) => {
                let reason = format!("column `{column}`: {reason}");
                self.problem("unreadable_cell", line, reason.clone());
                record.outcome = Outcome::Unreadable(reason.into());
            }
        }
        if record.model.trim().is_empty() {
            self.problem("unreadable_cell", line, "column `model`: empty".to_owned());
            record.outcome = Outcome::Unreadable("column `model`: empty".into());
        }
        record
    }

    fn index(&self, role: Role) -> usize {
        self.roles.iter().position(|found| *found == role).unwrap_or(usize::MAX)
    }

    fn cell<'r>(&self, row: &'r csv::StringRecord, role: Role) -> Option<&'r str> {
        row.get(self.index(role))
    }

    fn cells(&self, row: &csv::StringRecord) -> Result<Cells, (String, String)> {
        let mut cells = Cells::default();
        for (index, role) in self.roles.iter().enumerate() {
            let text = row.get(index).unwrap_or_default();
            let named = |reason| (self.header.get(index).unwrap_or_default().to_owned(), reason);
            match role {
                Role::PromptTokens => cells.prompt_tokens = count(text).map_err(named)?,
                Role::GeneratedTokens => cells.generated = count(text).map_err(named)?,
                Role::PrefillMs => cells.prefill_ms = number(text).map_err(named)?,
                Role::PrefillRate => cells.prefill_rate = number(text).map_err(named)?,
                Role::DecodeMs => cells.decode_ms = number(text).map_err(named)?,
                Role::DecodeRate => cells.decode_rate = number(text).map_err(named)?,
                Role::PeakGb => cells.peak_gb = number(text).map_err(named)?,
                Role::LoadSeconds => cells.load_s = number(text).map_err(named)?,
                Role::BandwidthGb => cells.bandwidth_gb = number(text).map_err(named)?,
                _ => {}
            }
        }
        Ok(cells)
    }

    /// Times become nanoseconds; a time that was not written follows from count and rate as that tool computed them.
    fn fill(&mut self, record: &mut Record, cells: &Cells) {
        record.prompt_tokens = cells.prompt_tokens;
        record.generated_tokens = cells.generated;
        record.prefill_nanos = nanos(cells.prefill_ms, cells.prompt_tokens, cells.prefill_rate);
        record.decode_nanos = nanos(cells.decode_ms, cells.generated, cells.decode_rate);
        if cells.peak_gb.is_some() || cells.load_s.is_some() || cells.bandwidth_gb.is_some() {
            record.extra = Some(Box::new(Extra {
                peak_memory_bytes: cells.peak_gb.and_then(|gb| whole(gb * GIGABYTE)),
                load_nanos: cells.load_s.and_then(|seconds| whole(seconds * 1e9)),
                rare: cells.bandwidth_gb.map(|gb| {
                    let bandwidth_bytes_s = Some(gb * GIGABYTE);
                    Box::new(Rare { bandwidth_bytes_s, ..Rare::default() })
                }),
                ..Extra::default()
            }));
        }
        let line = record.line;
        if record.outcome.is_ok() && self.measures_tokens() {
            if cells.decode_rate.is_none() && cells.decode_ms.is_none() && cells.prefill_ms.is_none() {
                self.problem("missing_status", line, "no numbers, and no status that says why".to_owned());
                record.outcome = Outcome::Foreign("no numbers and no status".into());
                return;
            }
            if cells.generated == Some(0) {
                self.problem(
                    "zero_tokens",
                    line,
                    "no token was generated, yet the row is no failure".to_owned(),
                );
            }
        }
        if cells.generated == Some(1)
            && let Some(rate) = cells.decode_rate.filter(|rate| *rate > 0.0)
        {
            let message =
                format!("column `decode_tok_s`: {rate} tok/s of one token, which took no decode step");
            self.problem("rate_without_steps", line, message);
        }
        let generated = cells.generated.filter(|tokens| *tokens > 1);
        for (metric, disagreement) in [
            (Metric::Decode, disagreement(generated, cells.decode_ms, cells.decode_rate)),
            (Metric::Prefill, disagreement(cells.prompt_tokens, cells.prefill_ms, cells.prefill_rate)),
        ] {
            let Some(Disagreement { stated, derived, message }) = disagreement else { continue };
            self.problem("rate_disagrees", line, format!("column `{metric}_tok_s`: {message}"));
            if let Some(derived) = derived {
                let extra = record.extra.get_or_insert_default();
                let rare = extra.rare.get_or_insert_default();
                rare.rate_disagreements.push(RateDisagreement { metric, stated, derived });
            }
        }
    }

    fn measures_tokens(&self) -> bool {
        self.roles.contains(&Role::DecodeRate) && !matches!(self.layout.harness, Harness::Speculative)
    }

    fn facts(&mut self, row: &csv::StringRecord, line: u64) -> Arc<Facts> {
        self.key.clear();
        for index in &self.fact_columns {
            self.key.push_str(row.get(*index).unwrap_or_default());
            self.key.push('\u{1f}');
        }
        if let Some((key, facts)) = &self.last
            && *key == self.key
        {
            return Arc::clone(facts);
        }
        if let Some(facts) = self.facts.get(&self.key) {
            self.last = Some((self.key.clone(), Arc::clone(facts)));
            return Arc::clone(facts);
        }
        let mut cells = FactCells::default();
        for (index, role) in self.roles.iter().enumerate() {
            let text = row.get(index).unwrap_or_default();
            let name = self.header.get(index).unwrap_or_default();
            match role {
                Role::Date => cells.date = Some(text),
                Role::Version => cells.version = Some((name, text)),
                Role::Fact(field) => cells.facts.push((*field, text)),
                Role::Variant => cells.variant.push((name, text)),
                _ => {}
            }
        }
        let (facts, odd) = columns::facts(self.layout, self.hints, &cells);
        let facts = Arc::new(facts);
        for (rule, message) in odd {
            // One remark a file suffices for what holds of every row.
            if rule == "unreadable_cell" || !self.problems.iter().any(|known| known.rule == rule) {
                self.problem(rule, line, message);
            }
        }
        if self.facts.len() < REMEMBERED {
            self.facts.insert(self.key.clone(), Arc::clone(&facts));
        }
        facts
    }

    fn problem(&mut self, rule: &'static str, line: u64, message: String) {
        self.problems.push(Problem { rule, line: Some(line), message });
    }
}

fn is_status(text: &str) -> bool {
    text.is_empty() || text.starts_with("SKIP") || text.starts_with("FAIL") || text.starts_with("INVALID")
}

fn count(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).map(Some).ok_or_else(|| format!("`{text}` is not a count"))
}

fn number(text: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0 && *number <= MAX_MILLIS)
        .map(Some)
        .ok_or_else(|| format!("`{text}` is not a number from 0 to {MAX_MILLIS:e}"))
}

fn whole(number: f64) -> Option<u64> {
    // OK because the value is checked to lie in the range of the type.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    (number.is_finite() && (0.0..1e19).contains(&number)).then(|| number.round() as u64)
}

fn nanos(millis: Option<f64>, count: Option<u64>, rate: Option<f64>) -> Option<u64> {
    match (millis, count, rate) {
        (Some(millis), ..) => whole(millis * NANOS_PER_MILLI),
        (None, Some(count), Some(rate)) if rate > 0.0 => whole(count as f64 / rate * 1e9),
        _ => None,
    }
}

/// A stated rate that does not follow.
struct Disagreement {
    stated: f64,
    /// None where there is no time.
    derived: Option<f64>,
    message: String,
}

/// Whether a rate is that of count and time in neither convention, beyond the rounding to two decimals.
fn disagreement(count: Option<u64>, millis: Option<f64>, rate: Option<f64>) -> Option<Disagreement> {
    let (count, millis, rate) = (count?, millis?, rate?);
    if millis < 0.05 {
        return (rate > 0.0 && count > 0).then(|| Disagreement {
            stated: rate,
            derived: (millis > 0.0).then(|| count as f64 * 1e3 / millis),
            message: format!("{rate} tok/s although the time is {millis} ms; the rate says nothing"),
        });
    }
    let fits = |steps: f64| {
        let low = steps * 1e3 / (millis + 0.006) - 0.006;
        let high = steps * 1e3 / (millis - 0.006) + 0.006;
        (low..=high).contains(&rate)
    };
    let count = count as f64;
    (!fits(count) && !fits(count - 1.0)).then(|| {
        let derived = count * 1e3 / millis;
        Disagreement {
            stated: rate,
            derived: Some(derived),
            message: format!("{rate} tok/s is stated, {count} tokens in {millis} ms are {derived:.2}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_dress_are_refused() {
        for text in ["NaN", "inf", "-inf", "-1", "1e300", "~21", "1,5", "0x10", " 5"] {
            assert!(number(text).is_err(), "{text}");
            assert!(count(text).is_err(), "{text}");
        }
        assert!(count("99999999999999999999").is_err());
        assert_eq!(number(""), Ok(None));
        assert_eq!(number("112.41"), Ok(Some(112.41)));
    }

    #[test]
    fn a_rate_is_checked_in_both_conventions_and_with_its_rounding() {
        assert!(disagreement(Some(128), Some(1138.69), Some(112.41)).is_none());
        assert!(disagreement(Some(101), Some(1000.0), Some(100.0)).is_none());
        assert!(disagreement(Some(128), Some(1138.69), Some(113.41)).is_some());
        assert!(disagreement(Some(1), Some(0.0), Some(533_333.33)).is_some());
    }

    #[test]
    fn a_missing_time_follows_from_count_and_rate() {
        assert_eq!(nanos(None, Some(64), Some(16.0)), Some(4_000_000_000));
        assert_eq!(nanos(None, Some(64), Some(0.0)), None);
        assert_eq!(nanos(Some(2.5), None, None), Some(2_500_000));
    }
}
