//! `verify`: whether what files state follows from the rows they name. The deriving is `mlxcel_reports::verify`'s; here
//! the command line of a comparison is read again, by the very flags that `compare` has.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Parser as _;
use mlxcel_reports::compare::options::Options;
use mlxcel_reports::verify::{Context, Invocation, Verification, verify};
use serde_json::{Value, json};

use super::compare::{names, options};
use crate::cli::{Cli, Command, ListFormat, VerifyArgs};
use crate::exit::Exit;
use crate::text::{complain, say};

pub(super) fn run(arguments: &VerifyArgs) -> anyhow::Result<Exit> {
    let mut text = String::new();
    let mut documents = Vec::new();
    let mut exit = Exit::Fine;
    for file in &arguments.files {
        match verify(file, Context { read_command: &read_command }) {
            Ok(verification) => {
                if !verification.is_consistent() && exit == Exit::Fine {
                    exit = Exit::Failure;
                }
                text.push_str(&shown(&verification));
                documents.push(serde_json::to_value(&verification)?);
            }
            Err(error) => {
                exit = Exit::BadInput;
                complain(&format!("error: {error}"));
                documents.push(json!({ "file": file, "error": error.to_string() }));
            }
        }
    }
    match arguments.format {
        ListFormat::Json => say(&serde_json::to_string_pretty(&Value::from(documents))?),
        ListFormat::Table if text.is_empty() => Ok(()),
        ListFormat::Table => say(&text),
    }
    .context("cannot write to stdout")?;
    Ok(exit)
}

/// What a document's command line asked for.
fn read_command(command: &[String]) -> Result<Invocation, String> {
    let cli = Cli::try_parse_from(command).map_err(|error| {
        let said = error.to_string();
        said.lines().next().unwrap_or_default().to_owned()
    })?;
    let Command::Compare(arguments) = cli.command else {
        return Err("it is not that of `compare`".to_owned());
    };
    Ok(Invocation {
        before: arguments.before.clone(),
        after: arguments.after.clone(),
        options: Options { command: command.to_vec(), ..options(&arguments) },
        names: names(arguments.catalog.as_deref()).map_err(|error| format!("{error:#}"))?,
        store: arguments.store.clone(),
    })
}

fn shown(verification: &Verification) -> String {
    let Verification { file, kind, checked, discrepancies, notes } = verification;
    let counts: Vec<String> =
        checked.iter().map(|checked| format!("{} {}", checked.count, checked.what)).collect();
    let word = if discrepancies.is_empty() { "ok" } else { "FAILED" };
    let mut text = format!("{word} {}: {kind}: {}", file.display(), counts.join(", "));
    if !discrepancies.is_empty() {
        // OK to ignore: writing to a String does not fail.
        let _ = write!(text, "; {} do not follow", discrepancies.len());
    }
    text.push('\n');
    for discrepancy in discrepancies {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "  {discrepancy}");
    }
    for note in notes {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "  note: {note}");
    }
    text
}
