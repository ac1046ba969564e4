//! `gate`: whether a candidate may pass, for CI. The decision is `mlxcel_reports::gate`'s; here files are read and reports
//! written.

mod confirm;
mod git;

use anyhow::{Context as _, bail};
use jiff::ZonedDateTime;
use mlxcel_reports::compare::report::Source;
use mlxcel_reports::gate::policy::Policy;
use mlxcel_reports::gate::report::{GateReport, Outcome, State};
use mlxcel_reports::gate::spread::Spreads;
use mlxcel_reports::gate::{Request, confirmed, inputs, run as decide, second_stage};
use mlxcel_reports::render::gate as render;

use super::compare::{names, write_new};
use super::noise;
use crate::cli::{GateArgs, GateFormat};
use crate::exit::Exit;
use crate::text::{complain, say};

pub(super) fn run(arguments: &GateArgs) -> anyhow::Result<Exit> {
    // Found out before anything is measured.
    for (index, file) in arguments.report.iter().enumerate() {
        let taken = arguments.report.iter().take(index).any(|other| other.path == file.path);
        if taken || file.path.symlink_metadata().is_ok() {
            let path = file.path.display();
            let why = if taken { "is named twice" } else { "exists and is not replaced" };
            bail!("`{path}` {why}; name another file for --report");
        }
    }
    let policy = arguments.policy.as_deref().map_or_else(|| Ok(Policy::default()), Policy::read)?;
    let policy = arguments.overrides().of(policy);
    let names = names(arguments.catalog.as_deref())?;
    let candidate = inputs::read(&arguments.candidate)?;
    let mut remarks = Vec::new();
    let baseline = match &arguments.baseline_from_git {
        None => inputs::read(&arguments.baseline)?,
        Some(revision) => {
            let found = git::baseline(revision, &arguments.baseline)?;
            remarks = found.remarks;
            found.files
        }
    };
    let stored = if arguments.spreads.is_none() && !arguments.no_doctor {
        noise::of_the_host_of(&baseline.iter().chain(&candidate).collect::<Vec<_>>())
    } else {
        None
    };
    let spreads = match (&arguments.spreads, &stored) {
        (Some(path), _) => Spreads::read(path)?,
        (None, Some(diagnosis)) => diagnosis.spreads(),
        (None, None) => Spreads::default(),
    };
    // What is read from that commit is its copy already.
    let protected = match &policy.protected_branch {
        Some(revision) if arguments.baseline_from_git.is_none() => Some(git::copies(revision, &baseline)?),
        _ => None,
    };
    let first = confirm::FirstStage::of(&baseline, &candidate, names.as_ref())?;
    let request = |baseline, candidate, policy: Policy| Request {
        baseline,
        candidate,
        policy,
        spreads: spreads.clone(),
        names: names.as_ref(),
        sources: sources(arguments),
        protected: protected.clone(),
        today: ZonedDateTime::now().date(),
        tell_improvements: arguments.tell_improvements,
        command: super::compare::command_line(),
    };
    let mut report = decide(request(baseline, candidate, policy.clone()));
    if arguments.confirm && report.count(State::Flagged) > 0 {
        let measured = confirm::measure(&report, &first, arguments)?;
        let second = second_stage(request(measured.baseline, measured.candidate, policy));
        report = confirmed(report, second, arguments.tell_improvements);
        report.remarks.push(format!("the measurements of --confirm lie in {}", measured.folder.display()));
    }
    report.remarks.extend(remarks);
    if let Some(diagnosis) = stored.filter(|_| report.rows.iter().any(|row| row.aa_spread.is_some())) {
        report
            .remarks
            .push(format!("A/A spreads {}; --no-doctor leaves them out", noise::origin(&diagnosis)));
    }
    for file in &arguments.report {
        write_report(&report, file).inspect_err(|_| take_back(&arguments.report, file))?;
    }
    say(&rendered(&report, arguments.format)?).context("cannot write to stdout")?;
    if arguments.format != GateFormat::Table {
        complain(&format!("gate: {}", render::headline(&report)));
    }
    Ok(match report.outcome {
        Outcome::Pass => Exit::Fine,
        Outcome::Regression => Exit::Failure,
        Outcome::Refused => Exit::Refused,
        Outcome::Inconclusive => Exit::Inconclusive,
        Outcome::Improved => Exit::Improved,
    })
}

/// The files besides results that the gate depends on.
fn sources(arguments: &GateArgs) -> Vec<Source> {
    let named =
        [("policy", &arguments.policy), ("spreads", &arguments.spreads), ("catalog", &arguments.catalog)];
    named
        .into_iter()
        .filter_map(|(what, path)| path.as_deref().map(|path| Source::of(what, path, path)))
        .collect()
}

fn write_report(report: &GateReport, file: &crate::cli::ReportFile) -> anyhow::Result<()> {
    write_new(&file.path, &rendered(report, file.format)?)
}

/// Removes the reports before `failed`: what remains of a gate that ended with an error would be taken for its result.
fn take_back(files: &[crate::cli::ReportFile], failed: &crate::cli::ReportFile) {
    for file in files.iter().take_while(|file| *file != failed) {
        let _ = std::fs::remove_file(&file.path);
    }
}

fn rendered(report: &GateReport, format: GateFormat) -> anyhow::Result<String> {
    Ok(match format {
        GateFormat::Table => render::table(report, None),
        GateFormat::Json => serde_json::to_string_pretty(&render::json(report)?)? + "\n",
        GateFormat::Markdown => render::markdown(report),
        GateFormat::Junit => render::junit(report),
        GateFormat::Benchstat => render::benchstat(report),
    })
}
