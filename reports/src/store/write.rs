//! A result set while it is written.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::claim::{CSV, Claim, PROVENANCE, SAMPLES, Stage, create_new};
use super::error::StoreError;
use super::lines::{LineFile, sync};
use super::name::FileName;
use super::samples;
use crate::measure::Sample;
use crate::provenance::{Ending, Provenance};
use crate::row::{AnyRow, Figures};
use crate::wire;

/// A result set under way. Dropped before it is finished, it leaves its `.partial` files with the rows so far, or
/// nothing when there is no row.
#[derive(Debug)]
pub struct ResultSet {
    claim: Claim,
    csv: LineFile,
    samples: LineFile,
    provenance: Provenance,
    rows: u64,
    settled: bool,
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
            Ok((csv, samples)) => Ok(Self { claim, csv, samples, provenance, rows: 0, settled: false }),
            Err(error) => {
                claim.remove();
                Err(error)
            }
        }
    }

    fn begin(claim: &Claim, csv: File, provenance: &Provenance) -> Result<(LineFile, LineFile), StoreError> {
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

    /// Writes a row and its samples through to the disk: both or neither.
    pub fn append(&mut self, row: &AnyRow, samples: &[Sample]) -> Result<(), StoreError> {
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
        let before = self.samples.bytes();
        self.samples.append(&sample_lines)?;
        self.csv.append(&row_line).inspect_err(|_| self.samples.cut_to(before))?;
        self.rows = self.rows.saturating_add(1);
        Ok(())
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

/// Writes beside and renames, so that the old content stays whole until the new one is.
fn write_provenance(claim: &Claim, provenance: &Provenance) -> Result<(), StoreError> {
    let path = claim.path(PROVENANCE, Stage::Unfinished);
    let mut text = serde_json::to_string_pretty(provenance)
        .map_err(|source| StoreError::Json { path: path.clone(), source })?;
    text.push('\n');
    let beside = path.with_extension("partial.tmp");
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
