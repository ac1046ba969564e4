//! Small ways to ask the system: the output of its own programs, and one-line files.

use std::fs;
use std::path::Path;

/// What a program printed; `None` when it is not there, fails or prints nothing.
#[cfg(target_os = "macos")]
pub(super) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(std::process::Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned()).filter(|text| !text.trim().is_empty())
}

/// A file of one value, trimmed; `None` when it cannot be read or is empty.
pub(super) fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A file of one number.
pub(super) fn number(path: &Path) -> Option<i64> {
    line(path)?.parse().ok()
}

/// The names in a folder, sorted; none when it cannot be read.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
