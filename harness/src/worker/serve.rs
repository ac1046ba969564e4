//! The child's side: answers requests with the runtime.
//!
//! The one place where the harness runs a model. It times and counts; it judges nothing.

use std::fs::File;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use jiff::Timestamp;
use mlxcel::generate::{EosPolicy, FinishReason, GenerateError, GenerateOptions, Generation, generate};
use mlxcel::tokenizer::Tokenizer;
use mlxcel::version::MlxInfo;
use mlxcel::{LoadError, LoadedModel, memory};
use mlxcel_reports::measure::RawSample;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;

use super::evidence::is_refusal_of_allocator;
use super::protocol::{
    Event, Failure, FailureKind, Generate, Generated, Hello, Loaded, PROTOCOL, Prompt, Request,
    RuntimeIdentity, Stage, StreamPass,
};
use crate::exit::Exit;
use crate::provenance::binary::Executable;
use crate::provenance::tokens_sha256;

/// What the runtime linked into this executable is.
///
/// # Errors
/// When the executable cannot be read.
pub fn identity() -> anyhow::Result<RuntimeIdentity> {
    let executable = Executable::this()?;
    let mlx = MlxInfo::of_loaded_library();
    Ok(RuntimeIdentity {
        version: Some(mlxcel::version::runtime_stamp()?.version),
        backend: Some(mlx.backend.to_string()),
        executable_sha256: Some(executable.sha256),
        mlx_version: mlx.version.clone(),
        mlx_revision: mlx.revision.clone(),
        mlx_library: mlx.library_path.clone(),
        mlx_library_sha256: mlx.library_sha256.clone(),
        mlx_rs_version: mlx.mlx_rs_version.clone(),
        mlx_c_version: Some(mlx.mlx_c_version.clone()),
        report: json!(mlx),
    })
}

/// Serves until told to finish.
///
/// # Errors
/// When the protocol cannot be spoken; failures of the work itself are events.
pub fn run() -> anyhow::Result<Exit> {
    die_with_parent();
    mlxcel::device::check()?;
    let mut speaker =
        Speaker::reserve_stdout().context("the standard output cannot be reserved for the protocol")?;
    let requests = listen().context("the standard input cannot be read")?;
    let hello = Hello {
        protocol: PROTOCOL,
        pid: std::process::id(),
        stamp: Some(crate::provenance::binary::stamp()?),
        runtime: identity()?,
    };
    speaker.say(&Event::Hello(Box::new(hello)))?;
    let mut served: Option<Served> = None;
    for request in requests {
        let outcome = match request {
            Ok(Request::Load { path }) => Served::load(&path, &mut speaker).map(|(loaded, event)| {
                served = Some(loaded);
                event
            }),
            Ok(Request::Generate(request)) => match &mut served {
                Some(served) => served.generate(&request),
                None => {
                    Err(other(Stage::Warmup, "a generation was requested before a checkpoint was loaded"))
                }
            },
            Ok(Request::Stream { buffer_bytes, passes }) => stream(buffer_bytes, passes),
            Ok(Request::Finish) => {
                speaker.say(&Event::Done)?;
                return Ok(Exit::Fine);
            }
            Err(error) => Err(other(Stage::Start, &format!("a line that is no request: {error}"))),
        };
        match outcome {
            Ok(event) => speaker.say(&event)?,
            Err(failure) => {
                speaker.say(&Event::Failed(failure))?;
                return Ok(Exit::Failure);
            }
        }
    }
    Ok(Exit::Fine)
}

/// A worker must not outlive the harness: it would take the machine from what is measured next.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    {
        // Also the end of stdin ends it (see `listen`), which covers a parent that died before this call.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        // When memory runs out, the kernel shall take the worker and not the harness.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
}

/// The protocol's stream. Whatever else prints to stdout goes to stderr.
struct Speaker(File);

impl Speaker {
    fn reserve_stdout() -> io::Result<Self> {
        let stdout = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(Self(File::from(stdout)))
    }

    fn say(&mut self, event: &Event) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.0.write_all(&line).context("the harness no longer listens")
    }
}

/// Reads requests in a thread of its own. Without a request to finish, the end of stdin ends the process,
/// whatever it is doing.
fn listen() -> io::Result<Receiver<serde_json::Result<Request>>> {
    let (sender, receiver) = sync_channel(16);
    thread::Builder::new().name("requests".to_owned()).spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let request = serde_json::from_str::<Request>(&line);
            let last = matches!(request, Ok(Request::Finish) | Err(_));
            if sender.send(request).is_err() || last {
                return;
            }
        }
        let _ = kill_process(getpid(), Signal::KILL);
    })?;
    Ok(receiver)
}

/// A loaded checkpoint.
struct Served {
    path: PathBuf,
    model: LoadedModel,
    tokenizer: Tokenizer,
}

