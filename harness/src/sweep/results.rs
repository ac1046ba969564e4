//! The rows of a run, on disk as soon as they exist.
//!
//! The files are made before anything is measured, so that a name or a place that cannot be had costs no
//! measurement; a run without a row leaves none. Naming and writing are the store's.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel_reports::measure::Sample;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::row::AnyRow;
use mlxcel_reports::store::{FileName, Finished, ResultSet};

/// Rows so far.
#[derive(Debug)]
pub(super) struct Results {
    /// `None` once the files have their final names.
    set: Option<ResultSet>,
    rows: Vec<AnyRow>,
    /// The folder, when it was made for this run.
    made: Option<PathBuf>,
}

impl Results {
    /// Makes the files.
    pub(super) fn create(folder: &Path, name: &FileName, provenance: Provenance) -> anyhow::Result<Self> {
        let made = (!folder.exists()).then(|| folder.to_owned());
        let mut results = Self { set: None, rows: Vec::new(), made };
        results.set = Some(ResultSet::create(folder, name, provenance)?);
        Ok(results)
    }

    /// Writes a row through to the disk. One that cannot be kept there is still shown at the end.
    pub(super) fn append(&mut self, row: AnyRow, samples: &[Sample]) -> anyhow::Result<()> {
        let model = row.identity().checkpoint.model.clone();
        let appended = self.set.as_mut().map_or(Ok(()), |set| set.append(&row, samples));
        self.rows.push(row);
        appended.with_context(|| format!("the row of {model} could not be kept"))
    }

    pub(super) fn rows(&self) -> &[AnyRow] {
        &self.rows
    }

    /// Gives the files their final names.
    pub(super) fn complete(&mut self) -> anyhow::Result<Option<Finished>> {
        self.set.take().map(ResultSet::complete).transpose().map_err(Into::into)
    }

    /// Marks the files as partial; without a row there are none.
    pub(super) fn finish_partial(&mut self, reason: &str) -> anyhow::Result<Option<Finished>> {
        match self.set.take() {
            Some(set) => Ok(set.finish_partial(reason)?),
            None => Ok(None),
        }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.set = None;
        if let Some(folder) = &self.made {
            // Only succeeds when nothing was left in it.
            let _ = fs::remove_dir(folder);
        }
    }
}
