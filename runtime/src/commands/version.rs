//! `mlxcel version`: everything the binary knows of itself.

use anyhow::Context;
use clap::{Args, ValueEnum};
use mlxcel::version::{BuildInfo, runtime_stamp};
use std::io::{self, Write};

/// What to print, and how.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How it is printed: a table for people, or JSON with the sources.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// How the answer is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people.
    Table,
    /// One JSON document.
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let info = BuildInfo::of_running_binary(runtime_stamp()?);
    let mut out = io::stdout().lock();
    if arguments.json || arguments.format == Format::Json {
        let json = serde_json::to_string_pretty(&info).context("the build information is not JSON")?;
        return Ok(writeln!(out, "{json}")?);
    }
    let unknown = || "unknown".to_owned();
    let build = &info.build;
    writeln!(out, "mlxcel {}", build.version)?;
    writeln!(out, "source commit   {}", build.tree.stamp().unwrap_or_else(unknown))?;
    writeln!(out, "profile         {}", build.profile.clone().unwrap_or_else(unknown))?;
    writeln!(out, "compiler        {}", build.rustc.clone().unwrap_or_else(unknown))?;
    writeln!(out, "target          {}", build.target.clone().unwrap_or_else(unknown))?;
    writeln!(out, "backend         {}", info.mlx.backend)?;
    writeln!(out, "MLX             {}", info.mlx.version.clone().unwrap_or_else(unknown))?;
    writeln!(out, "MLX revision    {}", info.mlx.revision.clone().unwrap_or_else(unknown))?;
    writeln!(out, "libmlx SHA-256  {}", info.mlx.library_sha256.clone().unwrap_or_else(unknown))?;
    writeln!(out, "mlx-rs          {}", info.mlx.mlx_rs_version.clone().unwrap_or_else(unknown))?;
    writeln!(out, "mlx-c           {}", info.mlx.mlx_c_version)?;
    if let Some(cuda) = &info.mlx.cuda {
        writeln!(out, "GPU             {}", cuda.device_name.clone().unwrap_or_else(unknown))?;
        writeln!(out, "CUDA of driver  {}", cuda.driver_cuda_version.clone().unwrap_or_else(unknown))?;
        writeln!(out, "NVRTC           {}", cuda.nvrtc_version.clone().unwrap_or_else(unknown))?;
        writeln!(out, "cuDNN           {}", cuda.cudnn_version.clone().unwrap_or_else(unknown))?;
    }
    writeln!(out, "binary SHA-256  {}", info.executable_sha256.unwrap_or_else(unknown))?;
    Ok(())
}
