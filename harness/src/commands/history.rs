//! `history`: what lies in result files.

use anyhow::Context as _;
use mlxcel_reports::history::{FileSummary, scan};
use mlxcel_reports::render::history::table;

use crate::cli::{HistoryCommand, ListFormat};
use crate::exit::Exit;
use crate::text::{complain, say};

pub(super) fn run(command: &HistoryCommand) -> anyhow::Result<Exit> {
    let HistoryCommand::Scan { path, format } = command;
    let files = scan(path)?;
    let text = match format {
        ListFormat::Table => table(&files, None),
        ListFormat::Json => serde_json::to_string_pretty(&files)?,
    };
    say(&text).context("cannot write to stdout")?;
    let unreadable: Vec<&FileSummary> = files.iter().filter(|file| !file.is_readable()).collect();
    for problem in unreadable.iter().flat_map(|file| &file.problems) {
        complain(&format!("error: {}", problem.message));
    }
    Ok(if unreadable.is_empty() { Exit::Fine } else { Exit::BadInput })
}
