//! Rows as text: one private layout of which older versions are beginnings, behind one reader and one writer.
//!
//! The reader accepts a file only when its header is exactly the one of a version it knows; every complaint carries the
//! file, the line and the column. Files and their names are [`crate::store`]'s business.

mod cell;
mod convert;
mod layout;
mod light;
mod stream;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::row::AnyRow;

pub(crate) use light::Light;
pub(crate) use stream::RowStream;

/// Version of the rows this crate writes.
pub const SCHEMA_VERSION: u32 = layout::VERSION;

/// The column names of [`SCHEMA_VERSION`], in order.
pub const COLUMNS: &[&str] = layout::COLUMNS;

const VERSION_COLUMN: &str = "schema_version";

/// What is wrong with a file of rows, or with a row that was to be written.
#[derive(Debug, Error)]
pub enum WireError {
    /// The file could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not CSV, or not UTF-8.
    #[error("{}: not a CSV file: {reason}", path.display())]
    NotCsv {
        /// The file.
        path: PathBuf,
        /// The complaint of the CSV reader, with its position.
        reason: String,
    },
    /// The file has no header.
    #[error("{}: the file is empty; a result file begins with its column names", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// No `schema_version` column.
    #[error(
        "{}:1: there is no `schema_version` column; the file is of an older layout or no result file at all",
        path.display()
    )]
    MissingVersion {
        /// The file.
        path: PathBuf,
    },
    /// A version this crate does not know.
    #[error(
        "{}:{line}: schema version {found} is newer than {SCHEMA_VERSION}, the newest this program reads; read it with a \
         newer mlxcel-bench",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// The version found.
        found: u32,
    },
    /// The header is not the one of its version.
    #[error(
        "{}:1: column {position} is {found}, where schema version {version} has {expected}; columns may be neither \
         added, removed nor moved",
        path.display()
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// The first differing column, from 1.
        position: usize,
        /// The name there, or that there is none.
        found: String,
        /// The name that should be there, or that there should be none.
        expected: String,
        /// The version.
        version: u32,
    },
    /// A line with too few or too many fields.
    #[error("{}:{line}: the row has {found} fields, the header {expected}", path.display())]
    Ragged {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// Fields found.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A field that does not hold what its column holds.
    #[error("{}:{line}:{column}: {reason}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// The column's name.
        column: &'static str,
        /// The complaint.
        reason: String,
    },
    /// A row that could not be read back if it were written.
    #[error("row of `{model}` cannot be written: column `{column}`: {reason}")]
    Unwritable {
        /// The row's model.
        model: String,
        /// The column's name.
        column: &'static str,
        /// The complaint.
        reason: String,
    },
}

/// Rows read from one file.
#[derive(Debug)]
pub struct ReadRows {
    /// The rows, in the order of the file.
    pub rows: Vec<AnyRow>,
    /// The line of each.
    pub lines: Vec<u64>,
    /// Version of the file's layout.
    pub version: u32,
    /// The file ends within a row, which was left out. Only accepted of a file that was never finished.
    pub torn: bool,
}

/// The header line.
pub fn header_line() -> String {
    csv_line(COLUMNS.iter().copied())
}

/// The header line of a version; nothing for one that is not known.
pub(crate) fn header_line_of(version: u32) -> Option<String> {
    layout::columns(version).map(|columns| csv_line(columns.iter().copied()))
}

/// The version of a header line; nothing where it is the header of none.
pub(crate) fn version_of(header: &csv::StringRecord) -> Option<u32> {
    layout::version_of(header)
}

/// One row as a line that reads back as the same row.
pub fn row_line(row: &AnyRow) -> Result<String, WireError> {
    let unwritable = |(column, reason)| WireError::Unwritable {
        model: row.identity().checkpoint.model.clone(),
        column,
        reason,
    };
    let cells = layout::WireRow::from(row).to_cells();
    let read = layout::WireRow::from_cells(&cells);
    read.and_then(|wire| convert::row(wire, SCHEMA_VERSION)).map_err(unwritable)?;
    Ok(csv_line(cells.iter().map(String::as_str)))
}

/// The row as a JSON object with the column names as keys, in their order; an unknown is null.
pub fn row_json(row: &AnyRow) -> serde_json::Map<String, serde_json::Value> {
    layout::WireRow::from(row).to_json()
}

/// Reads a finished file.
pub fn read_rows(path: &Path) -> Result<Vec<AnyRow>, WireError> {
    read_finished_rows(path).map(|read| read.rows)
}

/// Reads a finished file, and the line of each row.
pub fn read_finished_rows(path: &Path) -> Result<ReadRows, WireError> {
    read_text(path, false)
}

/// Reads a file that was never finished: its last row may be torn off.
pub fn read_unfinished_rows(path: &Path) -> Result<ReadRows, WireError> {
    read_text(path, true)
}

