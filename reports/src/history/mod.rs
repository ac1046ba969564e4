//! Every result file, historical or our own, as one kind of record.
//!
//! A header says which layout a file has; [`layouts`] is the table of them, `columns` says what their columns hold,
//! `rows` reads them, `own` turns the project's own rows into the same record. [`scan`] says what is in a folder and what
//! is wrong with it.

mod boot;
mod columns;
mod layouts;
mod own;
mod problems;
mod rows;
mod scan;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use mlxcel_catalog::files::open_regular;
use sha2::{Digest, Sha256};
use thiserror::Error;

pub(crate) use boot::is_one_boot;
pub(crate) use scan::is_result_file;
pub use scan::{FileSummary, ScanError, scan};

use crate::provenance::Provenance;
use crate::record::Record;
use crate::store::{self, Completeness, OpenError};
use crate::wire::{self, WireError};

/// Something about a file or a row that a reader must know.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// Short name of the kind of problem.
    pub rule: &'static str,
    /// The line, where there is one.
    pub line: Option<u64>,
    /// What is wrong, with the column where there is one.
    pub message: String,
}

/// A result file as it was read.
#[derive(Debug)]
pub struct SourceFile {
    /// The file, as it was named.
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Name of its layout.
    pub layout: String,
    /// Its rows, unreadable ones included.
    pub records: Vec<Record>,
    /// What the reader noticed.
    pub problems: Vec<Problem>,
    /// Why rows are missing, if the file says so.
    pub incomplete: Option<String>,
    /// The file, or the samples beside it, are not those that its run finished.
    pub altered: bool,
    /// SHA-256 of the samples that lie beside it and were read.
    pub samples_sha256: Option<String>,
    /// The starts of the host that its rows were measured after, in seconds since 1970, as they and the provenance beside it
    /// say. None where nothing is known; several where the run went on after a restart.
    pub boot_times_unix_seconds: Vec<u64>,
}

impl SourceFile {
    /// Whether it is of the project's own layout, not of a historical one.
    pub fn is_own(&self) -> bool {
        self.layout.strip_prefix('v').is_some_and(|version| version.parse::<u32>().is_ok())
    }
}

/// A file that cannot be read at all.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The file system refused.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Not CSV, or not UTF-8.
    #[error("{}:{line}: column {column}: {reason}; a result file is CSV in UTF-8", path.display())]
    NotCsv {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// The column, from 1; 1 where the reader does not say.
        column: usize,
        /// The complaint.
        reason: String,
    },
    /// Nothing in it.
    #[error("{}:1: column 1: the file is empty; a result file begins with its column names", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A header of no known layout.
    #[error(
        "{}:{line}: column {column} is {found}, where the nearest known layout, `{layout}`, has {expected}; the header must \
         be exactly that of a known layout",
        path.display()
    )]
    UnknownLayout {
        /// The file.
        path: PathBuf,
        /// The line of the header.
        line: u64,
        /// First column that differs, from 1.
        column: usize,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
        /// The layout it was compared with.
        layout: &'static str,
    },
    /// One of our own files.
    #[error(transparent)]
    Own(#[from] OpenError),
    /// Rows of one of our own files.
    #[error(transparent)]
    Rows(#[from] WireError),
}

impl HistoryError {
    fn not_csv(name: &str, skipped_lines: u64, error: csv::Error) -> Self {
        let line = error.position().map_or(0, csv::Position::line).saturating_add(skipped_lines);
        let reason = error.to_string();
        let column = match error.into_kind() {
            csv::ErrorKind::Io(source) => return Self::Read { path: name.into(), source },
            csv::ErrorKind::Utf8 { err, .. } => err.field() + 1,
            _ => 1,
        };
        Self::NotCsv { path: name.into(), line, column, reason }
    }
}

/// Reads one file of any layout.
pub fn read(path: &Path) -> Result<SourceFile, HistoryError> {
    let failed = |source| HistoryError::Read { path: path.to_owned(), source };
    let mut head = Vec::new();
    BufReader::new(open_regular(path).map_err(failed)?)
        .take(MAX_HEADER_BYTES)
        .read_until(b'\n', &mut head)
        .map_err(failed)?;
    if is_own(&head) {
        return own_file(path);
    }
    let mut hashing = Hashing { inner: open_regular(path).map_err(failed)?, hasher: Sha256::new() };
    let mut file = historical(&path.to_string_lossy(), &mut hashing)?;
    path.clone_into(&mut file.path);
    std::io::copy(&mut hashing, &mut std::io::sink()).map_err(failed)?;
    file.sha256 = hex(hashing.hasher);
    Ok(file)
}

/// Reads a file that is in memory; `name` says what a file's name would.
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<SourceFile, HistoryError> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let mut file = if is_own(bytes.get(..end).unwrap_or_default()) {
        let read = wire::parse(Path::new(name), bytes, false)?;
        let mut file =
            source_file(name.into(), read.version, own::records(&read.rows, &read.lines, &[], None));
        file.boot_times_unix_seconds = boot::times(&read.rows, read.version, None);
        file
    } else {
        historical(name, bytes)?
    };
    file.sha256 = hex(Sha256::new_with_prefix(bytes));
    Ok(file)
}

