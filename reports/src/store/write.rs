//! A result set while it is written.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::claim::{CSV, Claim, PROVENANCE, SAMPLES, Stage, create_new};
use super::error::StoreError;
use super::lines::{LineFile, sync};
use super::name::FileName;
use super::samples::{self, StoredSample};
use crate::measure::Sample;
use crate::provenance::{Ending, Provenance};
use crate::row::{AnyRow, Figures};
use crate::wire;

/// A result set under way. Dropped before it is finished, it leaves its `.partial` files with the rows so far, or
/// nothing when there is no row.
#[derive(Debug)]
pub struct ResultSet {
    pub(super) claim: Claim,
    /// Also holds the lock that keeps others from this set.
    pub(super) csv: LineFile,
    pub(super) samples: LineFile,
    pub(super) provenance: Provenance,
    pub(super) rows: u64,
    pub(super) settled: bool,
    /// Files that were replaced, kept open for the locks on them: somebody may have opened one before.
    pub(super) replaced: Vec<File>,
}

/// The files of a finished result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Rows.
    pub csv: PathBuf,
    /// Samples.
    pub samples: PathBuf,
    /// Provenance.
    pub provenance: PathBuf,
    /// How many rows.
    pub rows: u64,
}

impl ResultSet {
    /// Claims a free name in `folder`, which is made if it does not exist, and writes the header and the provenance.
    /// Creates the first files of a run: to be called when nothing can be refused any more.
    pub fn create(folder: &Path, name: &FileName, provenance: Provenance) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder)
            .map_err(|source| StoreError::CreateFolder { path: folder.to_owned(), source })?;
        let (claim, csv) = Claim::take(folder, &name.stem())?;
        match Self::begin(&claim, csv, &provenance) {
            Ok((csv, samples)) => {
                Ok(Self { claim, csv, samples, provenance, rows: 0, settled: false, replaced: Vec::new() })
            }
            Err(error) => {
                claim.remove();
                Err(error)
            }
        }
    }

    fn begin(claim: &Claim, csv: File, provenance: &Provenance) -> Result<(LineFile, LineFile), StoreError> {
        lock(&csv, &claim.path(CSV, Stage::Unfinished))?;
        let mut csv = LineFile::new(csv, claim.path(CSV, Stage::Unfinished));
        csv.append(&wire::header_line())?;
        let path = claim.path(SAMPLES, Stage::Unfinished);
        let samples = create_new(&path).map_err(|source| StoreError::creating(&path, source))?;
        write_provenance(claim, provenance)?;
        Ok((csv, LineFile::new(samples, path)))
    }

    /// Where the rows are while the run is under way.
    pub fn unfinished_path(&self) -> PathBuf {
        self.claim.path(CSV, Stage::Unfinished)
    }

    /// Rows written so far.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// The run of the set.
    pub fn run_id(&self) -> &str {
        &self.provenance.run_id
    }

    /// What the provenance says of the settings.
    pub const fn settings(&self) -> &serde_json::Value {
        &self.provenance.settings
    }

    /// Changes what the provenance says of the settings, and writes it.
    pub fn set_setting(&mut self, key: &str, value: serde_json::Value) -> Result<(), StoreError> {
        if let Some(settings) = self.provenance.settings.as_object_mut() {
            settings.insert(key.to_owned(), value);
        }
        write_provenance(&self.claim, &self.provenance)
    }

    /// Writes a row and its samples through to the disk: both or neither.
    pub fn append(&mut self, row: &AnyRow, samples: &[Sample]) -> Result<(), StoreError> {
        let (row_line, sample_lines) = self.lines_of(row, samples)?;
        let before = self.samples.bytes();
        self.samples.append(&sample_lines)?;
        self.csv.append(&row_line).inspect_err(|_| self.samples.cut_to(before))?;
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// Puts rows in the place of those with the same place in the order of measurement, with their samples. Samples of earlier
    /// attempts stay, marked as superseded. Each file is written beside and renamed: a reader finds the old rows or the new
    /// ones, never none.
    pub fn replace(&mut self, changed: &[(AnyRow, Vec<Sample>)]) -> Result<(), StoreError> {
        let csv_path = self.claim.path(CSV, Stage::Unfinished);
        let mut rows = wire::read_unfinished_rows(&csv_path)?.rows;
        let mut stored = self.stored_samples()?;
        for (row, samples) in changed {
            self.lines_of(row, samples)?;
            let order_index = row.identity().run.order_index;
            let place = rows.iter_mut().find(|old| old.identity().run.order_index == order_index);
            let Some(place) = place else {
                return Err(StoreError::NoSuchRow { path: csv_path, order_index });
            };
            row.clone_into(place);
            let attempt = samples::attempt_of(row.identity());
            stored.retain(|sample| sample.order_index != order_index || sample.attempt < attempt);
            stored
                .iter_mut()
                .filter(|sample| sample.order_index == order_index)
                .for_each(|sample| sample.superseded = true);
            let position =
                stored.iter().position(|sample| sample.order_index > order_index).unwrap_or(stored.len());
            let new = samples.iter().map(|sample| StoredSample {
                run_id: self.provenance.run_id.clone(),
                model: row.identity().checkpoint.model.clone(),
                order_index,
                attempt,
                superseded: false,
                sample: sample.clone(),
            });
            stored.splice(position..position, new);
        }
        self.write_samples(&stored)?;
        let mut text = wire::header_line();
        for row in &rows {
            text.push_str(&wire::row_line(row)?);
        }
        self.write_rows(&text)
    }

    /// Puts this text in the place of the CSV file.
    pub(super) fn write_rows(&mut self, text: &str) -> Result<(), StoreError> {
        let path = self.claim.path(CSV, Stage::Unfinished);
        let (file, bytes) = write_beside(&path, text)?;
        let old = std::mem::replace(&mut self.csv, LineFile::resumed(file, path, bytes));
        self.replaced.push(old.into_file());
        Ok(())
    }

    pub(super) fn stored_samples(&self) -> Result<Vec<StoredSample>, StoreError> {
        let path = self.claim.path(CSV, Stage::Unfinished);
        super::read_all_samples(&path)
            .map_err(|source| StoreError::Unresumable { path, source: Box::new(source) })
    }

    pub(super) fn write_samples(&mut self, stored: &[StoredSample]) -> Result<(), StoreError> {
        let path = self.claim.path(SAMPLES, Stage::Unfinished);
        let mut text = String::new();
        for sample in stored {
            let line = samples::stored_line(sample)
                .map_err(|source| StoreError::Json { path: path.clone(), source })?;
            text.push_str(&line);
        }
        let (file, bytes) = write_beside(&path, &text)?;
        self.samples = LineFile::resumed(file, path, bytes);
        Ok(())
    }

    /// A row and its samples as lines, once it is certain that they belong together and to this run.
    fn lines_of(&self, row: &AnyRow, samples: &[Sample]) -> Result<(String, String), StoreError> {
        let identity = row.identity();
        let model = || identity.checkpoint.model.clone();
        if identity.run.run_id != self.provenance.run_id {
            return Err(StoreError::ForeignRow {
                model: model(),
                found: identity.run.run_id.clone(),
                expected: self.provenance.run_id.clone(),
            });
        }
        if row.figures() != Figures::of(samples).ok().as_ref() {
            return Err(StoreError::SamplesDisagree { model: model() });
        }
        let row_line = wire::row_line(row)?;
        let sample_lines = samples
            .iter()
            .map(|sample| samples::line(identity, sample))
            .collect::<Result<String, _>>()
            .map_err(|source| StoreError::Json {
                path: self.claim.path(SAMPLES, Stage::Unfinished),
                source,
            })?;
        Ok((row_line, sample_lines))
    }

    /// Every planned row is written: the files get their final names.
    pub fn complete(self) -> Result<Finished, StoreError> {
        if self.rows == 0 {
            return Err(StoreError::NoRows { folder: self.claim.folder().to_owned() });
        }
        self.finish(Stage::Complete, None)
    }

    /// The run ends early, for `reason`: the rows so far stay, in files marked as partial. None when there is no row;
    /// then no file stays.
    pub fn finish_partial(self, reason: &str) -> Result<Option<Finished>, StoreError> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.finish(Stage::Partial, Some(reason.to_owned())).map(Some)
    }

    /// The CSV file comes last: its final name says that all is in place.
    fn finish(mut self, stage: Stage, reason: Option<String>) -> Result<Finished, StoreError> {
        self.claim.check_free(stage)?;
        self.provenance.ending = Ending {
            complete: stage == Stage::Complete,
            reason,
            finished_at: Some(Timestamp::now()),
            rows: Some(self.rows),
            csv_sha256: Some(self.digest(CSV)?),
            samples_sha256: Some(self.digest(SAMPLES)?),
        };
        write_provenance(&self.claim, &self.provenance)?;
        let finished = Finished {
            provenance: self.claim.promote(PROVENANCE, stage)?,
            samples: self.claim.promote(SAMPLES, stage)?,
            csv: self.claim.promote(CSV, stage)?,
            rows: self.rows,
        };
        self.settled = true;
        // A folder that cannot be synced is no loss of data: the renames were accepted.
        let _ = File::open(self.claim.folder()).and_then(|folder| folder.sync_all());
        Ok(finished)
    }

    fn digest(&self, kind: &str) -> Result<String, StoreError> {
        let path = self.claim.path(kind, Stage::Unfinished);
        sha256_of(&path).map_err(|source| StoreError::Read { path, source })
    }
}

