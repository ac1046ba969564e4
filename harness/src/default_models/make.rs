//! Makes the default checkpoints with the runtime's converter.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel::convert::{
    ConvertInput, ConvertRequest, FloatDtype, GENERATOR, OutputMode, SyntheticConfig, run,
    smollm2_135m_config,
};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};

use super::cache::Cache;
use super::fetch::GGUF_SHA256;
use crate::sweep::interrupt::Interrupt;
use crate::text::complain;

/// Raised by hand whenever the same input gives other checkpoints.
const RECIPE: u32 = 2;
// The names tell the type of what is not packed, scales included. Checkpoints of other types had the name without it
// before: a name stands for one set of weights for ever.
const FOUR_BIT: &str = "SmolLM2-135M-Instruct-4bit-f16";
const DENSE: &str = "SmolLM2-135M-Instruct-bf16";
const ALIAS: &str = "smollm2-135m-instruct-4bit-f16-alias";
const SYNTHETIC_FOUR_BIT: &str = "synthetic-SmolLM2-135M-shape-4bit-f16";
const SYNTHETIC_DENSE: &str = "synthetic-SmolLM2-135M-shape-bf16";
const SYNTHETIC_ALIAS: &str = "synthetic-smollm2-135m-shape-4bit-f16-alias";
/// Seed of the synthetic weights.
const SEED: u64 = 135;

/// The checkpoints of the real model, when all are in the cache.
pub(super) fn real_ones_at_hand(cache: &Cache) -> Option<Vec<PathBuf>> {
    [FOUR_BIT, DENSE, ALIAS].into_iter().map(|name| cache.made(name, &recipe(name))).collect()
}

/// Converts the GGUF file.
pub(super) fn real_ones(cache: &Cache, gguf: &Path, interrupt: &Interrupt) -> anyhow::Result<Vec<PathBuf>> {
    let input = || ConvertInput::Gguf(gguf.to_owned());
    make(cache, [FOUR_BIT, DENSE, ALIAS], interrupt, |name| {
        (input(), if name == DENSE { OutputMode::Dense } else { OutputMode::Lossless })
    })
}

/// Makes checkpoints of the same shape from random numbers.
pub(super) fn synthetic_ones(cache: &Cache, interrupt: &Interrupt) -> anyhow::Result<Vec<PathBuf>> {
    let input =
        || ConvertInput::Synthetic { config: SyntheticConfig::Object(smollm2_135m_config()), seed: SEED };
    // The grouping of the real one.
    let four_bit = QuantizationSpec { mode: QuantizationMode::Affine, bits: 4, group_size: 32 };
    make(cache, [SYNTHETIC_FOUR_BIT, SYNTHETIC_DENSE, SYNTHETIC_ALIAS], interrupt, |name| {
        (input(), if name == SYNTHETIC_DENSE { OutputMode::Dense } else { OutputMode::Quantized(four_bit) })
    })
}

/// The 4-bit checkpoint, the dense one, and the alias of the former.
fn make(
    cache: &Cache,
    [four_bit, dense, alias]: [&str; 3],
    interrupt: &Interrupt,
    what: impl Fn(&str) -> (ConvertInput, OutputMode),
) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for name in [four_bit, dense] {
        folders.push(cache.make(name, &recipe(name), |folder| {
            complain(&format!("making {name} in {}", folder.parent().unwrap_or(folder).display()));
            let (input, mode) = what(name);
            let request = ConvertRequest {
                mode,
                // The GGUF file's scales are float16: in that type its 4-bit values are kept exactly.
                dtype: Some(if name == dense { FloatDtype::Bf16 } else { FloatDtype::F16 }),
                interrupt: Some(interrupt.flag()),
                ..ConvertRequest::new(input, folder.to_owned())
            };
            let report = run(&request, &mut |_, _| {}).with_context(|| format!("{name} cannot be made"))?;
            report.warnings.iter().for_each(|warning| complain(&format!("{name}: {warning}")));
            Ok(())
        })?);
    }
    if let Some(four_bit) = folders.first().cloned() {
        folders.push(cache.alias(alias, &four_bit, &recipe(alias))?);
    }
    Ok(folders)
}

fn recipe(name: &str) -> String {
    format!("{name}, recipe {RECIPE}, from {GGUF_SHA256} or seed {SEED} of generator {GENERATOR}\n")
}
