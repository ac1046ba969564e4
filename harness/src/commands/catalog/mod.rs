//! `catalog`: what checkpoints are, whether they are whole, which are the same, and what they are called.
//!
//! Results go to stdout as text or as one JSON document, what was noticed on the way to stderr.

mod check;
mod identify;
mod names;
mod tokenizers;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel_catalog::listing::{Found, ListingFault};
use mlxcel_catalog::table::Table;
use serde_json::Value;

use crate::cli::{CatalogCommand, Format};
use crate::exit::{EndsWith, Exit};
use crate::text::{complain, say};

pub(super) fn run(command: &CatalogCommand) -> anyhow::Result<Exit> {
    let Outcome { text, mut json, exit } = match command {
        CatalogCommand::Check(arguments) => check::run(arguments)?,
        CatalogCommand::Identify(arguments) => identify::run(arguments)?,
        CatalogCommand::Scan(arguments) => names::scan(arguments)?,
        CatalogCommand::Merge(arguments) => names::merge(arguments)?,
        CatalogCommand::Resolve(arguments) => names::resolve(arguments)?,
        CatalogCommand::Rename(arguments) => names::rename(arguments)?,
    };
    let text = match command.format() {
        Format::Table => text,
        Format::Json => {
            if let Value::Object(fields) = &mut json {
                fields.insert("schema_version".to_owned(), SCHEMA_VERSION.into());
            }
            serde_json::to_string_pretty(&json)?
        }
    };
    say(&text).context("cannot write to stdout")?;
    Ok(exit)
}

/// Version of the JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// What a subcommand found, in both forms.
struct Outcome {
    text: String,
    json: Value,
    exit: Exit,
}

/// The folders to look at; an error when nothing at all can be looked at.
fn list(dirs: &[PathBuf]) -> anyhow::Result<(Vec<Found>, Vec<ListingFault>)> {
    let (found, faults) = mlxcel_catalog::listing::list(dirs);
    if found.is_empty() {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow::bail!("there is no folder to look at: {}", faults.join("; "));
    }
    Ok((found, faults))
}

/// A table without faults; of one with faults, each is told and nothing is done.
fn sound(table: Table, path: &Path) -> anyhow::Result<Table> {
    if table.faults().is_empty() {
        return Ok(table);
    }
    for fault in table.faults() {
        complain(&format!("{}, {fault}", path.display()));
    }
    let count = table.faults().len();
    let text = format!("{} has {count} faulty lines; repair them first, nothing was changed", path.display());
    Err(EndsWith(Exit::Failure, text).into())
}

fn fine_unless(faults: bool) -> Exit {
    if faults { Exit::Failure } else { Exit::Fine }
}

/// `1 folder`, `2 folders`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
