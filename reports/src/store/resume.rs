//! Going on with a result set whose run did not come to its end.
//!
//! Whether the rows may be mixed with new ones is the harness's to judge, by what the provenance says; here the files are
//! made whole again: a torn last line and samples without a row are cut off, and the names become those of an unfinished
//! set. Each step leaves files that can be resumed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use super::claim::{CSV, Claim, PROVENANCE, SAMPLES, Stage, create_new, path_of};
use super::error::StoreError;
use super::lines::LineFile;
use super::read::{OpenError, Place, read_provenance};
use super::samples::attempt_of;
use super::write::{ResultSet, lock, write_provenance};
use crate::provenance::{Ending, Provenance};
use crate::row::{AnyRow, Figures};
use crate::wire;

/// A result set that can be gone on with.
#[derive(Debug)]
pub struct Resumed {
    /// The set, locked.
    pub set: ResultSet,
    /// Its rows.
    pub rows: Vec<AnyRow>,
    /// Places in the order of measurement whose rows have lost their samples, as happens when a run is killed while it
    /// replaces them. They must be measured again.
    pub lost: BTreeSet<u32>,
}

/// The result sets of a folder that did not come to their end, by their CSV files and with what their provenance says,
/// the newest run last. Files that cannot be read are left out.
pub fn resumable(folder: &Path) -> Vec<(PathBuf, Provenance)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(PathBuf, Provenance)> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter_map(|path| {
            let place = Place::of(&path).ok().filter(|place| place.stage != Stage::Complete)?;
            let provenance = existing(&place, PROVENANCE)?;
            Some((path, read_provenance(&path_of(&place.folder, &place.stem, PROVENANCE, provenance)).ok()?))
        })
        .collect();
    found.sort_by_key(|(path, provenance)| (provenance.started_at, path.clone()));
    found
}

/// The result sets of a folder that a process is writing now, by their CSV files and with what their provenance says.
pub fn being_written(folder: &Path) -> Vec<(PathBuf, Provenance)> {
    let written = |path: &Path| {
        let held = OpenOptions::new().read(true).append(true).open(path).map(|file| lock(&file, path));
        matches!(held, Ok(Err(StoreError::InUse { .. })))
    };
    resumable(folder).into_iter().filter(|(path, _)| written(path)).collect()
}

/// Where a file of this kind is.
fn existing(place: &Place, kind: &str) -> Option<Stage> {
    [place.stage, Stage::Unfinished, Stage::Partial, Stage::Complete]
        .into_iter()
        .find(|stage| path_of(&place.folder, &place.stem, kind, *stage).exists())
}

impl ResultSet {
    /// Goes on with the set of this CSV file: `NAME.csv.partial` or `NAME.partial.csv`.
    pub fn resume(path: &Path) -> Result<Resumed, StoreError> {
        let unreadable =
            |source: OpenError| StoreError::Unresumable { path: path.to_owned(), source: Box::new(source) };
        let place = Place::of(path).map_err(unreadable)?;
        if place.stage == Stage::Complete {
            return Err(StoreError::AlreadyComplete { path: path.to_owned() });
        }
        Self::reopen(path)
    }

    /// Goes on with the set of this CSV file, also with one that came to its end: for sets that lie beside another which did
    /// not.
    pub fn reopen(path: &Path) -> Result<Resumed, StoreError> {
        let unreadable =
            |source: OpenError| StoreError::Unresumable { path: path.to_owned(), source: Box::new(source) };
        let place = Place::of(path).map_err(unreadable)?;
        let reading = |source| StoreError::Read { path: path.to_owned(), source };
        let csv = OpenOptions::new().read(true).append(true).open(path).map_err(reading)?;
        lock(&csv, path)?;
        let provenance = existing(&place, PROVENANCE)
            .ok_or_else(|| StoreError::NoProvenance { path: path.to_owned() })
            .and_then(|stage| {
                read_provenance(&path_of(&place.folder, &place.stem, PROVENANCE, stage)).map_err(unreadable)
            })?;
        // A file without even a whole header was killed as it was made.
        let read = match wire::read_unfinished_rows(path) {
            Ok(read) => read.rows,
            Err(wire::WireError::Empty { .. }) => Vec::new(),
            Err(error) => return Err(unreadable(error.into())),
        };
        for row in &read {
            let found = &row.identity().run.run_id;
            if *found != provenance.run_id {
                return Err(StoreError::ForeignRow {
                    model: row.identity().checkpoint.model.clone(),
                    found: found.clone(),
                    expected: provenance.run_id.clone(),
                });
            }
        }
        let claim = Claim::held(place.folder.clone(), place.stem.clone());
        // The CSV file first: under its unfinished name the others are found wherever they are.
        for kind in [CSV, SAMPLES, PROVENANCE] {
            match existing(&place, kind) {
                Some(Stage::Unfinished) => {}
                Some(stage) => claim.demote(kind, stage)?,
                None if kind == SAMPLES => {
                    let path = claim.path(SAMPLES, Stage::Unfinished);
                    create_new(&path).map_err(|source| StoreError::creating(&path, source))?;
                }
                None => {}
            }
        }
        let unfinished = claim.path(CSV, Stage::Unfinished);
        let bytes = csv.metadata().map_err(reading)?.len();
        let samples_path = claim.path(SAMPLES, Stage::Unfinished);
        let samples = OpenOptions::new()
            .append(true)
            .open(&samples_path)
            .map_err(|source| StoreError::Read { path: samples_path.clone(), source })?;
        let mut set = Self {
            csv: LineFile::resumed(csv, unfinished, bytes),
            samples: LineFile::resumed(samples, samples_path, 0),
            claim,
            provenance,
            rows: read.len() as u64,
            settled: false,
            replaced: Vec::new(),
        };
        set.provenance.ending = Ending::default();
        write_provenance(&set.claim, &set.provenance)?;
        let lost = set.make_whole(&read)?;
        Ok(Resumed { set, rows: read, lost })
    }

    /// Cuts off a torn line and samples without a row, also those of an attempt whose row a kill has kept from being written;
    /// says which rows have lost their samples.
    fn make_whole(&mut self, rows: &[AnyRow]) -> Result<BTreeSet<u32>, StoreError> {
        let attempts: BTreeMap<u32, u32> = rows
            .iter()
            .map(AnyRow::identity)
            .map(|identity| (identity.run.order_index, attempt_of(identity)))
            .collect();
        let mut stored = self.stored_samples()?;
        stored.retain_mut(|sample| {
            let attempt = attempts.get(&sample.order_index).copied().unwrap_or_default();
            sample.superseded = sample.attempt < attempt;
            sample.attempt <= attempt
        });
        let mut lost = BTreeSet::new();
        for row in rows {
            let place = row.identity().run.order_index;
            let samples: Vec<_> = stored
                .iter()
                .filter(|sample| sample.order_index == place && !sample.superseded)
                .map(|sample| sample.sample.clone())
                .collect();
            if row.figures() != Figures::of(&samples).ok().as_ref() {
                lost.insert(place);
            }
        }
        self.write_samples(&stored)?;
        let mut text = wire::header_line();
        for row in rows {
            text.push_str(&wire::row_line(row)?);
        }
        self.write_rows(&text)?;
        Ok(lost)
    }
}
