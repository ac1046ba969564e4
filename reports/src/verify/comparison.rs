//! A comparison once more: from the command line and the files that a document names.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use mlxcel_catalog::table::Table;

use super::Context;
use super::inputs::{Stated, named, other_file, result_file};
use super::report::{Discrepancy, MissingInput, Verification};
use crate::command_line::joined;
use crate::compare::baseline::{Readings, readings};
use crate::compare::compare;
use crate::compare::options::Options;
use crate::compare::report::{Comparison, Source};
use crate::history::SourceFile;
use crate::names::{ExactNames, NameResolver};
use crate::record::Metric;
use crate::rules::RuleSet;

/// What the command line of a comparison asked for.
pub struct Invocation {
    /// The first file, as it was named.
    pub before: PathBuf,
    /// The second file, as it was named.
    pub after: PathBuf,
    /// What was said of the comparison, the command line itself included.
    pub options: Options,
    /// The table of names, as it was named.
    pub catalog: Option<PathBuf>,
    /// Folder in which newer readings of the baseline were looked for; none for that of the baseline.
    pub store: Option<PathBuf>,
}

/// What a document states of its files.
pub(super) struct Files<'a> {
    /// The command line.
    pub(super) command: &'a [String],
    /// The line in which it stands.
    pub(super) command_line: u64,
    /// The two result files.
    pub(super) inputs: &'a [Stated],
    /// The others.
    pub(super) sources: &'a [Stated],
}

/// Compares again. None, with discrepancies or missing files, where that cannot be done.
pub(super) fn recomputed(
    document: &Path,
    files: &Files<'_>,
    context: Context<'_>,
    verification: &mut Verification,
) -> Option<Comparison> {
    let invocation = command(document, files, context.read_command, verification)?;
    let mut sides = Vec::new();
    for (side, named) in [("before", &invocation.before), ("after", &invocation.after)] {
        let Some(input) = files.inputs.iter().find(|input| input.what == side) else {
            let message = format!("the document names no file `{side}` and no digest of it");
            verification.found(Discrepancy::new(document, "inputs", message).at(files.command_line));
            continue;
        };
        let named = named.display().to_string();
        if named != input.path {
            let discrepancy = Discrepancy::new(document, format!("{side} path"), "from the command line");
            verification.found(discrepancy.at(input.line).values(Some(&input.path), Some(named)));
        }
        sides.extend(result_file(document, input, verification));
    }
    let names = names(document, files, invocation.catalog.as_deref(), verification);
    let [(before, folder), (after, _)] = <[_; 2]>::try_from(sides).ok()?;
    let (names, catalog) = names?;
    let metric = invocation.options.metric;
    let compared = [&before, &after];
    let readings = stated_readings(document, files.sources, compared, (names.as_ref(), metric), verification);
    let folder = invocation.store.as_deref().unwrap_or(&folder);
    came_since(document, folder, files.sources, compared, (names.as_ref(), metric), verification);
    let readings = readings?;
    verification.count("comparisons", 1);
    let mut comparison =
        compare(&before, &after, names.as_ref(), &invocation.options, &readings, &RuleSet::all());
    comparison.sources.extend(catalog);
    Some(comparison)
}

/// What a command line asked for; a discrepancy where it cannot be told.
pub(super) fn command<T>(
    document: &Path,
    files: &Files<'_>,
    read: &dyn Fn(&[String]) -> Result<T, String>,
    verification: &mut Verification,
) -> Option<T> {
    let read = if files.command.is_empty() { Err("there is none".to_owned()) } else { read(files.command) };
    read.map_err(|reason| {
        let message = format!("the command line cannot be read, so nothing follows from it: {reason}");
        let discrepancy = Discrepancy::new(document, "command", message).at(files.command_line);
        let stated = (!files.command.is_empty()).then(|| joined(files.command));
        verification.found(discrepancy.values(stated, None::<String>));
    })
    .ok()
}

/// Which names mean one checkpoint, and the table that says so.
pub(super) type Names = (Box<dyn NameResolver>, Option<Source>);

/// The names by the table that a command line names.
pub(super) fn names(
    document: &Path,
    files: &Files<'_>,
    catalog: Option<&Path>,
    verification: &mut Verification,
) -> Option<Names> {
    let Some(path) = catalog else { return Some((Box::new(ExactNames), None)) };
    let stated = named(document, (files.command_line, files.sources), ("catalog", path), verification)?;
    let place = other_file(document, stated, verification)?;
    match Table::read(&place) {
        Ok(table) => Some((Box::new(table), Some(Source::of("catalog", &place, path)))),
        Err(error) => {
            verification.is_missing(stated.is_missing(document, error.to_string()));
            None
        }
    }
}

/// What the files have measured that the document says were looked through.
fn stated_readings(
    document: &Path,
    sources: &[Stated],
    compared: [&SourceFile; 2],
    (names, metric): (&dyn NameResolver, Metric),
    verification: &mut Verification,
) -> Option<Readings> {
    let mut readings = Readings::default();
    let mut whole = true;
    let mut seen = HashSet::new();
    for source in sources.iter().filter(|source| source.what == "store") {
        if !seen.insert((&source.path, &source.sha256)) {
            continue;
        }
        match other_file(document, source, verification) {
            Some(place) => readings.add(&place, Path::new(&source.path), compared, names, metric),
            None => whole = false,
        }
    }
    whole.then_some(readings)
}

/// Files that lie beside the baseline now and that the document says nothing of.
fn came_since(
    document: &Path,
    folder: &Path,
    sources: &[Stated],
    compared: [&SourceFile; 2],
    (names, metric): (&dyn NameResolver, Metric),
    verification: &mut Verification,
) {
    let known: HashSet<&str> = sources.iter().filter_map(|source| source.sha256.as_deref()).collect();
    let now = readings(folder, compared, names, metric);
    let rows = compared.iter().flat_map(|file| &file.records);
    let newest = rows.filter_map(|record| record.facts.date).max();
    let mut later = Vec::new();
    for source in now.sources() {
        if source.sha256.as_deref().is_some_and(|sha256| known.contains(sha256)) {
            continue;
        }
        let measured = now.newest(Path::new(&source.path));
        if measured.is_some_and(|day| newest.is_some_and(|newest| day <= newest)) {
            verification.is_missing(MissingInput {
                file: document.to_owned(),
                line: None,
                what: "store".to_owned(),
                path: source.path.clone(),
                sha256: source.sha256.clone(),
                reason: "it lies beside the baseline and was measured before the comparison, which says nothing of it, so that \
                         whether it was looked through for newer readings (P17) cannot be told"
                    .to_owned(),
            });
        } else {
            later.push(source.path.as_str());
        }
    }
    if !later.is_empty() {
        verification.notes.push(format!(
            "{} result files of the baseline's host, program and kind lie in its folder now and were not looked through for \
             newer readings (P17), since they came later: {}",
            later.len(),
            later.join(", ")
        ));
    }
}
