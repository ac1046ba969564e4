//! What the result sets in the output folder say of earlier sweeps of this host: how many checkpoints the last one
//! measured, and how long each took.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use mlxcel_reports::row::{AnyRow, Backend, HarnessKind, Measured, Row};
use mlxcel_reports::store::{self, Completeness};
use serde_json::Value;

/// The earlier sweeps of a host, with this backend and kind of measurement.
#[derive(Debug, Default)]
pub(super) struct Previous {
    /// Complete sweeps of the same folders, the newest last.
    sweeps: Vec<Sweep>,
    /// By model and shape, the seconds that its newest valid row took.
    seconds: BTreeMap<(String, Option<u64>, u64), (Timestamp, f64)>,
}

/// One earlier sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sweep {
    pub(super) path: PathBuf,
    pub(super) started_at: Timestamp,
    /// Names of the checkpoints with a valid row.
    pub(super) measured: BTreeSet<String>,
}

/// What makes two sweeps ones of the same folders.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject<'a> {
    pub(super) host_id: Option<&'a str>,
    pub(super) backend: Backend,
    pub(super) harness: HarnessKind,
    pub(super) target: &'a Value,
    pub(super) models: &'a Value,
}

impl Previous {
    /// Reads the sets of a folder; those that cannot be read are no sweep of this host.
    pub(super) fn read(folder: &Path, subject: &Subject<'_>) -> Self {
        let mut previous = Self::default();
        let Some(host_id) = subject.host_id else { return previous };
        let Ok(entries) = std::fs::read_dir(folder) else { return previous };
        let names = entries.filter_map(Result::ok).map(|entry| entry.path());
        let wanted = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            path.extension().is_some_and(|ending| ending == "csv")
                && !name.starts_with("pylm_")
                && !name.starts_with("control_")
        };
        for path in names.filter(|path| wanted(path)) {
            let Ok(file) = store::open(&path) else { continue };
            let Some(provenance) = &file.provenance else { continue };
            let host =
                |row: &AnyRow| row.identity().host.host_id.as_known().map(String::as_str) == Some(host_id);
            if provenance.backend != subject.backend
                || provenance.harness != subject.harness
                || !file.rows.iter().any(host)
            {
                continue;
            }
            for row in &file.rows {
                previous.time(row);
            }
            let setting = |key: &str| provenance.settings.get(key).unwrap_or(&Value::Null);
            if file.completeness == Completeness::Complete
                && setting("target") == subject.target
                && setting("models") == subject.models
            {
                let measured = measured(&file.rows);
                // One that measured nothing is no measure for others.
                if !measured.is_empty() {
                    previous.sweeps.push(Sweep { started_at: provenance.started_at, measured, path });
                }
            }
        }
        previous.sweeps.sort_by_key(|sweep| (sweep.started_at, sweep.path.clone()));
        previous
    }

    fn time(&mut self, row: &AnyRow) {
        let Some(figures) = row.as_measured().map(Row::<Measured>::figures) else { return };
        let identity = row.identity();
        let passes = u64::from(figures.reps()).saturating_add(1);
        let pass = figures.prefill().nanos().saturating_add(figures.decode().nanos());
        let nanos = row.load_nanos().unwrap_or(0).saturating_add(pass.saturating_mul(passes));
        let key = (
            identity.checkpoint.model.clone(),
            identity.workload.prompt_target_len,
            identity.workload.max_tokens,
        );
        let entry = (identity.run.started_at, Duration::from_nanos(nanos).as_secs_f64());
        let known = self.seconds.entry(key).or_insert(entry);
        if known.0 < entry.0 {
            *known = entry;
        }
    }

    /// The seconds that a checkpoint took at this shape.
    pub(super) fn seconds(&self, model: &str, prompt_tokens: u64, max_tokens: u64) -> Option<f64> {
        let key = (model.to_owned(), Some(prompt_tokens), max_tokens);
        self.seconds.get(&key).map(|(_, seconds)| *seconds)
    }

    /// What to say when these are fewer checkpoints than the last sweep measured; `None` when they are not.
    pub(super) fn more_than(&self, rows: &[AnyRow]) -> Option<String> {
        let last = self.sweeps.last()?;
        let now = measured(rows);
        if now.len() >= last.measured.len() {
            return None;
        }
        let missing: Vec<&str> = last.measured.difference(&now).map(String::as_str).collect();
        Some(format!(
            "fewer checkpoints than last time: {} have a valid row, in the sweep of {} ({}) it was {}; missing: {}; \
             --allow-fewer accepts it",
            now.len(),
            last.started_at.strftime("%Y-%m-%d"),
            last.path.display(),
            last.measured.len(),
            missing.join(", ")
        ))
    }
}

/// The checkpoints that have a valid row.
fn measured(rows: &[AnyRow]) -> BTreeSet<String> {
    let valid = rows.iter().filter(|row| row.status().is_ok());
    valid.map(|row| row.identity().checkpoint.model.clone()).collect()
}
