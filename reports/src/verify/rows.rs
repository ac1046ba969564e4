//! The rows of the project's own files, line by line, so that one wrong line hides no other.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use mlxcel_catalog::files::open_regular;

use super::report::{Discrepancy, VerifyError};
use crate::measure::{Decode, Prefill};
use crate::row::AnyRow;
use crate::wire::{self, COLUMNS, WireError};

/// What is one row's.
pub(super) struct Line {
    pub(super) line: u64,
    pub(super) row: AnyRow,
}

/// The rows that can be read, and what is wrong with the others.
pub(super) struct Lines {
    /// Rows of the file, readable or not.
    pub(super) total: usize,
    pub(super) readable: Vec<Line>,
    pub(super) discrepancies: Vec<Discrepancy>,
    /// The file ends within a row.
    pub(super) torn: bool,
}

/// Whether a file has the header of the project's own layout.
pub(super) fn is_own(path: &Path) -> Result<bool, VerifyError> {
    let failed = |source| VerifyError::Read { path: path.to_owned(), source };
    let mut head = Vec::new();
    BufReader::new(open_regular(path).map_err(failed)?)
        .take(1 << 20)
        .read_until(b'\n', &mut head)
        .map_err(failed)?;
    Ok(head.split(|byte| matches!(byte, b',' | b'\r' | b'\n')).any(|name| name == b"schema_version"))
}

/// Reads the bytes of a file. A header that is not that of the layout is an error: then no column means anything.
pub(super) fn read(path: &Path, bytes: &[u8], unfinished: bool) -> Result<Lines, WireError> {
    match wire::parse(path, bytes, unfinished) {
        Ok(read) => Ok(Lines {
            total: read.rows.len(),
            readable: read.rows.into_iter().zip(read.lines).map(|(row, line)| Line { line, row }).collect(),
            discrepancies: Vec::new(),
            torn: read.torn,
        }),
        Err(WireError::Cell { .. } | WireError::Ragged { .. }) => one_by_one(path, bytes, unfinished),
        Err(error) => Err(error),
    }
}

fn one_by_one(path: &Path, bytes: &[u8], unfinished: bool) -> Result<Lines, WireError> {
    let mut records = csv::ReaderBuilder::new()
        .has_headers(true)
        .flexible(true)
        .from_reader(bytes)
        .into_records()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| WireError::NotCsv { path: path.to_owned(), reason: error.to_string() })?;
    let version = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(bytes)
        .headers()
        .ok()
        .and_then(wire::version_of)
        .unwrap_or(wire::SCHEMA_VERSION);
    let header = wire::header_line_of(version).unwrap_or_else(wire::header_line);
    let columns = header.split(',').count();
    let mut lines = Lines { total: 0, readable: Vec::new(), discrepancies: Vec::new(), torn: false };
    let whole = bytes.last().is_none_or(|last| *last == b'\n');
    if unfinished && records.last().is_some_and(|last| !whole || last.len() < columns) {
        records.pop();
        lines.torn = true;
    }
    lines.total = records.len();
    for record in &records {
        let line = wire::line_of(bytes, record);
        match alone(path, &header, record) {
            Ok(row) => lines.readable.push(Line { line, row }),
            Err(error) => lines.discrepancies.extend(complaints(path, line, record, &error)),
        }
    }
    Ok(lines)
}

fn alone(path: &Path, header: &str, record: &csv::StringRecord) -> Result<AnyRow, WireError> {
    let not_csv = |reason: String| WireError::NotCsv { path: path.to_owned(), reason };
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(header.as_bytes().to_vec());
    writer.write_record(record).map_err(|error| not_csv(error.to_string()))?;
    let bytes = writer.into_inner().map_err(|error| not_csv(error.to_string()))?;
    let mut rows = wire::parse(path, &bytes, false)?.rows;
    rows.pop().ok_or_else(|| not_csv("an empty line".to_owned()))
}

