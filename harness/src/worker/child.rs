//! The parent's side of a worker: start it, talk to it, end it whatever happens.
//!
//! What is said, and in which order, is left to `session`.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::evidence::{OomKills, peak_memory_bytes};
use super::pipes::{Incoming, StderrTail, read_events};
use super::protocol::{Event, Request};

/// How often a waiting parent looks whether it was interrupted. Rare, so that it takes no time from what is
/// measured.
const POLL: Duration = Duration::from_millis(200);
/// How often a waiting parent looks at the worker's memory.
const LOOK: Duration = Duration::from_secs(1);
/// How long a worker may take to end by itself, once told to.
pub const GRACE: Duration = Duration::from_secs(20);

/// Which program serves as worker.
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Whether it is another program than this one, so that no row of it may pass as a measurement of this
    /// one.
    pub foreign: bool,
}

impl WorkerProgram {
    /// This executable.
    ///
    /// # Errors
    /// When the system does not say where it is.
    pub fn this_executable() -> io::Result<Self> {
        // On Linux through /proc: it is this very file even when the path has come to hold another build.
        let proc = Path::new("/proc/self/exe");
        let path = if proc.exists() { proc.to_owned() } else { std::env::current_exe()? };
        Ok(Self { path, arguments: vec!["worker".into()], foreign: false })
    }

    /// Another program, which speaks the protocol.
    pub fn scripted(path: PathBuf) -> Self {
        Self { path, arguments: Vec::new(), foreign: true }
    }
}

/// What happened while waiting for a worker.
#[derive(Debug)]
pub enum Next {
    /// It said something.
    Event(Event),
    /// It wrote a line to its protocol stream that is no event.
    Garbage(String),
    /// It closed its protocol stream.
    Closed,
    /// The time was up.
    TimedOut,
    /// The harness itself was told to stop.
    Interrupted,
}

/// How a worker ended.
#[derive(Debug)]
pub struct Ending {
    /// Exit code or signal.
    pub status: Option<ExitStatus>,
    /// The end of what it wrote to stderr.
    pub stderr: String,
    /// By how much the kernel's counts of kills for memory rose during its life.
    pub oom_kills: OomKills,
    /// Highest resident memory it was seen to have, in bytes; `None` where that cannot be read.
    pub peak_memory_bytes: Option<u64>,
    /// Whether it still ran when this program killed it.
    pub by_us: bool,
}

impl Ending {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }

    /// In words: `exit code 3` or `signal 11 (SIGSEGV)`.
    pub fn describe(&self) -> String {
        let Some(status) = self.status else {
            return "an end that could not be observed".to_owned();
        };
        match (status.signal(), status.code()) {
            (Some(signal), _) => match signal_name(signal) {
                Some(name) => format!("signal {signal} ({name})"),
                None => format!("signal {signal}"),
            },
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => status.to_string(),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    // `as_raw` differs between systems, so by name rather than by number.
    const NAMED: [(Signal, &str); 10] = [
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::HUP, "SIGHUP"),
        (Signal::ILL, "SIGILL"),
        (Signal::INT, "SIGINT"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::TERM, "SIGTERM"),
        (Signal::TRAP, "SIGTRAP"),
    ];
    NAMED.iter().find(|(named, _)| named.as_raw() == signal).map(|(_, name)| *name)
}

/// A running worker. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<Incoming>,
    stderr: StderrTail,
    oom_kills_before: OomKills,
    peak_memory_bytes: Option<u64>,
    looked: Instant,
    status: Option<ExitStatus>,
    ended: bool,
}

impl Worker {
    /// Starts a worker in a process group of its own, so that a Ctrl-C at the terminal reaches the harness
    /// alone.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(program: &WorkerProgram) -> io::Result<Self> {
        let oom_kills_before = OomKills::now();
        let mut command = Command::new(&program.path);
        if !program.foreign {
            command.arg0("mlxcel-bench"); // what process lists show; the path may be /proc/self/exe
        }
        let mut child = command
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let connected = match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => {
                read_events(stdout).and_then(|events| Ok((stdin, events, StderrTail::read(stderr)?)))
            }
            _ => Err(io::Error::other("the worker's pipes are missing")),
        };
        match connected {
            Ok((stdin, events, stderr)) => Ok(Self {
                child,
                stdin: Some(stdin),
                events,
                stderr,
                oom_kills_before,
                peak_memory_bytes: None,
                looked: Instant::now(),
                status: None,
                ended: false,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Sends a request. A worker that has died does not take it; [`Worker::next`] then says so.
    pub fn send(&mut self, request: &Request) {
        let Some(stdin) = &mut self.stdin else {
            return;
        };
        let sent = serde_json::to_vec(request).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            stdin.write_all(&line)?;
            stdin.flush()
        });
        if sent.is_err() {
            self.stdin = None;
        }
    }

    /// Waits for what comes next, until `deadline` or until `interrupted` says so.
    pub fn next(&mut self, deadline: Instant, interrupted: &dyn Fn() -> bool) -> Next {
        loop {
            if interrupted() {
                return Next::Interrupted;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(POLL)) {
                Ok(Incoming::Event(event)) => {
                    self.look_at_memory();
                    return Next::Event(event);
                }
                Ok(Incoming::Garbage(line)) => return Next::Garbage(line),
                Err(RecvTimeoutError::Disconnected) => return Next::Closed,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Next::TimedOut,
                Err(RecvTimeoutError::Timeout) if self.looked.elapsed() >= LOOK => self.look_at_memory(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The system keeps the highest value, so that looking now and then misses little; a dead process tells nothing.
    fn look_at_memory(&mut self) {
        self.looked = Instant::now();
        self.peak_memory_bytes = self.peak_memory_bytes.max(peak_memory_bytes(self.child.id()));
    }

    /// Waits a while for a worker that is ending by itself, then kills it.
    pub fn finish(mut self) -> Ending {
        self.stdin = None;
        let deadline = Instant::now() + GRACE;
        // Only looks: until the worker is reaped, its number cannot be another group's when that is killed.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if let Some(pid) = self.pid() {
            while Instant::now() < deadline && matches!(waitid(WaitId::Pid(pid), look), Ok(None)) {
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.end()
    }

    /// Whether it has not ended. Only looks, as [`Worker::finish`] does.
    fn is_running(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.pid().is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), look), Ok(None)))
    }

    /// Kills a worker, and all it started.
    pub fn kill(mut self) -> Ending {
        self.end()
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn end(&mut self) -> Ending {
        self.look_at_memory();
        self.stdin = None;
        let by_us = self.is_running();
        // Also after a good end: what it may have started holds its pipes open.
        if let Some(group) = self.pid() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        self.status = self.child.wait().ok();
        self.ended = true;
        let oom_kills = OomKills::now().since(self.oom_kills_before);
        Ending {
            status: self.status,
            stderr: self.stderr.finish(),
            oom_kills,
            peak_memory_bytes: self.peak_memory_bytes,
            by_us,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}
