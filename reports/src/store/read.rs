//! Reading a result set back: its rows, its provenance, and whether it is whole.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::claim::{CSV, PROVENANCE, SAMPLES, Stage, path_of};
use super::samples::{self, StoredSample};
use super::write::sha256_of;
use crate::provenance::{PROVENANCE_SCHEMA_VERSION, Provenance};
use crate::row::AnyRow;
use crate::wire::{self, WireError};

/// Whether a result set holds every row that was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completeness {
    /// Name and provenance say so.
    Complete,
    /// The run ended early or never ended.
    Partial {
        /// Why, when the run ended in good order.
        reason: Option<String>,
        /// The file ends within a row, which was left out.
        torn: bool,
    },
    /// There is no provenance beside the file.
    Unknown,
}

/// A result set as it was read.
#[derive(Debug)]
pub struct ResultFile {
    /// The CSV file.
    pub path: PathBuf,
    /// Its rows.
    pub rows: Vec<AnyRow>,
    /// The line of each.
    pub lines: Vec<u64>,
    /// Version of the layout of the rows.
    pub version: u32,
    /// Whether they are all.
    pub completeness: Completeness,
    /// The provenance beside it.
    pub provenance: Option<Provenance>,
    /// The CSV file is not the one that was finished; unknown when its digest was not recorded.
    pub altered: Option<bool>,
}

/// A result set that cannot be read.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The rows.
    #[error(transparent)]
    Rows(#[from] WireError),
    /// The name has none of the endings of a result set.
    #[error("`{}` is not the name of a result set: it must end in .csv or .csv.partial", path.display())]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// A file beside the rows cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The provenance says nothing that can be understood.
    #[error("{}: not a provenance file of version {PROVENANCE_SCHEMA_VERSION}: {reason}", path.display())]
    Provenance {
        /// The file.
        path: PathBuf,
        /// The complaint.
        reason: String,
    },
    /// Rows and provenance are of different runs.
    #[error("{}: row of `{model}` is of run `{found}`, the provenance beside it of run `{expected}`", path.display())]
    ForeignRow {
        /// The CSV file.
        path: PathBuf,
        /// The row's model.
        model: String,
        /// The row's run.
        found: String,
        /// The provenance's run.
        expected: String,
    },
    /// A line of the samples file.
    #[error("{}:{line}: {reason}", path.display())]
    Sample {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The complaint.
        reason: String,
    },
}

/// Reads the rows of a result set and what lies beside them.
pub fn open(path: &Path) -> Result<ResultFile, OpenError> {
    let place = Place::of(path)?;
    let read = if place.stage == Stage::Unfinished {
        wire::read_unfinished_rows(path)?
    } else {
        wire::read_finished_rows(path)?
    };
    let wire::ReadRows { rows, lines, version, torn } = read;
    let provenance = place.existing(PROVENANCE).map(|path| read_provenance(&path)).transpose()?;
    if let Some(provenance) = &provenance
        && let Some(row) = rows.iter().find(|row| row.identity().run.run_id != provenance.run_id)
    {
        return Err(OpenError::ForeignRow {
            path: path.to_owned(),
            model: row.identity().checkpoint.model.clone(),
            found: row.identity().run.run_id.clone(),
            expected: provenance.run_id.clone(),
        });
    }
    let completeness = match (place.stage, &provenance) {
        (Stage::Complete, None) => Completeness::Unknown,
        (Stage::Complete, Some(provenance)) if provenance.ending.complete => Completeness::Complete,
        (_, provenance) => Completeness::Partial {
            reason: provenance.as_ref().and_then(|provenance| provenance.ending.reason.clone()),
            torn,
        },
    };
    let recorded = provenance.as_ref().and_then(|provenance| provenance.ending.csv_sha256.clone());
    let altered = match recorded {
        None => None,
        Some(recorded) => Some(digest(path)? != recorded),
    };
    Ok(ResultFile { path: path.to_owned(), rows, lines, version, completeness, provenance, altered })
}

/// Reads the samples that the rows of the CSV file `path` follow from: not those of rows that were measured again since. The
/// last line of an unfinished file may be torn and is then left out.
pub fn read_samples(path: &Path) -> Result<Vec<StoredSample>, OpenError> {
    let mut stored = read_all_samples(path)?;
    stored.retain(|sample| !sample.superseded);
    Ok(stored)
}

