//! Parity on the tiny random checkpoints: every architecture, every quantization, prompts of 1, 7, 33 and 2,100
//! tokens, decode steps, and greedy ids from the generation loop.

use crate::compare::{self, Worst};
use crate::oracle::{self, Checkpoint, OracleData, Recording};
use crate::tolerance::{self, Tolerance};
use crate::{Outcome, one_at_a_time, report, skipped};
use mlxcel::generate::{EosPolicy, GenerateOptions, generate};
use mlxcel::{LoadedModel, Positions};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Decode steps that are compared at least after the 33-token prompt.
const DECODE_STEPS: usize = 64;

/// Prompts up to this length take no time.
const SHORT: usize = 64;

/// The dense or the quantized checkpoints of a model type.
fn checkpoints<'a>(data: &'a OracleData, model_type: &str, quantized: bool) -> Vec<&'a Checkpoint> {
    data.checkpoints
        .iter()
        .filter(|checkpoint| {
            checkpoint.model_type == model_type && checkpoint.quantization.is_some() == quantized
        })
        .collect()
}

/// Compares every checkpoint of the kind and fails with all that lie too far apart.
fn assert_parity(test: &str, model_type: &str, quantized: bool, compare: Comparison) -> Outcome {
    if skipped(test) {
        return Ok(());
    }
    let data = oracle::data()?;
    let chosen = checkpoints(data, model_type, quantized);
    assert!(!chosen.is_empty(), "the oracle has no such checkpoint: {model_type}, quantized: {quantized}");
    let _guard = one_at_a_time();
    let mut failures = Vec::new();
    for checkpoint in chosen {
        let tolerance = tolerance::of(checkpoint)?;
        let outcome =
            compare(data, checkpoint, tolerance).map_err(|error| format!("{}: {error}", checkpoint.name));
        match outcome {
            Ok(line) => report(&line),
            Err(line) => {
                report(&format!("FAILED {line}"));
                failures.push(line);
            }
        }
    }
    assert!(failures.is_empty(), "{} of {model_type}:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}

type Comparison = fn(&OracleData, &Checkpoint, &Tolerance) -> Result<String, String>;

/// Prefill at every recorded length and every recorded decode step.
fn logits_agree(data: &OracleData, checkpoint: &Checkpoint, tolerance: &Tolerance) -> Result<String, String> {
    let recording = data.recording(checkpoint)?;
    let model = compare::load(&data.folder(checkpoint))?;
    let (mut prompts, mut decodes) = (Worst::default(), Worst::default());
    for &length in &checkpoint.prompt_lengths {
        let (ids, oracle) = recording.prompt(length)?;
        let mut state = model.new_sequence();
        let ours = compare::prefill(&model, &mut state, &ids)?;
        prompts.compare(&format!("after {length} tokens"), &ours, &oracle)?;
        let Some(steps) = recording.decode(length)? else { continue };
        for (index, (id, oracle)) in steps.ids.iter().zip(&steps.logits).enumerate() {
            let rows = compare::forward(&model, &mut state, &[*id], Positions::Last)?;
            let ours = rows.first().ok_or("no logits came back")?;
            decodes.compare(&format!("step {index} after {length} tokens"), ours, oracle)?;
        }
    }
    if prompts.rows != checkpoint.prompt_lengths.len() || decodes.rows < DECODE_STEPS {
        return Err(format!("compared {} prompts and {} steps only", prompts.rows, decodes.rows));
    }
    let line = format!(
        "{}{}: prefill {:.1e} ({}), decode {:.1e} ({}), allowed {:.1e}",
        checkpoint.name,
        described(checkpoint),
        prompts.difference,
        prompts.place,
        decodes.difference,
        decodes.place,
        tolerance.bound,
    );
    if prompts.difference <= tolerance.bound && decodes.difference <= tolerance.bound {
        Ok(line)
    } else {
        Err(format!("{line} ({}); in standard deviations of the oracle's logits", tolerance.reason))
    }
}

fn described(checkpoint: &Checkpoint) -> String {
    match &checkpoint.quantization {
        Some(quantization) => {
            format!(
                " [{} {} bits, groups of {}]",
                quantization.mode, quantization.bits, quantization.group_size
            )
        }
        None => String::new(),
    }
}

/// The generation loop, with its own prefill and look-ahead, chooses the oracle's greedy ids; where it first differs,
/// the oracle's two logits lie no further apart than the tolerance of each allows.
fn greedy_ids_agree(
    data: &OracleData,
    checkpoint: &Checkpoint,
    tolerance: &Tolerance,
) -> Result<String, String> {
    let recording = data.recording(checkpoint)?;
    let mut model = compare::load(&data.folder(checkpoint))?;
    let mut told = Vec::new();
    // The long prompt once a kind is enough: the others have shown that their logits agree after it.
    let long = checkpoints(data, &checkpoint.model_type, checkpoint.quantization.is_some())
        .first()
        .is_some_and(|first| first.name == checkpoint.name);
    for &length in checkpoint.prompt_lengths.iter().filter(|&&length| long || length <= SHORT) {
        if let Some((choices, rows)) = greedy_choices(&recording, length)? {
            let prompt = recording.prompt(length)?.0;
            let ours = generated(&mut model, &prompt, choices.len())?;
            let agreed = ours.iter().zip(&choices).take_while(|(ours, oracle)| ours == oracle).count();
            told.push(format!("{agreed} of {} ids after {length} tokens", choices.len()));
            if let (Some(&other), Some(&choice), Some(row)) =
                (ours.get(agreed), choices.get(agreed), rows.get(agreed))
            {
                let logit = |id: u32| {
                    usize::try_from(id).ok().and_then(|id| row.get(id)).copied().unwrap_or(f32::MIN)
                };
                let gap = (logit(choice) - logit(other)) / compare::standard_deviation(row);
                let near_tie = 2.0 * tolerance.bound;
                if gap > near_tie {
                    return Err(format!(
                        "after {length} tokens, token {agreed} is {other}, the oracle's {choice}; its logits lie {gap:.1e} \
                         standard deviations apart, a near-tie is {near_tie:.0e}"
                    ));
                }
                told.push(format!("then a near-tie of {gap:.1e}"));
            }
        }
    }
    if told.is_empty() {
        return Err("the oracle recorded no greedy ids".to_owned());
    }
    Ok(format!("{}: {}", checkpoint.name, told.join(", ")))
}

/// The oracle's greedy choices after a prompt, each with the logits it was chosen from.
type Choices = (Vec<u32>, Vec<Vec<f32>>);

fn greedy_choices(recording: &Recording, length: usize) -> Result<Option<Choices>, String> {
    let Some(steps) = recording.decode(length)? else { return Ok(None) };
    let mut row = recording.prompt(length)?.1;
    let (mut ids, mut rows) = (Vec::new(), Vec::new());
    // The ids fed are the greedy ones at first, random ones later.
    for (id, next) in steps.ids.iter().zip(steps.logits) {
        let id = u32::try_from(*id).map_err(|error| error.to_string())?;
        if argmax(&row) != Some(id) {
            break;
        }
        ids.push(id);
        rows.push(std::mem::replace(&mut row, next));
    }
    Ok((!ids.is_empty()).then_some((ids, rows)))
}

fn argmax(row: &[f32]) -> Option<u32> {
    let best = row.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    u32::try_from(best.0).ok()
}

fn generated(model: &mut LoadedModel, prompt: &[i32], count: usize) -> Result<Vec<u32>, String> {
    let prompt = prompt
        .iter()
        .map(|&id| u32::try_from(id))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| error.to_string())?;
    let options = GenerateOptions {
        max_tokens: count,
        eos: EosPolicy::Stop,
        // No id ends the sequence: the oracle goes on over its end-of-sequence token as over any other.
        eos_token_ids: vec![u32::MAX],
        ..GenerateOptions::default()
    };
    let generation = generate(model, &prompt, &options, &mut |_| ControlFlow::Continue(()));
    generation.map(|generation| generation.tokens).map_err(|error| error.to_string())
}

/// The logits of every position at once are those of each position in turn.
fn all_positions_agree(
    data: &OracleData,
    checkpoint: &Checkpoint,
    tolerance: &Tolerance,
) -> Result<String, String> {
    let model = compare::load(&data.folder(checkpoint))?;
    let (ids, oracle) = data.recording(checkpoint)?.prompt(33)?;
    let together = compare::forward(&model, &mut model.new_sequence(), &ids, Positions::All)?;
    if together.len() != ids.len() {
        return Err(format!("{} rows of logits for {} tokens", together.len(), ids.len()));
    }
    let mut worst = Worst::default();
    let mut state = model.new_sequence();
    for (index, (id, row)) in ids.iter().zip(&together).enumerate() {
        let alone = compare::forward(&model, &mut state, &[*id], Positions::Last)?;
        worst.compare(&format!("position {index}"), row, alone.first().ok_or("no logits came back")?)?;
    }
    worst.compare("the oracle's last position", together.last().ok_or("no logits came back")?, &oracle)?;
    let line = format!("{}: all positions {:.1e} ({})", checkpoint.name, worst.difference, worst.place);
    if worst.difference <= tolerance.bound { Ok(line) } else { Err(line) }
}

#[test]
fn dense_llama_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("dense llama logits", "llama", false, logits_agree)
}

