//! Runs a sweep: guards first, then one worker a checkpoint, a row for each folder whatever happens, and the
//! table.
//!
//! What is settled before the first checkpoint is in `prepare`.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use mlxcel_reports::measure::Sample;
use mlxcel_reports::render;
use mlxcel_reports::row::{AnyRow, Backend, HarnessKind, Measured, Row, RowIdentity};
use mlxcel_reports::status::{Exclusion, Rule, Skip, Status};
use mlxcel_reports::store::{Completeness, FileName, Finished, SetKind};

use super::dedup::Survivors;
use super::guards;
use super::interrupt::Interrupt;
use super::judge::{Judged, Verdict, judge};
use super::plan::{self, Action, Place};
use super::prepare::{Resolved, backend, facts, hello, resolve};
use super::progress::SweepProgress;
use super::record::{RunFacts, estimated_parameters};
use super::results::Results;
use crate::cli::{Format, SweepArgs, Target};
use crate::exit::Exit;
use crate::provenance::binary::Executable;
use crate::provenance::machine::short_name;
use crate::text::{complain, say};
use crate::worker::child::WorkerProgram;
use crate::worker::session::{Session, Surroundings, Task, measure};

/// Runs the sweep.
///
/// # Errors
/// Refusals, bad input and faults of our own; each names the thing, what was expected and the remedy.
pub fn sweep(arguments: &SweepArgs, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let executable = Executable::this()?;
    let tree = guards::tree(&executable)?;
    let named = match arguments.target() {
        Target::Default => None,
        Target::All(models) => Some((plan::all(&models)?, false)),
        Target::Single(path) => Some((vec![plan::single(&path)?], true)),
    };
    guards::output_folder(&arguments.out)?;
    let program = match &arguments.worker_program {
        Some(path) => WorkerProgram::scripted(path.clone()),
        None => {
            WorkerProgram::this_executable().context("the system does not say where this executable lies")?
        }
    };
    let hello = hello(&program, interrupt)?;
    if !program.foreign {
        guards::same_program(&executable, &hello)
            .map_err(|reason| anyhow!("{reason}; build it again and start anew"))?;
    }
    let backend = backend(&hello)?;
    let resolved = match resolve(arguments, named, backend, interrupt) {
        Err(_) if interrupt.is_raised() => {
            complain("interrupted before anything was measured; nothing was written");
            return Ok(Exit::Interrupted);
        }
        resolved => resolved?,
    };
    let run = facts(arguments, &resolved, executable, tree, hello, backend);
    Sweep { arguments, interrupt, program, resolved, run }.carry_out()
}

/// A sweep under way.
struct Sweep<'a> {
    arguments: &'a SweepArgs,
    interrupt: &'a Interrupt,
    program: WorkerProgram,
    resolved: Resolved,
    run: RunFacts,
}

/// How a sweep left off.
enum LeftOff {
    AtTheEnd,
    /// At the place of this number.
    Interrupted(usize),
}

