//! What is settled before the first checkpoint: who measures, which folders, which shape, and the facts of
//! the run.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use jiff::ZonedDateTime;
use mlxcel_reports::row::{Backend, HarnessKind};
use serde_json::json;

use super::dedup::Dedup;
use super::foresight::NO_VISION;
use super::guards::TreeCheck;
use super::interrupt::Interrupt;
use super::key::{self, Heard};
use super::model_shape::ModelShape;
use super::order::order;
use super::plan::{self, Action, Place};
use super::record::RunFacts;
use super::rerun::{self, Only};
use super::resume;
use crate::cli::{Cooldown, MODELS, Order, ShapeArgs, SweepArgs, Target};
use crate::default_models::{self, DefaultModels};
use crate::exit::{EndsWith, Exit};
use crate::provenance::binary::Executable;
use crate::provenance::machine::Machine;
use crate::provenance::private::Abbreviations;
use crate::provenance::{environment, sha256_hex};
use crate::text::{complain, counted, duration, one_line, tail};
use crate::worker::child::WorkerProgram;
use crate::worker::protocol::Hello;
use crate::worker::session::{Cut, Session, Surroundings, introduce};

/// The shape of the methodology: prompt and generated tokens.
const FULL_SHAPE: (u64, u64) = (512, 128);
/// The shape for the default models with MLX's own kernels on a CPU, where the full one would take too long for a
/// first try.
const SMALL_SHAPE: (u64, u64) = (64, 16);
/// How long a worker may take to say who it is.
const INTRODUCTION: Duration = Duration::from_mins(3);

/// What a sweep is to do, after defaults and flags.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Resolved {
    pub(super) places: Vec<Place>,
    /// Whether exactly one folder was named: then bad input is an error rather than a row.
    pub(super) single: bool,
    /// Whether the weights of all places are made up.
    pub(super) synthetic: bool,
    /// Whether neither models nor a shape were named.
    pub(super) first_look: bool,
    /// Requested lengths of the prompt, rising.
    pub(super) lengths: Vec<u64>,
    /// Whether a context shortens a prompt instead of making it an error.
    pub(super) capped: bool,
    /// Of a rerun, the rows that are measured.
    pub(super) only: Option<Only>,
    pub(super) max_tokens: u64,
    /// Places in the order of measurement.
    pub(super) order: Vec<usize>,
    /// What the order was shuffled by.
    pub(super) seed: u64,
    /// Names of the folders that an image sweep leaves out.
    pub(super) left_out: Vec<String>,
    /// Which places are measured for others.
    pub(super) dedup: Dedup,
    /// Said in every row.
    pub(super) remarks: Vec<String>,
}

/// A prompt length of one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    /// What was asked for.
    pub(super) requested: u64,
    /// What is run.
    pub(super) prompt_tokens: u64,
    /// Why these differ, and the like.
    pub(super) remark: Option<String>,
}

impl Resolved {
    /// The cells of a place: one for each length, whatever becomes of them.
    pub(super) fn cells(&self, place: &Place) -> Vec<Cell> {
        let context = match &place.action {
            Action::Measure(folder) => ModelShape::of(folder).context_length.filter(|_| self.capped),
            Action::Record(..) => None,
        };
        let mut cells: Vec<Cell> = Vec::new();
        for requested in self.lengths.iter().copied() {
            let cell = cell(requested, context, self.max_tokens);
            match cells.last_mut() {
                // Two prompts that the context makes the same are one measurement.
                Some(last) if last.prompt_tokens == cell.prompt_tokens => {
                    let also = format!("the same prompt as for {requested} requested tokens");
                    last.remark =
                        Some(last.remark.take().map_or(also.clone(), |remark| format!("{remark}; {also}")));
                }
                _ => cells.push(cell),
            }
        }
        // A control that is none of the rows to measure again is measured as it is.
        let again = |only: &&Only| only.keys().any(|(model, _)| *model == place.model);
        if let (Some(only), Action::Measure(_)) = (self.only.as_ref().filter(again), &place.action) {
            cells.retain_mut(|cell| {
                let said = only.get(&(place.model.clone(), cell.requested));
                if let Some(said) = said {
                    cell.remark =
                        Some(cell.remark.take().map_or(said.clone(), |own| format!("{own}; {said}")));
                }
                said.is_some()
            });
        }
        cells
    }