/// No header is longer; a file without line breaks is not read whole to find out.
const MAX_HEADER_BYTES: u64 = 1 << 20;

fn is_own(head: &[u8]) -> bool {
    head.split(|byte| matches!(byte, b',' | b'\r' | b'\n')).any(|name| name == b"schema_version")
}

fn own_file(path: &Path) -> Result<SourceFile, HistoryError> {
    match streamed(path)? {
        Some(file) => Ok(file),
        None => whole_file(path),
    }
}

/// A finished file, read line by line; none where something about it must be looked at otherwise.
fn streamed(path: &Path) -> Result<Option<SourceFile>, HistoryError> {
    let failed = |source| HistoryError::Read { path: path.to_owned(), source };
    let beside = store::beside(path)?;
    if beside.unfinished {
        return Ok(None);
    }
    // A fault in what lies beside it is told in its turn, behind those of the rows.
    let Ok(provenance) = beside.provenance.as_deref().map(store::read_provenance).transpose() else {
        return Ok(None);
    };
    let Ok(samples) = beside.samples.as_ref().map(|_| store::read_samples(path)).transpose() else {
        return Ok(None);
    };
    let stored = samples.as_deref().unwrap_or_default();
    let machine = Machine::of(provenance.as_ref());
    let run_id = provenance.as_ref().map(|provenance| provenance.run_id.as_str());
    let read = own::stream(path, stored, machine.cache_bytes, machine.boot, run_id).map_err(failed)?;
    let Some(own::Streamed { records, version, sha256, boot_times_unix_seconds }) = read else {
        return Ok(None);
    };
    let mut file = source_file(path.to_owned(), version, records);
    file.boot_times_unix_seconds = boot_times_unix_seconds;
    let ending = provenance.as_ref().map(|provenance| &provenance.ending);
    let altered =
        ending.and_then(|ending| ending.csv_sha256.as_ref()).is_some_and(|recorded| *recorded != sha256);
    file.sha256 = sha256;
    let partial = match (beside.complete, ending) {
        (true, None) => None,
        (true, Some(ending)) if ending.complete => None,
        (_, ending) => Some((ending.and_then(|ending| ending.reason.clone()), false)),
    };
    let recorded = ending.and_then(|ending| ending.samples_sha256.as_ref());
    remark(&mut file, beside.samples.filter(|_| samples.is_some()), recorded, altered, partial)?;
    Ok(Some(file))
}

/// What the provenance says of the machine.
struct Machine {
    cache_bytes: Option<u64>,
    boot: Option<u64>,
}

impl Machine {
    fn of(provenance: Option<&Provenance>) -> Self {
        let boot = provenance.and_then(|provenance| provenance.machine.get("boot_time_unix_seconds"));
        Self {
            cache_bytes: provenance.and_then(Provenance::last_level_cache_bytes),
            boot: boot.and_then(serde_json::Value::as_u64),
        }
    }
}

