//! What the result sets in the output folder say of earlier sweeps of this host: which checkpoints the last full one
//! measured, and how long each took.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::row::{self, AnyRow, Backend, HarnessKind, Row};
use mlxcel_reports::store::{self, Completeness};
use serde_json::Value;

use crate::text::one_line;

/// The earlier sweeps of a host, with this backend and kind of measurement.
#[derive(Debug, Default)]
pub(super) struct Previous {
    /// Complete sweeps of all of the same folders, the newest last.
    sweeps: Vec<Sweep>,
    /// By model and shape, the seconds that its newest valid row took.
    seconds: BTreeMap<(String, Option<u64>, u64), (Timestamp, f64)>,
}

/// One earlier sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sweep {
    pub(super) path: PathBuf,
    pub(super) started_at: Timestamp,
    /// The checkpoints with a valid row, by name and requested prompt length.
    pub(super) measured: Measured,
}

/// Names of checkpoints, and requested prompt lengths.
type Measured = BTreeSet<(String, Option<u64>)>;

/// What makes two sweeps ones of the same folders.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject<'a> {
    pub(super) host_id: Option<&'a str>,
    pub(super) backend: Backend,
    pub(super) harness: HarnessKind,
    pub(super) target: &'a Value,
    pub(super) models: &'a Value,
    /// The folder of models, as the setting of the provenance holds it.
    pub(super) folder: &'a Value,
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
            if file.completeness == Completeness::Complete && subject.is_that_of(provenance) {
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
        let Some(figures) = row.as_measured().map(Row::<row::Measured>::figures) else { return };
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

    /// What to say when the last full sweep measured a checkpoint, at one of these prompt lengths, that has no valid row among
    /// these; `None` when it did not. One that came instead is no substitute.
    pub(super) fn more_than(&self, rows: &[AnyRow], lengths: &[u64]) -> Option<String> {
        let last = self.sweeps.last()?;
        let now = measured(rows);
        let asked =
            |(_, length): &&(String, Option<u64>)| length.is_none_or(|length| lengths.contains(&length));
        let missing: Vec<String> = last
            .measured
            .difference(&now)
            .filter(asked)
            .map(|(model, length)| match length.filter(|_| lengths.len() > 1) {
                Some(length) => format!("{} at {length}", one_line(model)),
                None => one_line(model),
            })
            .collect();
        if missing.is_empty() {
            return None;
        }
        Some(format!(
            "fewer checkpoints than last time: valid in the sweep of {} ({}) and not in this one: {}; --allow-fewer accepts it",
            last.started_at.strftime("%Y-%m-%d"),
            last.path.display(),
            missing.join(", ")
        ))
    }
}

impl Subject<'_> {
    /// Whether a run was a sweep of all of these folders: not a rerun of some. Sets that do not say which folder of models they
    /// are of are known by its name as it was given.
    fn is_that_of(&self, provenance: &Provenance) -> bool {
        let setting = |key: &str| provenance.settings.get(key).unwrap_or(&Value::Null);
        let rerun = !setting("rerun").is_null()
            || provenance.argv.iter().any(|word| word == "--rerun" || word.starts_with("--rerun="));
        if rerun {
            return false;
        }
        match provenance.settings.get("models_folder") {
            Some(folder) if !folder.is_null() && !self.folder.is_null() => folder == self.folder,
            _ => setting("target") == self.target && setting("models") == self.models,
        }
    }
}

/// The checkpoints that have a valid row.
fn measured(rows: &[AnyRow]) -> Measured {
    let valid = rows.iter().filter(|row| row.status().is_ok()).map(AnyRow::identity);
    valid
        .map(|identity| (identity.checkpoint.model.clone(), identity.workload.prompt_requested_len))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the golden set, and the names and lengths of its valid ones.
    fn golden() -> Result<(Vec<AnyRow>, Measured), Box<dyn std::error::Error>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/tests/golden/rows_v3.csv");
        let rows = mlxcel_reports::wire::read_rows(&path)?;
        let valid = measured(&rows);
        if valid.is_empty() {
            return Err("no valid row".into());
        }
        Ok((rows, valid))
    }

    fn after(measured: Measured) -> Previous {
        let sweep = Sweep { path: "cpu_x.csv".into(), started_at: Timestamp::UNIX_EPOCH, measured };
        Previous { sweeps: vec![sweep], seconds: BTreeMap::new() }
    }

    #[test]
    fn a_checkpoint_that_is_gone_is_missed_though_another_came() -> Result<(), Box<dyn std::error::Error>> {
        let (rows, valid) = golden()?;
        assert_eq!(after(valid.clone()).more_than(&rows, &[512]), None);
        // As many then as now, of which one is another.
        let mut other = valid.clone();
        let first = other.pop_first().ok_or("no valid row")?;
        other.insert(("gone".to_owned(), first.1));
        let said = after(other).more_than(&rows, &[512]).unwrap_or_default();
        assert!(said.contains("and not in this one: gone;"), "{said}");
        let at_another_length: Measured = [("gone".to_owned(), Some(9))].into();
        assert_eq!(after(at_another_length.clone()).more_than(&rows, &[512]), None);
        let said = after(at_another_length).more_than(&rows, &[9, 512]).unwrap_or_default();
        assert!(said.contains("gone at 9;"), "{said}");
        Ok(())
    }
}
