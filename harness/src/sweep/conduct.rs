//! Measures one row after another: ours, the reference's and the controls', each written before the next begins.

use std::collections::BTreeSet;

use anyhow::bail;
use jiff::Timestamp;
use mlxcel_reports::measure::Sample;
use mlxcel_reports::row::AnyRow;
use mlxcel_reports::status::{Exclusion, Rule, Skip, Status};

use super::attempts::Seat;
use super::controls::Controls;
use super::cooldown::Waits;
use super::foresight::Foresight;
use super::guards;
use super::host_watch::HostWatch;
use super::interrupt::Interrupt;
use super::judge::{Judged, Limits, Verdict, judge};
use super::oom_record::OomRecord;
use super::plan::{Action, Place};
use super::prepare::{Cell, Resolved};
use super::progress::{Aside, SweepProgress};
use super::record::{RunFacts, Runtime};
use super::references::{NoReference, NoReferences, withdraw};
use super::results::Results;
use super::resume::again;
use super::rows::Making;
use super::sets::Sets;
use crate::cli::SweepArgs;
use crate::host::device_stream;
use crate::host::thermal::Boot;
use crate::text::{complain, one_line};
use crate::worker::child::WorkerProgram;
use crate::worker::protocol::{Hello, Prompt};
use crate::worker::session::{Session, Surroundings, Task, measure};

/// A reference runtime that was heard.
#[derive(Debug)]
pub(super) struct ReferenceRun {
    pub(super) program: WorkerProgram,
    pub(super) hello: Hello,
}

/// What does not change while a sweep is conducted.
pub(super) struct Conductor<'a> {
    pub(super) arguments: &'a SweepArgs,
    pub(super) interrupt: &'a Interrupt,
    pub(super) program: &'a WorkerProgram,
    pub(super) reference: Option<&'a ReferenceRun>,
    pub(super) resolved: &'a Resolved,
    pub(super) run: &'a RunFacts,
    pub(super) foresight: &'a Foresight<'a>,
    pub(super) host: &'a HostWatch,
    /// The control checkpoint and its prompt.
    pub(super) control: Option<(&'a Place, Cell)>,
}

/// What changes.
pub(super) struct State<'a> {
    pub(super) sets: Sets,
    pub(super) controls: Controls,
    pub(super) waits: Waits<'a>,
    pub(super) oom: OomRecord,
    pub(super) progress: SweepProgress,
    /// Rows of ours without one of the reference.
    not_rows: NoReferences,
    measured: bool,
}

/// How a sweep left off.
#[derive(Debug)]
pub(super) enum LeftOff {
    AtTheEnd,
    /// Before these rows.
    Interrupted(Vec<String>),
}

/// A row to come: a place and a prompt length of it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) at: usize,
    pub(super) cell: Cell,
}

/// A measurement, before it is a row of a set.
pub(super) struct Outcome {
    pub(super) row: AnyRow,
    pub(super) samples: Vec<Sample>,
    session: Session,
    bad_input: bool,
    detail: String,
}

impl<'a> State<'a> {
    pub(super) fn new(
        sets: Sets,
        controls: Controls,
        waits: Waits<'a>,
        oom: OomRecord,
        progress: SweepProgress,
    ) -> Self {
        let mut controls = controls;
        // Of a sweep that goes on, what its parts before have left.
        let rows = |set: &Option<Results>| set.as_ref().map(Results::rows).unwrap_or_default();
        controls.go_on(&rows(&sets.control), &sets.main.rows(), &rows(&sets.reference));
        let not_rows = NoReferences::of(&sets.main);
        Self { sets, controls, waits, oom, progress, not_rows, measured: false }
    }
}

