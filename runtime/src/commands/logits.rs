//! `mlxcel logits`, which the help does not list: logits after given ids, for comparisons with other programs.

use anyhow::{Context, ensure};
use clap::Args;
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, ops, transforms};
use mlxcel::generate::DEFAULT_PREFILL_CHUNK;
use mlxcel::{LoadedModel, Positions, nodes};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

/// What to compute.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The checkpoint folder.
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// A JSON file: names, each with the ids of a `prompt` and of the `steps` to feed after it.
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// The safetensors file to write: `NAME.RUN.prompt` f32 [V] and `NAME.RUN.steps` f32 [steps, V].
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How often everything is computed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
}

/// The ids of one sequence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sequence {
    prompt: Vec<u32>,
    steps: Vec<u32>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.ids.display();
    ensure!(
        !arguments.out.exists(),
        "{} exists and is not overwritten; name another file",
        arguments.out.display()
    );
    let text = std::fs::read_to_string(&arguments.ids).with_context(|| format!("{path} cannot be read"))?;
    let sequences: BTreeMap<String, Sequence> =
        serde_json::from_str(&text).with_context(|| format!("{path} is not what --ids asks for"))?;
    let model = LoadedModel::load(&arguments.model, &mut |_, _| ())?;
    let vocab_size = model.summary().vocab_size;
    let mut results = Vec::new();
    for (name, sequence) in &sequences {
        ensure!(!sequence.prompt.is_empty(), "{path}: the prompt of {name} is empty; give at least one id");
        let mut ids = sequence.prompt.iter().chain(&sequence.steps);
        if let Some(id) = ids.find(|id| usize::try_from(**id).map_or(true, |id| id >= vocab_size)) {
            anyhow::bail!("{path}: {name} holds the id {id}, beyond the model's vocabulary of {vocab_size}");
        }
        for run in 1..=arguments.runs {
            let (prompt, steps) = logits(&model, sequence).context("MLX failed while computing logits")?;
            results.push((format!("{name}.{run}.prompt"), prompt));
            if let Some(steps) = steps {
                results.push((format!("{name}.{run}.steps"), steps));
            }
        }
    }
    let named = results.iter().map(|(name, array)| (name.as_str(), array));
    Array::save_safetensors(named, None, &arguments.out)
        .with_context(|| format!("{} cannot be written", arguments.out.display()))?;
    let nodes = nodes::of_decode_step(&model).context("MLX failed while building a decode step")?;
    writeln!(io::stdout(), "{}", serde_json::json!({ "decode_step_nodes": nodes }))?;
    Ok(())
}

/// The logits after the prompt, and after each step.
fn logits(model: &LoadedModel, sequence: &Sequence) -> Result<(Array, Option<Array>), Exception> {
    let mut state = model.new_sequence();
    let mut row = |ids: &[u32]| {
        let ids = Array::from_slice(ids, &[1, i32::try_from(ids.len()).unwrap_or(i32::MAX)]);
        let row = model
            .forward(&ids, &mut state, Positions::Last)?
            .flatten(None, None)?
            .as_dtype(Dtype::Float32)?;
        transforms::eval([&row])?;
        Ok::<_, Exception>(row)
    };
    let mut prompt = None;
    for chunk in sequence.prompt.chunks(DEFAULT_PREFILL_CHUNK) {
        prompt = Some(row(chunk)?);
    }
    let prompt = prompt.ok_or_else(|| Exception::custom("the prompt is empty"))?;
    let steps = sequence.steps.iter().map(|id| row(&[*id])).collect::<Result<Vec<_>, _>>()?;
    let steps = if steps.is_empty() { None } else { Some(ops::stack(&steps, 0)?) };
    Ok((prompt, steps))
}
