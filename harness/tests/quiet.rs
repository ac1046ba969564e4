//! `quiet` with real processes: others are suspended while the command runs and resumed however it ends.

#![cfg(unix)]

#[path = "common/program.rs"]
mod program;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

static NAMES: AtomicU32 = AtomicU32::new(0);

/// A folder with a program of a name that nobody else has, which sleeps.
struct Stage {
    folder: TempDir,
    name: String,
}

/// A process that is ended with the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    fn new() -> Result<Self, Box<dyn Error>> {
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let stage =
            Self { folder: tempfile::tempdir()?, name: format!("idx{}-{number}", std::process::id()) };
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| Path::new(path).exists());
        program::copy(Path::new(sleep.ok_or("this system has no sleep")?), &stage.program())?;
        Ok(stage)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self) -> PathBuf {
        self.path(&self.name)
    }

    /// A process of that name.
    fn other(&self) -> Result<Other, Box<dyn Error>> {
        let other = Other(Command::new(self.program()).arg("600").spawn()?);
        // Its name is the program's only once it has become it.
        until("the process to begin", || {
            Ok(ps(other.0.id(), "comm")?.rsplit('/').next() == Some(self.name.as_str()))
        })?;
        Ok(other)
    }

    fn quiet(&self, command: &[&str]) -> Command {
        let mut quiet = Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"));
        quiet
            .arg("quiet")
            .args(["--name", &self.name, "--rescan", "0.3", "--record"])
            .arg(self.path("record.json"))
            .arg("--")
            .args(command)
            .env_remove("INDEXER_EXTRA_NAMES");
        quiet
    }

    fn record(&self) -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_slice(&fs::read(self.path("record.json"))?)?)
    }

    fn suspended(&self) -> Result<Vec<u64>, Box<dyn Error>> {
        let record = self.record()?;
        let list = record.get("suspended").and_then(Value::as_array).ok_or("no list")?;
        Ok(list.iter().filter_map(|process| process.get("pid")?.as_u64()).collect())
    }
}

/// A column of `ps` for a process; empty when there is none.
fn ps(pid: u32, column: &str) -> Result<String, Box<dyn Error>> {
    let output = Command::new("ps").args(["-o", &format!("{column}="), "-p", &pid.to_string()]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn is_stopped(pid: u32) -> Result<bool, Box<dyn Error>> {
    Ok(ps(pid, "state")?.starts_with('T'))
}

fn until(what: &str, test: impl Fn() -> Result<bool, Box<dyn Error>>) -> Outcome {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_mins(1) {
        if test()? {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(30));
    }
    Err(format!("waited in vain for {what}").into())
}

fn kill(signal: &str, pid: u32) -> Outcome {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill {signal} {pid}").into()) }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A wrapper with a command that runs until a file appears; returns once the command runs.
fn running(stage: &Stage) -> Result<Child, Box<dyn Error>> {
    let (begun, end) = (stage.path("begun"), stage.path("end"));
    let script = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; while [ ! -e {1} ]; do sleep 0.05; done",
        begun.display(),
        end.display()
    );
    let quiet = stage.quiet(&["sh", "-c", &script]).stderr(Stdio::null()).spawn()?;
    until("the command to begin", || Ok(begun.exists()))?;
    Ok(quiet)
}

fn let_end(stage: &Stage) -> std::io::Result<()> {
    fs::write(stage.path("end"), "")
}

/// The watcher of a wrapper.
fn watcher_of(wrapper: u32) -> Result<u32, Box<dyn Error>> {
    let output = Command::new("ps").args(["-A", "-o", "pid=,ppid=,args="]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(wrapper.to_string().as_str()) && line.contains("quiet-watcher")
    });
    Ok(line.and_then(|line| line.split_whitespace().next()).ok_or("there is no watcher")?.parse()?)
}

#[test]
fn others_are_suspended_while_the_command_runs_and_its_exit_code_is_passed_on() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let pid = other.0.id();
    // A signal takes effect a moment after it was sent.
    let stopped = format!(
        "for i in 1 2 3 4 5 6 7 8 9; do case $(ps -o state= -p {pid}) in T*) break ;; esac; sleep 1; done"
    );
    let script =
        format!("{stopped}; ps -o state= -p {pid}; test -s \"$MLXCEL_BENCH_QUIET_RECORD\"; echo $?; exit 7");
    let output = stage.quiet(&["sh", "-c", &script]).output()?;
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    let printed = String::from_utf8(output.stdout.clone())?;
    assert!(printed.starts_with('T') && printed.trim_end().ends_with('0'), "{printed}");
    assert!(!is_stopped(pid)?);
    assert_eq!(stage.suspended()?, [u64::from(pid)]);
    let record = stage.record()?;
    assert_eq!(record.get("ending"), Some(&"command_ended".into()), "{record}");
    assert!(record.pointer("/suspended/0/resumed_at").is_some_and(Value::is_string), "{record}");
    assert!(said(&output).contains(&format!("suspended {} ({pid})", stage.name)), "{}", said(&output));
    Ok(())
}

