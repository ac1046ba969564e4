//! `doctor`: how small a difference this host can tell from noise. What is measured and kept is `host`'s.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_reports::row::Backend;

use crate::cli::{DoctorArgs, ListFormat};
use crate::default_models;
use crate::exit::{EndsWith, Exit};
use crate::host::doctor::{
    self, Conditions, ControlFacts, Diagnosis, HostFacts, Noise, ProgramFacts, RunsTask,
};
use crate::host::quiet::{GateSettings, wait_on_this_host};
use crate::host::{
    Interval, Limits, Own, QuietOutcome, Watch, WatchSettings, device_stream, gemm, llc, stream,
};
use crate::provenance::binary::Executable;
use crate::provenance::machine::Machine;
use crate::sweep::interrupt::Interrupt;
use crate::text::{complain, duration, say, tail};
use crate::worker::child::WorkerProgram;
use crate::worker::protocol::Hello;
use crate::worker::session::{Cut, Session, Surroundings, Task, introduce};

/// How long a worker may take to say who it is.
const INTRODUCTION: Duration = Duration::from_mins(3);
/// Passes over memory and over matrices, and with --quick.
const PASSES: [usize; 2] = [20, 5];

pub(super) fn run(arguments: &DoctorArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::listen().context("the system takes no handler for Ctrl-C")?;
    let interrupted = || interrupt.is_raised();
    let executable = Executable::this()?;
    let program = match &arguments.worker_program {
        Some(path) => WorkerProgram::scripted(path.clone()),
        None => {
            WorkerProgram::this_executable().context("the system does not say where this executable lies")?
        }
    };
    let hello = hello(&program, &interrupted)?;
    let backend: Backend = hello
        .runtime
        .backend
        .as_deref()
        .context("the worker does not say which backend MLX runs on")?
        .parse()?;
    let model = model(arguments.model.as_deref(), &interrupt)?;
    let folder = CheckpointFolder::open(&model)?;
    let task = task(arguments, model, backend);
    let machine = Machine::this();
    let quiet = gate(arguments, &interrupted)?;
    // Cache, memory and matrices come first, while nothing of ours has made the host warm.
    let cache = llc::last_level_cache(machine.chip.as_deref())?;
    let [all, few] = PASSES;
    let passes = if arguments.quick { few } else { all };
    let stream = stream::measure(cache.as_ref(), passes)
        .map_err(|error| complain(&format!("note: how fast memory is read was not measured: {error}")))
        .ok();
    let device_stream = match backend {
        Backend::Cpu => None,
        Backend::Cuda | Backend::Metal => {
            device_stream::measure(&program, machine.device_memory_bytes(backend), INTRODUCTION, &interrupted)
                .inspect_err(|why| {
                    complain(&format!("note: how fast the GPU reaches its memory is not known: {why}"));
                })
                .ok()
        }
    };
    let gemm = gemm::measure(passes);
    // Its limits are its own: a gate that lets more pass is no reason to see less afterwards.
    let watch = Watch::start(WatchSettings::default())
        .context("the host cannot be watched: no thread can be started")?;
    let rounds = arguments.rounds.unwrap_or(if arguments.quick { 4 } else { 8 });
    let begun = Instant::now();
    let arms = doctor::measure(&mut RunsTask {
        task: task.clone(),
        rounds,
        program: &program,
        interrupted: &interrupted,
        tell: &mut |words| complain(words),
    })?;
    let ended = Instant::now();
    watch.read_thermal();
    let id = folder.id_of_headers();
    let diagnosis = Diagnosis {
        measured_at: Timestamp::now(),
        host: HostFacts {
            hardware: machine.hardware(backend),
            host_id: machine.host_id,
            backend: backend.to_string(),
            os: machine.os,
            kernel_version: machine.kernel_version,
            boot_time_unix_seconds: machine.boot_time_unix_seconds,
        },
        program: ProgramFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            executable_sha256: executable.sha256,
            optimized: !cfg!(debug_assertions),
            foreign_worker: program.foreign.then(|| "scripted worker".to_owned()),
            mlx_version: hello.runtime.mlx_version,
            libmlx_sha256: hello.runtime.mlx_library_sha256,
        },
        control: ControlFacts {
            model: name_of(&task.path),
            checkpoint_id_level: id.level,
            checkpoint_id: id.digest,
            prompt_tokens: task.prompt_tokens,
            max_tokens: task.max_tokens,
            reps: task.reps,
        },
        conditions: conditions(&quiet, &watch, &watch.between(begun, ended), (begun, ended)),
        cache,
        stream,
        device_stream,
        gemm,
        noise: arms
            .by_metric()
            .filter_map(|(metric, first, second)| Noise::of(metric, first, second))
            .collect(),
    };
    conclude(&diagnosis, arguments)
}

