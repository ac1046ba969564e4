//! The rows of a run, on disk as soon as they exist.
//!
//! The files are made before anything is measured, so that a name or a place that cannot be had costs no
//! measurement; a run without a row leaves none. Naming and writing are the store's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel_reports::measure::Sample;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::row::{AnyRow, Control, Row};
use mlxcel_reports::status::{Exclusion, Rule, Status};
use mlxcel_reports::store::{self, FileName, Finished, ResultSet, Resumed, StoreError};
use serde_json::Value;

use super::attempts::{self, Seat};
use crate::exit::{EndsWith, Exit};

/// Rows so far.
#[derive(Debug)]
pub(super) struct Results {
    /// `None` once the files have their final names.
    set: Option<ResultSet>,
    /// Rows and their samples, in the order of measurement.
    rows: Vec<(AnyRow, Vec<Sample>)>,
    /// Places in that order whose samples a kill has taken.
    pub(super) lost: BTreeSet<u32>,
    /// The folder, when it was made for this run.
    made: Option<PathBuf>,
}

impl Results {
    /// Makes the files.
    pub(super) fn create(folder: &Path, name: &FileName, provenance: Provenance) -> anyhow::Result<Self> {
        let made = (!folder.exists()).then(|| folder.to_owned());
        let mut results = Self { set: None, rows: Vec::new(), lost: BTreeSet::new(), made };
        results.set = Some(ResultSet::create(folder, name, provenance)?);
        Ok(results)
    }

    /// Goes on with the files of a run that did not come to its end.
    pub(super) fn resume(path: &Path) -> anyhow::Result<Self> {
        Self::resumed(ResultSet::resume(path))
    }

    /// The same with those of a set beside one that did not come to its end, which may have come to its own.
    pub(super) fn reopen(path: &Path) -> anyhow::Result<Self> {
        Self::resumed(ResultSet::reopen(path))
    }

    fn resumed(resumed: Result<Resumed, StoreError>) -> anyhow::Result<Self> {
        let Resumed { set, rows, lost } = resumed.map_err(|error| match error {
            // Nothing was touched, and nothing was measured.
            StoreError::InUse { .. } => {
                anyhow::Error::from(EndsWith(Exit::Refused, format!("refused: {error}")))
            }
            error => error.into(),
        })?;
        let stored = store::read_samples(&set.unfinished_path())?;
        let samples_of = |row: &AnyRow| {
            let place = row.identity().run.order_index;
            let of_row = stored.iter().filter(|sample| sample.order_index == place);
            of_row.map(|sample| sample.sample.clone()).collect()
        };
        let rows = rows.into_iter().map(|row| (row.clone(), samples_of(&row))).collect();
        let mut results = Self { set: Some(set), rows, lost, made: None };
        results.forget_unwritten()?;
        Ok(results)
    }

    /// A kill between the record of an attempt and the row of the next leaves a record of what still stands.
    fn forget_unwritten(&mut self) -> anyhow::Result<()> {
        let Some(Value::Array(records)) = self.setting(attempts::SETTING) else { return Ok(()) };
        let stands = |record: &&Value| {
            self.rows.iter().any(|(row, _)| {
                let identity = row.identity();
                let attempt = identity.conditions.attempts.unwrap_or_default();
                attempts::is_before(record, identity.run.order_index, attempt)
            })
        };
        let kept: Vec<Value> = records.iter().filter(stands).cloned().collect();
        if kept.len() != records.len() {
            self.set_setting(attempts::SETTING, Value::Array(kept))?;
        }
        Ok(())
    }

    /// The file of the rows while the run is under way.
    pub(super) fn path(&self) -> Option<PathBuf> {
        self.set.as_ref().map(ResultSet::unfinished_path)
    }

    /// Writes a row through to the disk, in the place of the one with the same place in the order of measurement where
    /// there is one. One that cannot be kept there is still shown at the end.
    pub(super) fn put(&mut self, row: AnyRow, samples: Vec<Sample>) -> anyhow::Result<()> {
        let model = row.identity().checkpoint.model.clone();
        let order_index = row.identity().run.order_index;
        let old = self.rows.iter().position(|(old, _)| old.identity().run.order_index == order_index);
        let replaced = old.and_then(|old| self.rows.get(old)).map(|(old, _)| old.clone());
        if let Some(replaced) = replaced.filter(|old| attempts_of(old) < attempts_of(&row)) {
            self.supersede(&replaced)?;
        }
        let kept = match (&mut self.set, old) {
            (None, _) => Ok(()),
            (Some(set), None) => set.append(&row, &samples),
            (Some(set), Some(_)) => set.replace(&[(row.clone(), samples.clone())]),
        };
        match old.and_then(|old| self.rows.get_mut(old)) {
            Some(old) => *old = (row, samples),
            None => self.rows.push((row, samples)),
        }
        self.lost.remove(&order_index);
        kept.with_context(|| format!("the row of {model} could not be kept"))
    }