    /// The order by another seed.
    pub(super) fn shuffle(&mut self, by: Order, seed: u64) {
        self.seed = seed;
        self.order = order(&self.places, &self.dedup, by, seed);
    }

    /// The one length of all prompts; `None` where they differ.
    pub(super) fn only_length(&self) -> Option<u64> {
        let mut cells = self.places.iter().flat_map(|place| self.cells(place));
        let first = cells.next()?.prompt_tokens;
        cells.all(|cell| cell.prompt_tokens == first).then_some(first)
    }
}

fn cell(requested: u64, context: Option<u64>, max_tokens: u64) -> Cell {
    let most = context.map(|context| (context, context.saturating_sub(max_tokens)));
    match most {
        // No prompt at all leaves room: nothing to cap, and `foresight` does not start it.
        Some((context, most)) if most < requested && most > 0 => Cell {
            requested,
            prompt_tokens: most,
            remark: Some(format!(
                "the context of {context} tokens caps the prompt of {requested} at {most}, with {max_tokens} to generate"
            )),
        },
        _ => Cell { requested, prompt_tokens: requested, remark: None },
    }
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
        let models = if arguments.roster.plan {
            // A plan fetches and makes nothing.
            default_models::at_hand()?.ok_or_else(|| {
                anyhow!(
                    "the default models are not at hand, so there is nothing to plan with: `sweep` without --plan fetches \
                     and makes them; or name a folder"
                )
            })?
        } else {
            default_models::prepare(interrupt)?
        };
        let DefaultModels { folders, synthetic, remark } = models;
        remarks.extend(remark);
        (plan::listed(&folders), false, synthetic)
    };
    let (lengths, max_tokens, remark) = shape(&arguments.shape, by_default, mlx_on_cpu(backend));
    let first_look =
        by_default && arguments.shape.prompt_tokens.is_empty() && arguments.shape.max_tokens.is_none();
    if let Some(remark) = remark {
        complain(&format!("note: {remark}; --prompt-tokens 512 --max-tokens 128 runs the full shape"));
        remarks.push(remark);
    }
    if !arguments.quiet.quiet_ignore.is_empty() {
        let ignored = arguments.quiet.quiet_ignore.iter().map(one_line).collect::<Vec<_>>().join(", ");
        remarks.push(format!("processes that never counted as busy (--quiet-ignore): {ignored}"));
    }
    if let Some(limit) = arguments.quiet.watch_limit {
        remarks.push(format!("others counted as busy from {limit} % of a core on (--watch-limit)"));
    }
    let (places, only) = match arguments.roster.rerun.as_deref() {
        Some(file) => {
            let (retry, lengths) = (arguments.retry, lengths.as_slice());
            let (places, only) =
                rerun::places(places, &rerun::Wanted { file, retry, lengths, max_tokens, single })?;
            (places, Some(only))
        }
        None => (places, None),
    };
    let (places, left_out) = roster(arguments, places)?;
    let dedup = Dedup::of(&places, arguments.dedup());
    let seed = arguments.roster.seed.unwrap_or_else(new_seed);
    let order = order(&places, &dedup, arguments.roster.order, seed);
    // A length that was named for one folder is meant; a list, or one for many, is for what each can do.
    let capped = !single || lengths.len() > 1;
    if let ([place], [length], false) = (places.as_slice(), lengths.as_slice(), capped) {
        fits(place, *length, max_tokens)?;
    }
    Ok(Resolved {
        places,
        single,
        synthetic,
        first_look,
        lengths,
        capped,
        only,
        max_tokens,
        order,
        seed,
        left_out,
        dedup,
        remarks,
    })
}

/// Fails where the context of a checkpoint has no room for what was asked for of it alone.
fn fits(place: &Place, prompt_tokens: u64, max_tokens: u64) -> anyhow::Result<()> {
    let Action::Measure(folder) = &place.action else { return Ok(()) };
    match ModelShape::of(folder).exceeded_by(prompt_tokens, max_tokens) {
        Some(why) => bail!("{}: {why}", place.path.display()),
        None => Ok(()),
    }
}

