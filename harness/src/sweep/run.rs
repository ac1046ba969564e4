//! Runs a sweep: guards first, then one worker a checkpoint, a row for each folder whatever happens, and the
//! table.
//!
//! What is settled before the first checkpoint is in `prepare`, the measuring in `conduct`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::render;
use mlxcel_reports::row::{AnyRow, Backend};
use mlxcel_reports::status::Status;
use mlxcel_reports::store::{Completeness, FileName, Finished, SetKind};
use serde_json::{Value, json};

use super::band::told_band;
use super::conduct::{Conductor, Item, LeftOff, ReferenceRun, State};
use super::control_rows::{self, Chosen};
use super::controls::Controls;
use super::cooldown::Waits;
use super::ending::{exit_beside, exit_of, no_reference_rows, nothing_valid, without_reference};
use super::foresight::{Foresight, NO_VISION};
use super::guards;
use super::host_watch::{HostWatch, Looking, noise_floor_pct};
use super::interrupt::Interrupt;
use super::memory::{Budget, factor};
use super::oom_record::{self, OomRecord};
use super::parts;
use super::plan::{self, Action, Place};
use super::planned;
use super::prepare::{Resolved, backend, facts, hello, resolve};
use super::previous::{Previous, Subject};
use super::progress::SweepProgress;
use super::record::{RunFacts, Runtime, estimated_parameters};
use super::resume;
use super::sets::{self, Sets};
use crate::cli::{Format, SweepArgs, Target};
use crate::digests::cache_folder;
use crate::exit::{EndsWith, Exit};
use crate::host::{device_stream, gemm};
use crate::provenance::binary::Executable;
use crate::provenance::machine::short_name;
use crate::reference;
use crate::text::{complain, say, told};
use crate::worker::child::WorkerProgram;

/// The setting of the provenance that holds the band of the controls.
const BAND: &str = "control_band_pct";

/// Runs the sweep.
///
/// # Errors
/// Refusals, bad input and faults of our own; each names the thing, what was expected and the remedy.
pub fn sweep(arguments: &SweepArgs, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let factor = factor()?;
    let executable = Executable::this()?;
    // A plan measures nothing, so nothing would be recorded with sources that the executable does not have.
    let tree =
        if arguments.roster.plan { guards::any_tree(&executable)? } else { guards::tree(&executable)? };
    let named = named(arguments)?;
    if !arguments.roster.plan {
        guards::output_folder(&arguments.out)?;
    }
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
    let mut resolved = match resolve(arguments, named, backend, interrupt) {
        Err(_) if interrupt.is_raised() => {
            complain("interrupted before anything was measured; nothing was written");
            return Ok(Exit::Interrupted);
        }
        resolved => resolved?,
    };
    let reference = match &arguments.reference {
        Some(_) if arguments.roster.plan => None,
        Some(wanted) => Some(heard_reference(wanted, tree.comparison.root.as_deref(), backend, interrupt)?),
        None => None,
    };
    let heard = (hello, reference.as_ref().map(|reference| &reference.hello));
    let mut run = facts(arguments, &resolved, executable, tree, heard, backend, factor);
    if !arguments.roster.plan {
        sets::nobody_else_writes(&arguments.out, run.machine.host_id.as_deref())?;
    }
    let resumed = match &arguments.resume {
        Some(named) if !arguments.roster.plan => {
            resume::find(&arguments.out, named.as_deref(), &run.key, arguments.retry)?
        }
        _ => None,
    };
    let resumed = resumed.map(|(path, provenance)| {
        run.go_on(&provenance);
        if let Some(seed) = resume::seed(&provenance).filter(|_| arguments.roster.seed.is_none()) {
            resolved.shuffle(arguments.roster.order, seed);
        }
        (path, provenance)
    });
    Sweep { arguments, interrupt, program, reference, resolved, run, resumed, factor }.carry_out()
}

/// The folders that the command line names; `None` for the default models.
fn named(arguments: &SweepArgs) -> anyhow::Result<Option<(Vec<Place>, bool)>> {
    Ok(match arguments.target() {
        Target::Default if arguments.is_vlm() => bail!(
            "the default models take no images, and {NO_VISION}; name a checkpoint that takes some, or `all` with --models, to see \
             what an image sweep would measure"
        ),
        Target::Default => None,
        Target::All(models) => Some((plan::all(&models)?, false)),
        Target::Single(path) => Some((vec![plan::single(&path)?], true)),
    })
}

