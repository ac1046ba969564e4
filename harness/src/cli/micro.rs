//! The flags of `micro`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::compare::ListFormat;
use super::sweep::seconds;

/// Measurements of single operations.
#[derive(Debug, Clone, Subcommand)]
pub enum MicroCommand {
    /// Products of activations with a weight, quantized or dense: our kernels on the processor beside MLX's own.
    Qmm(Box<QmmArgs>),
    /// Loading of checkpoints beside reading their bytes into memory.
    Load(LoadArgs),
}

/// How long does loading take beside reading, and how much memory beside the bytes?
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each block is A B B A: A loads in a new worker process, B reads every shard into new memory with as many threads as this process \
may use. A block's ratio is its loads' time over its readings'; shown are the median and the smallest and largest. Memory is the \
most that a worker had resident.

Exit codes: 0 measured; 4 bad input; 64 usage; 130 interrupted.")]
pub struct LoadArgs {
    /// Folders of checkpoints.
    #[arg(required = true, value_name = "CHECKPOINT")]
    pub checkpoints: Vec<PathBuf>,
    /// Blocks of two loads and two readings.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: u32,
    /// Drop the files from the system's cache before each measurement (Linux).
    #[arg(long)]
    pub cold: bool,
    /// Longest time of one load, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1800", value_parser = seconds)]
    pub timeout: Duration,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub format: ListFormat,
}

/// How fast are products, what is that of what the host can do, and how fast is MLX's own operation?
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each product is measured in blocks, A B B A: our kernels, MLX, MLX, our kernels, on the same arrays. The weight lies in so many \
copies that it comes from memory each time (--warm: from the cache). GB/s are bytes of the weight (fields, scales, biases) over \
the median time, GFLOP/s multiplications and additions; their shares are of the read bandwidth and of the fastest product, both \
measured in the same run.

Exit codes: 0 measured; 4 bad input; 64 usage.

Environment: MLXCEL_QMV_WIDE and MLXCEL_CPU_ISA choose among our kernels and are shown; MLXCEL_CPU_KERNELS changes nothing here. \
MLXCEL_BENCH_LLC_BYTES is the size of the last-level cache where the system does not tell it.")]
pub struct QmmArgs {
    /// How weights are stored.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "affine")]
    pub mode: Vec<QmmMode>,
    /// Bits of a weight in the affine mode: 2, 3, 4, 5, 6 or 8 [default: 4].
    #[arg(long, value_name = "BITS", value_delimiter = ',', value_parser = bits)]
    pub bits: Vec<u32>,
    /// Weights that share a scale in the affine mode: 32, 64 or 128 [default: 64].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = group_size)]
    pub group_size: Vec<u32>,
    /// Rows of activations, M.
    #[arg(long, value_name = "M", value_delimiter = ',', default_value = "1,8,128", value_parser = extent, allow_negative_numbers = true)]
    pub rows: Vec<usize>,
    /// Shape of the weight: rows and columns, as 8192x2048 [default: those of SmolLM2-135M and of a Llama of 1B].
    #[arg(long, value_name = "NxK", value_delimiter = ',', value_parser = shape)]
    pub shape: Vec<WeightShape>,
    /// Data type of activations, of dense weights, and of scales and biases.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "bf16")]
    pub dtype: Vec<FloatName>,
    /// Data type of scales and biases [default: as --dtype].
    #[arg(long, value_enum)]
    pub scales_dtype: Option<FloatName>,
    /// How long each of the two is measured for each product, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "0.4", value_parser = seconds)]
    pub seconds: Duration,
    /// How long one product of MLX may take, in seconds: where it would be longer, judged by a small one, it is left out, and
    /// the row says so.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub mlx_limit: Duration,
    /// Leave MLX out.
    #[arg(long)]
    pub skip_mlx: bool,
    /// Read one copy of the weight again and again, from the cache where it fits.
    #[arg(long)]
    pub warm: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub format: ListFormat,
}

