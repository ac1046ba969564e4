//! The `mlxcel` command: run a model, look into a checkpoint, convert one, say what this binary is.

mod commands;
mod exit;

use clap::Parser;
use exit::Failure;
use std::process::ExitCode;

/// Inference runtime for MLX-format language models.
#[derive(Parser)]
#[command(name = "mlxcel", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::after_usage(&error),
    };
    exit::after(cli.command.run().map_err(Failure::from))
}