/// The reference, once it has said who it is.
fn heard_reference(
    wanted: &crate::cli::Reference,
    checkout: Option<&Path>,
    own: Backend,
    interrupt: &Interrupt,
) -> anyhow::Result<ReferenceRun> {
    let program = reference::worker(wanted, checkout, own);
    let refused = |reason: String| {
        let message = format!(
            "refused: the reference mlx-lm cannot be measured with {}: {reason}; {} makes an environment that has it, and \
             --reference mlx-lm=PYTHON names its interpreter",
            program.path.display(),
            reference::SCRIPT
        );
        anyhow::Error::from(EndsWith(Exit::Refused, message))
    };
    let hello = hello(&program, interrupt)
        .map_err(|error| if interrupt.is_raised() { error } else { refused(told(&error)) })?;
    match (&hello.runtime.version, &hello.runtime.backend) {
        (None, _) => Err(refused("it does not say which version it is".to_owned())),
        (_, Some(backend)) if *backend != own.to_string() => {
            Err(refused(format!("it computes on {backend} and this program on {own}")))
        }
        _ => Ok(ReferenceRun { program, hello }),
    }
}

/// A sweep that is settled.
struct Sweep<'a> {
    arguments: &'a SweepArgs,
    interrupt: &'a Interrupt,
    program: WorkerProgram,
    reference: Option<ReferenceRun>,
    resolved: Resolved,
    run: RunFacts,
    /// The result set to go on with, and what its provenance says.
    resumed: Option<(PathBuf, Provenance)>,
    factor: f64,
}

