//! The files of a side: which they are, and all their rows as one file.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::compare::report::Input;
use crate::history::{self, HistoryError, SourceFile};

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

/// The result files that lie directly in a folder, in the order of their names.
pub(crate) fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, InputError> {
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
