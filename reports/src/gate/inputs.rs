//! The files of a side: which they are, and that none counts twice.
//!
//! Each result file holds one fresh process a row, so several files a side are several independent measurements, and the
//! same one under two names would pass for two.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Options;
use crate::compare::pairing;
use crate::compare::report::Input;
use crate::history::{self, HistoryError, SourceFile};
use crate::names::NameResolver;
use crate::record::Record;

/// Files of a side that cannot be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// One file.
    #[error(transparent)]
    File(#[from] HistoryError),
    /// A folder.
    #[error("cannot read the folder `{}`: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A folder without result files.
    #[error("the folder `{}` holds no result file; results are files ending in .csv", path.display())]
    NoFile {
        /// The folder.
        path: PathBuf,
    },
}

/// Reads the files of a side; of a folder, every result file that lies directly in it. One that cannot be read is an
/// error, never left out.
pub fn read(paths: &[PathBuf]) -> Result<Vec<SourceFile>, InputError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            for path in of_folder(path)? {
                files.push(history::read(&path)?);
            }
        } else {
            files.push(history::read(path)?);
        }
    }
    Ok(files)
}

fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, InputError> {
    let failed = |source| InputError::Folder { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if history::is_result_file(&path) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() { Err(InputError::NoFile { path: folder.to_owned() }) } else { Ok(paths) }
}

/// What the report says of the files of a side.
pub(super) fn listed(side: &'static str, files: &[SourceFile]) -> Vec<Input> {
    files.iter().map(|file| Input::of(side, file)).collect()
}

/// Refusals: a file twice, a measurement twice, or several rows of one key in one file.
pub(super) fn doubled(
    baseline: &[SourceFile],
    candidate: &[SourceFile],
    names: &dyn NameResolver,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut files: HashMap<&str, &Path> = HashMap::new();
    let mut rows: HashMap<(&str, u64, u64), (&Path, u64)> = HashMap::new();
    for file in baseline.iter().chain(candidate) {
        if let Some(first) = files.insert(&file.sha256, &file.path) {
            let message =
                "the same file stands in two places and would count as two measurements; name it once";
            findings.push(finding("file", message, first.display(), file.path.display()));
            continue;
        }
        // Nanoseconds of two runs do not agree by chance; the milliseconds of older layouts may.
        for record in file.records.iter().filter(|record| record.outcome.is_ok() && is_own(file)) {
            let Some(key) = measured(record) else { continue };
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
    for (is_before, file) in
        baseline.iter().map(|file| (true, file)).chain(candidate.iter().map(|file| (false, file)))
    {
        let pairing = pairing::pair(&file.records, &[], names, &Options::default());
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

fn measured(record: &Record) -> Option<(&str, u64, u64)> {
    Some((&record.model, record.prefill_nanos?, record.decode_nanos?))
}

/// All rows of a side as one file, which the rules of a comparison then look at.
pub(super) fn merged(files: Vec<SourceFile>) -> SourceFile {
    let mut whole = SourceFile {
        path: PathBuf::new(),
        sha256: String::new(),
        layout: String::new(),
        records: Vec::new(),
        problems: Vec::new(),
        incomplete: None,
        altered: false,
        samples_sha256: None,
        boot_times_unix_seconds: Vec::new(),
    };
    let several = files.len() > 1;
    for file in files {
        if whole.layout.is_empty() {
            whole.path.clone_from(&file.path);
            whole.layout.clone_from(&file.layout);
        }
        if let Some(reason) = file.incomplete {
            let place = if several { format!("{}: ", file.path.display()) } else { String::new() };
            whole.incomplete = Some(match whole.incomplete.take() {
                Some(before) => format!("{before}; {place}{reason}"),
                None => format!("{place}{reason}"),
            });
        }
        whole.altered |= file.altered;
        for time in file.boot_times_unix_seconds {
            if !whole.boot_times_unix_seconds.iter().any(|known| history::is_one_boot(*known, time)) {
                whole.boot_times_unix_seconds.push(time);
            }
        }
        whole.problems.extend(file.problems);
        whole.records.extend(file.records);
    }
    whole
}