impl Sweep<'_> {
    fn carry_out(&self) -> anyhow::Result<Exit> {
        let foresight = Foresight {
            arguments: self.arguments,
            run: &self.run,
            budget: Budget::of(&self.run.machine, self.run.backend),
            factor: self.factor,
            max_tokens: self.resolved.max_tokens,
        };
        let ignore = self.arguments.roster.ignore_oom_record
            || std::env::var_os(oom_record::IGNORE).is_some_and(|value| value == "1");
        let record = OomRecord::open(cache_folder(), ignore);
        let previous = self.previous();
        if self.arguments.roster.plan {
            return self.show_plan(&foresight, &record, &previous);
        }
        let interrupted = || self.interrupt.is_raised();
        let kinds = (self.program.foreign, self.resolved.first_look);
        let mut looking = Looking::new(&self.arguments.quiet, self.run.backend, kinds);
        let items = Conductor::items(&self.resolved);
        // A sweep that will start nothing has nothing to wait for.
        looking.gate.enabled &= items.iter().any(|item| self.is_measured(item, &foresight, &record));
        let floor = noise_floor_pct(self.run.machine.host_id.as_deref(), self.run.backend);
        let host = HostWatch::begin(&looking, self.run.machine.chip.as_deref(), floor, &interrupted)?;
        let Some(host) = host else {
            complain("interrupted before anything was measured; nothing was written");
            return Ok(Exit::Interrupted);
        };
        let measured = |item: &Item| self.is_measured(item, &foresight, &record);
        let roster = &self.arguments.roster;
        let control = match &self.resumed {
            Some((_, first)) => {
                control_rows::again(&first.settings, roster, &self.resolved, &items, &self.run.private)?
            }
            None => control_rows::choose(roster, &self.resolved, &items, measured)?,
        };
        let conductor = Conductor {
            arguments: self.arguments,
            interrupt: self.interrupt,
            program: &self.program,
            reference: self.reference.as_ref(),
            resolved: &self.resolved,
            run: &self.run,
            foresight: &foresight,
            host: &host,
            control: control.as_ref().map(|one| (one.place.as_place(&self.resolved), one.cell.clone())),
        };
        let controls =
            Controls::new(control.as_ref().map(|one| one.every), self.band(floor, control.is_some()));
        let mut sets = self.sets(control.as_ref(), &controls)?;
        parts::begin(&mut sets, &self.run, self.arguments, &host.at_begin())?;
        let gemm = RefCell::new(None);
        // What is to cool is what computes.
        let kernel = || match self.run.backend {
            Backend::Cpu => gemm.borrow_mut().get_or_insert_with(gemm::Kernel::new).as_mut()?.control_rate(),
            Backend::Cuda | Backend::Metal => {
                let memory = self.run.machine.device_memory_bytes(self.run.backend);
                let found =
                    device_stream::measure(&self.program, memory, self.arguments.timeout, &interrupted);
                found.ok().map(|found| found.best_bytes_per_second)
            }
        };
        let waits = Waits::new(&self.arguments.conditions, &kernel, &interrupted);
        let progress = SweepProgress::new(&self.work(&items), self.arguments.shape.reps.get());
        let mut state = State::new(sets, controls, waits, record, progress);
        let outcome = conductor.conduct(&mut state);
        state.progress.close();
        if let Err(error) = parts::end(&mut state.sets, &host.at_end()) {
            complain(&format!("note: what was seen of the host could not be kept: {}", told(&error)));
        }
        self.end(outcome, &mut state, &previous)
    }

    fn end(
        &self,
        outcome: anyhow::Result<LeftOff>,
        state: &mut State<'_>,
        previous: &Previous,
    ) -> anyhow::Result<Exit> {
        let waiting = control_rows::waiting(&state.sets.main.rows(), state.controls.waiting());
        let concluded = outcome.and_then(|left_off| Self::conclude(&left_off, &waiting, &mut state.sets));
        let rows = state.sets.main.rows();
        let reference = state.sets.reference.as_ref().map(super::results::Results::rows);
        let (completeness, finished, exit) = match concluded {
            Ok(concluded) => concluded,
            Err(error) => {
                if !rows.is_empty() {
                    // What was measured is shown even when it cannot be kept.
                    let reason = Some(told(&error));
                    let partial = Completeness::Partial { reason, torn: false };
                    if let Err(also) = self.show(&rows, reference.as_deref(), &partial) {
                        complain(&format!("error: {}", told(&also)));
                    }
                    if let Some(path) = state.sets.main.path() {
                        let path = path.display();
                        complain(&format!("what was measured so far is in {path}; --resume goes on with it"));
                    }
                }
                return Err(error);
            }
        };
        if finished.is_empty() {
            complain("interrupted before the first row; nothing was written");
            return Ok(exit);
        }
        self.show(&rows, reference.as_deref(), &completeness)?;
        for finished in &finished {
            let rows = if finished.rows == 1 { "1 row" } else { &format!("{} rows", finished.rows) };
            complain(&format!("wrote {} ({rows}), its samples and its provenance", finished.csv.display()));
        }
        if exit == Exit::Interrupted {
            if !waiting.is_empty() {
                let waiting = waiting.join(", ");
                complain(&format!("no control after the rows of {waiting} has judged them yet"));
            }
            complain("go on with the same command and --resume");
            return Ok(exit);
        }
        if let Some(why) = nothing_valid(&rows) {
            complain(&why);
        }
        if let Some(why) =
            reference.and_then(|reference| no_reference_rows(&without_reference(&rows, &reference)))
        {
            complain(&why);
        }
        Ok(self.held_against(previous, &rows, exit))
    }

    /// A sweep that measured less than the last one did not do well, whatever its rows say.
    fn held_against(&self, previous: &Previous, rows: &[AnyRow], exit: Exit) -> Exit {
        let whole = !self.resolved.single && self.arguments.roster.rerun.is_none();
        match previous.more_than(rows, &self.resolved.lengths).filter(|_| whole) {
            Some(why) if self.arguments.roster.allow_fewer => {
                complain(&format!("note: {why}"));
                exit
            }
            Some(why) => {
                complain(&why);
                if exit == Exit::Fine { Exit::Failure } else { exit }
            }
            None => exit,
        }
    }

    fn conclude(
        left_off: &LeftOff,
        waiting: &[String],
        sets: &mut Sets,
    ) -> anyhow::Result<(Completeness, Vec<Finished>, Exit)> {
        match left_off {
            LeftOff::AtTheEnd => {
                let rows = sets.main.rows();
                let own = exit_of(&rows.iter().map(AnyRow::status).collect::<Vec<Status>>());
                let exit =
                    sets.reference.as_ref().map(super::results::Results::rows).map_or(own, |reference| {
                        exit_beside(own, &reference, &without_reference(&rows, &reference))
                    });
                Ok((Completeness::Complete, sets.complete()?, exit))
            }
            LeftOff::Interrupted(left) => {
                let mut reason = format!("interrupted; not measured: {}", left.join(", "));
                if !waiting.is_empty() {
                    reason = format!("{reason}; no control after them yet: {}", waiting.join(", "));
                }
                let finished = sets.finish_partial(&reason)?;
                Ok((Completeness::Partial { reason: Some(reason), torn: false }, finished, Exit::Interrupted))
            }
        }
    }

    /// New sets, or those to go on with.
    fn sets(&self, control: Option<&Chosen>, controls: &Controls) -> anyhow::Result<Sets> {
        let mut main = self.run.provenance();
        if let Some(settings) = main.settings.as_object_mut() {
            let which = control.map(|one| one.json(&self.resolved, &self.run.private));
            settings.insert(control_rows::EVERY.to_owned(), json!(control.map_or(0, |one| one.every)));
            settings.insert(control_rows::CONTROL.to_owned(), json!(which));
            settings.insert(BAND.to_owned(), json!(control.map(|_| controls.band_pct())));
        }
        let name = self.file_name();
        let making = sets::Making {
            folder: &self.arguments.out,
            name: &name,
            main,
            control: controls.are_made().then(|| self.run.provenance_of("control", Runtime::Own)),
            reference: self
                .reference
                .as_ref()
                .map(|reference| self.run.provenance_of("reference", Runtime::Reference(&reference.hello))),
        };
        match &self.resumed {
            Some((path, _)) => Sets::resume(path, making),
            None => Sets::create(making),
        }
    }

    fn show_plan(
        &self,
        foresight: &Foresight<'_>,
        record: &OomRecord,
        previous: &Previous,
    ) -> anyhow::Result<Exit> {
        let planned = planned::plan(self.arguments, &self.resolved, foresight, record, previous);
        let text = match self.arguments.format {
            Format::Table => planned::table(&planned),
            Format::Json => serde_json::to_string_pretty(&planned)?,
        };
        say(&text).context("the plan cannot be printed to stdout")?;
        if planned::measures_anything(&planned) {
            return Ok(Exit::Fine);
        }
        complain("this sweep would measure nothing");
        Ok(Exit::InvalidOnly)
    }

    fn previous(&self) -> Previous {
        let private = |value: Value| self.run.private.json(value);
        Previous::read(
            &self.arguments.out,
            &Subject {
                host_id: self.run.machine.host_id.as_deref(),
                backend: self.run.backend,
                harness: self.run.harness,
                target: &private(json!(self.arguments.target)),
                models: &private(json!(self.arguments.models)),
                folder: self.run.settings.get("models_folder").unwrap_or(&Value::Null),
            },
        )
    }

    /// Whether a row is to be measured, as far as can be told before.
    fn is_measured(&self, item: &Item, foresight: &Foresight<'_>, record: &OomRecord) -> bool {
        let place = self.resolved.places.get(item.at);
        let alias = self.resolved.dedup.is_alias(item.at);
        place.is_some_and(|place| match &place.action {
            Action::Measure(folder) if !alias => foresight.forbids(folder, &item.cell, record).is_none(),
            _ => false,
        })
    }

    /// The band of the controls: that of the first part, in a sweep that goes on.
    fn band(&self, floor: Option<f64>, made: bool) -> f64 {
        let first = self.resumed.as_ref().and_then(|(_, first)| first.settings.get(BAND)?.as_f64());
        first.unwrap_or_else(|| told_band(self.arguments.roster.control_band, floor, made))
    }

    /// The work of a pass over each row: on a CPU it is computing, on a GPU reading.
    fn work(&self, items: &[Item]) -> Vec<u64> {
        let work = |item: &Item| match self.resolved.places.get(item.at).map(|place| &place.action) {
            _ if self.resolved.dedup.is_alias(item.at) => 0,
            Some(Action::Measure(folder)) if self.run.backend == Backend::Cpu => {
                estimated_parameters(folder).max(1)
            }
            Some(Action::Measure(folder)) => folder.weight_bytes().max(1),
            _ => 0,
        };
        items.iter().map(work).collect()
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
            harness: self.run.harness,
            kind: SetKind::Sweep,
            given: self.arguments.name.clone(),
        }
    }

    /// The rows, and those of the reference where there is one.
    fn show(
        &self,
        rows: &[AnyRow],
        reference: Option<&[AnyRow]>,
        completeness: &Completeness,
    ) -> anyhow::Result<()> {
        let text = match self.arguments.format {
            Format::Table => {
                let table = |rows: &[AnyRow]| render::terminal::table(rows, completeness, terminal_width());
                match (reference, &self.reference) {
                    (Some(theirs), Some(ReferenceRun { hello, .. })) if !theirs.is_empty() => {
                        let version = hello.runtime.version.as_deref().unwrap_or("unknown");
                        format!("{}\nthe reference, {version}:\n{}", table(rows), table(theirs))
                    }
                    _ => table(rows),
                }
            }
            Format::Json => {
                let mut document = render::json::document(rows, completeness);
                if let Some(reference) = reference {
                    document["reference_rows"] = json!(render::json::rows(reference));
                }
                serde_json::to_string_pretty(&document)?
            }
        };
        say(&text).context("the results cannot be printed to stdout; they are in the result files")
    }
}

fn terminal_width() -> Option<u16> {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|columns| *columns > 0)
}
