//! What is settled before the first checkpoint: who measures, which folders, which shape, and the facts of
//! the run.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use jiff::ZonedDateTime;
use mlxcel_reports::row::Backend;
use serde_json::json;

use super::dedup::Dedup;
use super::guards::TreeCheck;
use super::interrupt::Interrupt;
use super::plan::{self, Place};
use super::record::RunFacts;
use crate::cli::{MODELS, ShapeArgs, SweepArgs};
use crate::default_models::{self, DefaultModels};
use crate::exit::{EndsWith, Exit};
use crate::provenance::binary::Executable;
use crate::provenance::machine::Machine;
use crate::provenance::private::Abbreviations;
use crate::provenance::{environment, sha256_hex};
use crate::text::{complain, duration, tail};
use crate::worker::child::WorkerProgram;
use crate::worker::protocol::Hello;
use crate::worker::session::{Cut, Session, Surroundings, introduce};

/// The shape of the methodology: prompt and generated tokens.
const FULL_SHAPE: (u64, u64) = (512, 128);
/// The shape for the default models on the CPU backend, where the full one would take too long for a first
/// try.
const SMALL_SHAPE: (u64, u64) = (64, 16);
/// How long a worker may take to say who it is.
const INTRODUCTION: Duration = Duration::from_mins(3);

/// What a sweep is to do, after defaults and flags.
pub(super) struct Resolved {
    pub(super) places: Vec<Place>,
    /// Whether exactly one folder was named: then bad input is an error rather than a row.
    pub(super) single: bool,
    /// Whether the weights of all places are made up.
    pub(super) synthetic: bool,
    pub(super) prompt_tokens: u64,
    pub(super) max_tokens: u64,
    /// Which places are measured for others.
    pub(super) dedup: Dedup,
    /// Said in every row.
    pub(super) remarks: Vec<String>,
}

/// Who will measure. Also proves that a worker can be started at all.
pub(super) fn hello(program: &WorkerProgram, interrupt: &Interrupt) -> anyhow::Result<Hello> {
    let session = introduce(
        INTRODUCTION,
        &mut Surroundings { program, interrupted: &|| interrupt.is_raised(), progress: &mut |_| {} },
    );
    let said =
        session.ending.as_ref().map(|ending| tail(&ending.stderr, 600)).filter(|said| !said.is_empty());
    let said = said.map(|said| format!("; it said: {said}")).unwrap_or_default();
    match session {
        Session { hello: Some(hello), cut: None, .. } => Ok(hello),
        Session { cut: Some((_, Cut::Failed(failure))), .. } => {
            bail!("the worker cannot run: {}", failure.message)
        }
        Session { cut: Some((_, Cut::NotStarted(error))), .. } => Err(anyhow!(error))
            .with_context(|| format!("the worker {} cannot be started", program.path.display())),
        Session { cut: Some((_, Cut::Garbled(reason))), .. } => {
            bail!("the worker does not keep to the protocol: {reason}{said}")
        }
        Session { cut: Some((_, Cut::TimedOut(limit))), .. } => {
            bail!("the worker did not say who it is within {}{said}", duration(limit))
        }
        Session { cut: Some((_, Cut::Interrupted)), .. } => {
            bail!(EndsWith(Exit::Interrupted, "interrupted".to_owned()))
        }
        Session { ending, .. } => {
            let how =
                ending.map_or_else(|| "no end that could be observed".to_owned(), |ending| ending.describe());
            bail!("the worker ended with {how} before it said who it is{said}")
        }
    }
}

pub(super) fn backend(hello: &Hello) -> anyhow::Result<Backend> {
    let name = hello
        .runtime
        .backend
        .as_deref()
        .ok_or_else(|| anyhow!("the worker does not say which backend MLX runs on"))?;
    Ok(name.parse::<Backend>()?)
}

pub(super) fn resolve(
    arguments: &SweepArgs,
    named: Option<(Vec<Place>, bool)>,
    backend: Backend,
    interrupt: &Interrupt,
) -> anyhow::Result<Resolved> {
    let by_default = named.is_none();
    let mut remarks = Vec::new();
    let (places, single, synthetic) = if let Some((places, single)) = named {
        (places, single, false)
    } else {
        if plan::all(Path::new(MODELS)).is_ok() {
            complain("note: measuring the default models; `sweep all` measures those in the folder `models`");
        }
        let DefaultModels { folders, synthetic, remark } = default_models::prepare(interrupt)?;
        remarks.extend(remark);
        (plan::listed(&folders), false, synthetic)
    };
    let (prompt_tokens, max_tokens, remark) = shape(&arguments.shape, by_default, backend);
    if let Some(remark) = remark {
        complain(&format!("note: {remark}; --prompt-tokens 512 --max-tokens 128 runs the full shape"));
        remarks.push(remark);
    }
    let dedup = Dedup::of(&places, arguments.dedup());
    Ok(Resolved { places, single, synthetic, prompt_tokens, max_tokens, dedup, remarks })
}