    /// Records what came of a row that gives way to another attempt.
    fn supersede(&mut self, row: &AnyRow) -> anyhow::Result<()> {
        let Some(record) = attempts::outcome(row) else { return Ok(()) };
        let mut records =
            self.setting(attempts::SETTING).and_then(Value::as_array).cloned().unwrap_or_default();
        records.push(record);
        self.set_setting(attempts::SETTING, Value::Array(records))
    }

    /// Where the row of a folder and requested prompt length is to stand: in the place of the one there is.
    pub(super) fn seat(&self, model_path: &str, requested: u64) -> Seat {
        let Some(row) = self.find(model_path, requested) else { return Seat::new(self.next_index()) };
        let order_index = row.identity().run.order_index;
        let before = attempts_of(row);
        let records = self.setting(attempts::SETTING).and_then(Value::as_array);
        let mut outcomes: Vec<String> = records
            .into_iter()
            .flatten()
            .filter(|record| attempts::is_before(record, order_index, before))
            .map(attempts::words)
            .collect();
        outcomes.extend(attempts::outcome(row).as_ref().map(attempts::words));
        Seat { order_index, before, outcomes }
    }

    /// Says of the rows of these places in the order of measurement which controls are around them, if any are, and makes
    /// the valid ones among them invalid where the controls moved; says which those are.
    pub(super) fn bracket(
        &mut self,
        places: &[u32],
        around: Option<&Control>,
        moved: Option<(Rule, &str)>,
    ) -> anyhow::Result<Vec<String>> {
        let (mut changed, mut invalid) = (Vec::new(), Vec::new());
        for (row, samples) in &mut self.rows {
            if places.contains(&row.identity().run.order_index) {
                if let Some(around) = around {
                    row.set_control(around.clone());
                }
                if let Some(now) = moved.and_then(|(rule, detail)| invalidated(row, samples, rule, detail)) {
                    *row = now;
                    invalid.push(row.identity().checkpoint.model.clone());
                }
                changed.push((row.clone(), samples.clone()));
            }
        }
        if let Some(set) = &mut self.set
            && !changed.is_empty()
        {
            set.replace(&changed).context("the rows between two controls could not be marked")?;
        }
        Ok(invalid)
    }

    /// Changes a setting of the provenance.
    pub(super) fn set_setting(&mut self, key: &str, value: Value) -> anyhow::Result<()> {
        match &mut self.set {
            Some(set) => Ok(set.set_setting(key, value)?),
            None => Ok(()),
        }
    }

    /// A setting of the provenance.
    pub(super) fn setting(&self, key: &str) -> Option<&Value> {
        self.set.as_ref()?.settings().get(key)
    }

    pub(super) fn rows(&self) -> Vec<AnyRow> {
        self.rows.iter().map(|(row, _)| row.clone()).collect()
    }

    /// The row of a folder, by its path as rows hold it, and requested prompt length.
    pub(super) fn find(&self, model_path: &str, requested: u64) -> Option<&AnyRow> {
        let wanted = |row: &&AnyRow| {
            let identity = row.identity();
            identity.checkpoint.model_path == model_path
                && identity.workload.prompt_requested_len == Some(requested)
        };
        self.rows.iter().map(|(row, _)| row).find(wanted)
    }

    /// The place in the order of measurement that a new row takes.
    pub(super) fn next_index(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }

    /// Gives the files their final names; without a row there are none.
    pub(super) fn complete(&mut self) -> anyhow::Result<Option<Finished>> {
        match self.set.take() {
            Some(set) if set.rows() > 0 => Ok(Some(set.complete()?)),
            _ => Ok(None),
        }
    }

    /// Marks the files as partial; without a row there are none.
    pub(super) fn finish_partial(&mut self, reason: &str) -> anyhow::Result<Option<Finished>> {
        match self.set.take() {
            Some(set) => Ok(set.finish_partial(reason)?),
            None => Ok(None),
        }
    }
}

/// How often a row was measured; never, where it was only recorded.
fn attempts_of(row: &AnyRow) -> u32 {
    row.identity().conditions.attempts.unwrap_or_default()
}

/// The row, invalid by this rule; `None` for one that is not valid anyway. A row that another program measured, as in
/// tests, is treated as a valid one.
fn invalidated(row: &AnyRow, samples: &[Sample], rule: Rule, detail: &str) -> Option<AnyRow> {
    let detail = row.detail().map_or_else(|| detail.to_owned(), |old| format!("{detail}; {old}"));
    match row {
        AnyRow::Measured(row) => Some(row.clone().invalidated(rule, detail).into()),
        AnyRow::Excluded(excluded)
            if row.status() == Status::Excluded(Exclusion::Invalid(Rule::Provenance)) =>
        {
            let identity = excluded.identity().clone();
            Some(Row::excluded(identity, excluded.load_nanos(), rule, detail, samples).into())
        }
        AnyRow::Excluded(_) => None,
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