#[test]
fn quantized_llama_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("quantized llama logits", "llama", true, logits_agree)
}

#[test]
fn dense_mistral_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("dense mistral logits", "mistral", false, logits_agree)
}

#[test]
fn quantized_mistral_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("quantized mistral logits", "mistral", true, logits_agree)
}

#[test]
fn dense_qwen2_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("dense qwen2 logits", "qwen2", false, logits_agree)
}

#[test]
fn quantized_qwen2_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("quantized qwen2 logits", "qwen2", true, logits_agree)
}

#[test]
fn dense_qwen3_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("dense qwen3 logits", "qwen3", false, logits_agree)
}

#[test]
fn quantized_qwen3_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("quantized qwen3 logits", "qwen3", true, logits_agree)
}

#[test]
fn dense_gemma3_text_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("dense gemma3_text logits", "gemma3_text", false, logits_agree)
}

#[test]
fn quantized_gemma3_text_logits_agree_with_mlx_lm() -> Outcome {
    assert_parity("quantized gemma3_text logits", "gemma3_text", true, logits_agree)
}

#[test]
fn generation_chooses_mlx_lms_greedy_ids() -> Outcome {
    for model_type in mlxcel::known_model_types() {
        for quantized in [false, true] {
            assert_parity("greedy ids", model_type, quantized, greedy_ids_agree)?;
        }
    }
    Ok(())
}