impl Conductor<'_> {
    /// Every row to come, in the order of measurement.
    pub(super) fn items(resolved: &Resolved) -> Vec<Item> {
        let cells = |at: &usize| {
            let cells = resolved.places.get(*at).map(|place| resolved.cells(place)).unwrap_or_default();
            cells.into_iter().map(|cell| Item { at: *at, cell }).collect::<Vec<_>>()
        };
        resolved.order.iter().flat_map(cells).collect()
    }

    /// Conducts the sweep.
    pub(super) fn conduct(&self, state: &mut State<'_>) -> anyhow::Result<LeftOff> {
        let mut items = Self::items(self.resolved);
        self.resolved.dedup.tell();
        self.planned_later(state, &mut items)?;
        if !state.controls.waiting().is_empty() {
            // Rows of the parts before are judged before anything is made of them.
            if !self.control(state)? {
                return Ok(LeftOff::Interrupted(vec!["the first control".to_owned()]));
            }
            state.measured = true;
        }
        let all: Vec<(usize, Item)> = items.iter().cloned().enumerate().collect();
        let mut left_off = self.rows(state, &all)?;
        if matches!(left_off, LeftOff::AtTheEnd) {
            // Those behind a row that the last controls made invalid are measured after all.
            left_off = self.rows(state, &self.orphans(state, &items))?;
        }
        self.mark_orphans(state, &items)?;
        Ok(left_off)
    }

    /// These rows, by their numbers in the order of measurement, and a control after them.
    fn rows(&self, state: &mut State<'_>, items: &[(usize, Item)]) -> anyhow::Result<LeftOff> {
        for (done, (number, item)) in items.iter().enumerate() {
            let Some(place) = self.resolved.places.get(item.at) else { continue };
            let left = || {
                let left = items.iter().skip(done).filter_map(|(_, item)| self.resolved.places.get(item.at));
                LeftOff::Interrupted(left.map(|place| place.model.clone()).collect())
            };
            if self.interrupt.is_raised() {
                return Ok(left());
            }
            state.progress.begin(*number, &place.model);
            if !self.item(state, item, place)? {
                return Ok(left());
            }
        }
        self.rows_of_the_gone(state)?;
        if !self.last_control(state)? {
            return Ok(LeftOff::Interrupted(vec!["the last control".to_owned()]));
        }
        Ok(LeftOff::AtTheEnd)
    }

    /// One row; false when the sweep was interrupted meanwhile.
    fn item(&self, state: &mut State<'_>, item: &Item, place: &Place) -> anyhow::Result<bool> {
        let dedup = &self.resolved.dedup;
        let path = self.path_of(place);
        if let Some(row) = state.sets.main.find(&path, item.cell.requested) {
            let (pair, retry) = ((path.as_str(), item.cell.requested), self.arguments.retry);
            let done = self.reference.is_none()
                || row.figures().is_none()
                || state.not_rows.is_settled(state.sets.reference.as_ref(), row, pair, retry);
            let orphan = self.is_orphan(state, item, row);
            if done && !orphan && !again(row, retry, &state.sets.main.lost) {
                return Ok(true);
            }
        }
        let seat = state.sets.main.seat(&path, item.cell.requested);
        let task = self.task(place, &item.cell);
        let making = self.making(Runtime::Own, place, &item.cell, &task, &seat);
        let unmeasured = |exclusion: Exclusion, detail: &str| making.unmeasured(exclusion, detail);
        let alias = dedup.measured_for(item.at, &|at| self.has_numbers(state, at, item.cell.requested));
        let row = match (&place.action, alias) {
            (_, Some((survivor, why))) => {
                let name = self.resolved.places.get(survivor).map_or_else(String::new, |at| at.model.clone());
                unmeasured(Skip::DuplicateOf(name).into(), &why)
            }
            (Action::Record(exclusion, detail), None) => unmeasured(exclusion.clone(), detail),
            (Action::Measure(folder), None) => {
                if let Some((exclusion, why)) = self.foresight.forbids(folder, &item.cell, &state.oom) {
                    unmeasured(exclusion, &why)
                } else {
                    return self.measured_item(state, item, place, &seat);
                }
            }
        };
        state.progress.ended(&summary(&row));
        state.sets.main.put(row, Vec::new())?;
        Ok(true)
    }

    /// One row that is measured, with what belongs around it.
    fn measured_item(
        &self,
        state: &mut State<'_>,
        item: &Item,
        place: &Place,
        seat: &Seat,
    ) -> anyhow::Result<bool> {
        if state.controls.due_before_row(!state.measured) && !self.control(state)? {
            return Ok(false);
        }
        let task = self.task(place, &item.cell);
        let Some(outcome) = self.measure(state, Runtime::Own, place, &item.cell, &task, seat)? else {
            return Ok(false);
        };
        // With rows before it, what this length makes of the request is one more.
        if self.resolved.single && outcome.bad_input && state.sets.main.rows().is_empty() {
            bail!("{}", outcome.detail);
        }
        let Outcome { row, samples, session, .. } = outcome;
        self.record_want_of_memory(state, place, &item.cell, &row, &session);
        state.measured = true;
        state.progress.ended(&summary(&row));
        // What the reference did belongs to the row before this one.
        state.not_rows.forget(&mut state.sets.main, &self.path_of(place), item.cell.requested)?;
        state.sets.main.put(row, samples)?;
        state.controls.row(seat.order_index);
        match self.reference {
            Some(reference) => self.reference_row(state, reference, place, &item.cell, &session),
            None => Ok(true),
        }
    }

    /// Only what the evidence says is a want of memory is recorded, and only of a run that did not ask for the whole memory
    /// of the host by mistake.
    fn record_want_of_memory(
        &self,
        state: &mut State<'_>,
        place: &Place,
        cell: &Cell,
        row: &AnyRow,
        session: &Session,
    ) {
        let Action::Measure(folder) = &place.action else { return };
        if row.status() != Status::Excluded(Exclusion::Skip(Skip::Oom)) {
            return;
        }
        if let Some(key) = self.foresight.oom_key(folder) {
            let peak = session.ending.as_ref().and_then(|ending| ending.peak_memory_bytes);
            state.oom.add(key, cell.prompt_tokens, &place.model, peak);
        }
    }

    /// The same checkpoint in the reference runtime; false when the sweep was interrupted meanwhile.
    fn reference_row(
        &self,
        state: &mut State<'_>,
        reference: &ReferenceRun,
        place: &Place,
        cell: &Cell,
        own: &Session,
    ) -> anyhow::Result<bool> {
        let Some(ours) = own.warmup.as_ref().and_then(|warmup| Some((warmup, warmup.prompt.clone()?))) else {
            return self
                .no_reference_row(state, place, cell, "our own worker gave no prompt to run")
                .map(|()| true);
        };
        let (ours, prompt) = ours;
        let task = Task {
            prompt: Prompt::Tokens(prompt),
            suppress: ours.suppressed.clone().unwrap_or_default(),
            ..self.task(place, cell)
        };
        let path = self.path_of(place);
        let reference_set = state.sets.reference.as_ref();
        let seat = reference_set.map_or_else(|| Seat::new(0), |set| set.seat(&path, cell.requested));
        let runtime = Runtime::Reference(&reference.hello);
        let aside = Aside::Reference(place.model.clone());
        state.progress.aside(Some(aside.clone()));
        let outcome = self.measure(state, runtime, place, cell, &task, &seat);
        state.progress.aside(None);
        let Some(outcome) = outcome? else { return Ok(false) };
        let why = not_a_reference(&outcome, ours.prompt_sha256.as_str(), &task, &reference.hello);
        if let Some(why) = why {
            return self.no_reference_row(state, place, cell, &why).map(|()| true);
        }
        state.progress.told_aside(&aside, &summary(&outcome.row));
        if let Some(set) = &mut state.sets.reference {
            set.put(outcome.row, outcome.samples)?;
        }
        state.controls.reference(seat.order_index);
        Ok(true)
    }

    fn no_reference_row(
        &self,
        state: &mut State<'_>,
        place: &Place,
        cell: &Cell,
        why: &str,
    ) -> anyhow::Result<()> {
        let (why, path) = (self.run.private.text(why), self.path_of(place));
        complain(&format!("no reference row: {} at {}: {}", place.model, cell.requested, one_line(&why)));
        if let Some(set) = &mut state.sets.reference {
            withdraw(set, &path, cell.requested, &why)?;
        }
        let one = NoReference { model: place.model.clone(), path, requested: cell.requested, why };
        state.not_rows.add(&mut state.sets.main, one)
    }

    /// Runs one worker and makes its row; `None` when the sweep was interrupted meanwhile.
    pub(super) fn measure(
        &self,
        state: &mut State<'_>,
        runtime: Runtime<'_>,
        place: &Place,
        cell: &Cell,
        task: &Task,
        seat: &Seat,
    ) -> anyhow::Result<Option<Outcome>> {
        let Action::Measure(folder) = &place.action else {
            bail!("{} is no checkpoint that can be measured", place.path.display())
        };
        let waited = state.waits.before_row();
        if self.interrupt.is_raised() {
            return Ok(None);
        }
        let memory = self.run.machine.device_memory_bytes(self.run.backend);
        let device = || {
            device_stream::measure(self.program, memory, self.arguments.timeout, &|| {
                self.interrupt.is_raised()
            })
        };
        self.host.before_row(&device);
        let making = self.making(runtime, place, cell, task, seat);
        let program = match (runtime, self.reference) {
            (Runtime::Reference(_), Some(reference)) => &reference.program,
            _ => self.program,
        };
        let session = measure(
            task,
            &mut Surroundings {
                program,
                interrupted: &|| self.interrupt.is_raised(),
                progress: &mut |step| state.progress.step(step),
            },
        );
        state.waits.measured(folder.weight_bytes());
        let limits = Limits {
            max_spread_pct: self.arguments.conditions.max_spread,
            memory_bytes: self.foresight.budget.as_ref().map(|budget| budget.bytes),
        };
        let Verdict::Row(judged) = judge(task, &session, &limits) else {
            return Ok(None);
        };
        let mut around = self.host.around(session.measured, waited.time);
        around.remark = waited.remark;
        let mut row = making.measured(&session, &judged, &around);
        if row.status() == Status::Excluded(Exclusion::Invalid(Rule::ImplausibleBandwidth)) {
            around.stream_bytes_s = self.host.stream_again(&device);
            row = making.measured(&session, &judged, &around);
        }
        let Judged { samples, bad_input, detail, .. } = judged;
        Ok(Some(Outcome { row, samples, session, bad_input, detail }))
    }

    pub(super) fn making<'b>(
        &'b self,
        runtime: Runtime<'b>,
        place: &'b Place,
        cell: &'b Cell,
        task: &'b Task,
        seat: &'b Seat,
    ) -> Making<'b> {
        let foreign = (self.program.foreign && matches!(runtime, Runtime::Own))
            .then(|| format!("measured by {} and not by this executable", self.program.path.display()));
        Making {
            run: self.run,
            foresight: self.foresight,
            remarks: &self.resolved.remarks,
            runtime,
            foreign,
            place,
            cell,
            task,
            seat,
            started_at: Timestamp::now(),
            uptime_s: Boot::of_this_host().uptime_seconds,
        }
    }

    pub(super) fn task(&self, place: &Place, cell: &Cell) -> Task {
        Task {
            path: place.path.clone(),
            prompt: Prompt::Synthetic(cell.prompt_tokens),
            prompt_tokens: cell.prompt_tokens,
            max_tokens: self.resolved.max_tokens,
            prefill_chunk: self.arguments.shape.prefill_chunk.get(),
            reps: self.arguments.shape.reps.get(),
            timeout: self.arguments.timeout,
            suppress_eos: !self.arguments.shape.no_ignore_eos,
            suppress: Vec::new(),
            tell_tokens: self.reference.is_some(),
        }
    }
}