/// The same with those of rows that were measured again since.
pub fn read_all_samples(path: &Path) -> Result<Vec<StoredSample>, OpenError> {
    let place = Place::of(path)?;
    let path = place.existing(SAMPLES).unwrap_or_else(|| place.path(SAMPLES, place.stage));
    let text = regular_text(&path).map_err(|source| OpenError::Read { path: path.clone(), source })?;
    let whole = match text.rfind('\n') {
        _ if place.stage != Stage::Unfinished => text.as_str(),
        Some(end) => text.get(..=end).unwrap_or_default(),
        None => "",
    };
    whole
        .lines()
        .enumerate()
        .map(|(index, line)| {
            samples::parse(line).map_err(|reason| OpenError::Sample {
                path: path.clone(),
                line: index + 1,
                reason,
            })
        })
        .collect()
}

/// Reads a provenance file of this version.
pub(crate) fn read_provenance(path: &Path) -> Result<Provenance, OpenError> {
    let complaint = |reason: String| OpenError::Provenance { path: path.to_owned(), reason };
    let text = regular_text(path).map_err(|source| OpenError::Read { path: path.to_owned(), source })?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| complaint(error.to_string()))?;
    let version = value.get("schema_version").and_then(serde_json::Value::as_u64);
    match version {
        Some(version) if version == u64::from(PROVENANCE_SCHEMA_VERSION) => {}
        Some(version) => return Err(complaint(format!("its `schema_version` is {version}"))),
        None => return Err(complaint("it has no `schema_version`".to_owned())),
    }
    serde_json::from_value(value).map_err(|error| complaint(error.to_string()))
}

/// What lies beside a CSV file, and what the names say.
pub(crate) struct Beside {
    /// The name is that of a run that did not end.
    pub(crate) unfinished: bool,
    /// The name is that of a run that came to its end.
    pub(crate) complete: bool,
    /// The samples file, where there is one.
    pub(crate) samples: Option<PathBuf>,
    /// The provenance file, where there is one.
    pub(crate) provenance: Option<PathBuf>,
}

/// Looks beside a CSV file.
pub(crate) fn beside(path: &Path) -> Result<Beside, OpenError> {
    let place = Place::of(path)?;
    Ok(Beside {
        unfinished: place.stage == Stage::Unfinished,
        complete: place.stage == Stage::Complete,
        samples: place.existing(SAMPLES),
        provenance: place.existing(PROVENANCE),
    })
}

/// The text of a regular file: a pipe would be waited for.
fn regular_text(path: &Path) -> std::io::Result<String> {
    std::io::read_to_string(mlxcel_catalog::files::open_regular(path)?)
}

fn digest(path: &Path) -> Result<String, OpenError> {
    sha256_of(path).map_err(|source| OpenError::Read { path: path.to_owned(), source })
}

/// What the name of a CSV file says.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) stem: String,
    pub(super) stage: Stage,
}

impl Place {
    pub(super) fn of(path: &Path) -> Result<Self, OpenError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let endings = [
            (".csv.partial", Stage::Unfinished),
            (".partial.csv", Stage::Partial),
            (".csv", Stage::Complete),
        ];
        let found =
            endings.iter().find_map(|(ending, stage)| name.strip_suffix(ending).map(|stem| (stem, *stage)));
        let (stem, stage) = found.ok_or_else(|| OpenError::Name { path: path.to_owned() })?;
        let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        debug_assert!(path_of(&folder, stem, CSV, stage).ends_with(name));
        Ok(Self { folder, stem: stem.to_owned(), stage })
    }

    fn path(&self, kind: &str, stage: Stage) -> PathBuf {
        path_of(&self.folder, &self.stem, kind, stage)
    }

    /// The file of this kind. A run that was killed while it finished has moved some of its files already.
    fn existing(&self, kind: &str) -> Option<PathBuf> {
        let own = self.path(kind, self.stage);
        if own.exists() {
            return Some(own);
        }
        let moved = [Stage::Complete, Stage::Partial];
        (self.stage == Stage::Unfinished)
            .then(|| moved.iter().map(|stage| self.path(kind, *stage)).find(|path| path.exists()))
            .flatten()
    }
}
