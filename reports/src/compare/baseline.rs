//! Other files that have measured the same: what a newer reading of a baseline is found in.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::civil::Date;

use super::report::Source;
use crate::history::{self, SourceFile};
use crate::names::NameResolver;
use crate::record::{Facts, Field, Harness, Metric};

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
pub struct Readings {
    of_model: HashMap<String, Vec<Reading>>,
    sources: Vec<Source>,
    unreadable: Vec<PathBuf>,
}

impl Readings {
    /// Those of one checkpoint.
    pub fn of(&self, model: &str) -> &[Reading] {
        self.of_model.get(model).map_or(&[], Vec::as_slice)
    }

    /// The files that may hold a newer reading: of the same host, program and kind as a row of the baseline, or unreadable.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Files that cannot be read, the folder itself among them where it cannot be listed.
    pub fn unreadable(&self) -> &[PathBuf] {
        &self.unreadable
    }

    /// The newest day on which a file measured something; none where nothing of it is known.
    pub fn newest(&self, file: &Path) -> Option<Date> {
        let all = self.of_model.values().flatten();
        all.filter(|reading| reading.file == file).map(|reading| reading.date).max()
    }

    /// Adds what the file at `path`, which reports call `shown`, has measured. The two that are compared add nothing.
    pub fn add(
        &mut self,
        path: &Path,
        shown: &Path,
        compared: [&SourceFile; 2],
        names: &dyn NameResolver,
        metric: Metric,
    ) {
        match history::read(path) {
            Ok(file) if compared.iter().any(|other| other.sha256 == file.sha256) => {}
            Ok(mut file) => {
                shown.clone_into(&mut file.path);
                let found = of_file(&file, names, metric);
                let kinds = kinds(compared[0]);
                let is_kind = |reading: &Reading| {
                    kinds.contains(&(reading.harness, reading.runtime.as_ref(), reading.hardware.as_ref()))
                };
                if found.iter().any(is_kind) {
                    let path = shown.display().to_string();
                    self.sources.push(Source { what: "store", path, sha256: Some(file.sha256) });
                    self.extend(found);
                }
            }
            Err(_) => {
                self.sources.push(Source::of("store", path, shown));
                self.unreadable.push(shown.to_owned());
            }
        }
    }
}

/// What the rows of a file are: kind, program and host.
fn kinds(file: &SourceFile) -> HashSet<(Harness, &str, &str)> {
    let mut seen: HashSet<*const Facts> = HashSet::new();
    file.records
        .iter()
        .map(|record| &record.facts)
        .filter(|facts| seen.insert(Arc::as_ptr(facts)))
        .filter_map(|facts| {
            Some((facts.harness, facts.known(Field::Runtime)?, facts.known(Field::Hardware)?))
        })
        .collect()
}

impl Extend<Reading> for Readings {
    fn extend<T: IntoIterator<Item = Reading>>(&mut self, readings: T) {
        for reading in readings {
            self.of_model.entry(reading.model.clone()).or_default().push(reading);
        }
    }
}

/// The measurements of the result files in a folder, but for the two that are compared.
pub fn readings(
    folder: &Path,
    compared: [&SourceFile; 2],
    names: &dyn NameResolver,
    metric: Metric,
) -> Readings {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut readings = Readings::default();
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Ok(entries) = std::fs::read_dir(folder) {
        paths.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
    } else {
        readings.sources.push(Source::of("store", folder, folder));
        readings.unreadable.push(folder.to_owned());
    }
    let real = |path: &Path| path.canonicalize().ok();
    let compared_paths = compared.map(|file| real(&file.path));
    paths.retain(|path| {
        history::is_result_file(path) && path.is_file() && !compared_paths.contains(&real(path))
    });
    paths.sort();
    for path in paths {
        let shown = path.strip_prefix(".").unwrap_or(&path);
        readings.add(&path, shown, compared, names, metric);
    }
    readings
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
