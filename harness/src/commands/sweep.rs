//! `sweep`: listens for Ctrl-C and runs the sweep.

use anyhow::Context as _;

use crate::cli::SweepArgs;
use crate::exit::Exit;
use crate::sweep::{interrupt::Interrupt, run::sweep};

pub(super) fn run(arguments: &SweepArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::listen().context("the system takes no handler for Ctrl-C")?;
    sweep(arguments, &interrupt)
}