impl Drop for ResultSet {
    fn drop(&mut self) {
        if !self.settled && self.rows == 0 {
            self.claim.remove();
        }
    }
}

/// Takes the lock on a set, which ends with the process.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.to_owned() }),
        // Some file systems know no locks; there the exclusive creation of the file is what keeps others away.
        Err(std::fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(std::fs::TryLockError::Error(source)) => Err(StoreError::Write { path: path.to_owned(), source }),
    }
}

/// Writes a file beside another and puts it in its place, locked, and open for appending.
fn write_beside(path: &Path, text: &str) -> Result<(File, u64), StoreError> {
    let beside = path.with_added_extension("tmp");
    let written = std::fs::remove_file(&beside)
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .and_then(|()| create_new(&beside))
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            sync(&file)?;
            Ok(file)
        });
    let file = written.map_err(|source| {
        let _ = std::fs::remove_file(&beside);
        StoreError::writing(path, text.len(), source)
    })?;
    lock(&file, path)?;
    std::fs::rename(&beside, path).map_err(|source| StoreError::writing(path, text.len(), source))?;
    Ok((file, text.len() as u64))
}

/// Writes beside and renames, so that the old content stays whole until the new one is.
pub(super) fn write_provenance(claim: &Claim, provenance: &Provenance) -> Result<(), StoreError> {
    let path = claim.path(PROVENANCE, Stage::Unfinished);
    let mut text = serde_json::to_string_pretty(provenance)
        .map_err(|source| StoreError::Json { path: path.clone(), source })?;
    text.push('\n');
    let beside = path.with_added_extension("tmp");
    File::create(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| sync(&file)))
        .and_then(|()| std::fs::rename(&beside, &path))
        .map_err(|source| {
            let _ = std::fs::remove_file(&beside);
            StoreError::writing(&path, text.len(), source)
        })
}

/// SHA-256 of a file, in hex.
pub(crate) fn sha256_of(path: &Path) -> std::io::Result<String> {
    let mut file = mlxcel_catalog::files::open_regular(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
    let mut hex = String::new();
    for byte in hasher.finalize() {
        // OK to ignore: writing to a String does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}
