//! What the harness and a worker say to each other: one JSON object a line, requests on the worker's stdin,
//! events on its stdout.
//!
//! The worker speaks first ([`Event::Hello`]). Then each request is answered before the next is read:
//! [`Request::Load`] by [`Event::Loading`] any number of times and [`Event::Loaded`]; [`Request::Generate`]
//! by [`Event::Generated`], as often as wanted on the loaded model; [`Request::Stream`] by [`Event::Streamed`], without any
//! model, by this program's own worker only; [`Request::Finish`] by [`Event::Done`]
//! and the end of the process. Instead of an answer there may come one [`Event::Failed`], which ends the
//! process. When its stdin closes without [`Request::Finish`], the worker ends at once: its parent is gone. A
//! worker that serves a comparison with another runtime is used in the same way.

use std::path::PathBuf;

use mlxcel_build_stamp::BuildStamp;
use mlxcel_reports::measure::RawSample;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the protocol; both sides must have the same.
pub const PROTOCOL: u32 = 1;

/// From the harness to the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Load a checkpoint. Once, before any generation.
    Load {
        /// Folder of the checkpoint.
        path: PathBuf,
    },
    /// Generate, and hand back times and tokens.
    Generate(Generate),
    /// Go over large arrays in the memory of the device that computes, and hand back times.
    Stream {
        /// Bytes of the arrays.
        buffer_bytes: u64,
        /// Passes that count, with each operation.
        passes: u32,
    },
    /// End.
    Finish,
}

/// One greedy generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generate {
    /// Number of the repetition, from 1; 0 for a warm-up.
    pub rep: u32,
    /// What to generate after.
    pub prompt: Prompt,
    /// Tokens to generate at most; exactly, when the end of sequence is suppressed.
    pub max_tokens: u64,
    /// Longest piece of the prompt that is read at once, in tokens.
    pub prefill_chunk: u64,
    /// Whether end-of-sequence tokens are made impossible rather than heeded.
    pub suppress_eos: bool,
    /// Token ids to suppress besides the worker's own; for a reference that has to suppress what another did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suppress: Vec<u32>,
    /// Whether the answer is to hold the prompt's token ids and the suppressed ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tell_tokens: bool,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// The runtime's synthetic prompt of exactly this many tokens.
    Synthetic(u64),
    /// These token ids.
    Tokens(Vec<u32>),
}

/// From the worker to the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// First of all: who speaks.
    Hello(Box<Hello>),
    /// Loading goes on.
    Loading {
        /// Bytes of weights read so far.
        done_bytes: u64,
        /// Bytes of weights in all.
        total_bytes: u64,
    },
    /// The checkpoint is loaded and all its weights are in memory.
    Loaded(Box<Loaded>),
    /// A generation ended.
    Generated(Box<Generated>),
    /// The passes over large arrays.
    Streamed {
        /// Each pass that counts.
        passes: Vec<StreamPass>,
    },
    /// Something did not work; the worker ends.
    Failed(Failure),
    /// The last word of a worker that was told to finish.
    Done,
}

/// Who the worker is. Everything unknown is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol the worker speaks.
    pub protocol: u32,
    /// Process id.
    pub pid: u32,
    /// The sources and compiler of the executable that runs; `None` in workers that are not this executable.
    pub stamp: Option<BuildStamp>,
    /// What it says of its runtime.
    pub runtime: RuntimeIdentity,
}

/// What a worker's runtime is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeIdentity {
    /// Version of the runtime crate.
    pub version: Option<String>,
    /// What computes: `metal`, `cuda` or `cpu`.
    pub backend: Option<String>,
    /// SHA-256 of the executable file.
    pub executable_sha256: Option<String>,
    /// MLX's version.
    pub mlx_version: Option<String>,
    /// The commit of MLX where the library reports one, else its release tag.
    pub mlx_revision: Option<String>,
    /// Where the MLX library that is loaded lies.
    pub mlx_library: Option<PathBuf>,
    /// SHA-256 of that file.
    pub mlx_library_sha256: Option<String>,
    /// Version of mlx-rs.
    pub mlx_rs_version: Option<String>,
    /// Version of mlx-c.
    pub mlx_c_version: Option<String>,
    /// Everything the runtime reports of itself, as it reports it.
    pub report: Value,
}

