//! `compare`: two result files against each other. All rules run before a byte is written; a refusal writes no file.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use mlxcel_catalog::table::Table;
use mlxcel_reports::compare::baseline::readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Acceptance, Options};
use mlxcel_reports::compare::report::{Comparison, Source, Verdict};
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::names::{ExactNames, NameResolver};
use mlxcel_reports::render::comparison as render;
use mlxcel_reports::rules::RuleSet;

use super::noise;
use crate::cli::{CompareArgs, CompareFormat};
use crate::exit::Exit;
use crate::text::{complain, say};

pub(super) fn run(arguments: &CompareArgs) -> anyhow::Result<Exit> {
    if let Some(store) = arguments.store.as_deref().filter(|store| !store.is_dir()) {
        bail!(
            "`{}` is no folder, so no newer reading of the baseline can be found in it; name another for --store",
            store.display()
        );
    }
    let before = history::read(&arguments.before)?;
    let after = history::read(&arguments.after)?;
    let names = names(arguments.catalog.as_deref())?;
    let mut options = options(arguments);
    if arguments.noise_floor.is_none() {
        take_stored_floor(&mut options, &[&before, &after]);
    }
    let folder =
        arguments.store.as_deref().or_else(|| arguments.before.parent()).unwrap_or_else(|| Path::new("."));
    let readings = readings(folder, [&before, &after], names.as_ref(), options.metric);
    let mut comparison = compare(&before, &after, names.as_ref(), &options, &readings, &RuleSet::all());
    comparison.sources.extend(arguments.catalog.as_deref().map(|path| Source::of("catalog", path, path)));
    let refused = comparison.verdict == Verdict::Refused;
    if refused {
        for (title, findings) in [("dropped", &comparison.dropped), ("refused", &comparison.refused)] {
            // The causes come last, where they are seen.
            let text = render::findings(title, findings);
            if !text.is_empty() && (title == "refused" || arguments.format != CompareFormat::Json) {
                complain(text.trim_end());
            }
        }
        complain("refused: nothing was compared, and no file was written");
        if arguments.format != CompareFormat::Json {
            return Ok(Exit::Refused);
        }
    }
    let text = rendered(&comparison, arguments)?;
    match &arguments.out {
        Some(path) if !refused => write_new(path, &text)?,
        _ => say(&text).context("cannot write to stdout")?,
    }
    Ok(if refused { Exit::Refused } else { Exit::Fine })
}

/// The noise floor that `doctor` found. It goes into the command line of the report as if it had been given, so that the
/// report can be derived again anywhere.
fn take_stored_floor(options: &mut Options, files: &[&SourceFile]) {
    let Some(diagnosis) = noise::of_the_host_of(files) else { return };
    let Some(found) = diagnosis.noise_of(options.metric) else { return };
    // As it stands in the command line, so that the two agree to the last digit.
    let text = format!("{:.4}", found.floor());
    let Ok(floor) = text.parse() else { return };
    complain(&format!(
        "note: the noise floor is {:.2}%, {}; --noise-floor 0 leaves it out",
        found.floor() * 100.0,
        noise::origin(&diagnosis)
    ));
    options.noise_floor = Some(floor);
    options.command.extend(["--noise-floor".to_owned(), text]);
}

pub(super) fn names(catalog: Option<&Path>) -> anyhow::Result<Box<dyn NameResolver>> {
    let Some(path) = catalog else {
        return Ok(Box::new(ExactNames));
    };
    let table = Table::read(path)?;
    for fault in table.faults() {
        complain(&format!("warning: {}, {fault}", path.display()));
    }
    Ok(Box::new(table))
}

pub(super) fn options(arguments: &CompareArgs) -> Options {
    let mut accepted: BTreeSet<Acceptance> = arguments.accept.iter().copied().collect();
    if arguments.include_non_generative {
        accepted.insert(Acceptance::NonGenerative);
    }
    Options {
        metric: arguments.metric,
        axis: arguments.axis(),
        accepted,
        prompt_tolerance: arguments.prompt_tolerance,
        max_date_gap_days: arguments.max_date_gap_days,
        min_generated: arguments.min_generated,
        moved_threshold: arguments.moved_threshold,
        noise_floor: arguments.noise_floor,
        repeat: arguments.repeat,
        min_share: arguments.min_share,
        command: command_line(),
    }
}

/// The command line for a report. Where the program lies on this machine is nobody's business.
pub(super) fn command_line() -> Vec<String> {
    std::iter::once("mlxcel-bench".to_owned())
        .chain(std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()))
        .collect()
}

fn rendered(comparison: &Comparison, arguments: &CompareArgs) -> anyhow::Result<String> {
    Ok(match arguments.format {
        CompareFormat::Table => render::table(comparison, None),
        CompareFormat::Json => render::json_text(comparison)?,
        CompareFormat::Markdown => render::markdown(comparison),
        CompareFormat::Csv => render::csv(comparison)?,
    })
}

/// Whole or not at all, and never over one of the files that were compared: written beside the name and moved.
pub(super) fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.exists() {
        bail!("`{}` exists and is not replaced; name another file", path.display());
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let written = std::fs::File::create_new(partial)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .with_context(|| format!("cannot write `{}`", partial.display()))
        .and_then(|()| {
            // A link fails where the name was taken meanwhile; some file systems have no links.
            std::fs::hard_link(partial, path)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => Err(error),
                    _ => std::fs::rename(partial, path),
                })
                .with_context(|| format!("cannot create `{}`", path.display()))
        });
    // The name is taken or the write failed; either way the half is of no use to anybody.
    let _ = std::fs::remove_file(partial);
    written
}
