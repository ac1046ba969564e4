//! `mlxcel info`: what a checkpoint folder holds, read from its headers alone.

use anyhow::Context;
use clap::Args;
use mlxcel::tokenizer::Tokenizer;
use mlxcel::{ModelSummary, QuantizationSummary};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// Which checkpoint, and how to print.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The checkpoint folder.
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    path: PathBuf,
    #[serde(flatten)]
    summary: ModelSummary,
    tokenizer: TokenizerInfo,
}

/// A checkpoint without a tokenizer still has weights to tell of.
#[derive(Serialize)]
#[serde(untagged)]
enum TokenizerInfo {
    Found { vocabulary: usize, chat_template: bool },
    Missing { problem: String },
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let summary = ModelSummary::of_folder(&arguments.model)?;
    let tokenizer = match Tokenizer::open(&arguments.model) {
        Ok(tokenizer) => TokenizerInfo::Found {
            vocabulary: tokenizer.vocab_size(),
            chat_template: tokenizer.has_chat_template(),
        },
        Err(error) => TokenizerInfo::Missing { problem: error.to_string() },
    };
    let path = arguments.model.canonicalize().with_context(|| format!("{}", arguments.model.display()))?;
    let info = Info { path, summary, tokenizer };
    let mut out = io::stdout().lock();
    if arguments.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&info)?)?);
    }
    let summary = &info.summary;
    writeln!(out, "path             {}", info.path.display())?;
    writeln!(out, "architecture     {}", summary.model_type)?;
    writeln!(out, "parameters       {}", grouped(summary.parameters))?;
    writeln!(out, "weights          {} bytes", grouped(summary.weight_bytes))?;
    writeln!(out, "bits per weight  {:.3}", summary.bits_per_weight)?;
    writeln!(out, "quantization     {}", quantization(summary.quantization.as_ref()))?;
    writeln!(out, "float types      {}", summary.float_dtypes.join(", "))?;
    writeln!(out, "vocabulary       {}", summary.vocab_size)?;
    let context = summary.context_length.map_or_else(|| "unknown".to_owned(), |length| length.to_string());
    writeln!(out, "context          {context}")?;
    match &info.tokenizer {
        TokenizerInfo::Found { vocabulary, chat_template } => writeln!(
            out,
            "tokenizer        {vocabulary} tokens, {} chat template",
            if *chat_template { "with a" } else { "no" }
        )?,
        TokenizerInfo::Missing { problem } => writeln!(out, "tokenizer        none: {problem}")?,
    }
    if summary.synthetic {
        writeln!(out, "synthetic        the weights are random numbers made for measuring speed")?;
    }
    Ok(())
}

fn quantization(quantization: Option<&QuantizationSummary>) -> String {
    quantization.map_or_else(
        || "none".to_owned(),
        |quantization| {
            format!(
                "{} {} bits, groups of {}, {} layers with their own setting",
                quantization.mode, quantization.bits, quantization.group_size, quantization.overrides
            )
        },
    )
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
