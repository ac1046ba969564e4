//! How the program ends: the exit codes, and errors that know theirs.

use std::fmt;
use std::process::ExitCode;

/// How a command ended. The codes are the same everywhere in the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done.
    Fine,
    /// At least one row failed.
    Failure,
    /// Refused before anything was measured or written.
    Refused,
    /// No row holds a valid measurement, though none failed.
    InvalidOnly,
    /// A gate can neither pass nor fail the candidate.
    Inconclusive,
    /// A gate found improvements and nothing else, and was asked to tell.
    Improved,
    /// Bad input, or a fault of our own.
    BadInput,
    /// The command line is wrong.
    Usage,
    /// Stopped by a signal.
    Interrupted,
    /// As the command ended that was run.
    AsTheCommand(u8),
}

impl Exit {
    /// The process exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failure => 1,
            Self::Refused => 2,
            Self::InvalidOnly | Self::Inconclusive => 3,
            Self::BadInput => 4,
            Self::Improved => 5,
            Self::Usage => 64,
            Self::Interrupted => 130,
            Self::AsTheCommand(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Carried in an error's chain to say which code it ends the program with; other errors end it as
/// [`Exit::BadInput`].
#[derive(Debug)]
pub struct EndsWith(pub Exit, pub String);

impl fmt::Display for EndsWith {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.1)
    }
}

impl std::error::Error for EndsWith {}

/// The exit an error asks for.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    error.downcast_ref::<EndsWith>().map_or(Exit::BadInput, |ends| ends.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn an_error_keeps_its_exit_under_added_context() {
        let error = anyhow::Error::new(EndsWith(Exit::Refused, "no".to_owned()));
        let wrapped = Err::<(), _>(error).context("while measuring");
        assert_eq!(wrapped.map_err(|error| exit_of(&error)), Err(Exit::Refused));
    }

    #[test]
    fn an_error_that_asks_for_nothing_is_bad_input() {
        assert_eq!(exit_of(&anyhow::anyhow!("no such folder")), Exit::BadInput);
    }
}
