//! Rows for people and for programs: a table on the terminal, JSON for pipes. Nothing is computed here that a row does
//! not hold.

pub mod comparison;
pub mod gate;
pub mod history;
pub mod json;
pub mod terminal;

use crate::command_line::{joined, quoted};
use crate::compare::report::{Input, Source};

/// The lines that say from which files and by which command a report was made.
fn inputs_and_command<'a>(
    inputs: &'a [Input],
    sources: &'a [Source],
    command: &'a [String],
) -> impl Iterator<Item = String> {
    let files = inputs.iter().map(|Input { side, path, sha256, samples_sha256, layout, rows }| {
        let samples =
            samples_sha256.as_ref().map_or_else(String::new, |sha256| format!(", samples sha256 {sha256}"));
        format!("{side}: {} ({layout}, {rows} rows, sha256 {sha256}{samples})", quoted(path))
    });
    let others = sources.iter().map(|Source { what, path, sha256 }| {
        let digest =
            sha256.as_ref().map_or_else(|| "unreadable".to_owned(), |sha256| format!("sha256 {sha256}"));
        format!("{what}: {} ({digest})", quoted(path))
    });
    files.chain(others).chain((!command.is_empty()).then(|| format!("command: {}", joined(command))))
}