fn whole_file(path: &Path) -> Result<SourceFile, HistoryError> {
    let opened = store::open(path)?;
    // Without samples there are rows all the same; a samples file that is there and cannot be read is a fault.
    let (samples, missing) = match store::read_samples(path) {
        Ok(samples) => (samples, false),
        Err(OpenError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            (Vec::new(), true)
        }
        Err(error) => return Err(error.into()),
    };
    let failed = |source| HistoryError::Read { path: path.to_owned(), source };
    let machine = Machine::of(opened.provenance.as_ref());
    let records = own::records(&opened.rows, &opened.lines, &samples, machine.cache_bytes);
    let mut file = source_file(path.to_owned(), opened.version, records);
    file.sha256 = store::sha256_of(path).map_err(failed)?;
    file.boot_times_unix_seconds = boot::times(&opened.rows, opened.version, machine.boot);
    let beside = if missing { None } else { store::beside(path)?.samples };
    let recorded =
        opened.provenance.as_ref().and_then(|provenance| provenance.ending.samples_sha256.as_ref());
    let partial = match opened.completeness {
        Completeness::Partial { reason, torn } => Some((reason, torn)),
        Completeness::Complete | Completeness::Unknown => None,
    };
    remark(&mut file, beside, recorded, opened.altered == Some(true), partial)?;
    Ok(file)
}

/// What must be known of a file as a whole: its samples, that rows are missing, that it is not the one that its run finished.
fn remark(
    file: &mut SourceFile,
    samples: Option<PathBuf>,
    recorded: Option<&String>,
    altered: bool,
    partial: Option<(Option<String>, bool)>,
) -> Result<(), HistoryError> {
    if let Some(path) = samples {
        let failed = |source| HistoryError::Read { path: path.clone(), source };
        file.samples_sha256 = Some(store::sha256_of(&path).map_err(failed)?);
    } else {
        let message = "there is no samples file beside it, so the repetitions are not known".to_owned();
        file.problems.push(Problem { rule: "missing_samples", line: None, message });
    }
    let other_samples = matches!((recorded, &file.samples_sha256), (Some(one), Some(other)) if one != other);
    file.altered = altered || other_samples;
    if let Some((reason, torn)) = partial {
        let reason = reason.unwrap_or_else(|| "the run did not end".to_owned());
        let torn = if torn { "; the file ends within a row" } else { "" };
        file.incomplete = Some(format!("{reason}{torn}"));
    }
    if let Some(reason) = &file.incomplete {
        let problem =
            Problem { rule: "incomplete", line: None, message: format!("rows are missing: {reason}") };
        file.problems.push(problem);
    }
    if file.altered {
        let which =
            if other_samples { "the samples beside it are not those" } else { "the file is not the one" };
        let message = format!("{which} that its provenance recorded");
        file.problems.push(Problem { rule: "altered", line: None, message });
    }
    Ok(())
}

fn source_file(path: PathBuf, version: u32, records: Vec<Record>) -> SourceFile {
    let problems = problems::of_records(&records);
    let layout = format!("v{version}");
    SourceFile {
        path,
        sha256: String::new(),
        layout,
        records,
        problems,
        incomplete: None,
        altered: false,
        samples_sha256: None,
        boot_times_unix_seconds: Vec::new(),
    }
}

fn historical(name: &str, reader: impl Read) -> Result<SourceFile, HistoryError> {
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let failed = |source| HistoryError::Read { path: name.into(), source };
    let mut problems = Vec::new();
    if reader.fill_buf().map_err(failed)?.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
        let message = "the file begins with a byte order mark".to_owned();
        problems.push(Problem { rule: "byte_order_mark", line: Some(1), message });
    }
    let skipped = skip_comments(&mut reader).map_err(failed)?;
    if skipped > 0 {
        let message = format!("{skipped} comment lines stand before the header");
        problems.push(Problem { rule: "comment_lines", line: Some(1), message });
    }
    let mut rows = rows::lines(reader);
    let mut header = csv::StringRecord::new();
    let not_csv = |error| HistoryError::not_csv(name, skipped, error);
    if rows::next_row(&mut rows, &mut header).map_err(not_csv)?.is_none() {
        return Err(HistoryError::Empty { path: name.into() });
    }
    let parsed = rows::parse(name, &header, &mut rows, skipped)?;
    problems.extend(parsed.problems);
    problems.extend(problems::of_records(&parsed.records));
    if parsed.records.is_empty() {
        problems.push(Problem {
            rule: "no_rows",
            line: None,
            message: "there is a header and no row".to_owned(),
        });
    }
    Ok(SourceFile {
        path: name.into(),
        sha256: String::new(),
        layout: parsed.layout.to_owned(),
        records: parsed.records,
        problems,
        incomplete: None,
        altered: false,
        samples_sha256: None,
        boot_times_unix_seconds: Vec::new(),
    })
}

