//! The verbs of `mlxcel`, one file each.

mod convert;
mod generate;
mod info;
mod logits;
mod progress;
mod version;

use clap::Subcommand;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Continue a text, printing tokens as they come.
    Generate(generate::Arguments),
    /// Say what a checkpoint folder holds.
    Info(info::Arguments),
    /// Make an MLX-format checkpoint from GGUF or safetensors files.
    Convert(convert::Arguments),
    /// Compute logits after given ids, for comparisons with other programs.
    #[command(hide = true)]
    Logits(logits::Arguments),
    /// Say what this binary was built from and which MLX it runs on.
    Version(version::Arguments),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Generate(arguments) => generate::run(&arguments),
            Self::Info(arguments) => info::run(&arguments),
            Self::Convert(arguments) => convert::run(&arguments),
            Self::Logits(arguments) => logits::run(&arguments),
            Self::Version(arguments) => version::run(&arguments),
        }
    }
}