fn conclude(diagnosis: &Diagnosis, arguments: &DoctorArgs) -> anyhow::Result<Exit> {
    let text = match arguments.format {
        ListFormat::Table => doctor::table(diagnosis),
        ListFormat::Json => serde_json::to_string_pretty(&doctor::json(diagnosis)?)?,
    };
    say(&text).context("cannot write to stdout")?;
    if diagnosis.conditions.is_contended() && !arguments.keep_contended {
        complain(
            "others were at work for over a fifth of the time, so nothing was kept; --keep-contended keeps it",
        );
        return Ok(Exit::Inconclusive);
    }
    let kept = doctor::keep(diagnosis)?;
    complain(&format!("kept in {}, its spreads in {}", kept.diagnosis.display(), kept.spreads.display()));
    if let Some(why) = diagnosis.conditions.disturbed() {
        complain(&format!("note: it is kept with a mark: {why}; `sweep` does not take it for its controls"));
    }
    Ok(Exit::Fine)
}

fn gate(arguments: &DoctorArgs, interrupted: &dyn Fn() -> bool) -> anyhow::Result<QuietOutcome> {
    let settings = GateSettings {
        enabled: !arguments.no_quiet_gate,
        limits: Limits { cpu_pct: arguments.quiet_limit, ..Limits::default() },
        hold: arguments.quiet_hold,
        limit: Some(arguments.quiet_timeout).filter(|limit| !limit.is_zero()),
        ..GateSettings::default()
    };
    if settings.enabled {
        complain(&format!("waiting until nobody else has been busy for {}", duration(settings.hold)));
    }
    wait_on_this_host(&Own::this_process(), &settings, interrupted, &mut |words| complain(words))
        .map_err(|error| EndsWith(Exit::Interrupted, error.to_string()).into())
}

fn conditions(
    quiet: &QuietOutcome,
    watch: &Watch,
    interval: &Interval,
    (begun, ended): (Instant, Instant),
) -> Conditions {
    let thermal = watch.thermal_between(begun, ended);
    let busiest =
        interval.busiest.as_ref().filter(|_| interval.contended_fraction.is_some_and(|share| share > 0.0));
    Conditions {
        quiet: quiet.state,
        quiet_wait_seconds: quiet.waited_seconds,
        contended_fraction: interval.contended_fraction,
        busiest: busiest.map(crate::host::Foreigner::describe),
        hottest_celsius: thermal.as_ref().and_then(|thermal| thermal.worst.hottest_celsius()),
        power: thermal.as_ref().and_then(|thermal| thermal.worst.power()),
        throttle: thermal.map(|thermal| thermal.throttle).unwrap_or_default(),
    }
}

fn model(named: Option<&Path>, interrupt: &Interrupt) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let models = default_models::prepare(interrupt)?;
    models
        .folders
        .into_iter()
        .next()
        .ok_or_else(|| anyhow!("there is no default model; name a checkpoint with --model"))
}

fn name_of(path: &Path) -> String {
    let canonical = std::fs::canonicalize(path);
    let path = canonical.as_deref().unwrap_or(path);
    path.file_name().map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn task(arguments: &DoctorArgs, path: PathBuf, backend: Backend) -> Task {
    let (prompt, generated, reps) = match (arguments.quick, backend) {
        (true, _) => (64, 32, 1),
        (false, Backend::Cpu) => (128, 64, 3),
        (false, _) => (512, 128, 3),
    };
    let number = |given: Option<std::num::NonZeroU64>, usual| given.map_or(usual, std::num::NonZero::get);
    let shape = (number(arguments.prompt_tokens, prompt), number(arguments.max_tokens, generated));
    Task::synthetic(path, shape, arguments.reps.map_or(reps, std::num::NonZero::get), arguments.timeout)
}

/// Who will measure. Also proves that a worker can be started at all.
fn hello(program: &WorkerProgram, interrupted: &dyn Fn() -> bool) -> anyhow::Result<Hello> {
    let session = introduce(INTRODUCTION, &mut Surroundings { program, interrupted, progress: &mut |_| {} });
    match session {
        Session { hello: Some(hello), cut: None, .. } => Ok(hello),
        Session { cut: Some((_, Cut::Interrupted)), .. } => {
            bail!(EndsWith(Exit::Interrupted, "interrupted".to_owned()))
        }
        Session { cut: Some((_, Cut::Failed(failure))), .. } => {
            bail!("the worker cannot run: {}", failure.message)
        }
        Session { cut: Some((_, Cut::NotStarted(error))), .. } => Err(anyhow!(error))
            .with_context(|| format!("the worker {} cannot be started", program.path.display())),
        Session { ending, .. } => {
            let how = ending.map_or_else(String::new, |ending| {
                format!(": {}; it said: {}", ending.describe(), tail(&ending.stderr, 600))
            });
            bail!("the worker did not say who it is{how}")
        }
    }
}
