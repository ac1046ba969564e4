//! A sweep that goes on with a folder of models that has changed: what was planned and is gone gets its row all the same, and
//! what came later gets one that says so.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mlxcel_reports::status::Fail;
use serde_json::{Value, json};

use super::conduct::{Conductor, Item, State, summary};
use super::judge::join;
use super::plan::{Action, Place};
use super::prepare::Cell;
use super::record::Runtime;
use super::results::Results;
use crate::text::{complain, one_line};

/// The settings of the provenance that hold the paths of the rows to come, once for each: those of the first part, and those
/// that came later.
const PLANNED: &str = "planned";
const LATER: &str = "planned_later";

fn paths(set: &Results, key: &str) -> Vec<String> {
    let list = set.setting(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|path| path.as_str().map(str::to_owned)).collect()
}

fn counted(paths: &[String]) -> BTreeMap<String, usize> {
    paths.iter().fold(BTreeMap::new(), |mut counts, path| {
        *counts.entry(path.clone()).or_default() += 1;
        counts
    })
}

impl Conductor<'_> {
    /// The path of a place as rows hold it.
    pub(super) fn path_of(&self, place: &Place) -> String {
        self.run.private.text(&place.shown_path())
    }

    /// Marks the rows to come that were not planned when the sweep began, and keeps that they are now.
    pub(super) fn planned_later(&self, state: &mut State<'_>, items: &mut [Item]) -> anyhow::Result<()> {
        let mut later = paths(&state.sets.main, LATER);
        let first = counted(&paths(&state.sets.main, PLANNED));
        let mut left = first.clone();
        for (path, count) in counted(&later) {
            *left.entry(path).or_default() += count;
        }
        let known = later.len();
        for item in items {
            let Some(place) = self.resolved.places.get(item.at) else { continue };
            let path = self.path_of(place);
            if !first.contains_key(&path) {
                let why = "this folder was not there when the sweep began";
                item.cell.remark = Some(join(item.cell.remark.as_deref().unwrap_or_default(), why));
            }
            match left.get_mut(&path).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => later.push(path),
            }
        }
        if later.len() == known { Ok(()) } else { state.sets.main.set_setting(LATER, json!(later)) }
    }

    /// A row for each that was planned and cannot be measured any more, since its folder is gone.
    pub(super) fn rows_of_the_gone(&self, state: &mut State<'_>) -> anyhow::Result<()> {
        let mut planned = paths(&state.sets.main, PLANNED);
        planned.extend(paths(&state.sets.main, LATER));
        let rows: Vec<String> =
            state.sets.main.rows().iter().map(|row| row.identity().checkpoint.model_path.clone()).collect();
        let rows = counted(&rows);
        for (path, count) in counted(&planned) {
            let missing = count.saturating_sub(rows.get(&path).copied().unwrap_or_default());
            let without = |length: &&u64| state.sets.main.find(&path, **length).is_none();
            let lengths: Vec<u64> =
                self.resolved.lengths.iter().filter(without).take(missing).copied().collect();
            for length in lengths {
                self.gone(state, &path, length)?;
            }
        }
        Ok(())
    }

    fn gone(&self, state: &mut State<'_>, path: &str, length: u64) -> anyhow::Result<()> {
        let folder = PathBuf::from(path);
        let model =
            folder.file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned());
        let why = "it was planned when the sweep began, and is not there any more";
        let place = Place {
            path: folder,
            model,
            action: Action::Record(Fail::Load.into(), why.to_owned()),
            takes_images: false,
        };
        let cell = Cell { requested: length, prompt_tokens: length, remark: None };
        let seat = state.sets.main.seat(path, length);
        let task = self.task(&place, &cell);
        let making = self.making(Runtime::Own, &place, &cell, &task, &seat);
        let row = making.unmeasured(Fail::Load.into(), why);
        complain(&format!("{}: {}", one_line(&place.model), summary(&row)));
        state.sets.main.put(row, Vec::new())
    }
}
