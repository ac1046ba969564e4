//! One checkpoint, one worker: hello, load, warm-up at the measured shape, the repetitions, the end.
//!
//! Reports what happened as it happened; what row that makes is left to `sweep::judge`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::child::{Ending, Next, Worker, WorkerProgram};
use super::protocol::{
    Event, Failure, Generate, Generated, Hello, Loaded, PROTOCOL, Prompt, Request, Stage, StreamPass,
};

/// What to measure on one checkpoint.
#[derive(Clone, Debug)]
pub struct Task {
    /// Folder of the checkpoint.
    pub path: PathBuf,
    /// What to generate after.
    pub prompt: Prompt,
    /// Exact length of the prompt.
    pub prompt_tokens: u64,
    /// Exact number of tokens to generate.
    pub max_tokens: u64,
    /// Longest piece of the prompt that is read at once.
    pub prefill_chunk: u64,
    /// Measured repetitions.
    pub reps: u32,
    /// Longest time for any one step.
    pub timeout: Duration,
    /// Whether end-of-sequence tokens are made impossible.
    pub suppress_eos: bool,
    /// Token ids to suppress besides the worker's own.
    pub suppress: Vec<u32>,
    /// Whether the warm-up is to hand back the token ids of the prompt and the suppressed ones.
    pub tell_tokens: bool,
}

impl Task {
    /// The usual one: a synthetic prompt, and exactly so many tokens.
    pub fn synthetic(
        path: PathBuf,
        (prompt_tokens, max_tokens): (u64, u64),
        reps: u32,
        timeout: Duration,
    ) -> Self {
        Self {
            path,
            prompt: Prompt::Synthetic(prompt_tokens),
            prompt_tokens,
            max_tokens,
            prefill_chunk: 2048,
            reps,
            timeout,
            suppress_eos: true,
            suppress: Vec::new(),
            tell_tokens: false,
        }
    }
}

/// How far a session has come, for people who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step began; for [`Stage::Bench`] with the number of its repetition.
    Step(Stage, u32),
    /// Loading goes on.
    Loading {
        /// Bytes of weights read so far.
        done_bytes: u64,
        /// Bytes of weights in all.
        total_bytes: u64,
    },
}

/// What one worker did.
#[derive(Debug, Default)]
pub struct Session {
    /// Who the worker was, once it said so.
    pub hello: Option<Hello>,
    /// The loaded checkpoint, once it was.
    pub loaded: Option<Loaded>,
    /// The discarded generation.
    pub warmup: Option<Generated>,
    /// The measured generations, in order.
    pub generated: Vec<Generated>,
    /// Passes over memory, of a session that had no checkpoint.
    pub streamed: Vec<StreamPass>,
    /// Why there are no more; `None` when the worker did all that was asked.
    pub cut: Option<(Stage, Cut)>,
    /// How the process ended, if it was ever started.
    pub ending: Option<Ending>,
    /// When the first repetition was asked for, and when the last one was answered.
    pub measured: Option<(Instant, Instant)>,
}

/// Why a session ended early.
#[derive(Debug)]
pub enum Cut {
    /// The worker could not be started.
    NotStarted(io::Error),
    /// The worker reported a failure.
    Failed(Failure),
    /// The process ended without a word.
    Died,
    /// A step took too long; the worker was killed.
    TimedOut(Duration),
    /// The worker did not keep to the protocol; it was killed.
    Garbled(String),
    /// The harness was told to stop; the worker was killed.
    Interrupted,
}

impl Cut {
    /// What the worker did, in words that follow its name.
    pub fn describe(&self) -> String {
        match self {
            Self::NotStarted(error) => format!("could not be started: {error}"),
            Self::Failed(failure) => format!("failed: {}", failure.message),
            Self::Died => "ended without a word".to_owned(),
            Self::TimedOut(limit) => format!("took longer than {} s", limit.as_secs()),
            Self::Garbled(reason) => format!("did not keep to the protocol: {reason}"),
            Self::Interrupted => "was interrupted".to_owned(),
        }
    }
}

/// The surroundings of a session.
pub struct Surroundings<'a> {
    /// The worker to start.
    pub program: &'a WorkerProgram,
    /// Whether the harness was told to stop.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Told of every step.
    pub progress: &'a mut dyn FnMut(Progress),
}

/// Starts a worker, hears who it is, and ends it: what runs, before anything is measured or written.
pub fn introduce(timeout: Duration, around: &mut Surroundings<'_>) -> Session {
    converse(around, timeout, |_| Ok(()))
}

/// Loads a checkpoint in a fresh worker, and ends it.
pub fn load(path: &Path, timeout: Duration, around: &mut Surroundings<'_>) -> Session {
    converse(around, timeout, |talk| talk.load(path))
}

/// Has a fresh worker go over arrays of so many bytes in the memory of its device, so many passes with each operation.
pub fn stream(
    (buffer_bytes, passes): (u64, u32),
    timeout: Duration,
    around: &mut Surroundings<'_>,
) -> Session {
    converse(around, timeout, |talk| {
        talk.worker.send(&Request::Stream { buffer_bytes, passes });
        match talk.hear(Stage::Bench, talk.deadline())? {
            Event::Streamed { passes } => talk.session.streamed = passes,
            event => return Err(unexpected(Stage::Bench, &event)),
        }
        Ok(())
    })
}

