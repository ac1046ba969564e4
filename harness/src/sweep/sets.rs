//! The result sets of a sweep: its rows, its control rows, and those of the reference runtime.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::store::{self, FileName, Finished, SetKind};
use serde_json::json;

use super::results::Results;
use crate::exit::{EndsWith, Exit};

/// The setting of the main provenance that names the sets beside it.
const BESIDE: &str = "sets_beside";

/// Refuses where another sweep of this host writes into the folder: each would be what the other measures.
pub(super) fn nobody_else_writes(folder: &Path, host_id: Option<&str>) -> anyhow::Result<()> {
    let of_this_host = |provenance: &Provenance| {
        let host = provenance.settings.pointer("/resume_key/host_id").and_then(serde_json::Value::as_str);
        host.is_none() || host_id.is_none() || host == host_id
    };
    match store::being_written(folder).into_iter().find(|(_, provenance)| of_this_host(provenance)) {
        None => Ok(()),
        Some((path, _)) => {
            let message = format!(
                "refused: {} is being written by another sweep, and two at a time measure each other; wait for its end",
                path.display()
            );
            Err(EndsWith(Exit::Refused, message).into())
        }
    }
}

/// The sets.
#[derive(Debug)]
pub(super) struct Sets {
    pub(super) main: Results,
    pub(super) control: Option<Results>,
    pub(super) reference: Option<Results>,
}

/// What the sets are made of.
pub(super) struct Making<'a> {
    pub(super) folder: &'a Path,
    pub(super) name: &'a FileName,
    pub(super) main: Provenance,
    pub(super) control: Option<Provenance>,
    pub(super) reference: Option<Provenance>,
}

impl Sets {
    /// New ones.
    pub(super) fn create(making: Making<'_>) -> anyhow::Result<Self> {
        let Making { folder, name, main, control, reference } = making;
        let main = Results::create(folder, name, main)?;
        let mut sets = Self { main, control: None, reference: None };
        sets.add_beside(folder, name, control, reference, |_| None)?;
        Ok(sets)
    }

    /// Those of the run of this CSV file; sets beside it that left no file are made anew.
    pub(super) fn resume(path: &Path, making: Making<'_>) -> anyhow::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut main = Results::resume(path)?;
        let known = main.setting(BESIDE).cloned().unwrap_or_default();
        let mut times =
            main.setting("resumed_at").and_then(|times| times.as_array().cloned()).unwrap_or_default();
        times.push(json!(jiff::Timestamp::now()));
        main.set_setting("resumed_at", json!(times))?;
        let mut sets = Self { main, control: None, reference: None };
        let unfinished = |kind: &str| {
            let stem = known.get(kind)?.as_str()?;
            // A kill between the names of two sets leaves one of them complete.
            [format!("{stem}.csv.partial"), format!("{stem}.partial.csv"), format!("{stem}.csv")]
                .into_iter()
                .map(|name| folder.join(name))
                .find(|path| path.exists())
        };
        sets.add_beside(&folder, making.name, making.control, making.reference, unfinished)?;
        Ok(sets)
    }

    fn add_beside(
        &mut self,
        folder: &Path,
        name: &FileName,
        control: Option<Provenance>,
        reference: Option<Provenance>,
        unfinished: impl Fn(&str) -> Option<PathBuf>,
    ) -> anyhow::Result<()> {
        let add = |kind: SetKind, word: &str, provenance: Option<Provenance>| {
            let Some(provenance) = provenance else { return Ok(None) };
            match unfinished(word) {
                Some(path) => Results::reopen(&path).map(Some),
                None => Results::create(folder, &FileName { kind, ..name.clone() }, provenance).map(Some),
            }
        };
        self.control = add(SetKind::Control, "control", control)?;
        self.reference = add(SetKind::Reference, "reference", reference)?;
        let stem = |set: &Option<Results>| {
            let path = set.as_ref()?.path()?;
            let name = path.file_name()?.to_str()?;
            name.strip_suffix(".csv.partial").map(str::to_owned)
        };
        if self.control.is_some() || self.reference.is_some() {
            let beside = json!({ "control": stem(&self.control), "reference": stem(&self.reference) });
            self.main.set_setting(BESIDE, beside)?;
        }
        Ok(())
    }

    /// All of them.
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Results> {
        [Some(&mut self.main), self.control.as_mut(), self.reference.as_mut()].into_iter().flatten()
    }

    /// The files get their final names, those of the main set last: its name says that all is in place.
    pub(super) fn complete(&mut self) -> anyhow::Result<Vec<Finished>> {
        self.finish(Results::complete)
    }

    /// The files are marked as partial.
    pub(super) fn finish_partial(&mut self, reason: &str) -> anyhow::Result<Vec<Finished>> {
        self.finish(|set| set.finish_partial(reason))
    }

    fn finish(
        &mut self,
        with: impl Fn(&mut Results) -> anyhow::Result<Option<Finished>>,
    ) -> anyhow::Result<Vec<Finished>> {
        let mut finished = Vec::new();
        for set in
            [self.control.as_mut(), self.reference.as_mut(), Some(&mut self.main)].into_iter().flatten()
        {
            finished.extend(with(set).context("the result files could not be finished")?);
        }
        finished.reverse();
        Ok(finished)
    }
}
