//! The rows of a run, on disk as soon as they exist.
//!
//! Files are made with the first row, so that a run that ends before leaves none; naming and writing are the store's.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel_reports::measure::Sample;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::row::AnyRow;
use mlxcel_reports::store::{FileName, Finished, ResultSet};

/// Rows so far.
#[derive(Debug)]
pub(super) struct Results {
    folder: PathBuf,
    name: FileName,
    provenance: Provenance,
    set: Option<ResultSet>,
    rows: Vec<AnyRow>,
}

impl Results {
    pub(super) fn new(folder: &Path, name: FileName, provenance: Provenance) -> Self {
        Self { folder: folder.to_owned(), name, provenance, set: None, rows: Vec::new() }
    }

    /// Writes a row through to the disk.
    pub(super) fn append(&mut self, row: AnyRow, samples: &[Sample]) -> anyhow::Result<()> {
        let set = match &mut self.set {
            Some(set) => set,
            none => none.insert(ResultSet::create(&self.folder, &self.name, self.provenance.clone())?),
        };
        set.append(&row, samples)
            .with_context(|| format!("the row of {} could not be kept", row.identity().checkpoint.model))?;
        self.rows.push(row);
        Ok(())
    }

    pub(super) fn rows(&self) -> &[AnyRow] {
        &self.rows
    }

    /// Gives the files their final names.
    pub(super) fn complete(&mut self) -> anyhow::Result<Option<Finished>> {
        self.set.take().map(ResultSet::complete).transpose().map_err(Into::into)
    }

    /// Marks the files as partial.
    pub(super) fn finish_partial(&mut self, reason: &str) -> anyhow::Result<Option<Finished>> {
        match self.set.take() {
            Some(set) => Ok(set.finish_partial(reason)?),
            None => Ok(None),
        }
    }
}
