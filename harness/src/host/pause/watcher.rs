//! The process that suspends and resumes. It lives in a session of its own, so that no signal from a terminal reaches it, and
//! it ends when the command does.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::targets::{Protected, full_name, is_named};
use super::{Ending, Named, Record, Suspension, resume, send};
use crate::host::processes::{self, Process, Table};

/// How often it looks whether the command still lives, once the wrapper is gone.
const POLL: Duration = Duration::from_millis(250);

/// From the wrapper, one a line on standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// The command runs, as this process.
    Command(u32),
    /// The command has ended.
    Done,
}

/// To the wrapper, one a line on standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Tells {
    /// This one is about to be suspended.
    Suspending {
        /// Its name.
        name: String,
        /// Its number.
        pid: u32,
        /// When it was started, in the system's terms.
        started: String,
    },
    /// All there are have been suspended; the command may begin.
    Settled,
    /// All have been resumed.
    Resumed,
}

/// What a watcher is to do.
#[derive(Clone, Debug)]
pub struct WatcherTask {
    /// Names to look for.
    pub names: Vec<String>,
    /// The wrapper's number.
    pub wrapper: u32,
    /// Where the record is kept.
    pub record: PathBuf,
    /// Whether the record is removed at the end, when the wrapper is gone and cannot do so.
    pub temporary: bool,
    /// Time between two looks at all processes.
    pub rescan: Duration,
}

/// Suspends, waits and resumes.
///
/// # Errors
/// When the system does not let a process of this kind be: no session, no signals, no list of processes. Nothing is suspended
/// then.
pub fn run(task: &WatcherTask) -> io::Result<()> {
    // Fails when it has a session of its own already, which is as good.
    let _ = rustix::process::setsid();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let told = listen()?;
    let table = processes::table()
        .ok_or_else(|| io::Error::other("the processes of this system cannot be listed"))?;
    let mut watcher = Watcher {
        task,
        record: Record::new(task.names.clone()),
        protected: Protected::of(&[task.wrapper, std::process::id()], &table),
    };
    watcher.record.write(&task.record)?;
    watcher.scan(&table);
    tell(&Tells::Settled);
    let ending = watcher.wait(&told, &stop);
    watcher.resume_all(ending);
    tell(&Tells::Resumed);
    // A wrapper that lives wants to read it first.
    if task.temporary && matches!(told.try_recv(), Err(TryRecvError::Disconnected)) {
        forget(&task.record);
    }
    Ok(())
}

/// A wrapper that is gone is told nothing.
fn tell(what: &Tells) {
    if let Ok(mut line) = serde_json::to_vec(what) {
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
    }
}

fn listen() -> io::Result<Receiver<Told>> {
    let (sender, told) = mpsc::channel();
    thread::Builder::new().name("wrapper".to_owned()).spawn(move || {
        for line in io::stdin().lock().lines() {
            let Some(told) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { return };
            if sender.send(told).is_err() {
                return;
            }
        }
    })?;
    Ok(told)
}

struct Watcher<'a> {
    task: &'a WatcherTask,
    record: Record,
    protected: Protected,
}