/// Lines before the header that begin with `#`.
fn skip_comments(reader: &mut impl BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    while reader.fill_buf()?.first() == Some(&b'#') {
        reader.skip_until(b'\n')?;
        skipped += 1;
    }
    Ok(skipped)
}

struct Hashing<R> {
    inner: R,
    hasher: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

fn hex(hasher: Sha256) -> String {
    use std::fmt::Write as _;
    hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        // OK to ignore: writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line-by-line reading makes of a text, and what a reading of the whole makes of it.
    fn both(name: &str, text: &str) -> (Option<String>, Result<String, String>) {
        let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        for kind in ["samples.jsonl", "provenance.json"] {
            let name = format!("{name}.{kind}");
            std::fs::copy(golden.join(&name), folder.path().join(&name))
                .expect("OK because the golden set is there");
        }
        let path = folder.path().join(format!("{name}.csv"));
        std::fs::write(&path, text).expect("OK because the folder is ours");
        let told = |file: &SourceFile| {
            let file = format!("{file:?}");
            file.replace(&folder.path().display().to_string(), "FOLDER")
        };
        let streamed = streamed(&path).expect("OK because the file can be read");
        let whole = whole_file(&path).map_err(|error| error.to_string());
        (streamed.as_ref().map(told), whole.as_ref().map(told).map_err(Clone::clone))
    }

    fn golden(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.csv"));
        std::fs::read_to_string(path).expect("OK because the golden set is there")
    }

    /// Without the row that has a line break in a cell, which is read as a whole.
    fn of_whole_lines(text: &str) -> String {
        let mut within = false;
        let is_whole = |line: &&str| {
            let is_odd = line.matches('"').count() % 2 == 1;
            let was_within = within;
            within ^= is_odd;
            !was_within && !is_odd
        };
        let lines: Vec<&str> = text.lines().filter(is_whole).collect();
        lines.join("\n") + "\n"
    }

    const SETS: [&str; 4] = ["rows_v1", "rows_v2", "rows_v3", "rows_v4"];

    #[test]
    fn a_file_read_line_by_line_is_the_file_read_as_a_whole() {
        for name in SETS {
            let (streamed, whole) = both(name, &golden(name));
            assert!(streamed.is_none() && whole.is_ok(), "{name}");
            let text = of_whole_lines(&golden(name));
            let (header, rows) = text.split_once('\n').expect("OK because there are rows");
            let mut lines: Vec<&str> = rows.lines().collect();
            for _ in 0..lines.len() {
                // In every order, so that each row follows each other one.
                lines.rotate_left(1);
                for lines in [lines.clone(), lines.iter().rev().copied().collect(), lines.repeat(2)] {
                    let text = format!("{header}\n{}\n", lines.join("\n"));
                    let (streamed, whole) = both(name, &text);
                    let whole = whole.expect("OK because the rows are whole");
                    assert_eq!(streamed.as_deref(), Some(whole.as_str()), "{name}");
                }
            }
        }
    }

    #[test]
    fn every_byte_changed_in_a_file_is_seen_by_both_ways_or_left_to_the_whole_one() {
        let text = of_whole_lines(&golden("rows_v4"));
        let start = text.find('\n').map_or(0, |end| end + 1);
        let mut taken = 0;
        for at in (start..text.len()).step_by(7).filter(|at| text.is_char_boundary(*at)) {
            for other in ["0", ",", "\"", "\r", "\n", "x"] {
                let mut edited = text.clone();
                let end =
                    text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at + c.len_utf8());
                edited.replace_range(at..end, other);
                let (streamed, whole) = both("rows_v4", &edited);
                if let Some(streamed) = streamed {
                    taken += 1;
                    assert_eq!(Ok(streamed), whole, "byte {at} became {other:?}");
                }
            }
        }
        assert!(taken > 100, "{taken}");
    }
}