/// Runs one checkpoint in a fresh worker.
pub fn measure(task: &Task, around: &mut Surroundings<'_>) -> Session {
    converse(around, task.timeout, |talk| {
        talk.load(&task.path)?;
        let request = |rep| Generate {
            rep,
            prompt: task.prompt.clone(),
            max_tokens: task.max_tokens,
            prefill_chunk: task.prefill_chunk,
            suppress_eos: task.suppress_eos,
            suppress: task.suppress.clone(),
            // Only of the warm-up, so that a measured generation has nothing else to do.
            tell_tokens: task.tell_tokens && rep == 0,
        };
        let warmup = talk.generate(Stage::Warmup, request(0))?;
        talk.session.warmup = Some(warmup);
        let begun = Instant::now();
        for rep in 1..=task.reps {
            let generated = talk.generate(Stage::Bench, request(rep))?;
            talk.session.generated.push(generated);
            talk.session.measured = Some((begun, Instant::now()));
        }
        Ok(())
    })
}

struct Talk<'a, 'b> {
    worker: Worker,
    session: Session,
    timeout: Duration,
    around: &'a mut Surroundings<'b>,
}

type Step<T> = Result<T, (Stage, Cut)>;

fn converse(
    around: &mut Surroundings<'_>,
    timeout: Duration,
    body: impl FnOnce(&mut Talk<'_, '_>) -> Step<()>,
) -> Session {
    (around.progress)(Progress::Step(Stage::Start, 0));
    let worker = match Worker::start(around.program) {
        Ok(worker) => worker,
        Err(error) => {
            let cut = Some((Stage::Start, Cut::NotStarted(error)));
            return Session { cut, ..Session::default() };
        }
    };
    let mut talk = Talk { worker, session: Session::default(), timeout, around };
    let outcome = talk.hear_hello().and_then(|()| body(&mut talk)).and_then(|()| talk.finish());
    let Talk { worker, mut session, .. } = talk;
    let ending = match &outcome {
        Ok(()) | Err((_, Cut::Failed(_) | Cut::Died)) => worker.finish(),
        Err(_) => worker.kill(),
    };
    session.cut = outcome.err();
    session.ending = Some(ending);
    session
}

impl Talk<'_, '_> {
    fn hear_hello(&mut self) -> Step<()> {
        let event = self.hear(Stage::Start, self.deadline())?;
        let Event::Hello(hello) = event else {
            return Err(unexpected(Stage::Start, &event));
        };
        if hello.protocol != PROTOCOL {
            let message = format!("the worker speaks protocol {}, the harness {PROTOCOL}", hello.protocol);
            return Err((Stage::Start, Cut::Garbled(message)));
        }
        self.session.hello = Some(*hello);
        Ok(())
    }

    fn load(&mut self, path: &Path) -> Step<()> {
        (self.around.progress)(Progress::Step(Stage::Load, 0));
        self.worker.send(&Request::Load { path: path.to_owned() });
        let deadline = self.deadline();
        loop {
            match self.hear(Stage::Load, deadline)? {
                Event::Loading { done_bytes, total_bytes } => {
                    (self.around.progress)(Progress::Loading { done_bytes, total_bytes });
                }
                Event::Loaded(loaded) => {
                    self.session.loaded = Some(*loaded);
                    return Ok(());
                }
                event => return Err(unexpected(Stage::Load, &event)),
            }
        }
    }

    fn generate(&mut self, stage: Stage, request: Generate) -> Step<Generated> {
        let rep = request.rep;
        (self.around.progress)(Progress::Step(stage, rep));
        self.worker.send(&Request::Generate(request));
        match self.hear(stage, self.deadline())? {
            Event::Generated(generated) if generated.sample.rep == rep => Ok(*generated),
            event => Err(unexpected(stage, &event)),
        }
    }

    fn finish(&mut self) -> Step<()> {
        self.worker.send(&Request::Finish);
        match self.hear(Stage::Finish, self.deadline())? {
            Event::Done => Ok(()),
            event => Err(unexpected(Stage::Finish, &event)),
        }
    }

    /// The next event; a reported failure and all that is no event cut the session.
    fn hear(&mut self, stage: Stage, deadline: Instant) -> Step<Event> {
        let cut = match self.worker.next(deadline, self.around.interrupted) {
            Next::Event(Event::Failed(failure)) => return Err((failure.stage, Cut::Failed(failure))),
            Next::Event(event) => return Ok(event),
            Next::Garbage(line) => Cut::Garbled(format!("the worker wrote {line} where an event was due")),
            Next::Closed => Cut::Died,
            Next::TimedOut => Cut::TimedOut(self.timeout),
            Next::Interrupted => Cut::Interrupted,
        };
        Err((stage, cut))
    }

    fn deadline(&self) -> Instant {
        let now = Instant::now();
        // A timeout beyond the clock's range is no timeout.
        now.checked_add(self.timeout).unwrap_or_else(|| now + Duration::from_hours(24 * 365))
    }
}

fn unexpected(stage: Stage, event: &Event) -> (Stage, Cut) {
    let name = match event {
        Event::Hello(_) => "hello",
        Event::Loading { .. } => "loading",
        Event::Loaded(_) => "loaded",
        Event::Generated(_) => "generated (of another repetition or out of turn)",
        Event::Streamed { .. } => "streamed",
        Event::Failed(_) => "failed",
        Event::Done => "done",
    };
    (stage, Cut::Garbled(format!("the worker answered {name:?} out of turn")))
}