/// A loaded checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Nanoseconds from the first file to all weights in memory.
    pub load_nanos: u64,
    /// `model_type` of the checkpoint.
    pub model_type: String,
    /// Parameters, by element count before quantization.
    pub parameters: Option<u64>,
    /// Bytes of all tensors.
    pub weight_bytes: Option<u64>,
    /// Bits a parameter takes, scales and biases included.
    pub bits_per_weight: Option<f64>,
    /// Longest context, in tokens.
    pub context_length: Option<u64>,
    /// Whether the weights are made up.
    pub synthetic: bool,
    /// Form of the key/value cache, for example its dtype.
    pub kv_mode: Option<String>,
    /// Which kernels compute, for example `mlx`.
    pub kernels: Option<String>,
    /// Memory in use by MLX after loading, in bytes.
    pub active_memory_bytes: Option<u64>,
    /// Peak of MLX's memory while loading, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Everything the runtime reports of the model, as it reports it.
    pub summary: Value,
}

/// One finished generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generated {
    /// Counts and times.
    pub sample: RawSample,
    /// The generated token ids.
    pub tokens: Vec<u32>,
    /// SHA-256 over the token ids of the prompt that was run, as little-endian 32-bit words.
    pub prompt_sha256: String,
    /// Prompt tokens whose keys and values were there before; `None` where the worker does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_prompt_tokens: Option<u64>,
    /// Time of the decode loop spent building graphs, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_nanos: Option<u64>,
    /// Time of the decode loop spent submitting them, in nanoseconds. MLX blocks there while its queue is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit_nanos: Option<u64>,
    /// The token ids of the prompt, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Vec<u32>>,
    /// The token ids that could not be chosen, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<Vec<u32>>,
}

/// A pass over large arrays in the memory of the device that computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPass {
    /// What was computed.
    pub operation: String,
    /// Bytes read and written.
    pub bytes: u64,
    /// How long it took, in nanoseconds.
    pub nanos: u64,
}

/// Something did not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// When.
    pub stage: Stage,
    /// What it means for others.
    pub kind: FailureKind,
    /// In words, with its causes.
    pub message: String,
}

/// A step of a worker's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Until hello.
    Start,
    /// Loading.
    Load,
    /// The discarded generation.
    Warmup,
    /// A measured generation.
    Bench,
    /// After the last answer.
    Finish,
}

impl Stage {
    /// The step in words, for sentences.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Load => "load",
            Self::Warmup => "warm-up",
            Self::Bench => "measured generation",
            Self::Finish => "end",
        }
    }
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The allocator had no memory left.
    OutOfMemory,
    /// The checkpoint or the request is not one that can be run.
    BadInput,
    /// What was asked for cannot be done in the way it was asked, so that it could not be compared.
    NotComparable,
    /// Anything else.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_and_reads_back() -> Result<(), serde_json::Error> {
        for request in [
            Request::Load { path: "models/a b\nc".into() },
            Request::Generate(Generate {
                rep: 1,
                prompt: Prompt::Synthetic(512),
                max_tokens: 128,
                prefill_chunk: 2048,
                suppress_eos: true,
                suppress: vec![2],
                tell_tokens: true,
            }),
            Request::Stream { buffer_bytes: 1 << 30, passes: 20 },
            Request::Finish,
        ] {
            let line = serde_json::to_string(&request)?;
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<Request>(&line)?, request);
        }
        Ok(())
    }

    #[test]
    fn a_line_that_is_no_event_is_an_error() {
        for line in ["", "loading...", "{}", r#"{"event":"generated"}"#, r#"{"event":"sing"}"#, "[1]"] {
            assert!(serde_json::from_str::<Event>(line).is_err(), "{line}");
        }
    }
}
