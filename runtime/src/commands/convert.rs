//! `mlxcel convert`: an MLX-format checkpoint folder from a GGUF file, a safetensors checkpoint, or a configuration
//! alone.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::{Args, ValueEnum};
use mlxcel::convert::{
    self, ConvertError, ConvertInput, ConvertReport, ConvertRequest, FloatDtype, OutputMode, SyntheticConfig,
};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::progress::ByteProgress;

/// What to convert, and into what.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A GGUF file, or a checkpoint folder with safetensors files.
    #[arg(value_name = "PATH", required_unless_present = "synthetic", conflicts_with = "synthetic")]
    input: Option<PathBuf>,
    /// The folder to make; it must not exist, or be empty.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Element type of dense tensors, scales and biases [default: the input's].
    #[arg(long, value_name = "TYPE")]
    dtype: Option<Dtype>,
    /// Quantize matrices to so many bits.
    #[arg(long, value_name = "BITS")]
    q_bits: Option<u32>,
    /// Elements that share a scale [default: 64; 32 for mxfp4, 16 for nvfp4].
    #[arg(long, value_name = "N")]
    q_group_size: Option<u32>,
    /// How quantized values are stored [default: affine].
    #[arg(long, value_name = "MODE")]
    q_mode: Option<Mode>,
    /// Keep a GGUF file's own Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 values exactly, in MLX's packing.
    #[arg(long, conflicts_with_all = ["q_bits", "q_group_size", "q_mode"])]
    lossless: bool,
    /// Make a quantized checkpoint folder dense.
    #[arg(long, conflicts_with_all = ["q_bits", "q_group_size", "q_mode", "lossless"])]
    dequantize: bool,
    /// Take the tokenizer from this folder instead of the input.
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,
    /// Make a checkpoint of random weights in the shape of this config.json (or of the folder that holds it).
    #[arg(long, value_name = "CONFIG", requires = "seed")]
    synthetic: Option<PathBuf>,
    /// Seed of the random weights.
    #[arg(long, value_name = "N", requires = "synthetic")]
    seed: Option<u64>,
    /// Largest weight file, in GiB.
    #[arg(long, value_name = "GIB", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    max_shard_gb: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    F16,
    Bf16,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Affine,
    Mxfp4,
    Nvfp4,
}

impl Arguments {
    fn mode(&self) -> OutputMode {
        if self.lossless {
            return OutputMode::Lossless;
        }
        if self.dequantize {
            return OutputMode::Dequantize;
        }
        if self.q_bits.is_none() && self.q_group_size.is_none() && self.q_mode.is_none() {
            return OutputMode::Dense;
        }
        // The defaults are mlx-lm's.
        let (mode, group_size) = match self.q_mode.unwrap_or(Mode::Affine) {
            Mode::Affine => (QuantizationMode::Affine, 64),
            Mode::Mxfp4 => (QuantizationMode::Mxfp4, 32),
            Mode::Nvfp4 => (QuantizationMode::Nvfp4, 16),
        };
        OutputMode::Quantized(QuantizationSpec {
            mode,
            bits: self.q_bits.unwrap_or(4),
            group_size: self.q_group_size.unwrap_or(group_size),
        })
    }

    fn request(&self) -> Result<ConvertRequest, ConvertError> {
        let input = match (&self.input, &self.synthetic, self.seed) {
            (_, Some(config), Some(seed)) => {
                ConvertInput::Synthetic { config: SyntheticConfig::File(config.clone()), seed }
            }
            (Some(path), ..) => ConvertInput::detect(path)?,
            _ => {
                return Err(ConvertError::Request(
                    "give a path to convert, or --synthetic with --seed".to_owned(),
                ));
            }
        };
        let mut request = ConvertRequest::new(input, self.output.clone());
        request.mode = self.mode();
        request.dtype = self.dtype.map(|dtype| match dtype {
            Dtype::F32 => FloatDtype::F32,
            Dtype::F16 => FloatDtype::F16,
            Dtype::Bf16 => FloatDtype::Bf16,
        });
        request.tokenizer.clone_from(&self.tokenizer);
        request.max_shard_bytes = self.max_shard_gb << 30;
        Ok(request)
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut request = arguments.request()?;
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt)).context("signals cannot be watched")?;
    }
    request.interrupt = Some(interrupt);
    let bar = ByteProgress::new("converting");
    let result = convert::run(&request, &mut |done, total| bar.update(done, total));
    bar.finish();
    let report = result?;
    for warning in &report.warnings {
        writeln!(io::stderr(), "warning: {warning}")?;
    }
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        return Ok(());
    }
    print(&mut out, &report)?;
    Ok(())
}

fn print(out: &mut impl Write, report: &ConvertReport) -> io::Result<()> {
    writeln!(out, "{}", report.output.display())?;
    writeln!(out, "  {} of {} parameters, {}", report.model_type, report.parameters, report.dtype.name())?;
    writeln!(
        out,
        "  {} bytes in {} file(s), {:.3} bits per weight, {} quantized layers",
        report.weight_bytes, report.shards, report.bits_per_weight, report.quantized_layers
    )?;
    if let Some(largest) = report.rounded.iter().map(|tensor| tensor.largest_difference).reduce(f32::max) {
        writeln!(
            out,
            "  {} norms or biases rounded to {}, by {largest:e} at most",
            report.rounded.len(),
            report.dtype.name()
        )?;
    }
    Ok(())
}
