//! What is in a folder of result files, file by file, and what is wrong with each.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use super::{HistoryError, Problem, SourceFile, read};
use crate::record::{Facts, Field, Record};
use crate::text::lossy_path;

/// One file in one line.
#[derive(Debug, Serialize)]
pub struct FileSummary {
    /// The file, or a folder that cannot be listed.
    #[serde(serialize_with = "lossy_path")]
    pub file: PathBuf,
    /// Its layout; none for a file that cannot be read.
    pub layout: Option<String>,
    /// Kind of measurement.
    pub harness: Option<String>,
    /// What ran the models, with its version.
    pub runtime: Option<String>,
    /// Chip and memory.
    pub host: Option<String>,
    /// Days of its rows, in order.
    pub dates: Vec<String>,
    /// Source commits of its rows, in order.
    pub commits: Vec<String>,
    /// All rows.
    pub rows: u64,
    /// Rows whose status is that of a valid measurement.
    pub measured: u64,
    /// Rows left out on purpose.
    pub skipped: u64,
    /// Rows that were tried and failed.
    pub failed: u64,
    /// Rows that were measured and broke a rule.
    pub invalid: u64,
    /// Rows that could not be understood.
    pub unreadable: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl FileSummary {
    /// Whether the file as a whole could be read.
    pub const fn is_readable(&self) -> bool {
        self.layout.is_some()
    }
}

/// A folder that cannot be scanned.
#[derive(Debug, Error)]
pub enum ScanError {
    /// The file system refused.
    #[error("cannot read the folder `{}`: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// No result file.
    #[error("`{}` holds no result file; they end in .csv or .csv.partial", path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
}

/// Every result file of a folder and of the folders in it, in the order of their paths; or the one file that is named.
/// A file that cannot be read is listed with the reason.
pub fn scan(path: &Path) -> Result<Vec<FileSummary>, ScanError> {
    let mut files = Vec::new();
    let mut summaries = Vec::new();
    if path.is_dir() {
        collect(path, &mut files, &mut summaries)
            .map_err(|source| ScanError::Folder { path: path.to_owned(), source })?;
    } else {
        files.push(path.to_owned());
    }
    if files.is_empty() && summaries.is_empty() {
        return Err(ScanError::NoFiles { path: path.to_owned() });
    }
    summaries.extend(
        files
            .iter()
            .map(|file| read(file).map_or_else(|error| of_error(file, &error), |file| summary(&file))),
    );
    summaries.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(summaries)
}

/// Links to folders are not followed: they lead in circles. A folder within that cannot be listed is a line of its own.
fn collect(folder: &Path, files: &mut Vec<PathBuf>, summaries: &mut Vec<FileSummary>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if let Err(error) = collect(&path, files, summaries) {
                let message = format!("cannot read the folder `{}`: {error}", path.display());
                summaries.push(unreadable(&path, None, "unreadable_folder", message));
            }
        } else if is_result_file(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether a name is that of a result file.
pub(crate) fn is_result_file(path: &Path) -> bool {
    path.file_name().map(OsStr::as_encoded_bytes).is_some_and(|name| {
        let endings: [&[u8]; 2] = [b".csv", b".csv.partial"];
        !name.starts_with(b".") && endings.iter().any(|ending| name.ends_with(ending))
    })
}

fn of_error(path: &Path, error: &HistoryError) -> FileSummary {
    let line = match error {
        HistoryError::NotCsv { line, .. } | HistoryError::UnknownLayout { line, .. } => Some(*line),
        _ => None,
    };
    unreadable(path, line, "unreadable_file", error.to_string())
}

fn unreadable(path: &Path, line: Option<u64>, rule: &'static str, message: String) -> FileSummary {
    FileSummary {
        file: path.to_owned(),
        layout: None,
        harness: None,
        runtime: None,
        host: None,
        dates: Vec::new(),
        commits: Vec::new(),
        rows: 0,
        measured: 0,
        skipped: 0,
        failed: 0,
        invalid: 0,
        unreadable: 0,
        problems: vec![Problem { rule, line, message }],
    }
}

fn summary(file: &SourceFile) -> FileSummary {
    let records = &file.records;
    let count = |test: fn(&Record) -> bool| records.iter().filter(|record| test(record)).count() as u64;
    let (measured, skipped) =
        (count(|record| record.outcome.is_ok()), count(|record| record.outcome.is_skip()));
    let invalid = count(|record| record.outcome.is_invalid());
    let unreadable = count(|record| matches!(record.outcome, crate::record::Outcome::Unreadable(_)));
    let rows = records.len() as u64;
    let mut shared: HashMap<*const Facts, &Facts> = HashMap::new();
    for record in records {
        shared.entry(Arc::as_ptr(&record.facts)).or_insert(&record.facts);
    }
    let distinct = |of: &dyn Fn(&Facts) -> Option<String>| -> Vec<String> {
        shared.values().filter_map(|facts| of(facts)).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let joined = |values: Vec<String>| (!values.is_empty()).then(|| values.join(", "));
    let known = |field: Field| move |facts: &Facts| facts.known(field).map(str::to_owned);
    let runtime = |facts: &Facts| {
        let name = facts.known(Field::Runtime)?;
        let version = facts.known(Field::RuntimeVersion);
        Some(version.map_or_else(|| name.to_owned(), |version| format!("{name} {version}")))
    };
    FileSummary {
        file: file.path.clone(),
        layout: Some(file.layout.clone()),
        harness: joined(distinct(&|facts| Some(facts.harness.to_string()))),
        runtime: joined(distinct(&runtime)),
        host: joined(distinct(&known(Field::Hardware))),
        dates: distinct(&|facts| facts.date.map(|date| date.to_string())),
        commits: distinct(&known(Field::Commit)),
        rows,
        measured,
        skipped,
        failed: rows.saturating_sub(measured + skipped + invalid + unreadable),
        invalid,
        unreadable,
        problems: file.problems.clone(),
    }
}