fn complaints(path: &Path, line: u64, record: &csv::StringRecord, error: &WireError) -> Vec<Discrepancy> {
    let (column, reason) = match error {
        WireError::Cell { column, reason, .. } => (*column, reason.clone()),
        WireError::Ragged { found, expected, .. } => {
            let message = "a row has as many fields as the header";
            return vec![
                Discrepancy::new(path, "fields", message)
                    .at(line)
                    .values(Some(found.to_string()), Some(expected.to_string())),
            ];
        }
        other => return vec![Discrepancy::new(path, "row", other.to_string()).at(line)],
    };
    let mut found = derived(path, line, record);
    if !found.iter().any(|discrepancy| discrepancy.field == column) {
        found.insert(
            0,
            Discrepancy::new(path, column, reason).at(line).values(cell(record, column), None::<String>),
        );
    }
    found
}

fn cell<'r>(record: &'r csv::StringRecord, column: &str) -> Option<&'r str> {
    let index = COLUMNS.iter().position(|name| *name == column)?;
    record.get(index).filter(|text| !text.is_empty())
}

/// The columns that follow from others of the same row, where they do not.
fn derived(path: &Path, line: u64, record: &csv::StringRecord) -> Vec<Discrepancy> {
    let count = |column: &str| cell(record, column).and_then(|text| text.parse::<u64>().ok());
    let valid = cell(record, "status").is_none();
    let prefill =
        count("prompt_tokens").zip(count("prefill_ns")).map(|(tokens, nanos)| Prefill::new(tokens, nanos));
    let decode =
        count("generated_tokens").zip(count("decode_ns")).map(|(tokens, nanos)| Decode::new(tokens, nanos));
    let rate = |rate: Option<f64>| rate.filter(|_| valid);
    let (prefill_rate, decode_rate) =
        (rate(prefill.and_then(Prefill::tok_s)), rate(decode.and_then(Decode::tok_s)));
    let millis = |nanos: Option<u64>, rate: Option<f64>| {
        nanos.filter(|_| rate.is_some()).map(|nanos| nanos as f64 / 1e6)
    };
    let expected = [
        ("prefill_ms", millis(prefill.map(Prefill::nanos), prefill_rate), "`prefill_ns` and status"),
        ("prefill_tok_s", prefill_rate, "`prompt_tokens`, `prefill_ns` and status"),
        ("decode_ms", millis(decode.map(Decode::nanos), decode_rate), "`decode_ns` and status"),
        ("decode_tok_s", decode_rate, "(`generated_tokens` - 1), `decode_ns` and status"),
        ("decode_steps", decode.map(|decode| decode.steps() as f64), "`generated_tokens` - 1"),
    ];
    let number = |column: &str| cell(record, column).and_then(|text| text.parse::<f64>().ok());
    let bytes = number("decode_bytes_per_token").filter(|bytes| *bytes > 0.0);
    let implied = bytes.zip(decode.and_then(Decode::tok_s)).map(|(bytes, rate)| bytes * rate);
    let stream = number("stream_bandwidth_bytes_s").filter(|stream| *stream > 0.0);
    let share = implied.zip(stream).map(|(implied, stream)| 100.0 * implied / stream);
    let expected = expected.into_iter().chain([
        ("implied_bandwidth_bytes_s", implied, "`decode_bytes_per_token` and the decode rate"),
        ("bandwidth_pct", share, "`implied_bandwidth_bytes_s` and `stream_bandwidth_bytes_s`"),
    ]);
    let mut found = Vec::new();
    for (column, derived, source) in expected {
        let stated = cell(record, column);
        let relative = if column.contains("bandwidth") { 1e-9 } else { 1e-12 };
        let agrees = match (stated.map(str::parse::<f64>), derived) {
            (None, None) => true,
            (Some(Ok(stated)), Some(derived)) => (stated - derived).abs() <= 1e-6 + derived.abs() * relative,
            _ => false,
        };
        if !agrees {
            let shown = derived.map(|derived| {
                if column == "decode_steps" { format!("{derived:.0}") } else { format!("{derived:.6}") }
            });
            found.push(
                Discrepancy::new(path, column, format!("from {source}")).at(line).values(stated, shown),
            );
        }
    }
    found
}
