//! The second stage of a gate: the rows that the first one flagged are measured anew by the programs of both sides, in turn,
//! so that what drifts on the host drifts for both.
//!
//! Each measurement is a sweep of its own and leaves its result files; the programs run outside of any checkout, so that
//! each is held to the tree it was built from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use mlxcel_reports::gate::inputs;
use mlxcel_reports::gate::report::{GateReport, State};
use mlxcel_reports::history::SourceFile;
use mlxcel_reports::names::NameResolver;
use mlxcel_reports::record::{Field, Record};

use crate::cli::GateArgs;
use crate::exit::{EndsWith, Exit};
use crate::text::complain;

/// What a flagged row is measured with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workload {
    checkpoint: PathBuf,
    flags: Vec<(&'static str, String)>,
}

/// What the first stage looked at: how the candidate's rows were measured, and the commits of both sides.
pub(super) struct FirstStage {
    workloads: BTreeMap<String, Vec<Workload>>,
    commits: [BTreeSet<String>; 2],
}

impl FirstStage {
    pub(super) fn of(
        baseline: &[SourceFile],
        candidate: &[SourceFile],
        names: &dyn NameResolver,
    ) -> anyhow::Result<Self> {
        let mut workloads: BTreeMap<String, Vec<Workload>> = BTreeMap::new();
        for record in candidate.iter().flat_map(|file| &file.records).filter(|record| record.outcome.is_ok())
        {
            if let Some(workload) = workload(record)? {
                let known = workloads.entry(names.resolve(&record.model).into_owned()).or_default();
                if !known.contains(&workload) {
                    known.push(workload);
                }
            }
        }
        Ok(Self { workloads, commits: [commits(baseline), commits(candidate)] })
    }
}

/// The commits that measured rows name.
fn commits(files: &[SourceFile]) -> BTreeSet<String> {
    let measured = files.iter().flat_map(|file| &file.records).filter(|record| record.outcome.is_ok());
    measured.filter_map(|record| record.facts.known(Field::Commit)).map(str::to_owned).collect()
}

fn workload(record: &Record) -> anyhow::Result<Option<Workload>> {
    let Some(path) = record.model_path.as_deref() else { return Ok(None) };
    let checkpoint = std::path::absolute(path).with_context(|| format!("cannot resolve `{path}`"))?;
    let facts = &record.facts;
    let flags = [
        ("--prompt-tokens", Field::PromptTarget),
        ("--max-tokens", Field::MaxTokens),
        ("--prefill-chunk", Field::PrefillChunk),
    ]
    .into_iter()
    .filter_map(|(flag, field)| Some((flag, facts.known(field)?.to_owned())))
    .filter(|(_, value)| value.parse::<u64>().is_ok())
    .collect();
    Ok(Some(Workload { checkpoint, flags }))
}

/// The measurements of both sides.
pub(super) struct Measured {
    pub(super) baseline: Vec<SourceFile>,
    pub(super) candidate: Vec<SourceFile>,
    pub(super) folder: PathBuf,
}

/// Measures the flagged rows of a report anew.
pub(super) fn measure(
    report: &GateReport,
    first: &FirstStage,
    arguments: &GateArgs,
) -> anyhow::Result<Measured> {
    let flagged: Vec<&Workload> = {
        let mut flagged: Vec<&Workload> = report
            .rows
            .iter()
            .filter(|row| row.state == State::Flagged)
            .flat_map(|row| {
                let name = row.model.split_once(" [").map_or(row.model.as_str(), |(name, _)| name);
                first.workloads.get(&row.model).or_else(|| first.workloads.get(name)).into_iter().flatten()
            })
            .collect();
        flagged.sort();
        flagged.dedup();
        flagged
    };
    let program = |path: &Path| {
        std::fs::canonicalize(path).with_context(|| format!("the program `{}` is not there", path.display()))
    };
    let baseline = arguments.baseline_program.as_deref().context("--confirm needs --baseline-program")?;
    let baseline = program(baseline)?;
    let candidate = match &arguments.candidate_program {
        Some(path) => program(path)?,
        None => std::env::current_exe().context("cannot tell where this program lies")?,
    };
    let folder = folder(arguments.confirm_out.as_deref())?;
    let sides = [("baseline", &baseline), ("candidate", &candidate)];
    let folders = sides.map(|(side, _)| folder.join(side));
    for folder in &folders {
        std::fs::create_dir(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    }
    let processes = arguments.confirm_processes as usize;
    // A B B A A B B A ...: the sides of process k are measured in the order k is even or odd.
    for process in 0..processes {
        let order = if process.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        for side in order {
            let (Some((name, program)), Some(out)) = (sides.get(side), folders.get(side)) else { continue };
            complain(&format!(
                "measuring {} flagged checkpoints anew: {name}, process {} of {processes}",
                flagged.len(),
                process + 1
            ));
            for (number, workload) in flagged.iter().enumerate() {
                sweep(program, workload, out, &format!("process{process}_{number}"), &folder)?;
            }
        }
    }
    let measured =
        Measured { baseline: inputs::read(&folders[..1])?, candidate: inputs::read(&folders[1..])?, folder };
    for ((side, program), (files, before)) in
        sides.iter().zip([&measured.baseline, &measured.candidate].into_iter().zip(&first.commits))
    {
        let now = commits(files);
        if !now.is_subset(before) {
            let list = |commits: &BTreeSet<String>| commits.iter().cloned().collect::<Vec<_>>().join(", ");
            return Err(EndsWith(
                Exit::Refused,
                format!(
                    "refused: `{}` measures commit {}, and the {side}'s files commit {}; give --confirm the program of that \
                     commit",
                    program.display(),
                    list(&now),
                    list(before)
                ),
            )
            .into());
        }
    }
    Ok(measured)
}

fn folder(wanted: Option<&Path>) -> anyhow::Result<PathBuf> {
    let folder = match wanted {
        Some(folder) => folder.to_owned(),
        None => std::env::temp_dir().join(format!(
            "mlxcel-gate-{}-{}",
            jiff::ZonedDateTime::now().strftime("%Y%m%d_%H%M%S"),
            std::process::id()
        )),
    };
    std::fs::create_dir_all(folder.parent().unwrap_or(Path::new(".")))
        .and_then(|()| std::fs::create_dir(&folder))
        .with_context(|| {
            format!("cannot create `{}` for the measurements; it must be new", folder.display())
        })?;
    std::fs::canonicalize(&folder).with_context(|| format!("cannot find `{}`", folder.display()))
}

/// One sweep of one checkpoint. Rows that failed are in its file; a sweep that left none ends the gate.
fn sweep(program: &Path, workload: &Workload, out: &Path, suffix: &str, folder: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.arg("sweep").arg(&workload.checkpoint).arg("--out").arg(out).args(["--suffix", suffix]);
    for (flag, value) in &workload.flags {
        command.args([flag, value.as_str()]);
    }
    let output = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{}`", program.display()))?;
    match output.status.code() {
        Some(0 | 1 | 3) => Ok(()),
        code => bail!(
            "`{}` could not measure `{}` ({}): {}",
            program.display(),
            workload.checkpoint.display(),
            code.map_or_else(|| "ended by a signal".to_owned(), |code| format!("exit code {code}")),
            crate::text::tail(&String::from_utf8_lossy(&output.stderr), 500)
        ),
    }
}
