//! Programs that a test makes and then runs.
//!
//! A program that any process holds open for writing cannot be started (`ETXTBSY`), and a process started by another
//! test's thread inherits, until it has become its own program, every file that this one has open. So the file is
//! written by a process that has ended, never by the test itself.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Makes a script that can be started.
pub(crate) fn script(path: &Path, text: &str) -> io::Result<()> {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = writer.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    ended(path, writer.wait()?)
}

/// Copies a program, with its permissions.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    ended(to, Command::new("cp").arg(from).arg(to).status()?)
}

fn ended(path: &Path, status: ExitStatus) -> io::Result<()> {
    let failed = || io::Error::other(format!("{} was not written: {status}", path.display()));
    status.success().then_some(()).ok_or_else(failed)
}