/// How weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QmmMode {
    /// Integers with a scale and a bias for each group.
    Affine,
    /// 4-bit floats in groups of 32.
    Mxfp4,
    /// 4-bit floats in groups of 16.
    Nvfp4,
    /// Floats.
    Dense,
}

/// A data type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FloatName {
    /// 16-bit brain floats.
    Bf16,
    /// 16-bit IEEE floats.
    F16,
    /// 32-bit floats.
    F32,
}

/// Rows and columns of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightShape {
    /// Rows: the width of the result.
    pub n: usize,
    /// Columns: the width of the activations.
    pub k: usize,
}

fn one_of(text: &str, known: &[u32], what: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| known.contains(number)).ok_or_else(|| {
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        format!("{what}; it must be one of {}", known.join(", "))
    })
}

fn bits(text: &str) -> Result<u32, String> {
    one_of(text, &[2, 3, 4, 5, 6, 8], "the affine mode has no weights of that many bits")
}

fn group_size(text: &str) -> Result<u32, String> {
    one_of(text, &[32, 64, 128], "the affine mode has no groups of that size")
}

fn extent(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a product of 0 rows computes nothing; it must be at least 1".to_owned()),
        Ok(number) if number <= 1 << 24 => Ok(number),
        _ => Err(format!("it must be a whole number from 1 to {}", 1 << 24)),
    }
}

fn shape(text: &str) -> Result<WeightShape, String> {
    let (n, k) = text
        .split_once(['x', 'X', '×'])
        .ok_or("it must be rows and columns of the weight with an x between them, as 8192x2048")?;
    let of = |name: &str, text| extent(text).map_err(|words| format!("{name}: {words}"));
    Ok(WeightShape { n: of("rows of the weight", n)?, k: of("columns of the weight", k)? })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(arguments: &[&str]) -> Result<QmmArgs, String> {
        let line = ["mlxcel-bench", "micro", "qmm"].iter().chain(arguments);
        match Cli::try_parse_from(line) {
            Ok(Cli { command: Command::Micro(MicroCommand::Qmm(arguments)) }) => Ok(*arguments),
            Ok(_) => Err("another command".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn lists_are_parted_by_commas() -> Result<(), String> {
        let arguments = parse(&[
            "--bits",
            "2,8",
            "--rows",
            "1,16",
            "--shape",
            "64x32,576×1536",
            "--mode",
            "affine,nvfp4",
            "--dtype",
            "f32,f16",
        ])?;
        assert_eq!((arguments.bits, arguments.rows), (vec![2, 8], vec![1, 16]));
        assert_eq!(arguments.shape, [WeightShape { n: 64, k: 32 }, WeightShape { n: 576, k: 1536 }]);
        assert_eq!(arguments.mode, [QmmMode::Affine, QmmMode::Nvfp4]);
        assert_eq!(arguments.dtype, [FloatName::F32, FloatName::F16]);
        Ok(())
    }

    #[test]
    fn what_no_kernel_serves_is_refused_in_words() {
        for (line, words) in [
            (["--bits", "7"], "must be one of 2, 3, 4, 5, 6, 8"),
            (["--bits", "four"], "must be one of 2, 3, 4, 5, 6, 8"),
            (["--group-size", "16"], "must be one of 32, 64, 128"),
            (["--rows", "0"], "a product of 0 rows computes nothing"),
            (["--rows", "-1"], "whole number"),
            (["--rows", "99999999999999999999"], "whole number"),
            (["--shape", "8192"], "with an x between them"),
            (["--shape", "0x64"], "rows of the weight: a product of 0 rows"),
            (["--shape", "64x"], "columns of the weight: it must be a whole number"),
            (["--dtype", "int8"], "possible values: bf16, f16, f32"),
            (["--mode", "mxfp8"], "possible values: affine, mxfp4, nvfp4, dense"),
            (["--seconds", "0"], "seconds"),
        ] {
            let message = parse(&line).err().unwrap_or_default();
            assert!(message.contains(words), "{line:?}: {message}");
        }
    }
}
