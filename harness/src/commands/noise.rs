//! The noise floor of the rows that are compared: what `doctor` found of the host that they name.

use std::collections::BTreeSet;

use mlxcel_reports::history::SourceFile;
use mlxcel_reports::record::Field;

use crate::host::doctor::{Diagnosis, Noise, stored};
use crate::text::complain;

/// What is kept of the host that all rows of these files name; `None` where they name several, where any valid row names none,
/// or where nothing is kept.
pub(super) fn of_the_host_of(files: &[&SourceFile]) -> Option<Diagnosis> {
    let mut hosts = BTreeSet::new();
    for record in files.iter().flat_map(|file| &file.records).filter(|record| record.outcome.is_ok()) {
        hosts.insert(record.facts.known(Field::HostId)?);
    }
    let mut hosts = hosts.into_iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    stored(host).unwrap_or_else(|error| {
        // Without a floor more is taken for a change, never less, so that need not end a comparison.
        complain(&format!("note: the noise floor of the host is not known: {error}"));
        None
    })
}

/// Where a noise floor comes from, for a report.
pub(super) fn origin(diagnosis: &Diagnosis) -> String {
    let processes = diagnosis.noise.first().map_or(0, Noise::processes_a_side);
    let busy = diagnosis.conditions.disturbed().map_or_else(String::new, |why| format!(", though {why}"));
    let foreign = if diagnosis.program.foreign_worker.is_some() { ", with a scripted worker" } else { "" };
    format!(
        "found by `doctor` on {} on this host with {} ({processes} processes a side{busy}{foreign})",
        diagnosis.measured_at.strftime("%Y-%m-%d"),
        diagnosis.control.model
    )
}
