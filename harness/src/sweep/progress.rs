//! What a sweep tells people while it runs: a bar on a terminal, plain lines elsewhere; both on stderr.
//!
//! Nothing ticks by itself: the screen is only drawn when a step begins, never while one is timed.

use std::fmt;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::text::{bytes, complain, duration, one_line};
use crate::worker::protocol::Stage;
use crate::worker::session::Progress;

/// Steps of the bar.
const STEPS: u64 = 1000;

/// What is measured beside the row of a checkpoint, and counts nowhere in the progress of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Aside {
    /// The control, on this checkpoint.
    Control(String),
    /// The reference, on this checkpoint.
    Reference(String),
}

impl fmt::Display for Aside {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, model) = match self {
            Self::Control(model) => ("control", model),
            Self::Reference(model) => ("reference", model),
        };
        write!(formatter, "{what} {}", one_line(model))
    }
}

/// The progress of a sweep.
#[derive(Debug)]
pub(super) struct SweepProgress {
    bar: Option<ProgressBar>,
    /// The work of one pass over each checkpoint.
    work: Vec<f64>,
    passes: u32,
    begun: Instant,
    place: usize,
    model: String,
    aside: Option<Aside>,
    passes_done: u32,
    last: Option<String>,
}

impl SweepProgress {
    /// For checkpoints of which a pass is so much work, 0 for those that are not started.
    pub(super) fn new(work: &[u64], reps: u32) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{bar:30} {wide_msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        let work = work.iter().map(|work| *work as f64).collect();
        Self {
            bar,
            work,
            passes: reps.saturating_add(1), // the warm-up and the repetitions
            begun: Instant::now(),
            place: 0,
            model: String::new(),
            aside: None,
            passes_done: 0,
            last: None,
        }
    }

    /// A checkpoint begins.
    pub(super) fn begin(&mut self, place: usize, model: &str) {
        self.place = place;
        self.model = one_line(model);
        self.passes_done = 0;
    }

    /// The steps that follow are those of a control or of the reference, until `None` says that they are the row's again.
    pub(super) fn aside(&mut self, aside: Option<Aside>) {
        self.aside = aside;
    }

    /// A line that stays: what became of a control or of the reference.
    pub(super) fn told_aside(&mut self, aside: &Aside, line: &str) {
        self.stay(&format!("{aside}: {line}"));
    }

    /// A step of the checkpoint.
    pub(super) fn step(&mut self, progress: Progress) {
        let text = match progress {
            Progress::Step(Stage::Start | Stage::Finish, _) => return,
            Progress::Step(Stage::Load, _) => "loading".to_owned(),
            Progress::Step(Stage::Warmup, _) => "warming up".to_owned(),
            Progress::Step(Stage::Bench, rep) => {
                if self.aside.is_none() {
                    self.passes_done = rep;
                }
                format!("repetition {rep} of {}", self.passes.saturating_sub(1))
            }
            Progress::Loading { done_bytes, total_bytes } => {
                // Lines for every piece would drown the others.
                if self.bar.is_none() {
                    return;
                }
                format!("loading {} of {}", bytes(done_bytes), bytes(total_bytes))
            }
        };
        self.show(&text);
    }

    /// A line that stays: how a checkpoint ended.
    pub(super) fn ended(&mut self, line: &str) {
        self.stay(&format!("[{}/{}] {}: {line}", self.place + 1, self.work.len(), self.model));
    }

    fn stay(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| complain(line)),
            None => complain(line),
        }
    }

    /// The sweep is over.
    pub(super) fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, text: &str) {
        let (done, all) = self.done_of_all();
        let left = time_left(self.begun.elapsed(), done, all);
        let left = left
            .map(|left| format!(", about {} left", duration(Duration::from_secs(left.as_secs()))))
            .unwrap_or_default();
        let line = format!("[{}/{}] {}: {text}{left}", self.place + 1, self.work.len(), self.what());
        match &self.bar {
            Some(bar) => {
                let share = if all > 0.0 { done / all } else { 0.0 };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of STEPS, between 0 and STEPS"
                )]
                bar.set_position((share * STEPS as f64) as u64);
                bar.set_message(line);
                bar.force_draw();
            }
            None if self.last.as_ref() != Some(&line) => {
                complain(&line);
                self.last = Some(line);
            }
            None => {}
        }
    }

    /// What is measured right now, and on which checkpoint.
    fn what(&self) -> String {
        self.aside.as_ref().map_or_else(|| self.model.clone(), ToString::to_string)
    }

    fn done_of_all(&self) -> (f64, f64) {
        let passes = f64::from(self.passes);
        let all = self.work.iter().sum::<f64>() * passes;
        let before = self.work.iter().take(self.place).sum::<f64>() * passes;
        let here = self.work.get(self.place).copied().unwrap_or(0.0) * f64::from(self.passes_done);
        (before + here, all)
    }
}

/// The time left when the rest goes as fast as what is done; `None` before anything is.
fn time_left(elapsed: Duration, done: f64, all: f64) -> Option<Duration> {
    let left = elapsed.as_secs_f64() * (all - done) / done;
    (done > 0.0 && all >= done).then(|| Duration::try_from_secs_f64(left).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_work_done() {
        assert_eq!(time_left(Duration::from_secs(10), 1.0, 4.0), Some(Duration::from_secs(30)));
        assert_eq!(time_left(Duration::from_secs(10), 4.0, 4.0), Some(Duration::ZERO));
        assert_eq!(time_left(Duration::from_secs(10), 0.0, 4.0), None);
    }

    #[test]
    fn steps_of_a_control_and_of_the_reference_say_so_and_do_not_count_as_the_rows() {
        let mut progress = SweepProgress::new(&[100, 100], 3);
        progress.begin(1, "x");
        progress.step(Progress::Step(Stage::Bench, 2));
        assert_eq!(progress.what(), "x");
        for (aside, what) in [
            (Aside::Control("small".to_owned()), "control small"),
            (Aside::Reference("x".to_owned()), "reference x"),
        ] {
            progress.aside(Some(aside));
            progress.step(Progress::Step(Stage::Bench, 1));
            assert_eq!((progress.what().as_str(), progress.passes_done), (what, 2));
        }
        progress.aside(None);
        assert_eq!(progress.what(), "x");
    }

    #[test]
    fn work_counts_weights_and_passes_and_nothing_for_what_is_not_started() {
        let mut progress = SweepProgress::new(&[0, 100 << 20, 300 << 20], 3);
        progress.begin(2, "x");
        progress.passes_done = 1;
        let (done, all) = progress.done_of_all();
        assert!((done / all - (400.0 + 300.0) / 1600.0).abs() < 1e-9, "{done} {all}");
    }
}
