//! Aliases that turn out to stand behind a row without numbers: because it failed at that prompt length, or because the controls
//! around it moved after the alias was left out.
//!
//! They are measured at the end, with a control after them. What still has no numbers before it then, as after an interruption,
//! says so in its row: nothing points silently at a row that is not valid.

use mlxcel_reports::row::AnyRow;
use mlxcel_reports::status::{Exclusion, Skip, Status};

use super::conduct::{Conductor, Item, State};
use crate::text::complain;

/// The folder that a row says was measured in its place.
pub(super) fn survivor_of(row: &AnyRow) -> Option<String> {
    match row.status() {
        Status::Excluded(Exclusion::Skip(Skip::DuplicateOf(name))) => Some(name),
        _ => None,
    }
}

impl Conductor<'_> {
    /// Whether the row of a place and requested length is valid as things stand.
    pub(super) fn has_numbers(&self, state: &State<'_>, at: usize, requested: u64) -> bool {
        self.row_of(state, at, requested).is_some_and(|row| row.status().is_ok())
    }

    /// Whether this row is one of an alias that nobody with numbers stands for.
    pub(super) fn is_orphan(&self, state: &State<'_>, item: &Item, row: &AnyRow) -> bool {
        let has_numbers = |at| self.has_numbers(state, at, item.cell.requested);
        survivor_of(row).is_some() && self.resolved.dedup.measured_for(item.at, &has_numbers).is_none()
    }

    /// The aliases that nobody with numbers stands for, with their numbers in the order of measurement.
    pub(super) fn orphans(&self, state: &State<'_>, items: &[Item]) -> Vec<(usize, Item)> {
        let orphaned = |item: &Item| {
            self.row_of(state, item.at, item.cell.requested)
                .is_some_and(|row| self.is_orphan(state, item, row))
        };
        items
            .iter()
            .enumerate()
            .filter(|(_, item)| orphaned(item))
            .map(|(at, item)| (at, item.clone()))
            .collect()
    }

    /// Says of each alias that still points at a row without numbers that it does.
    pub(super) fn mark_orphans(&self, state: &mut State<'_>, items: &[Item]) -> anyhow::Result<()> {
        for (_, item) in self.orphans(state, items) {
            let Some((row, place)) = self
                .row_of(state, item.at, item.cell.requested)
                .cloned()
                .zip(self.resolved.places.get(item.at))
            else {
                continue;
            };
            let (Some(survivor), Some((leader, why))) =
                (survivor_of(&row), self.resolved.dedup.expected_for(item.at))
            else {
                continue;
            };
            let theirs = self.row_of(state, leader, item.cell.requested).map(AnyRow::status);
            let detail = orphaned(&survivor, theirs.as_ref(), &why);
            if row.detail().is_some_and(|told| told.contains(&detail)) {
                continue;
            }
            complain(&format!("{}: {detail}", place.model));
            let seat = state.sets.main.seat(&self.path_of(place), item.cell.requested);
            let task = self.task(place, &item.cell);
            let making = self.making(super::record::Runtime::Own, place, &item.cell, &task, &seat);
            let marked = making.unmeasured(Skip::DuplicateOf(survivor).into(), &detail);
            state.sets.main.put(marked, Vec::new())?;
        }
        Ok(())
    }

    fn row_of<'b>(&self, state: &'b State<'_>, at: usize, requested: u64) -> Option<&'b AnyRow> {
        state.sets.main.find(&self.path_of(self.resolved.places.get(at)?), requested)
    }
}

/// What the row of an alias says when the row that it points at is not valid.
fn orphaned(survivor: &str, theirs: Option<&Status>, why: &str) -> String {
    let theirs = theirs.map_or_else(|| "missing".to_owned(), ToString::to_string);
    format!(
        "no numbers stand for this folder: the row of {survivor} at this length is {theirs}; --dedup none measures both ({why})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlxcel_reports::status::Rule;

    #[test]
    fn an_alias_whose_survivor_is_not_valid_says_so_with_its_status() {
        let invalid: Status = Rule::ControlDrift.into();
        let detail = orphaned("a", Some(&invalid), "level 1");
        assert!(detail.contains("the row of a at this length is INVALID:control_drift"), "{detail}");
        assert!(orphaned("a", None, "level 1").contains("is missing"));
    }
}