fn read_text(path: &Path, may_be_torn: bool) -> Result<ReadRows, WireError> {
    let bytes = std::fs::read(path).map_err(|source| WireError::Read { path: path.to_owned(), source })?;
    parse(path, &bytes, may_be_torn)
}

/// Reads the bytes of a file; `path` names it in complaints.
pub(crate) fn parse(path: &Path, bytes: &[u8], may_be_torn: bool) -> Result<ReadRows, WireError> {
    let ends_in_a_line = bytes.last().is_none_or(|last| *last == b'\n');
    let not_csv = |error: csv::Error| WireError::NotCsv { path: path.to_owned(), reason: error.to_string() };
    let mut records = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(bytes)
        .into_records()
        .collect::<Result<Vec<_>, _>>()
        .map_err(not_csv)?;
    if records.is_empty() {
        return Err(WireError::Empty { path: path.to_owned() });
    }
    let header = records.remove(0);
    let torn = may_be_torn && records.last().is_some_and(|last| !ends_in_a_line || last.len() < header.len());
    if torn {
        records.pop();
    }
    let newest = check_version(path, &header, bytes, &records)?;
    let version = check_header(path, &header, newest)?;
    let rows =
        records.iter().map(|record| read_record(path, bytes, record, version)).collect::<Result<_, _>>()?;
    let lines = records.iter().map(|record| line_of(bytes, record)).collect();
    Ok(ReadRows { rows, lines, version, torn })
}

/// The version comes first: a newer file is told from a damaged one even though its header differs as well.
fn check_version(
    path: &Path,
    header: &csv::StringRecord,
    bytes: &[u8],
    records: &[csv::StringRecord],
) -> Result<Option<u32>, WireError> {
    let Some(position) = header.iter().position(|name| name == VERSION_COLUMN) else {
        return Err(WireError::MissingVersion { path: path.to_owned() });
    };
    let versions = || {
        records.iter().map(|record| (record, record.get(position).and_then(|cell| cell.parse::<u32>().ok())))
    };
    for (record, found) in versions() {
        if let Some(found) = found.filter(|found| *found > SCHEMA_VERSION) {
            return Err(WireError::NewerVersion {
                path: path.to_owned(),
                line: line_of(bytes, record),
                found,
            });
        }
    }
    Ok(versions().find_map(|(_, found)| found))
}

/// The version whose header this is. A header of none is compared with that of the version its rows name.
fn check_header(path: &Path, header: &csv::StringRecord, stated: Option<u32>) -> Result<u32, WireError> {
    if let Some(version) = layout::version_of(header) {
        return Ok(version);
    }
    let version = stated.filter(|version| layout::columns(*version).is_some()).unwrap_or(SCHEMA_VERSION);
    let columns = layout::columns(version).unwrap_or(COLUMNS);
    let index = (0..header.len().max(columns.len()))
        .find(|index| header.get(*index) != columns.get(*index).copied())
        .unwrap_or(columns.len());
    let quoted = |name: Option<&str>| name.map_or("none".to_owned(), |name| format!("`{name}`"));
    Err(WireError::Header {
        path: path.to_owned(),
        position: index + 1,
        found: quoted(header.get(index)),
        expected: quoted(columns.get(index).copied()),
        version,
    })
}

fn read_record(
    path: &Path,
    bytes: &[u8],
    record: &csv::StringRecord,
    version: u32,
) -> Result<AnyRow, WireError> {
    let line = line_of(bytes, record);
    let columns = layout::columns(version).unwrap_or(COLUMNS).len();
    if record.len() != columns {
        return Err(WireError::Ragged {
            path: path.to_owned(),
            line,
            found: record.len(),
            expected: columns,
        });
    }
    let mut cells: Vec<String> = record.iter().map(str::to_owned).collect();
    cells.resize(COLUMNS.len(), String::new());
    layout::WireRow::from_cells(&cells)
        .and_then(|wire| convert::row(wire, version))
        .map_err(|(column, reason)| WireError::Cell { path: path.to_owned(), line, column, reason })
}

/// The line in which a row of these bytes begins. The CSV reader's position is that of the end of the row before, ahead of
/// empty lines and of the second half of `\r\n`.
pub(crate) fn line_of(bytes: &[u8], record: &csv::StringRecord) -> u64 {
    let Some(position) = record.position() else { return 0 };
    let start = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let between =
        bytes.get(start..).unwrap_or_default().iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line().saturating_add(between.filter(|byte| **byte == b'\n').count() as u64)
}

fn csv_line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            line.push(',');
        }
        if cell.contains(['"', ',', '\n', '\r']) || cell.starts_with(char::is_whitespace) {
            line.push('"');
            line.push_str(&cell.replace('"', "\"\""));
            line.push('"');
        } else {
            line.push_str(cell);
        }
    }
    line.push('\n');
    line
}