/// The places of the sweep, and the names of those that an image sweep leaves out.
fn roster(arguments: &SweepArgs, places: Vec<Place>) -> anyhow::Result<(Vec<Place>, Vec<String>)> {
    if !arguments.is_vlm() {
        return Ok((places, Vec::new()));
    }
    let (with, without): (Vec<Place>, Vec<Place>) = places.into_iter().partition(|place| place.takes_images);
    let left_out: Vec<String> = without.into_iter().map(|place| place.model).collect();
    let listed =
        |names: &mut dyn Iterator<Item = &String>| names.map(one_line).collect::<Vec<_>>().join(", ");
    let named = |places: &[Place]| match places {
        [] => "none".to_owned(),
        places => listed(&mut places.iter().map(|place| &place.model)),
    };
    complain(&format!("{NO_VISION}; each row says so"));
    complain(&format!("checkpoints that take images: {} ({})", named(&with), counted(with.len(), "folder")));
    if !left_out.is_empty() {
        complain(&format!(
            "left out of the image sweep, since they take no images: {} ({})",
            listed(&mut left_out.iter()),
            counted(left_out.len(), "folder")
        ));
    }
    if with.is_empty() {
        bail!(
            "none of the {} folders holds a checkpoint that takes images; sweep without --vlm and --image",
            left_out.len()
        );
    }
    Ok((with, left_out))
}

