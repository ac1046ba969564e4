//! The flags of `quiet`, and of its watcher.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Run a command with other programs suspended.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The named processes are suspended (SIGSTOP) before the command begins; new ones are looked for while it runs, and all are resumed \
(SIGCONT) however it ends, also when this program is killed. On macOS the indexers are among them: mediaanalysisd, photoanalysisd, \
photolibraryd, corespotlightd, mdworker, mdworker_shared, OneDrive. The command, this program and its ancestors are never suspended.

The exit code is the command's; 128 and the number where a signal ended it; 126 or 127 where it could not be run or found; 4 where \
nothing could be suspended and the command was not run.

Environment: INDEXER_EXTRA_NAMES holds more names, one a line. The command finds the path of the record in \
MLXCEL_BENCH_QUIET_RECORD.")]
pub struct QuietArgs {
    /// Name of processes to suspend: the program's, whole, without a folder. May be repeated.
    #[arg(long = "name", value_name = "NAME", value_parser = name)]
    pub names: Vec<String>,
    /// Time between two looks for new processes of those names, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = super::sweep::seconds)]
    pub rescan: Duration,
    /// Write what was suspended to this file, as JSON. It must not exist.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The watcher of `quiet`.
#[derive(Debug, Clone, Args)]
pub struct QuietWatcherArgs {
    /// Names of processes to suspend.
    #[arg(long = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// The process that runs the command.
    #[arg(long, value_name = "PID")]
    pub wrapper: u32,
    /// Time between two looks, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = super::sweep::seconds)]
    pub rescan: Duration,
    /// Where the record is kept.
    #[arg(long, value_name = "FILE")]
    pub record: PathBuf,
    /// Whether nobody wants the record afterwards.
    #[arg(long)]
    pub temporary: bool,
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(['/', '\n', '\0']) {
        return Err("it must be the name of a program as `ps` shows it, without a folder".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::{Cli, Command};

    fn parse(arguments: &[&str]) -> Result<super::QuietArgs, String> {
        match Cli::try_parse_from(["mlxcel-bench", "quiet"].iter().chain(arguments)) {
            Ok(Cli { command: Command::Quiet(arguments) }) => Ok(arguments),
            Ok(_) => Err("another command".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_command_follows_the_dashes_with_flags_of_its_own() -> Result<(), String> {
        let arguments = parse(&["--name", "a", "--name", "b", "--", "sweep", "--name", "c"])?;
        assert_eq!(arguments.names, ["a", "b"]);
        assert_eq!(arguments.command, ["sweep", "--name", "c"]);
        Ok(())
    }

    #[test]
    fn a_path_is_no_name_and_no_command_is_no_use() {
        assert!(
            parse(&["--name", "/usr/bin/x", "--", "true"])
                .is_err_and(|error| error.contains("without a folder"))
        );
        assert!(parse(&["--name", "x"]).is_err());
    }
}