impl Sweep<'_> {
    fn carry_out(&self) -> anyhow::Result<Exit> {
        let mut results = Results::create(&self.arguments.out, &self.file_name(), self.run.provenance())?;
        let mut progress = SweepProgress::new(&self.work(), self.arguments.shape.reps.get());
        let outcome = self.measure_all(&mut results, &mut progress);
        progress.close();
        let (completeness, finished, exit) =
            match outcome.and_then(|left_off| self.conclude(&left_off, &mut results)) {
                Ok(concluded) => concluded,
                Err(error) => {
                    if !results.rows().is_empty() {
                        // What was measured is shown even when it cannot be kept.
                        let reason = Some(format!("{error:#}"));
                        let partial = Completeness::Partial { reason, torn: false };
                        if let Err(also) = self.show(results.rows(), &partial) {
                            complain(&format!("error: {also:#}"));
                        }
                    }
                    return Err(error);
                }
            };
        match finished {
            Some(finished) => {
                self.show(results.rows(), &completeness)?;
                let rows = if finished.rows == 1 { "1 row" } else { &format!("{} rows", finished.rows) };
                complain(&format!(
                    "wrote {} ({rows}), its samples and its provenance",
                    finished.csv.display()
                ));
            }
            None => complain("interrupted before the first row; nothing was written"),
        }
        Ok(exit)
    }

    fn conclude(
        &self,
        left_off: &LeftOff,
        results: &mut Results,
    ) -> anyhow::Result<(Completeness, Option<Finished>, Exit)> {
        match left_off {
            LeftOff::AtTheEnd => Ok((
                Completeness::Complete,
                results.complete()?,
                exit_of(&results.rows().iter().map(AnyRow::status).collect::<Vec<_>>()),
            )),
            LeftOff::Interrupted(at) => {
                let left: Vec<&str> =
                    self.resolved.places.iter().skip(*at).map(|place| place.model.as_str()).collect();
                let reason = format!("interrupted; not measured: {}", left.join(", "));
                let finished = results.finish_partial(&reason)?;
                Ok((Completeness::Partial { reason: Some(reason), torn: false }, finished, Exit::Interrupted))
            }
        }
    }

    fn measure_all(&self, results: &mut Results, progress: &mut SweepProgress) -> anyhow::Result<LeftOff> {
        let dedup = &self.resolved.dedup;
        let mut survivors = Survivors::default();
        dedup.tell();
        for (index, place) in self.resolved.places.iter().enumerate() {
            if self.interrupt.is_raised() {
                return Ok(LeftOff::Interrupted(index));
            }
            progress.begin(index, &place.model);
            let alias = dedup.measured_for(index, &survivors);
            let measured = match alias {
                Some((survivor, why)) => Some((self.alias(index, place, survivor, &why), Vec::new())),
                None => self.row(index, place, progress)?,
            };
            let Some((row, samples)) = measured else {
                return Ok(LeftOff::Interrupted(index));
            };
            dedup.measured(index, row.status().is_ok(), &mut survivors);
            progress.ended(&summary(&row));
            results.append(row, &samples)?;
        }
        Ok(LeftOff::AtTheEnd)
    }

    /// The row of a place that another one was measured for.
    fn alias(&self, index: usize, place: &Place, survivor: usize, why: &str) -> AnyRow {
        let task = self.task(place.path.clone());
        let order_index = u32::try_from(index).unwrap_or(u32::MAX);
        let identity = self.run.identity(place, &task, order_index, Timestamp::now(), None);
        let name = self.resolved.places.get(survivor).map_or_else(String::new, |place| place.model.clone());
        self.excluded(identity, None, Skip::DuplicateOf(name).into(), why, &[])
    }

    /// The row of one place; `None` when the sweep was interrupted meanwhile.
    fn row(
        &self,
        index: usize,
        place: &Place,
        progress: &mut SweepProgress,
    ) -> anyhow::Result<Option<(AnyRow, Vec<Sample>)>> {
        let started_at = Timestamp::now();
        let order_index = u32::try_from(index).unwrap_or(u32::MAX);
        let task = self.task(place.path.clone());
        if let Action::Record(exclusion, detail) = &place.action {
            let identity = self.run.identity(place, &task, order_index, started_at, None);
            return Ok(Some((self.excluded(identity, None, exclusion.clone(), detail, &[]), Vec::new())));
        }
        let session = measure(
            &task,
            &mut Surroundings {
                program: &self.program,
                interrupted: &|| self.interrupt.is_raised(),
                progress: &mut |step| progress.step(step),
            },
        );
        let Verdict::Row(judged) = judge(&task, &session) else {
            return Ok(None);
        };
        if self.resolved.single && judged.bad_input {
            bail!("{}", judged.detail);
        }
        let identity = self.run.identity(place, &task, order_index, started_at, Some(&session));
        let load_nanos = session.loaded.as_ref().map(|loaded| loaded.load_nanos);
        let row = match judged.exclusion {
            Some(exclusion) => {
                self.excluded(identity, load_nanos, exclusion, &judged.detail, &judged.samples)
            }
            None => match Row::measured(identity.clone(), load_nanos, &judged.samples) {
                Err(broken) => {
                    self.excluded(identity, load_nanos, broken.rule.into(), &broken.detail, &judged.samples)
                }
                Ok(row) => self.vouched(row.with_detail(self.detail(&judged.detail)), &judged, &session),
            },
        };
        Ok(Some((row, judged.samples)))
    }

    /// A valid row only stays one when it was measured by what the provenance says.
    fn vouched(&self, row: Row<Measured>, judged: &Judged, session: &Session) -> AnyRow {
        if self.program.foreign {
            let why = format!("measured by {} and not by this executable", self.program.path.display());
            return row.invalidated(Rule::Provenance, self.detail(&join(&why, &judged.detail))).into();
        }
        let runtime = session.hello.as_ref().map(|hello| &hello.runtime);
        let changed = runtime.and_then(|runtime| guards::changed_runtime(&self.run.hello.runtime, runtime));
        match changed {
            Some(why) => row.invalidated(Rule::Provenance, self.detail(&join(&why, &judged.detail))).into(),
            None => row.into(),
        }
    }

    fn excluded(
        &self,
        identity: RowIdentity,
        load_nanos: Option<u64>,
        exclusion: Exclusion,
        detail: &str,
        samples: &[Sample],
    ) -> AnyRow {
        Row::excluded(identity, load_nanos, exclusion, self.detail(detail), samples).into()
    }

    fn detail(&self, detail: &str) -> String {
        let detail = self.run.private.text(detail);
        self.resolved.remarks.iter().fold(detail, |text, remark| join(&text, remark))
    }

    fn task(&self, path: PathBuf) -> Task {
        Task {
            path,
            prompt_tokens: self.resolved.prompt_tokens,
            max_tokens: self.resolved.max_tokens,
            prefill_chunk: self.arguments.shape.prefill_chunk.get(),
            reps: self.arguments.shape.reps.get(),
            timeout: self.arguments.timeout,
        }
    }

    /// The work of a pass over each checkpoint: on a CPU it is computing, on a GPU reading.
    fn work(&self) -> Vec<u64> {
        let work = |(at, place): (usize, &Place)| match &place.action {
            _ if self.resolved.dedup.is_alias(at) => 0,
            Action::Measure(folder) if self.run.backend == Backend::Cpu => {
                estimated_parameters(folder).max(1)
            }
            Action::Measure(folder) => folder.weight_bytes().max(1),
            Action::Record(..) => 0,
        };
        self.resolved.places.iter().enumerate().map(work).collect()
    }

    fn file_name(&self) -> FileName {
        let model = self.resolved.places.first().map(|place| place.model.clone());
        FileName {
            backend: self.run.backend,
            hw: self
                .run
                .machine
                .hardware(self.run.backend)
                .map_or_else(|| "unknown".to_owned(), |hardware| short_name(&hardware)),
            date: self.run.date,
            suffix: self.arguments.suffix.clone(),
            single_model: model.filter(|_| self.resolved.single),
            harness: HarnessKind::Text,
            kind: SetKind::Sweep,
            given: None,
        }
    }

    fn show(&self, rows: &[AnyRow], completeness: &Completeness) -> anyhow::Result<()> {
        let text = match self.arguments.format {
            Format::Table => render::terminal::table(rows, completeness, terminal_width()),
            Format::Json => serde_json::to_string_pretty(&render::json::document(rows, completeness))?,
        };
        say(&text).context("the results cannot be printed to stdout; they are in the result files")
    }
}

