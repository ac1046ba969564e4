//! The process that runs the command: it starts the watcher, waits for the command and passes its end on.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process, waitid};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::watcher::{Tells, Told};
use super::{Ending, Record, VARIABLE, resume};
use crate::text::complain;

/// How long the watcher may take to suspend or to resume all there are.
const PATIENCE: Duration = Duration::from_mins(1);
/// What a shell gives for a command that cannot be found.
const NOT_FOUND: u8 = 127;
/// And for one that cannot be run.
const NOT_RUN: u8 = 126;

/// What to run, and beside whom not.
#[derive(Clone, Debug)]
pub struct WrapperTask {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Names of the processes to suspend.
    pub names: Vec<String>,
    /// Where the record goes; without, it lies among the temporary files while the command runs.
    pub record: Option<PathBuf>,
    /// Time between two looks at all processes.
    pub rescan: Duration,
}

/// Runs the command with the others suspended; gives its exit code, 128 and the number where a signal ended it.
///
/// # Errors
/// When the record cannot be made or the watcher does not start; then nothing is suspended and the command is not run.
pub fn run(task: &WrapperTask) -> anyhow::Result<u8> {
    let [program, arguments @ ..] = task.command.as_slice() else {
        bail!("there is no command to run; it follows `--`");
    };
    let record = record_path(task.record.as_deref())?;
    let mut watcher = Watcher::start(task, &record)?;
    let spawned = Command::new(program).args(arguments).env(VARIABLE, &record).spawn();
    let code = match spawned {
        Ok(mut child) => {
            watcher.tell(Told::Command(child.id()));
            watcher.announce();
            let status = wait(&mut child);
            watcher.finish(&record);
            code_of(status?)
        }
        Err(error) => {
            watcher.finish(&record);
            complain(&format!("error: `{}` cannot be run: {error}", program.to_string_lossy()));
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }
        }
    };
    if task.record.is_none() {
        super::watcher::forget(&record);
    }
    Ok(code)
}

/// A new, empty file: nothing is replaced, and that it can be written is known before anything is suspended.
fn record_path(wanted: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = if let Some(path) = wanted {
        std::path::absolute(path)?
    } else {
        let now = jiff::Timestamp::now().as_nanosecond();
        std::env::temp_dir().join(format!("mlxcel-quiet-{}-{now}.json", std::process::id()))
    };
    std::fs::File::create_new(&path).with_context(|| {
        format!("cannot create the record `{}`; name a new file with --record", path.display())
    })?;
    Ok(path)
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128_i32.saturating_add(status.signal()?)));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Waits for the command. What this process is told to end by, the command is told too: it, and not this process, decides.
fn wait(child: &mut Child) -> anyhow::Result<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("the command has no number")?;
    // SIGHUP is left as it is: a command under `nohup` must go on ignoring it, and the watcher outlives this process.
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM]).context("the system takes no handler")?;
    let handle = signals.handle();
    let lives = Arc::new(Mutex::new(true));
    let forwarding = {
        let lives = Arc::clone(&lives);
        thread::spawn(move || {
            for signal in &mut signals {
                let lives = lives.lock().unwrap_or_else(PoisonError::into_inner);
                if *lives && !(signal != SIGTERM && terminal_tells_the_command_itself()) {
                    let named = match signal {
                        SIGINT => Signal::INT,
                        SIGQUIT => Signal::QUIT,
                        _ => Signal::TERM,
                    };
                    let _ = kill_process(pid, named);
                }
            }
        })
    };
    // Only looks, so that the number is the command's until nobody sends it signals any more.
    let ended = loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other,
        }
    };
    *lives.lock().unwrap_or_else(PoisonError::into_inner) = false;
    handle.close();
    let _ = forwarding.join();
    ended.context("cannot wait for the command")?;
    child.wait().context("cannot wait for the command")
}

/// Whether a key at the terminal reaches the command without us: it does when both are in its foreground.
fn terminal_tells_the_command_itself() -> bool {
    std::fs::File::open("/dev/tty")
        .ok()
        .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
        .is_some_and(|foreground| foreground == getpgrp())
}

/// A process that the watcher said it would suspend.
#[derive(Debug)]
struct Announced {
    name: String,
    pid: u32,
    started: String,
}

/// The watcher, as the wrapper sees it.
struct Watcher {
    child: Child,
    stdin: Option<ChildStdin>,
    announced: Arc<Mutex<Vec<Announced>>>,
    heard: Receiver<Tells>,
}

