//! The generation loop: chunked prefill, then decoding with one step of look-ahead, a timestamp for every token.
//!
//! The one code path for the command line and for measurements. It times; it computes no rate and judges nothing.

use crate::memory;
use crate::model::{LoadedModel, Positions, SequenceState};
use crate::sampling::{Sampler, SamplingError, SamplingOptions};
use mlx_rs::error::Exception;
use mlx_rs::{Array, transforms};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Prompt tokens taken in one forward pass unless told otherwise, as in mlx-lm.
pub const DEFAULT_PREFILL_CHUNK: usize = 2048;

/// Freed buffers go back to the system every so many tokens, as in mlx-lm.
const CLEAR_CACHE_EVERY: usize = 256;

/// What happens at an end-of-sequence token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EosPolicy {
    /// Generation ends; the token is not part of the output.
    Stop,
    /// The token is never chosen: its logit is minus infinity.
    Suppress,
}

/// What to generate.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Tokens to generate at most; exactly, when ends of sequence are suppressed.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: SamplingOptions,
    /// Prompt tokens in one forward pass.
    pub prefill_chunk: usize,
    /// What happens at an end-of-sequence token.
    pub eos: EosPolicy,
    /// Ids that end a sequence; the model's own when empty.
    pub eos_token_ids: Vec<u32>,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_tokens: 256,
            sampling: SamplingOptions::default(),
            prefill_chunk: DEFAULT_PREFILL_CHUNK,
            eos: EosPolicy::Stop,
            eos_token_ids: Vec::new(),
        }
    }
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// All tokens asked for were generated.
    Length,
    /// The model ended the sequence.
    Eos,
    /// The caller stopped it.
    Stopped,
}

/// What was generated, and when. All times are in nanoseconds on a monotonic clock.
#[derive(Debug, Clone, Serialize)]
pub struct Generation {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// The ids generated.
    pub tokens: Vec<u32>,
    /// From the first forward call to the first token's value on the host.
    pub prefill_nanos: u64,
    /// When each token's value was read on the host, since the first forward call; the first equals `prefill_nanos`.
    /// All but the first and the last are read after the next step was submitted.
    pub token_nanos: Vec<u64>,
    /// Time in the decode loop spent building graphs.
    pub build_nanos: u64,
    /// Time in the decode loop spent submitting them. On a CPU, MLX blocks here while its queue is full.
    pub submit_nanos: u64,
    /// Time in the decode loop spent neither building, nor submitting, nor waiting for a value.
    pub host_nanos: u64,
    /// Why it ended.
    pub finish: FinishReason,
}

/// Why nothing can be generated, or no more.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// There is nothing to continue.
    #[error("the prompt is empty; give at least one token")]
    EmptyPrompt,
    /// There is nothing to do.
    #[error("max_tokens is 0; ask for at least one token")]
    NoTokens,
    /// A chunk must advance.
    #[error("prefill_chunk is 0; it must be at least 1")]
    NoChunk,
    /// The sequence would leave the range of positions the model knows.
    #[error(
        "a prompt of {prompt_tokens} tokens and {max_tokens} to generate exceed the context of {context_length}; \
         shorten the prompt or ask for fewer tokens"
    )]
    ContextExceeded {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Tokens asked for.
        max_tokens: usize,
        /// The model's limit.
        context_length: usize,
    },
    /// The prompt holds an id that the model has no embedding for.
    #[error(
        "the prompt holds token {token}, beyond the model's vocabulary of {vocab_size}; the tokenizer is not this model's"
    )]
    UnknownToken {
        /// The id.
        token: u32,
        /// Ids the model knows.
        vocab_size: usize,
    },
    /// Every token is an end of sequence.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// MLX failed, most often for lack of memory.
    #[error("MLX failed while generating: {0}")]
    Mlx(#[from] Exception),
}

