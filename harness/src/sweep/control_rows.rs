//! Measures the control rows, and marks the rows between two of them.

use anyhow::{Context as _, bail};
use mlxcel_reports::row::{AnyRow, Control};
use mlxcel_reports::status::Rule;
use serde_json::{Value, json};

use super::attempts::Seat;
use super::conduct::{Conductor, Item, State, summary};
use super::controls::{Between, DEFAULT_EVERY, FEWEST_ROWS, Seen, Unjudged};
use super::plan::{self, Action, Place};
use super::prepare::{Cell, Resolved};
use super::progress::Aside;
use super::record::Runtime;
use super::results::Results;
use crate::cli::RosterArgs;
use crate::exit::{EndsWith, Exit};
use crate::provenance::private::Abbreviations;
use crate::text::{complain, one_line};

/// The settings of the provenance: how often a control is due, and which checkpoint it is of.
pub(super) const EVERY: &str = "control_every";
pub(super) const CONTROL: &str = "control";

impl Conductor<'_> {
    /// Measures the control; false when the sweep was interrupted meanwhile.
    pub(super) fn control(&self, state: &mut State<'_>) -> anyhow::Result<bool> {
        let Some((place, cell)) = &self.control else { return Ok(true) };
        let seat = Seat::new(state.sets.control.as_ref().map_or(0, Results::next_index));
        let task = self.task(place, cell);
        let aside = Aside::Control(place.model.clone());
        state.progress.aside(Some(aside.clone()));
        let outcome = self.measure(state, Runtime::Own, place, cell, &task, &seat);
        state.progress.aside(None);
        let Some(outcome) = outcome? else { return Ok(false) };
        state.progress.told_aside(&aside, &summary(&outcome.row));
        let seen = state.controls.control(&outcome.row);
        if let Some(set) = &mut state.sets.control {
            set.put(outcome.row, outcome.samples)?;
        }
        match seen {
            Seen::Nothing => {}
            Seen::Unjudged(unjudged) => Self::unjudged(state, &unjudged)?,
            Seen::Between(Between { rows, references, apart }) => {
                let around = Control {
                    model: Some(place.model.clone()),
                    drift_pct: Some(apart.pct),
                    band_pct: Some(apart.band_pct),
                };
                let moved = around.moved().then_some((Rule::ControlDrift, apart.detail.as_str()));
                if let Some(set) = &mut state.sets.reference {
                    // They were measured on the same host, which may have changed meanwhile.
                    set.bracket(&references, Some(&around), moved)?;
                }
                let changed = state.sets.main.bracket(&rows, Some(&around), moved)?;
                let detail = &apart.detail;
                if !changed.is_empty() {
                    complain(&format!(
                        "the control moved: the rows of {} are invalid; --rerun measures them again ({detail})",
                        listed(&changed)
                    ));
                }
            }
        }
        Ok(true)
    }

    /// The last control of a sweep, and what it leaves without judgement; false when the sweep was interrupted meanwhile.
    pub(super) fn last_control(&self, state: &mut State<'_>) -> anyhow::Result<bool> {
        if state.controls.due_at_end() && !self.control(state)? {
            return Ok(false);
        }
        if let Some(unjudged) = state.controls.unjudged_at_end() {
            Self::unjudged(state, &unjudged)?;
        }
        Ok(true)
    }

    /// Rows without a control on one side of them are not known to be of one host: they are invalid.
    fn unjudged(state: &mut State<'_>, unjudged: &Unjudged) -> anyhow::Result<()> {
        let Unjudged { rows, references, why } = unjudged;
        let invalid = Some((Rule::ControlDrift, why.as_str()));
        if let Some(set) = &mut state.sets.reference {
            set.bracket(references, None, invalid)?;
        }
        let changed = state.sets.main.bracket(rows, None, invalid)?;
        if !changed.is_empty() {
            complain(&format!(
                "the rows of {} are invalid: {why}; --rerun measures them again",
                listed(&changed)
            ));
        }
        Ok(())
    }
}

fn listed(models: &[String]) -> String {
    models.iter().map(one_line).collect::<Vec<_>>().join(", ")
}

/// Where the control checkpoint is.
pub(super) enum ControlPlace {
    /// One of the sweep.
    OfRoster(usize),
    /// One that was named.
    Own(Box<Place>),
}