impl Watcher<'_> {
    /// Until the command has ended.
    fn wait(&mut self, told: &Receiver<Told>, stop: &AtomicBool) -> Ending {
        // Nothing is looked for before the command is known, so that it is never taken for somebody else.
        let command = loop {
            match told.recv_timeout(POLL) {
                Ok(Told::Command(pid)) => break pid,
                Ok(Told::Done) | Err(RecvTimeoutError::Disconnected) => return Ending::CommandEnded,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ending::Stopped,
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        self.protected.add_command(command);
        let command = Command::find(command);
        let mut wrapper_lives = true;
        let mut scanned = Instant::now();
        loop {
            match told.recv_timeout(POLL) {
                Ok(Told::Done) => return Ending::CommandEnded,
                Err(RecvTimeoutError::Disconnected) => {
                    if wrapper_lives {
                        wrapper_lives = false;
                    } else {
                        thread::sleep(POLL);
                    }
                    if !command.lives() {
                        return Ending::CommandEndedAfterTheWrapper;
                    }
                }
                Ok(Told::Command(_)) | Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.load(Ordering::Relaxed) {
                return Ending::Stopped;
            }
            if scanned.elapsed() >= self.task.rescan {
                if let Some(table) = processes::table() {
                    self.scan(&table);
                }
                scanned = Instant::now();
            }
        }
    }

    fn scan(&mut self, table: &Table) {
        let before = self.record.clone();
        self.protected.look(table);
        for process in table.values().filter(|process| is_named(process, &self.task.names, full_name)) {
            self.meet(process);
        }
        let changed = before != self.record;
        self.record.scans = self.record.scans.saturating_add(1);
        if changed {
            self.keep();
        }
    }

    /// What is done with a process of a wanted name.
    fn meet(&mut self, process: &Process) {
        let named = || Named { name: process.name.clone(), pid: process.pid };
        if self.protected.covers(process) {
            note(&mut self.record.protected, named());
            return;
        }
        let known = self
            .record
            .suspended
            .iter_mut()
            .find(|known| known.pid == process.pid && known.started == process.started);
        if let Some(known) = known {
            // Somebody else has resumed it.
            if !process.is_stopped() && !process.has_ended() && send(process.pid, Signal::STOP).is_ok() {
                known.suspended_again = known.suspended_again.saturating_add(1);
            }
            return;
        }
        if process.is_stopped() {
            note(&mut self.record.already_stopped, named());
            return;
        }
        if process.has_ended() {
            return;
        }
        // Told first: whoever is told of too many resumes one that was not suspended, which does no harm.
        tell(&Tells::Suspending {
            name: process.name.clone(),
            pid: process.pid,
            started: process.started.clone(),
        });
        match send(process.pid, Signal::STOP) {
            Ok(()) => self.record.suspended.push(Suspension {
                name: process.name.clone(),
                pid: process.pid,
                started: process.started.clone(),
                suspended_at: Timestamp::now(),
                suspended_again: 0,
                resumed_at: None,
            }),
            Err(rustix::io::Errno::SRCH) => {}
            Err(_) => note(&mut self.record.not_permitted, named()),
        }
    }

    fn resume_all(&mut self, ending: Ending) {
        for suspension in &mut self.record.suspended {
            resume(suspension.pid, &suspension.started);
            suspension.resumed_at = Some(Timestamp::now());
        }
        self.record.ending = Some(ending);
        self.keep();
    }

    fn keep(&self) {
        // Resuming matters more than the record of it.
        if let Err(error) = self.record.write(&self.task.record) {
            let path = self.task.record.display();
            crate::text::complain(&format!(
                "note: the record of suspended processes {path} cannot be written: {error}"
            ));
        }
    }
}

/// Each process once.
fn note(list: &mut Vec<Named>, named: Named) {
    if !list.contains(&named) {
        list.push(named);
    }
}

/// The command, known by its number and its start.
struct Command {
    pid: u32,
    started: Option<String>,
}

impl Command {
    fn find(pid: u32) -> Self {
        Self { pid, started: processes::one(pid).map(|process| process.started) }
    }

    fn lives(&self) -> bool {
        // Asked of every list, so not where that takes a program; there a number that lives is the command's.
        #[cfg(target_os = "linux")]
        return processes::one(self.pid)
            .is_some_and(|process| Some(&process.started) == self.started.as_ref() && !process.has_ended());
        #[cfg(not(target_os = "linux"))]
        return self.started.is_some()
            && i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw).is_some_and(|pid| {
                !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
            });
    }
}

/// Removes a record that nobody will ask for.
pub(super) fn forget(path: &Path) {
    let _ = std::fs::remove_file(path);
}