/// Continues `prompt`, handing each token to `on_token` as soon as its value is known.
pub fn generate(
    model: &mut LoadedModel,
    prompt: &[u32],
    options: &GenerateOptions,
    on_token: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Generation, GenerateError> {
    check(model, prompt, options)?;
    let eos: &[u32] = if options.eos_token_ids.is_empty() {
        &model.summary().eos_token_ids
    } else {
        &options.eos_token_ids
    };
    let never = if options.eos == EosPolicy::Suppress { eos } else { &[] };
    let mut sampler = Sampler::new(&options.sampling, prompt, never, model.summary().vocab_size)?;
    let mut state = model.new_sequence();

    let start = Instant::now();
    let mut ahead = prefill(model, &mut state, &mut sampler, prompt, options.prefill_chunk)?;
    let mut generation = Generation {
        prompt_tokens: prompt.len(),
        tokens: Vec::with_capacity(options.max_tokens),
        prefill_nanos: 0,
        token_nanos: Vec::with_capacity(options.max_tokens),
        build_nanos: 0,
        submit_nanos: 0,
        host_nanos: 0,
        finish: FinishReason::Length,
    };
    let mut building = Duration::ZERO;
    let mut submitting = Duration::ZERO;
    let mut waiting = Duration::ZERO;
    let mut loop_start = start;
    for position in 0..options.max_tokens {
        // The next step is submitted before this one's value is read, so that the device never waits for the host;
        // but the first value is read before, since submitting may block (a CPU's queue is short) and would count a
        // decode step into the prefill.
        let build_start = Instant::now();
        let next = if position + 1 < options.max_tokens {
            Some(step(model, &mut state, &mut sampler, &ahead)?)
        } else {
            None
        };
        let submit_start = Instant::now();
        if position > 0 {
            transforms::async_eval(&next)?;
        }
        let wait_start = Instant::now();
        let token = ahead.try_item_exact::<u32>().map_err(|error| Exception::custom(error.to_string()))?;
        let now = Instant::now();
        generation.token_nanos.push(nanos(now - start));
        if position > 0 {
            building += submit_start - build_start;
            submitting += wait_start - submit_start;
            waiting += now - wait_start;
        } else {
            // The loop's own time counts from the first token; what came before is prefill.
            generation.prefill_nanos = nanos(now - start);
            loop_start = now;
            transforms::async_eval(&next)?;
            submitting += now.elapsed();
        }
        if options.eos == EosPolicy::Stop && eos.contains(&token) {
            generation.token_nanos.pop();
            generation.finish = FinishReason::Eos;
            break;
        }
        generation.tokens.push(token);
        if on_token(token).is_break() {
            generation.finish = FinishReason::Stopped;
            break;
        }
        if (position + 1) % CLEAR_CACHE_EVERY == 0 {
            memory::clear_cache();
        }
        match next {
            Some(next) => ahead = next,
            None => break,
        }
    }
    generation.build_nanos = nanos(building);
    generation.submit_nanos = nanos(submitting);
    generation.host_nanos = nanos(loop_start.elapsed().saturating_sub(building + submitting + waiting));
    // A step submitted ahead may still run after an early stop; it must not run into the caller's next measurement.
    memory::synchronize()?;
    Ok(generation)
}

fn check(model: &LoadedModel, prompt: &[u32], options: &GenerateOptions) -> Result<(), GenerateError> {
    options.sampling.validate()?;
    if prompt.is_empty() {
        return Err(GenerateError::EmptyPrompt);
    }
    if options.max_tokens == 0 {
        return Err(GenerateError::NoTokens);
    }
    if options.prefill_chunk == 0 {
        return Err(GenerateError::NoChunk);
    }
    let summary = model.summary();
    let vocab_size = summary.vocab_size;
    if let Some(&token) =
        prompt.iter().find(|&&token| usize::try_from(token).map_or(true, |token| token >= vocab_size))
    {
        return Err(GenerateError::UnknownToken { token, vocab_size });
    }
    match summary.context_length {
        Some(context_length) if prompt.len().saturating_add(options.max_tokens) > context_length => {
            Err(GenerateError::ContextExceeded {
                prompt_tokens: prompt.len(),
                max_tokens: options.max_tokens,
                context_length,
            })
        }
        _ => Ok(()),
    }
}

/// Takes the prompt in, chunk by chunk, and submits the first token (`[1, 1]`).
fn prefill(
    model: &LoadedModel,
    state: &mut SequenceState,
    sampler: &mut Sampler,
    prompt: &[u32],
    chunk: usize,
) -> Result<Array, Exception> {
    let mut chunks = prompt.chunks(chunk).peekable();
    while let Some(ids) = chunks.next() {
        let ids = Array::from_slice(ids, &[1, i32::try_from(ids.len()).unwrap_or(i32::MAX)]);
        if chunks.peek().is_some() {
            model.absorb(&ids, state)?;
            // Bounds memory: nothing of this chunk but its keys and values outlives it.
            transforms::eval(state.arrays())?;
            memory::clear_cache();
        } else {
            let logits = model.forward(&ids, state, Positions::Last)?;
            let first = sampler.sample(&logits)?;
            transforms::async_eval([&first])?;
            return Ok(first);
        }
    }
    Err(Exception::custom("the prompt is empty"))
}

/// Builds the step after `token` (`[1, 1]`, not yet evaluated).
fn step(
    model: &LoadedModel,
    state: &mut SequenceState,
    sampler: &mut Sampler,
    token: &Array,
) -> Result<Array, Exception> {
    let logits = model.forward(token, state, Positions::Last)?;
    sampler.sample(&logits)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