impl ControlPlace {
    pub(super) fn as_place<'a>(&'a self, resolved: &'a Resolved) -> &'a Place {
        match self {
            Self::Own(place) => place,
            // OK because the number comes from this very list, which does not change.
            Self::OfRoster(at) => resolved.places.get(*at).expect("OK because the control is of the roster"),
        }
    }
}

/// The control checkpoint, its prompt and how often it is due.
pub(super) struct Chosen {
    pub(super) place: ControlPlace,
    pub(super) cell: Cell,
    pub(super) every: u32,
}

impl Chosen {
    /// Which checkpoint it is, for the provenance.
    pub(super) fn json(&self, resolved: &Resolved, private: &Abbreviations) -> Value {
        let place = self.place.as_place(resolved);
        json!({ "path": private.text(&place.shown_path()), "prompt_requested_len": self.cell.requested })
    }
}

/// Chooses the control of a new sweep; `None` where no controls are made. `measured` says of an item whether it will be.
pub(super) fn choose(
    roster: &RosterArgs,
    resolved: &Resolved,
    items: &[Item],
    measured: impl Fn(&Item) -> bool,
) -> anyhow::Result<Option<Chosen>> {
    let wanted = || items.iter().filter(|item| measured(item));
    let every = match (roster.control_every, &roster.control) {
        (Some(0), _) => return Ok(None),
        (Some(every), _) => every,
        (None, Some(_)) => DEFAULT_EVERY,
        (None, None) if wanted().count() >= FEWEST_ROWS => DEFAULT_EVERY,
        (None, None) => return Ok(None),
    };
    if let Some(path) = &roster.control {
        return named(path, every, resolved);
    }
    let bytes = |item: &&Item| match resolved.places.get(item.at).map(|place| &place.action) {
        Some(Action::Measure(folder)) => folder.weight_bytes(),
        _ => u64::MAX,
    };
    let smallest = wanted().min_by_key(|item| (bytes(item), item.at, item.cell.requested));
    Ok(smallest.map(|item| Chosen { place: ControlPlace::OfRoster(item.at), cell: item.cell.clone(), every }))
}

fn named(path: &std::path::Path, every: u32, resolved: &Resolved) -> anyhow::Result<Option<Chosen>> {
    let place = plan::single(path).context("the control checkpoint cannot be measured")?;
    let Some(cell) = resolved.cells(&place).into_iter().next() else { return Ok(None) };
    if !matches!(place.action, Action::Measure(_)) {
        bail!("the control checkpoint {} does not generate text; name another", path.display());
    }
    Ok(Some(Chosen { place: ControlPlace::Own(Box::new(place)), cell, every }))
}

/// The control of a sweep that goes on: that of its first part, as its provenance says, however many rows are left.
///
/// # Errors
/// A refusal when that checkpoint is not there any more.
pub(super) fn again(
    settings: &Value,
    roster: &RosterArgs,
    resolved: &Resolved,
    items: &[Item],
    private: &Abbreviations,
) -> anyhow::Result<Option<Chosen>> {
    let every = settings.get(EVERY).and_then(Value::as_u64).and_then(|every| u32::try_from(every).ok());
    let Some(every) = every.filter(|every| *every > 0) else { return Ok(None) };
    if let Some(path) = &roster.control {
        return named(path, every, resolved);
    }
    let recorded = settings.get(CONTROL);
    let path = recorded.and_then(|control| control.get("path")?.as_str()).unwrap_or_default();
    let requested = recorded.and_then(|control| control.get("prompt_requested_len")?.as_u64());
    let found = items.iter().find(|item| {
        let place = resolved.places.get(item.at);
        place.is_some_and(|place| {
            private.text(&place.shown_path()) == path && matches!(place.action, Action::Measure(_))
        }) && Some(item.cell.requested) == requested
    });
    let Some(item) = found else {
        let message = format!(
            "refused: the control checkpoint {path} of the first part cannot be measured any more, so nothing would show whether \
             the host stayed the same; put it back, or start without --resume"
        );
        return Err(EndsWith(Exit::Refused, message).into());
    };
    Ok(Some(Chosen { place: ControlPlace::OfRoster(item.at), cell: item.cell.clone(), every }))
}

/// The names of rows that still wait for a control after them.
pub(super) fn waiting(rows: &[AnyRow], places: &[u32]) -> Vec<String> {
    let waits = |row: &&AnyRow| places.contains(&row.identity().run.order_index) && row.figures().is_some();
    rows.iter().filter(waits).map(|row| one_line(&row.identity().checkpoint.model)).collect()
}