#[test]
fn logits_of_all_positions_are_those_of_each_in_turn() -> Outcome {
    for model_type in mlxcel::known_model_types() {
        assert_parity("all positions", model_type, false, all_positions_agree)?;
    }
    Ok(())
}

#[test]
fn the_oracle_covers_every_architecture_and_every_quantization() -> Outcome {
    if skipped("coverage") {
        return Ok(());
    }
    let data = oracle::data()?;
    for model_type in mlxcel::known_model_types() {
        for quantized in [false, true] {
            assert!(
                !checkpoints(data, model_type, quantized).is_empty(),
                "{model_type}, quantized: {quantized}"
            );
        }
    }
    let quantizations: Vec<_> =
        data.checkpoints.iter().filter_map(|checkpoint| checkpoint.quantization.as_ref()).collect();
    let affine = || quantizations.iter().filter(|quantization| quantization.mode == "affine");
    let bits: BTreeSet<u32> = affine().map(|quantization| quantization.bits).collect();
    let groups: BTreeSet<u32> = affine().map(|quantization| quantization.group_size).collect();
    let modes: BTreeSet<&str> = quantizations.iter().map(|quantization| quantization.mode.as_str()).collect();
    let lengths: BTreeSet<usize> =
        data.checkpoints.iter().flat_map(|checkpoint| checkpoint.prompt_lengths.clone()).collect();
    assert_eq!(bits, BTreeSet::from([2, 3, 4, 5, 6, 8]));
    assert_eq!(groups, BTreeSet::from([32, 64, 128]));
    assert_eq!(modes, BTreeSet::from(["affine", "mxfp4", "nvfp4"]));
    assert_eq!(lengths, BTreeSet::from([1, 7, 33, 2100]));
    Ok(())
}