/// A seed that no earlier sweep had, as far as time and process ids tell.
fn new_seed() -> u64 {
    let unique = format!("{} {}", jiff::Timestamp::now().as_nanosecond(), std::process::id());
    let digest = sha256_hex(unique.as_bytes());
    digest.get(..12).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// Prompt and generated tokens, and a remark where they are not the usual ones.
fn shape(given: &ShapeArgs, default_models: bool, mlx_on_cpu: bool) -> (Vec<u64>, u64, Option<String>) {
    let mut lengths: Vec<u64> = given.prompt_tokens.iter().map(|length| length.get()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    if default_models && mlx_on_cpu && lengths.is_empty() && given.max_tokens.is_none() {
        let (prompt, generated) = SMALL_SHAPE;
        let remark = format!(
            "small shape of the default models with MLX's own kernels on a CPU: {prompt} prompt tokens, {generated} \
             generated"
        );
        return (vec![prompt], generated, Some(remark));
    }
    if lengths.is_empty() {
        lengths.push(FULL_SHAPE.0);
    }
    (lengths, given.max_tokens.map_or(FULL_SHAPE.1, std::num::NonZero::get), None)
}

/// Whether MLX's own kernels compute on the processor: some tens of times slower than the runtime's.
fn mlx_on_cpu(backend: Backend) -> bool {
    #[cfg(feature = "runtime")]
    let own_kernels =
        matches!(mlxcel::kernels::setting::setting(), Ok(mlxcel::kernels::setting::Setting::Cpu { .. }));
    // Without the runtime nothing is computed here.
    #[cfg(not(feature = "runtime"))]
    let own_kernels = true;
    backend == Backend::Cpu && !own_kernels
}

pub(super) fn facts(
    arguments: &SweepArgs,
    resolved: &Resolved,
    executable: Executable,
    tree: TreeCheck,
    (hello, reference): (Hello, Option<&Hello>),
    backend: Backend,
    factor: f64,
) -> RunFacts {
    let workspace = executable.stamp.workspace_root.clone();
    let now = ZonedDateTime::now();
    let started_at = now.timestamp();
    let unique = sha256_hex(
        format!("{} {} {}", started_at.as_nanosecond(), std::process::id(), executable.sha256).as_bytes(),
    );
    let run_id = format!("{}-{}", started_at.strftime("%Y%m%dT%H%M%SZ"), unique.get(..8).unwrap_or_default());
    let machine = Machine::this();
    let private =
        Abbreviations::new(tree.comparison.root.as_deref().or(Some(&workspace)), std::env::home_dir());
    let heard = Heard { own: &hello, reference, backend };
    let key = key::key(arguments, resolved, &executable, heard, (&machine, &private), factor);
    let folder = match arguments.target() {
        Target::All(models) => Some(key::place(&models, &private)),
        Target::Default | Target::Single(_) => None,
    };
    let rerun =
        arguments.roster.rerun.as_deref().map(
            |file| json!({ "file": file, "sha256": crate::provenance::binary::digest_if_readable(file) }),
        );
    let planned: Vec<String> = resolved
        .order
        .iter()
        .filter_map(|at| resolved.places.get(*at))
        .flat_map(|place| resolved.cells(place).into_iter().map(|_| place.shown_path()))
        .collect();
    let settings = json!({
        "set": "sweep",
        "target": arguments.target,
        "models": arguments.models,
        "models_folder": folder,
        "rerun": rerun,
        "out": arguments.out,
        "suffix": arguments.suffix,
        "name": arguments.name,
        "prompt_tokens": resolved.only_length(),
        "prompt_lengths": resolved.lengths,
        "max_tokens": resolved.max_tokens,
        "reps": arguments.shape.reps,
        "prefill_chunk": arguments.shape.prefill_chunk,
        "timeout_seconds": arguments.timeout.as_secs_f64(),
        "worker_program": arguments.worker_program,
        "planned": planned,
        "left_out": resolved.left_out,
        "order": format!("{:?}", arguments.roster.order).to_lowercase(),
        "seed": resolved.seed,
        "control_every": arguments.roster.control_every,
        "control_band_asked_pct": arguments.roster.control_band,
        "cooldown": match arguments.conditions.cooldown {
            Cooldown::Fixed(time) => json!(time.as_secs_f64()),
            Cooldown::Auto => json!("auto"),
        },
        "big_cooldown_seconds": arguments.conditions.big_cooldown.as_secs_f64(),
        "big_threshold_gib": arguments.conditions.big_threshold_gb,
        "no_cooldown": arguments.conditions.no_cooldown,
        "max_spread_pct": arguments.conditions.max_spread,
        "eos_policy": if arguments.shape.no_ignore_eos { "stop" } else { "suppress" },
        "memory_overhead_factor": factor,
        "image": arguments.roster.image,
        "quiet_gate": !arguments.quiet.no_quiet_gate,
        "dedup": format!("{:?}", arguments.dedup()).to_lowercase(),
        "duplicates": resolved.dedup.json(),
        "remarks": resolved.remarks,
        resume::SETTING: key.json(),
    });
    RunFacts {
        run_id,
        date: now.date(),
        started_at,
        executable,
        hello,
        backend,
        machine,
        key,
        harness: if arguments.is_vlm() { HarnessKind::Vlm } else { HarnessKind::Text },
        private,
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
    fn only_the_default_models_with_mlxs_kernels_on_a_cpu_have_the_small_shape_and_it_is_told()
    -> anyhow::Result<()> {
        let none = given(&[])?;
        let (prompt, generated, remark) = shape(&none, true, true);
        assert_eq!((prompt, generated), (vec![SMALL_SHAPE.0], SMALL_SHAPE.1));
        assert!(remark.is_some_and(|remark| remark.contains("64 prompt tokens, 16 generated")));
        assert_eq!(shape(&none, true, false), (vec![512], 128, None));
        assert_eq!(shape(&none, false, true), (vec![512], 128, None));
        Ok(())
    }

    #[test]
    fn a_context_caps_a_prompt_and_the_row_says_so() {
        assert_eq!(cell(512, Some(2048), 128), Cell { requested: 512, prompt_tokens: 512, remark: None });
        assert_eq!(cell(512, None, 128).prompt_tokens, 512);
        let capped = cell(8192, Some(2048), 128);
        assert_eq!((capped.requested, capped.prompt_tokens), (8192, 1920));
        assert!(capped.remark.is_some_and(|remark| remark.contains("2048") && remark.contains("1920")));
        assert_eq!(cell(128, Some(64), 63).prompt_tokens, 1);
        assert_eq!(cell(5, Some(64), 64), Cell { requested: 5, prompt_tokens: 5, remark: None });
    }

    #[test]
    fn a_flag_makes_the_shape_the_full_one() -> anyhow::Result<()> {
        assert_eq!(shape(&given(&["--max-tokens", "32"])?, true, true), (vec![512], 32, None));
        assert_eq!(shape(&given(&["--prompt-tokens", "7"])?, true, true), (vec![7], 128, None));
        assert_eq!(shape(&given(&["--prompt-tokens", "9,7,9"])?, false, true).0, [7, 9]);
        Ok(())
    }
}