impl Served {
    fn load(path: &Path, speaker: &mut Speaker) -> Result<(Self, Event), Failure> {
        // First, since it is quick and may be missing.
        let tokenizer = Tokenizer::open(path)
            .map_err(|error| failure(Stage::Load, FailureKind::BadInput, &error, None))?;
        memory::reset_peak();
        let begun = Instant::now();
        let mut told = Instant::now();
        let mut tell = |done_bytes, total_bytes| {
            // Often enough for people; a harness that no longer listens is noticed at the answer.
            if told.elapsed().as_millis() >= 200 {
                let _ = speaker.say(&Event::Loading { done_bytes, total_bytes });
                told = Instant::now();
            }
        };
        let model = LoadedModel::load(path, &mut tell).map_err(|error| {
            let kind = if matches!(error, LoadError::Mlx { .. } | LoadError::Device(_)) {
                FailureKind::Other
            } else {
                FailureKind::BadInput
            };
            failure(Stage::Load, kind, &error, None)
        })?;
        memory::synchronize()
            .map_err(|error| failure(Stage::Load, FailureKind::Other, &error, Some(path)))?;
        let load_nanos = nanos_since(begun);
        let summary = model.summary();
        let event = Event::Loaded(Box::new(Loaded {
            load_nanos,
            model_type: summary.model_type.clone(),
            parameters: Some(summary.parameters),
            weight_bytes: Some(summary.weight_bytes),
            bits_per_weight: Some(summary.bits_per_weight),
            context_length: summary.context_length.map(|length| length as u64),
            synthetic: summary.synthetic,
            kv_mode: Some("unquantized".to_owned()),
            kernels: Some(model.kernels().to_owned()),
            active_memory_bytes: memory::active_bytes(),
            peak_memory_bytes: memory::peak_bytes(),
            summary: json!(summary),
        }));
        Ok((Self { path: path.to_owned(), model, tokenizer }, event))
    }

    fn generate(&mut self, request: &Generate) -> Result<Event, Failure> {
        let stage = if request.rep == 0 { Stage::Warmup } else { Stage::Bench };
        let bad = |error: &dyn std::error::Error, path: &Path| {
            failure(stage, FailureKind::BadInput, error, Some(path))
        };
        let size = |number: u64| usize::try_from(number).map_err(|error| bad(&error, &self.path));
        let prompt = match &request.prompt {
            Prompt::Synthetic(tokens) => {
                self.tokenizer.synthetic_prompt(size(*tokens)?).map_err(|error| bad(&error, &self.path))?
            }
            Prompt::Tokens(tokens) => tokens.clone(),
        };
        let mut eos_token_ids = self.tokenizer.eos_token_ids().to_vec();
        eos_token_ids.extend(&request.suppress);
        eos_token_ids.sort_unstable();
        eos_token_ids.dedup();
        let options = GenerateOptions {
            max_tokens: size(request.max_tokens)?,
            prefill_chunk: size(request.prefill_chunk)?,
            eos: if request.suppress_eos { EosPolicy::Suppress } else { EosPolicy::Stop },
            eos_token_ids,
            ..GenerateOptions::default()
        };
        // Nothing of the last generation is left to do. Its buffers stay for reuse, which is what the warm-up
        // is for.
        memory::synchronize()
            .map_err(|error| failure(stage, FailureKind::Other, &error, Some(&self.path)))?;
        memory::reset_peak();
        let started_at = Timestamp::now();
        let generation =
            generate(&mut self.model, &prompt, &options, &mut |_| std::ops::ControlFlow::Continue(()))
                .map_err(|error| {
                    let kind = if matches!(error, GenerateError::Mlx(_)) {
                        FailureKind::Other
                    } else {
                        FailureKind::BadInput
                    };
                    failure(stage, kind, &error, Some(&self.path))
                })?;
        Ok(Event::Generated(Box::new(Generated {
            sample: sample(request.rep, started_at, &generation),
            prompt_sha256: tokens_sha256(&prompt),
            // The runtime begins each generation with an empty sequence and reads the whole prompt.
            cached_prompt_tokens: Some(0),
            build_nanos: Some(generation.build_nanos),
            submit_nanos: Some(generation.submit_nanos),
            tokens: generation.tokens,
            prompt: request.tell_tokens.then_some(prompt),
            suppressed: (request.tell_tokens && request.suppress_eos).then_some(options.eos_token_ids),
        })))
    }
}

/// Passes over the memory of the device that computes.
fn stream(buffer_bytes: u64, passes: u32) -> Result<Event, Failure> {
    let passes = mlxcel::stream::measure(buffer_bytes, passes as usize)
        .map_err(|error| failure(Stage::Bench, FailureKind::Other, &error, None))?;
    let of = |pass: mlxcel::stream::StreamPass| StreamPass {
        operation: pass.operation.to_owned(),
        bytes: pass.bytes,
        nanos: pass.nanos,
    };
    Ok(Event::Streamed { passes: passes.into_iter().map(of).collect() })
}

fn sample(rep: u32, started_at: Timestamp, generation: &Generation) -> RawSample {
    RawSample {
        rep,
        prompt_tokens: generation.prompt_tokens as u64,
        token_nanos: generation.token_nanos.clone(),
        host_nanos: Some(generation.host_nanos),
        peak_memory_bytes: memory::peak_bytes(),
        started_at: Some(started_at),
        finish: Some(finish(generation.finish).to_owned()),
    }
}

fn finish(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Length => "length",
        FinishReason::Eos => "eos",
        FinishReason::Stopped => "stopped",
    }
}

fn nanos_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn other(stage: Stage, message: &str) -> Failure {
    Failure { stage, kind: FailureKind::Other, message: message.to_owned() }
}

/// An error with its causes. Where MLX threw, the innermost cause is its exception: one of an allocator makes it a want of
/// memory. What the others say, and the path, does not count.
fn failure(stage: Stage, kind: FailureKind, error: &dyn std::error::Error, path: Option<&Path>) -> Failure {
    let mut message =
        path.map(|path| format!("{}: ", path.display())).unwrap_or_default() + &error.to_string();
    let mut innermost = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        innermost.clone_from(&words);
        // Many errors already say their cause.
        if !message.contains(&words) {
            message.push_str(": ");
            message.push_str(&words);
        }
        cause = error.source();
    }
    let kind = if kind == FailureKind::Other && is_refusal_of_allocator(&innermost) {
        FailureKind::OutOfMemory
    } else {
        kind
    };
    Failure { stage, kind, message }
}
