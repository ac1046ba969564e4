//! Result sets to test with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::civil::Date;
use mlxcel_reports::provenance::{Ending, PROVENANCE_SCHEMA_VERSION, Provenance, TreeState};
use mlxcel_reports::row::{Backend, HarnessKind, Row};
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::store::{FileName, ResultSet, SetKind};
use serde_json::json;
use tempfile::TempDir;

use crate::sample_rows::{RUN_ID, at, identity, samples};

pub(crate) const STEM: &str = "cpu_examplecpu_2026-11-29";

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("OK because tests need a temporary folder")
}

pub(crate) fn name() -> FileName {
    FileName {
        backend: Backend::Cpu,
        hw: "ExampleCPU".to_owned(),
        date: Date::constant(2026, 11, 29),
        suffix: None,
        single_model: None,
        harness: HarnessKind::Text,
        kind: SetKind::Sweep,
        given: None,
    }
}

pub(crate) fn provenance() -> Provenance {
    Provenance {
        schema_version: PROVENANCE_SCHEMA_VERSION,
        run_id: RUN_ID.to_owned(),
        harness: HarnessKind::Text,
        backend: Backend::Cpu,
        started_at: at("2026-11-29T17:15:00Z"),
        argv: ["mlxcel-bench", "sweep", "all"].map(str::to_owned).to_vec(),
        environment: BTreeMap::from([("OMP_NUM_THREADS".to_owned(), "2".to_owned())]),
        binary: json!({"mlxcel_version": "0.1.0"}),
        machine: json!({"cpu": "Example CPU"}),
        tree: TreeState {
            commit: Stamp::text("0123abcd"),
            matches_binary: Stamp::known(true),
            ..TreeState::default()
        },
        settings: json!({"reps": 3}),
        ending: Ending::default(),
    }
}

pub(crate) fn begun(folder: &Path) -> ResultSet {
    ResultSet::create(folder, &name(), provenance()).expect("OK because the folder is ours")
}

pub(crate) fn with_rows(folder: &Path, models: &[&str]) -> ResultSet {
    with_rows_of(RUN_ID, folder, models)
}

/// Rows of a run of its own, although all have the same times.
pub(crate) fn with_rows_of(run_id: &str, folder: &Path, models: &[&str]) -> ResultSet {
    let provenance = Provenance { run_id: run_id.to_owned(), ..provenance() };
    let mut set = ResultSet::create(folder, &name(), provenance).expect("OK because the folder is ours");
    for (order_index, model) in (0..).zip(models) {
        let mut identity = identity(model, order_index);
        run_id.clone_into(&mut identity.run.run_id);
        let row = Row::measured(identity, Some(812_345_678), &samples());
        let row = row.expect("OK because the samples are of the workload").into();
        set.append(&row, &samples()).expect("OK because there is space");
    }
    set
}

pub(crate) fn names(folder: &Path) -> BTreeSet<String> {
    std::fs::read_dir(folder)
        .expect("OK because the folder is ours")
        .map(|entry| entry.expect("OK because the folder is ours").file_name().to_string_lossy().into_owned())
        .collect()
}

pub(crate) fn three(names: [&str; 3]) -> BTreeSet<String> {
    names.map(|ending| format!("{STEM}{ending}")).into()
}

pub(crate) fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).expect("OK because the file is there")
}