#[test]
fn a_busy_process_uses_no_time_while_it_is_suspended() -> Outcome {
    let stage = Stage::new()?;
    fs::remove_file(stage.program())?;
    program::copy(&fs::canonicalize("/bin/sh")?, &stage.program())?;
    let other = Other(Command::new(stage.program()).args(["-c", "while :; do :; done"]).spawn()?);
    let pid = other.0.id();
    thread::sleep(Duration::from_millis(300));
    let time = format!("ps -o time= -p {pid}");
    let output = stage.quiet(&["sh", "-c", &format!("{time}; sleep 2.2; {time}")]).output()?;
    let printed = String::from_utf8(output.stdout.clone())?;
    let times: Vec<&str> = printed.lines().collect();
    assert!(matches!(times.as_slice(), [one, other] if one == other), "{printed} {}", said(&output));
    until("the process to go on", || Ok(ps(pid, "state")?.starts_with('R')))
}

#[test]
fn a_killed_wrapper_leaves_others_suspended_until_the_command_ends_and_not_longer() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let pid = other.0.id();
    let mut quiet = running(&stage)?;
    assert!(is_stopped(pid)?);
    quiet.kill()?;
    quiet.wait()?;
    // Far longer than the watcher takes to see that its wrapper is gone.
    thread::sleep(Duration::from_millis(1500));
    assert!(is_stopped(pid)?, "resumed although the command runs");
    // New ones are still found.
    let late = stage.other()?;
    until("the new one to be suspended", || is_stopped(late.0.id()))?;
    let_end(&stage)?;
    until("both to be resumed", || Ok(!is_stopped(pid)? && !is_stopped(late.0.id())?))?;
    until("the record to be closed", || {
        Ok(stage.record()?.get("ending") == Some(&"command_ended_after_the_wrapper".into()))
    })
}

#[test]
fn a_killed_watcher_has_all_resumed_at_once_and_the_record_says_so() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let pid = other.0.id();
    let mut quiet = running(&stage)?;
    assert!(is_stopped(pid)?);
    kill("KILL", watcher_of(quiet.id())?)?;
    until("the other to be resumed", || Ok(!is_stopped(pid)?))?;
    until("the record to be closed", || Ok(stage.record()?.get("ending") == Some(&"watcher_lost".into())))?;
    let_end(&stage)?;
    assert_eq!(quiet.wait()?.code(), Some(0));
    Ok(())
}

#[test]
fn a_watcher_that_is_told_to_stop_resumes_all_and_the_command_goes_on() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let mut quiet = running(&stage)?;
    kill("TERM", watcher_of(quiet.id())?)?;
    until("the other to be resumed", || Ok(!is_stopped(other.0.id())?))?;
    let_end(&stage)?;
    assert_eq!(quiet.wait()?.code(), Some(0));
    assert_eq!(stage.record()?.get("ending"), Some(&"stopped".into()));
    Ok(())
}

#[test]
fn processes_that_begin_later_are_found_and_one_that_somebody_resumes_is_suspended_again() -> Outcome {
    let stage = Stage::new()?;
    let mut quiet = running(&stage)?;
    let other = stage.other()?;
    let pid = other.0.id();
    until("the new one to be suspended", || is_stopped(pid))?;
    kill("CONT", pid)?;
    until("the resumed one to be suspended again", || {
        Ok(is_stopped(pid)?
            && stage.record()?.pointer("/suspended/0/suspended_again").is_some_and(|count| count == 1))
    })?;
    let_end(&stage)?;
    assert_eq!(quiet.wait()?.code(), Some(0));
    assert!(!is_stopped(pid)?);
    Ok(())
}

#[test]
fn one_that_was_stopped_before_is_left_as_it_was() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let pid = other.0.id();
    kill("STOP", pid)?;
    until("the process to stop", || is_stopped(pid))?;
    let output = stage.quiet(&["true"]).output()?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(is_stopped(pid)?);
    assert_eq!(stage.suspended()?, [0_u64; 0]);
    assert_eq!(stage.record()?.pointer("/already_stopped/0/pid"), Some(&pid.into()));
    Ok(())
}