/// Prompt and generated tokens, and a remark where they are not the usual ones.
fn shape(given: &ShapeArgs, default_models: bool, backend: Backend) -> (u64, u64, Option<String>) {
    let number = |value: Option<std::num::NonZeroU64>, default| value.map_or(default, std::num::NonZero::get);
    if default_models
        && backend == Backend::Cpu
        && given.prompt_tokens.is_none()
        && given.max_tokens.is_none()
    {
        let (prompt, generated) = SMALL_SHAPE;
        let remark = format!(
            "small shape of the default models on the CPU backend: {prompt} prompt tokens, {generated} generated"
        );
        return (prompt, generated, Some(remark));
    }
    (number(given.prompt_tokens, FULL_SHAPE.0), number(given.max_tokens, FULL_SHAPE.1), None)
}

pub(super) fn facts(
    arguments: &SweepArgs,
    resolved: &Resolved,
    executable: Executable,
    tree: TreeCheck,
    hello: Hello,
    backend: Backend,
) -> RunFacts {
    let workspace = executable.stamp.workspace_root.clone();
    let now = ZonedDateTime::now();
    let started_at = now.timestamp();
    let unique = sha256_hex(
        format!("{} {} {}", started_at.as_nanosecond(), std::process::id(), executable.sha256).as_bytes(),
    );
    let run_id = format!("{}-{}", started_at.strftime("%Y%m%dT%H%M%SZ"), unique.get(..8).unwrap_or_default());
    let settings = json!({
        "target": arguments.target,
        "models": arguments.models,
        "out": arguments.out,
        "suffix": arguments.suffix,
        "prompt_tokens": resolved.prompt_tokens,
        "max_tokens": resolved.max_tokens,
        "reps": arguments.shape.reps,
        "prefill_chunk": arguments.shape.prefill_chunk,
        "timeout_seconds": arguments.timeout.as_secs_f64(),
        "worker_program": arguments.worker_program,
        "planned": resolved.places.iter().map(|place| place.path.display().to_string()).collect::<Vec<_>>(),
        "dedup": format!("{:?}", arguments.dedup()).to_lowercase(),
        "duplicates": resolved.dedup.json(),
        "remarks": resolved.remarks,
    });
    RunFacts {
        run_id,
        date: now.date(),
        started_at,
        executable,
        hello,
        backend,
        machine: Machine::this(),
        private: Abbreviations::new(
            tree.comparison.root.as_deref().or(Some(&workspace)),
            std::env::home_dir(),
        ),
        tree,
        environment: environment::that_matter(std::env::vars_os()),
        argv: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        settings,
        synthetic: resolved.synthetic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn given(flags: &[&str]) -> anyhow::Result<ShapeArgs> {
        match Cli::try_parse_from(["mlxcel-bench", "sweep"].iter().chain(flags))?.command {
            Command::Sweep(arguments) => Ok(arguments.shape),
            other => bail!("{other:?}"),
        }
    }

    #[test]
    fn only_the_default_models_on_a_cpu_have_the_small_shape_and_it_is_told() -> anyhow::Result<()> {
        let none = given(&[])?;
        let (prompt, generated, remark) = shape(&none, true, Backend::Cpu);
        assert_eq!((prompt, generated), SMALL_SHAPE);
        assert!(remark.is_some_and(|remark| remark.contains("64 prompt tokens, 16 generated")));
        assert_eq!(shape(&none, true, Backend::Metal), (512, 128, None));
        assert_eq!(shape(&none, false, Backend::Cpu), (512, 128, None));
        Ok(())
    }

    #[test]
    fn a_flag_makes_the_shape_the_full_one() -> anyhow::Result<()> {
        assert_eq!(shape(&given(&["--max-tokens", "32"])?, true, Backend::Cpu), (512, 32, None));
        assert_eq!(shape(&given(&["--prompt-tokens", "7"])?, true, Backend::Cpu), (7, 128, None));
        Ok(())
    }
}
