//! `sweep`: listens for Ctrl-C and runs the sweep.

use anyhow::Context as _;

use crate::cli::SweepArgs;
use crate::exit::{EndsWith, Exit};
use crate::sweep::{interrupt::Interrupt, run::sweep};

pub(super) fn run(arguments: &SweepArgs) -> anyhow::Result<Exit> {
    if let Some(why) = arguments.contradiction() {
        return Err(EndsWith(Exit::Usage, why).into());
    }
    let arguments = &arguments.clone().with_environment(|name| std::env::var_os(name));
    let interrupt = Interrupt::listen().context("the system takes no handler for Ctrl-C")?;
    sweep(arguments, &interrupt)
}