impl Watcher {
    fn start(task: &WrapperTask, record: &Path) -> anyhow::Result<Self> {
        let this = Path::new("/proc/self/exe");
        let this = if this.exists() { this.to_owned() } else { std::env::current_exe()? };
        let mut command = Command::new(this);
        command
            // Not the name of a program that measures: its looking at all processes is no sign of another measurement.
            .arg0("mlxcel-bench-quiet")
            .arg("quiet-watcher")
            .args(["--wrapper", &std::process::id().to_string()])
            .args(["--rescan", &task.rescan.as_secs_f64().to_string()])
            .arg("--record")
            .arg(record);
        if task.record.is_none() {
            command.arg("--temporary");
        }
        for name in &task.names {
            command.arg(format!("--name={name}"));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the watcher cannot be started; nothing was suspended")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the watcher has no output")?;
        let announced = Arc::new(Mutex::new(Vec::new()));
        let (sender, heard) = mpsc::channel();
        let listener = Arc::clone(&announced);
        let kept = record.to_owned();
        thread::spawn(move || listen(stdout, &listener, &sender, &kept));
        let mut watcher = Self { child, stdin, announced, heard };
        if watcher.heard.recv_timeout(PATIENCE) == Ok(Tells::Settled) {
            return Ok(watcher);
        }
        watcher.end();
        super::watcher::forget(record);
        bail!("the watcher did not come up, so nothing stays suspended and the command was not run")
    }

    fn tell(&mut self, told: Told) {
        let sent = self.stdin.as_mut().map(|stdin| {
            let mut line = serde_json::to_vec(&told)?;
            line.push(b'\n');
            stdin.write_all(&line)?;
            stdin.flush()
        });
        // One that is gone has been found gone by whoever listens to it.
        if matches!(sent, Some(Err(_))) {
            self.stdin = None;
        }
    }

    fn announce(&self) {
        let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<String> =
            announced.iter().map(|process| format!("{} ({})", process.name, process.pid)).collect();
        match words.as_slice() {
            [] => complain("quiet: no process of these names runs yet"),
            words => complain(&format!("quiet: suspended {}", words.join(", "))),
        }
    }

    /// All are resumed, and the watcher ends.
    fn finish(mut self, record: &Path) {
        self.tell(Told::Done);
        loop {
            match self.heard.recv_timeout(PATIENCE) {
                // One that is gone was found gone by whoever listens to it, which has resumed all.
                Ok(Tells::Resumed) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.end();
                    return;
                }
            }
        }
        self.stdin = None;
        let _ = self.child.wait();
        report(record);
    }

    fn end(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
        resume_announced(&self.announced);
    }
}

/// What came of it, in words.
fn report(record: &Path) {
    let Ok(record) = Record::read(record) else { return };
    let refused: Vec<String> =
        record.not_permitted.iter().map(|process| format!("{} ({})", process.name, process.pid)).collect();
    if !refused.is_empty() {
        complain(&format!("quiet: not permitted to suspend {}", refused.join(", ")));
    }
    match record.ending {
        Some(Ending::Stopped) => complain(
            "quiet: the watcher was told to stop, and has resumed all while the command ran; the rest of it ran beside them",
        ),
        _ => complain(&format!("quiet: resumed {}", processes(record.suspended.len()))),
    }
}

fn processes(number: usize) -> String {
    if number == 1 { "1 process".to_owned() } else { format!("{number} processes") }
}

/// Hears the watcher. When it falls silent without having resumed all, all are resumed here, at once.
fn listen(
    stdout: std::process::ChildStdout,
    announced: &Mutex<Vec<Announced>>,
    sender: &Sender<Tells>,
    record: &Path,
) {
    let mut resumed = false;
    for line in BufReader::new(stdout).lines() {
        let Some(told) = line.ok().and_then(|line| serde_json::from_str::<Tells>(&line).ok()) else { break };
        match told {
            Tells::Suspending { name, pid, started } => {
                let process = Announced { name, pid, started };
                announced.lock().unwrap_or_else(PoisonError::into_inner).push(process);
            }
            told => {
                resumed |= told == Tells::Resumed;
                let _ = sender.send(told);
            }
        }
    }
    if !resumed {
        resume_announced(announced);
        if let Ok(mut kept) = Record::read(record) {
            kept.ending = Some(Ending::WatcherLost);
            let now = jiff::Timestamp::now();
            kept.suspended.iter_mut().for_each(|process| process.resumed_at = Some(now));
            let _ = kept.write(record);
        }
        complain(
            "quiet: the watcher is gone, so the suspended processes were resumed; the rest of the command runs beside them",
        );
    }
}

fn resume_announced(announced: &Mutex<Vec<Announced>>) {
    for process in announced.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        resume(process.pid, &process.started);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_signals_are_passed_on_as_a_shell_does() {
        for (raw, code) in [(0, 0), (7 << 8, 7), (9, 137), (15, 143), (255 << 8, 255)] {
            assert_eq!(code_of(ExitStatus::from_raw(raw)), code, "{raw}");
        }
    }

    #[test]
    fn one_process_is_no_plural() {
        assert_eq!([0, 1, 2].map(processes), ["0 processes", "1 process", "2 processes"]);
    }

    #[test]
    fn a_record_that_is_there_is_not_replaced() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("record.json");
        assert_eq!(record_path(Some(&path))?, path);
        assert!(record_path(Some(&path)).is_err_and(|error| error.to_string().contains("--record")));
        Ok(())
    }
}
