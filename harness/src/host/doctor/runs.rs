//! The A/A runs: the same worker on the same checkpoint as two sides, each time in a fresh process, the order turned round
//! from one round to the next.

use std::time::Instant;

use anyhow::bail;
use mlxcel_reports::record::Metric;
use mlxcel_reports::row::Figures;

use crate::exit::{EndsWith, Exit};
use crate::sweep::judge::{Limits, Verdict, judge};
use crate::worker::child::WorkerProgram;
use crate::worker::session::{Surroundings, Task, measure as converse};

/// What is run.
pub struct RunsTask<'a> {
    /// One process.
    pub task: Task,
    /// Processes of each side.
    pub rounds: u32,
    /// The worker.
    pub program: &'a WorkerProgram,
    /// Whether the program was told to stop.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Told of each process that ended.
    pub tell: &'a mut dyn FnMut(&str),
}

/// The metrics that are looked at.
const METRICS: [Metric; 3] = [Metric::Decode, Metric::Prefill, Metric::Load];

/// The values of both sides, of decode, prefill and load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arms {
    /// Of the first side, by metric, one a process.
    pub first: [Vec<f64>; 3],
    /// Of the second side.
    pub second: [Vec<f64>; 3],
    /// When the measured repetitions of each process began and ended, its load and warm-up included.
    pub intervals: Vec<(Instant, Instant)>,
}

impl Arms {
    /// Each metric with the values of both sides.
    pub fn by_metric(self) -> impl Iterator<Item = (Metric, Vec<f64>, Vec<f64>)> {
        METRICS
            .into_iter()
            .zip(self.first.into_iter().zip(self.second))
            .map(|(metric, (one, other))| (metric, one, other))
    }
}

/// Runs all rounds. A process that gave no valid measurement ends them: with holes there would be no telling the sides' noise.
///
/// # Errors
/// When a process gave no valid measurement, or the program was told to stop.
pub fn measure(around: &mut RunsTask<'_>) -> anyhow::Result<Arms> {
    let mut arms = Arms::default();
    for round in 0..around.rounds {
        // First, second; second, first; and so on: what drifts drifts for both.
        let order = if round.is_multiple_of(2) { [true, false] } else { [false, true] };
        for is_first in order {
            let begun = Instant::now();
            let values = one(around, round, is_first)?;
            arms.intervals.push((begun, Instant::now()));
            let side = if is_first { &mut arms.first } else { &mut arms.second };
            for (list, value) in side.iter_mut().zip(values) {
                list.push(value);
            }
        }
    }
    Ok(arms)
}

/// One process: its decode and prefill rates and its load time.
fn one(around: &mut RunsTask<'_>, round: u32, is_first: bool) -> anyhow::Result<[f64; 3]> {
    let session = converse(
        &around.task,
        &mut Surroundings { program: around.program, interrupted: around.interrupted, progress: &mut |_| {} },
    );
    let name = if is_first { "first" } else { "second" };
    let place = format!("round {} of {}, {name} side", round + 1, around.rounds);
    // Repetitions may spread as they will: how far they do is what is looked for.
    let judged = match judge(&around.task, &session, &Limits::NONE) {
        Verdict::Interrupted => {
            bail!(EndsWith(Exit::Interrupted, "interrupted; nothing was stored".to_owned()))
        }
        Verdict::Row(judged) => judged,
    };
    if let Some(exclusion) = judged.exclusion {
        let status = mlxcel_reports::status::Status::from(exclusion);
        bail!(EndsWith(Exit::Failure, format!("{place}: {status}: {}", judged.detail)));
    }
    let figures = Figures::of(&judged.samples)?;
    let load = session.loaded.as_ref().map(|loaded| loaded.load_nanos as f64 / 1e6);
    let (Some(decode), Some(prefill), Some(load)) =
        (figures.decode().tok_s(), figures.prefill().tok_s(), load.filter(|load| *load > 0.0))
    else {
        bail!(EndsWith(
            Exit::Failure,
            format!("{place}: a timed part took no measurable time; ask for more tokens")
        ));
    };
    (around.tell)(&format!("{place}: decode {decode:.2} tok/s, prefill {prefill:.2} tok/s"));
    Ok([decode, prefill, load])
}
