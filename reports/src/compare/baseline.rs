//! Other files that have measured the same: what a newer reading of a baseline is found in.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::civil::Date;

use crate::history::{self, SourceFile};
use crate::names::NameResolver;
use crate::record::{Field, Harness, Metric};

/// One measurement in another file.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The file.
    pub file: PathBuf,
    /// Its line.
    pub line: u64,
    /// The checkpoint's resolved name.
    pub model: String,
    /// Kind of measurement.
    pub harness: Harness,
    /// The program.
    pub runtime: Arc<str>,
    /// The host.
    pub hardware: Arc<str>,
    /// The day.
    pub date: Date,
    /// What was measured.
    pub metric: Metric,
    /// Its value, in the metric's unit.
    pub value: f64,
}

/// Measurements by the resolved names of their checkpoints.
#[derive(Debug, Default)]
pub struct Readings(HashMap<String, Vec<Reading>>);

impl Readings {
    /// Those of one checkpoint.
    pub fn of(&self, model: &str) -> &[Reading] {
        self.0.get(model).map_or(&[], Vec::as_slice)
    }
}

impl Extend<Reading> for Readings {
    fn extend<T: IntoIterator<Item = Reading>>(&mut self, readings: T) {
        for reading in readings {
            self.0.entry(reading.model.clone()).or_default().push(reading);
        }
    }
}

/// The measurements of the result files in a folder, but for the two that are compared. Files that cannot be read are
/// returned beside them, the folder itself among them where it cannot be listed.
pub fn readings(
    folder: &Path,
    compared: [&SourceFile; 2],
    names: &dyn NameResolver,
    metric: Metric,
) -> (Readings, Vec<PathBuf>) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut unreadable = Vec::new();
    let mut paths: Vec<PathBuf> = Vec::new();
    match std::fs::read_dir(folder) {
        Ok(entries) => paths.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path()))),
        Err(_) => unreadable.push(folder.to_owned()),
    }
    let real = |path: &Path| path.canonicalize().ok();
    let compared_paths = compared.map(|file| real(&file.path));
    paths.retain(|path| {
        history::is_result_file(path) && path.is_file() && !compared_paths.contains(&real(path))
    });
    paths.sort();
    let mut readings = Readings::default();
    for path in paths {
        match history::read(&path) {
            Ok(file) if compared.iter().any(|other| other.sha256 == file.sha256) => {}
            Ok(file) => readings.extend(of_file(&file, names, metric)),
            Err(_) => unreadable.push(path),
        }
    }
    (readings, unreadable)
}

/// The measurements of one file.
pub fn of_file(file: &SourceFile, names: &dyn NameResolver, metric: Metric) -> Vec<Reading> {
    let text = |value: Option<&str>| value.map(Arc::<str>::from);
    file.records
        .iter()
        .filter(|record| record.outcome.is_ok())
        .filter_map(|record| {
            Some(Reading {
                file: file.path.clone(),
                line: record.line,
                model: names.resolve(&record.model).into_owned(),
                harness: record.facts.harness,
                runtime: text(record.facts.known(Field::Runtime))?,
                hardware: text(record.facts.known(Field::Hardware))?,
                date: record.facts.date?,
                metric,
                value: record.value(metric)?,
            })
        })
        .collect()
}
