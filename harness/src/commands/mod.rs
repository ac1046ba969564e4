//! The commands, each a thin arrangement of what the rooms offer.

mod catalog;
mod compare;
mod doctor;
mod gate;
mod history;
mod micro;
mod noise;
mod quiet;
mod selftest;
mod sweep;
mod verify;
mod version;
mod worker;

use crate::cli::{Cli, Command, Format};
use crate::exit::Exit;

/// Runs the command of a command line.
///
/// # Errors
/// Whatever kept it from doing what was asked.
pub fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Gate(arguments) => gate::run(&arguments),
        Command::History(command) => history::run(&command),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Selftest { format } => selftest::run(format),
        Command::Catalog(command) => catalog::run(&command),
        Command::Version { format, json } => version::run(json || format == Format::Json),
        Command::Worker => worker::run(),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Micro(command) => micro::run(command),
        Command::Quiet(arguments) => quiet::run(arguments),
        Command::QuietWatcher(arguments) => quiet::watch(arguments),
    }
}
