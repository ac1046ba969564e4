//! The benchmark harness: measures checkpoints with the runtime and stamps every row with what really ran.
//!
//! [`sweep`] plans, runs one [`worker`] process a checkpoint, judges what came back and stores it;
//! [`provenance`] finds out what ran and on what; [`host`] watches the host meanwhile;
//! `micro` measures single kernels;
//! [`default_models`] makes the checkpoints of a sweep that names none. Rows, statuses and rendering are the `reports` crate's, loading and generating the runtime's.
//! The program in `main` only calls [`run`].

pub mod cli;
pub mod commands;
pub mod default_models;
mod digests;
pub mod exit;
pub mod host;
#[cfg(feature = "runtime")]
pub mod micro;
pub mod provenance;
pub mod reference;
pub mod sweep;
pub mod text;
pub mod worker;

use std::ffi::OsString;

use clap::Parser as _;

use exit::{Exit, exit_of};

/// Runs the program on a command line; returns how it ended. Errors are printed to stderr, causes last.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for and go to stdout; a closed stream leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Fine };
        }
    };
    match commands::run(cli) {
        Ok(exit) => exit,
        Err(error) => {
            text::complain(&format!("error: {}", text::told(&error)));
            exit_of(&error)
        }
    }
}