/// The exit of a sweep by how its rows ended: a failure counts before everything, then whether there is a
/// valid row at all.
fn exit_of(statuses: &[Status]) -> Exit {
    let any = |test: fn(&Status) -> bool| statuses.iter().any(test);
    match (any(Status::is_fail), any(Status::is_ok), any(Status::is_invalid)) {
        (true, _, _) | (false, true, true) => Exit::Failure,
        (false, true, false) => Exit::Fine,
        (false, false, _) => Exit::InvalidOnly,
    }
}

/// One line for stderr.
fn summary(row: &AnyRow) -> String {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), |rate| format!("{rate:.2}"));
    match row.as_measured() {
        Some(measured) => {
            let figures = measured.figures();
            format!(
                "prefill {} tok/s, decode {} tok/s",
                rate(figures.prefill().tok_s()),
                rate(figures.decode().tok_s())
            )
        }
        None => format!("{} {}", row.status(), row.detail().unwrap_or_default()),
    }
}

fn terminal_width() -> Option<u16> {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|columns| *columns > 0)
}

fn join(one: &str, other: &str) -> String {
    [one, other].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlxcel_reports::status::Fail;

    #[test]
    fn the_exit_follows_the_worst_row() {
        let (ok, skip): (Status, Status) = (Status::Ok, Skip::NotACheckpoint.into());
        let (fail, invalid): (Status, Status) = (Fail::Crash.into(), Rule::ShortGeneration.into());
        for (statuses, exit) in [
            (vec![ok.clone(), skip.clone()], Exit::Fine),
            (vec![ok.clone(), fail.clone()], Exit::Failure),
            (vec![ok, invalid.clone()], Exit::Failure),
            (vec![invalid.clone(), fail], Exit::Failure),
            (vec![invalid, skip.clone()], Exit::InvalidOnly),
            (vec![skip], Exit::InvalidOnly),
            (vec![], Exit::InvalidOnly),
        ] {
            assert_eq!(exit_of(&statuses), exit, "{statuses:?}");
        }
    }
}