#[test]
fn neither_the_command_nor_what_it_starts_nor_whoever_started_us_is_suspended() -> Outcome {
    let stage = Stage::new()?;
    let program = stage.program();
    // The command bears the name and starts two more of it; were one suspended, this would not end.
    let script = format!("{0} 1 & {0} 1; wait", program.display());
    let output = stage.quiet(&["sh", "-c", &script]).output()?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(stage.suspended()?, [0_u64; 0]);
    // A shell of the name runs `quiet`, so it is an ancestor of the wrapper.
    fs::remove_file(&program)?;
    program::copy(&fs::canonicalize("/bin/sh")?, &program)?;
    let script = format!(
        "{} quiet --rescan 0.1 --name {} --record {} -- sleep 0.5; echo ended",
        env!("CARGO_BIN_EXE_mlxcel-bench"),
        stage.name,
        stage.path("ours.json").display()
    );
    let shell = Command::new(&program).args(["-c", &script]).stdout(Stdio::piped()).spawn()?;
    let pid = shell.id();
    let output = shell.wait_with_output()?;
    assert_eq!(output.stdout, b"ended\n", "{}", said(&output));
    let record: Value = serde_json::from_slice(&fs::read(stage.path("ours.json"))?)?;
    assert_eq!(record.pointer("/protected/0/pid"), Some(&pid.into()), "{record}");
    assert_eq!(record.pointer("/suspended/0"), None, "{record}");
    Ok(())
}

#[test]
fn a_signal_that_ends_the_command_shows_in_the_exit_code() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let output = stage.quiet(&["sh", "-c", "kill -s KILL $$"]).output()?;
    assert_eq!(output.status.code(), Some(137), "{}", said(&output));
    assert!(!is_stopped(other.0.id())?);
    Ok(())
}

#[test]
fn the_wrapper_is_told_to_end_and_so_is_the_command_which_decides() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let script =
        format!("trap 'exit 9' TERM; : > {}; while :; do sleep 0.05; done", stage.path("begun").display());
    let mut quiet = stage.quiet(&["sh", "-c", &script]).stderr(Stdio::null()).spawn()?;
    until("the command to begin", || Ok(stage.path("begun").exists()))?;
    // The handler is there soon after the command is.
    thread::sleep(Duration::from_millis(300));
    kill("TERM", quiet.id())?;
    assert_eq!(quiet.wait()?.code(), Some(9));
    assert!(!is_stopped(other.0.id())?);
    Ok(())
}

#[test]
fn a_command_that_is_not_there_leaves_nothing_suspended() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let output = stage.quiet(&["./no-such-command"]).output()?;
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));
    assert!(said(&output).contains("no-such-command"), "{}", said(&output));
    assert!(!is_stopped(other.0.id())?);
    Ok(())
}

#[test]
fn names_of_the_environment_count_and_without_any_it_is_refused_where_the_system_has_none() -> Outcome {
    let stage = Stage::new()?;
    let other = stage.other()?;
    let mut quiet = Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"));
    let script = format!("ps -o state= -p {}", other.0.id());
    quiet.args(["quiet", "--", "sh", "-c", &script]).env("TMPDIR", stage.folder.path());
    let output = quiet.env("INDEXER_EXTRA_NAMES", format!("nobody\n{}\n", stage.name)).output()?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(output.stdout.starts_with(b"T"), "{}", said(&output));
    // The record without a name of its own does not outlive the command.
    let left = fs::read_dir(stage.folder.path())?.filter_map(Result::ok);
    assert_eq!(left.filter(|entry| entry.file_name() != stage.name.as_str()).count(), 0);
    if cfg!(target_os = "linux") {
        let output = quiet.env_remove("INDEXER_EXTRA_NAMES").output()?;
        assert_eq!(output.status.code(), Some(4));
        assert!(said(&output).contains("--name"), "{}", said(&output));
    }
    Ok(())
}

/// While threads start one process after another, what was made can be started each time.
#[test]
fn a_program_that_was_made_can_be_started_at_once() -> Outcome {
    let folder = tempfile::tempdir()?;
    thread::scope(|scope| {
        let others: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..60).try_for_each(|_| Command::new("true").status().map(drop))))
            .collect();
        for number in 0..40 {
            let path = folder.path().join(format!("program{number}"));
            program::script(&path, "#!/bin/sh\n")?;
            assert!(Command::new(&path).status()?.success());
        }
        for other in others {
            other.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}
