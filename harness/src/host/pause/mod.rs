//! Other programs, suspended while a command runs: the indexers of macOS, or whatever is named.
//!
//! Two processes take part. The `wrapper` runs the command and passes its exit code on. The `watcher`, in a session of its
//! own, does the suspending; it resumes when the wrapper says that the command ended, and when the wrapper is gone it follows
//! the life of the command itself, however long that is. Before a process is suspended the wrapper is told, so that it can
//! resume all when the watcher is gone. `targets` says who may be suspended at all.
//!
//! What was suspended is in a [`Record`], whose file the command finds in [`VARIABLE`].

pub mod targets;
pub mod watcher;
pub mod wrapper;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::processes::{self, Process};

/// The variable in which the command finds the path of the record.
pub const VARIABLE: &str = "MLXCEL_BENCH_QUIET_RECORD";
/// The variable with more names, one a line.
pub const EXTRA_NAMES: &str = "INDEXER_EXTRA_NAMES";
/// The version of the record's layout.
const SCHEMA_VERSION: u32 = 1;

/// What macOS does whenever a machine is left alone: media analysis, photos, Spotlight, cloud copies. Time Machine is not
/// among them: a backup that is under way should be ended, not suspended.
pub const MACOS_INDEXERS: [&str; 7] = [
    "mediaanalysisd",
    "photoanalysisd",
    "photolibraryd",
    "corespotlightd",
    "mdworker",
    "mdworker_shared",
    "OneDrive",
];

/// What was suspended, when and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    schema_version: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// The names that were looked for.
    pub names: Vec<String>,
    /// Processes that were suspended.
    pub suspended: Vec<Suspension>,
    /// Processes of those names that somebody else had stopped before; they were left alone.
    pub already_stopped: Vec<Named>,
    /// Processes that the system did not let us suspend.
    pub not_permitted: Vec<Named>,
    /// Processes of those names that are the command, we ourselves, our ancestors, or the system's.
    pub protected: Vec<Named>,
    /// How often all processes were looked at.
    pub scans: u32,
    /// How it ended; `None` while it lasts.
    pub ending: Option<Ending>,
}

/// A process by name and number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its number.
    pub pid: u32,
}

/// A process that was suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    /// Its name.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// When it was started, in the system's terms: no other process of this number has it.
    pub started: String,
    /// When it was suspended.
    pub suspended_at: Timestamp,
    /// How often somebody else had resumed it, so that it was suspended again.
    pub suspended_again: u32,
    /// When it was resumed; `None` while it is suspended.
    pub resumed_at: Option<Timestamp>,
}

/// How a suspension of others ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The command ended, and all were resumed.
    CommandEnded,
    /// The wrapper was killed; all were resumed when the command had ended.
    CommandEndedAfterTheWrapper,
    /// The watcher was told to stop while the command ran; all were resumed then, and the rest of the command ran beside them.
    Stopped,
    /// The watcher was killed while the command ran; all were resumed then, and the rest of the command ran beside them.
    WatcherLost,
}

impl Record {
    fn new(names: Vec<String>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            started_at: Timestamp::now(),
            names,
            suspended: Vec::new(),
            already_stopped: Vec::new(),
            not_permitted: Vec::new(),
            protected: Vec::new(),
            scans: 0,
            ending: None,
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the file cannot be read or is no record.
    pub fn read(path: &Path) -> io::Result<Self> {
        let record: Self = serde_json::from_slice(&fs::read(path)?)?;
        if record.schema_version != SCHEMA_VERSION {
            let message = format!(
                "it is of version {}, and this program knows {SCHEMA_VERSION}",
                record.schema_version
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(record)
    }

    /// Whole or not at all.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(partial);
        let written = fs::File::create(&partial)
            .and_then(|mut file| {
                file.write_all(&serde_json::to_vec_pretty(self)?)?;
                file.write_all(b"\n")
            })
            .and_then(|()| fs::rename(&partial, path));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

/// The record of the suspension under which this process runs; `None` when it runs under none.
///
/// # Errors
/// When there is one that cannot be read.
pub fn of_this_process() -> io::Result<Option<Record>> {
    match std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => Record::read(Path::new(&path)).map(Some),
        None => Ok(None),
    }
}

/// The names to look for: those that were given, those of the environment, and those of the system.
pub fn names(given: &[String], extra: Option<&str>) -> Vec<String> {
    let system: &[&str] = if cfg!(target_os = "macos") { &MACOS_INDEXERS } else { &[] };
    let extra = extra.into_iter().flat_map(str::lines).map(str::trim).filter(|name| !name.is_empty());
    let mut names: Vec<String> = Vec::new();
    for name in given.iter().map(String::as_str).chain(extra).chain(system.iter().copied()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn send(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
    kill_process(pid, signal)
}

/// Resumes a process that was suspended, unless its number is another's by now.
fn resume(pid: u32, started: &str) {
    if processes::one(pid).is_some_and(|process: Process| process.started == started) {
        // It may have ended since, or changed its user; nobody can do more.
        let _ = send(pid, Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_command_line_and_the_environment_each_once() {
        let all = names(&["a".to_owned(), "b".to_owned()], Some("c d\n\n b \na\n"));
        assert_eq!(all.get(..3), Some(&["a".to_owned(), "b".to_owned(), "c d".to_owned()][..]));
        assert_eq!(all.len() > 3, cfg!(target_os = "macos"));
    }

    #[test]
    fn a_record_is_written_whole_and_reads_back() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("record.json");
        let mut record = Record::new(vec!["x".to_owned()]);
        record.write(&path)?;
        record.suspended.push(Suspension {
            name: "x".to_owned(),
            pid: 7,
            started: "1".to_owned(),
            suspended_at: Timestamp::now(),
            suspended_again: 0,
            resumed_at: None,
        });
        record.write(&path)?;
        assert_eq!(Record::read(&path)?, record);
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }

    #[test]
    fn a_record_of_another_version_is_not_read() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("record.json");
        Record { schema_version: 2, ..Record::new(Vec::new()) }.write(&path)?;
        assert!(Record::read(&path).is_err_and(|error| error.to_string().contains("version 2")));
        Ok(())
    }
}
