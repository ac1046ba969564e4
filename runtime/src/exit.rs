//! Exit codes and the one place where errors are printed.
//!
//! 0 fine, 4 bad input or our own fault, 64 usage; a conversion's error says its own. A reader that closes the pipe
//! early has got what it wanted.

use mlxcel::convert::ConvertError;
use std::io::{self, Write};
use std::process::ExitCode;

/// Bad input, or our own fault.
const BAD_INPUT: u8 = 4;
/// The command line does not parse.
const USAGE: u8 = 64;

/// Why the program ends without having done what it was asked.
pub(crate) enum Failure {
    /// Nobody reads the output any more.
    BrokenPipe,
    /// Anything else.
    Error(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let broken_pipe = error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
        if broken_pipe { Self::BrokenPipe } else { Self::Error(error) }
    }
}

/// Ends the program after a command has run.
pub(crate) fn after(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(Failure::Error(error)) => {
            // OK to ignore: there is nowhere left to say it.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(error.downcast_ref::<ConvertError>().map_or(BAD_INPUT, ConvertError::exit_code))
        }
    }
}

/// Ends the program when the command line was not understood, or asked for help alone.
pub(crate) fn after_usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