/// Why what a reference did is no measurement to compare with; `None` where it is one, or failed for a reason that a row
/// can say.
fn not_a_reference(outcome: &Outcome, prompt_sha256: &str, task: &Task, first: &Hello) -> Option<String> {
    let now = outcome.session.hello.as_ref();
    if let Some(why) = now.and_then(|now| guards::changed_runtime(&first.runtime, &now.runtime)) {
        return Some(why);
    }
    if let Status::Excluded(Exclusion::Invalid(
        rule @ (Rule::ShortGeneration | Rule::NoTokens | Rule::PromptMismatch | Rule::Inconclusive),
    )) = outcome.row.status()
    {
        return Some(format!("{rule}: {}", outcome.detail));
    }
    let generations = || outcome.session.warmup.iter().chain(&outcome.session.generated);
    if generations().any(|one| one.prompt_sha256 != prompt_sha256) {
        return Some("it ran another prompt of the same length".to_owned());
    }
    if let Some(warmup) = outcome.session.warmup.as_ref().filter(|_| task.suppress_eos) {
        let suppressed: BTreeSet<u32> = warmup.suppressed.iter().flatten().copied().collect();
        if suppressed.is_empty() || !task.suppress.iter().all(|token| suppressed.contains(token)) {
            return Some(
                "it could not suppress the end-of-sequence tokens that our own worker suppressed".to_owned(),
            );
        }
    }
    None
}

/// One line for stderr.
pub(super) fn summary(row: &AnyRow) -> String {
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
