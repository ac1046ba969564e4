//! `mlxcel generate`: continue a text with a model, streaming it or printing everything known of the run as JSON.

use super::progress::ByteProgress;
use anyhow::{Context, bail, ensure};
use clap::Args;
use mlxcel::generate::{DEFAULT_PREFILL_CHUNK, EosPolicy, GenerateOptions, Generation, generate};
use mlxcel::sampling::SamplingOptions;
use mlxcel::tokenizer::{Message, Tokenizer};
use mlxcel::{LoadedModel, memory};
use mlxcel_catalog::config::Config;
use serde_json::json;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

/// Tokens generated when `--max-tokens` is not given and the context has room for them.
const DEFAULT_MAX_TOKENS: usize = 256;

/// What to continue, and how.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "one a flag")]
pub(crate) struct Arguments {
    /// The checkpoint folder.
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// The text; `-` reads standard input.
    #[arg(short, long, value_name = "TEXT")]
    prompt: String,
    /// Tokens to generate at most [default: 256, or what the context has room for].
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one)]
    max_tokens: Option<usize>,
    /// Choose by chance, the more so the higher; 0 takes the most likely token, whatever generation_config.json says.
    #[arg(long, visible_alias = "temperature", default_value_t = 0.0)]
    temp: f32,
    /// Only the K most likely tokens (0: all).
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: u32,
    /// Only the most likely tokens that together reach this probability.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
    /// Only tokens at least this fraction as likely as the most likely one.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f32,
    /// Make tokens seen lately less likely (1: do not).
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    repetition_penalty: f32,
    /// How many of the last tokens count as seen lately.
    #[arg(long, value_name = "N", default_value_t = SamplingOptions::default().repetition_context)]
    repetition_context: usize,
    /// Make a choice by chance repeatable.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Put the text into the checkpoint's chat template [default: where it has one].
    #[arg(long, conflicts_with = "raw")]
    chat: bool,
    /// Continue the text as it is.
    #[arg(long)]
    raw: bool,
    /// Never end before the last token: ends of sequence are not chosen.
    #[arg(long)]
    ignore_eos: bool,
    /// Prompt tokens taken in one pass.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PREFILL_CHUNK, value_parser = at_least_one)]
    prefill_chunk: usize,
    /// An image, for a model that sees.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Print one JSON object instead of the text: ids, the time of every token, memory.
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("is not a whole number".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let sampling = arguments.sampling();
    sampling.validate()?;
    let text = arguments.text()?;
    ensure!(!text.is_empty(), "the prompt is empty; give a text with --prompt");
    if !arguments.image.is_empty() {
        let config = Config::read(&arguments.model)?;
        bail!(
            "{}: `{}` is a text model and takes no --image",
            arguments.model.display(),
            config.model_type()
        );
    }
    let tokenizer = Tokenizer::open(&arguments.model)?;
    let prompt = arguments.encode(&tokenizer, &text)?;

    let load_start = Instant::now();
    memory::reset_peak();
    let progress = ByteProgress::new("loading");
    let mut model = LoadedModel::load(&arguments.model, &mut |done, total| progress.update(done, total))?;
    progress.finish();
    let load_nanos = load_start.elapsed().as_nanos();

    let room =
        model.summary().context_length.map_or(usize::MAX, |context| context.saturating_sub(prompt.len()));
    let options = GenerateOptions {
        max_tokens: arguments.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS.min(room).max(1)),
        sampling,
        prefill_chunk: arguments.prefill_chunk,
        eos: if arguments.ignore_eos { EosPolicy::Suppress } else { EosPolicy::Stop },
        eos_token_ids: tokenizer.eos_token_ids().to_vec(),
    };
    let load_peak_bytes = memory::peak_bytes();
    memory::reset_peak();
    let mut stream = tokenizer.stream_decoder(true);
    let mut out = io::stdout().lock();
    let mut written = Ok(());
    let generation = generate(&mut model, &prompt, &options, &mut |token| {
        if arguments.json {
            return ControlFlow::Continue(());
        }
        written = stream
            .push(token)
            .map_err(anyhow::Error::from)
            .and_then(|piece| Ok(out.write_all(piece.as_bytes()).and_then(|()| out.flush())?));
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    if arguments.json {
        let report = report(&tokenizer, &generation, &model, load_nanos, load_peak_bytes)?;
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(out, "{}", stream.finish()?)?;
    }
    Ok(())
}

impl Arguments {
    fn sampling(&self) -> SamplingOptions {
        SamplingOptions {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            repetition_context: self.repetition_context,
            seed: self.seed,
        }
    }

    fn text(&self) -> anyhow::Result<String> {
        if self.prompt != "-" {
            return Ok(self.prompt.clone());
        }
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("the prompt cannot be read from standard input")?;
        Ok(text)
    }

    fn encode(&self, tokenizer: &Tokenizer, text: &str) -> anyhow::Result<Vec<u32>> {
        if self.raw || !(self.chat || tokenizer.has_chat_template()) {
            return Ok(tokenizer.encode(text, true)?);
        }
        let rendered = tokenizer.apply_chat_template(&[Message::user(text)], true)?;
        Ok(tokenizer.encode_prompt(&rendered)?)
    }
}

/// Everything known of the run. Times are in milliseconds unless a name says otherwise.
fn report(
    tokenizer: &Tokenizer,
    generation: &Generation,
    model: &LoadedModel,
    load_nanos: u128,
    load_peak_bytes: Option<u64>,
) -> anyhow::Result<serde_json::Value> {
    let milliseconds = |nanos: f64| nanos / 1e6;
    let last = generation.token_nanos.last().copied().unwrap_or(generation.prefill_nanos);
    let decode_nanos = last.saturating_sub(generation.prefill_nanos);
    let decode_steps = generation.token_nanos.len().saturating_sub(1);
    let rate = |count: usize, nanos: u64| (nanos > 0 && count > 0).then(|| count as f64 * 1e9 / nanos as f64);
    Ok(json!({
        "model": model.summary(),
        "text": tokenizer.decode(&generation.tokens, true)?,
        "tokens": generation.tokens,
        "finish": generation.finish,
        "prompt_tokens": generation.prompt_tokens,
        "generated_tokens": generation.tokens.len(),
        "load_ms": milliseconds(load_nanos as f64),
        "prefill_ms": milliseconds(generation.prefill_nanos as f64),
        "prefill_tok_s": rate(generation.prompt_tokens, generation.prefill_nanos),
        "decode_steps": decode_steps,
        "decode_ms": milliseconds(decode_nanos as f64),
        "decode_tok_s": rate(decode_steps, decode_nanos),
        "build_ms": milliseconds(generation.build_nanos as f64),
        "submit_ms": milliseconds(generation.submit_nanos as f64),
        "host_ms": milliseconds(generation.host_nanos as f64),
        "token_ns": generation.token_nanos,
        "load_peak_memory_bytes": load_peak_bytes,
        "peak_memory_bytes": memory::peak_bytes(),
    }))
}
