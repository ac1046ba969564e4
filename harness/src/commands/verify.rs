//! `verify`: whether what files state follows from the rows they name. The deriving is `mlxcel_reports::verify`'s; here
//! the command line of a comparison is read again, by the very flags that `compare` has.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Parser as _;
use git2::Repository;
use mlxcel_reports::compare::options::Options;
use mlxcel_reports::verify::{Context, Invocation, Verification, verify};
use serde_json::{Value, json};

use super::compare::{names, options};
use crate::cli::{Cli, Command, ListFormat, VerifyArgs};
use crate::exit::Exit;
use crate::text::{complain, one_line, say, told};

pub(super) fn run(arguments: &VerifyArgs) -> anyhow::Result<Exit> {
    let mut text = String::new();
    let mut documents = Vec::new();
    let mut exit = Exit::Fine;
    for file in &arguments.files {
        match verify(file, Context { read_command: &read_command }) {
            Ok(mut verification) => {
                if arguments.committed {
                    committed(&mut verification);
                }
                if !verification.is_consistent() && exit == Exit::Fine {
                    exit = Exit::Failure;
                }
                text.push_str(&shown(&verification));
                documents.push(serde_json::to_value(&verification)?);
            }
            Err(error) => {
                exit = Exit::BadInput;
                complain(&format!("error: {error}"));
                documents.push(json!({ "file": file.to_string_lossy(), "error": error.to_string() }));
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

/// Rows that only somebody's working folder holds prove nothing to anybody else.
fn committed(verification: &mut Verification) {
    for source in verification.sources.clone() {
        match is_committed(&source) {
            Ok(true) => {}
            Ok(false) => verification
                .distrust(&source, "the commit that is checked out does not hold this file as it is"),
            Err(error) => {
                let why = told(&error);
                verification.distrust(&source, format!("whether it is committed cannot be told: {why}"));
            }
        }
    }
}

fn is_committed(path: &Path) -> anyhow::Result<bool> {
    let path = path.canonicalize()?;
    let folder = path.parent().context("it lies in no folder")?;
    let repository = Repository::discover(folder).context("it lies in no git repository")?;
    let root = repository.workdir().context("the repository has no working tree")?.canonicalize()?;
    let tree = repository.head().and_then(|head| head.peel_to_tree()).context("nothing is committed yet")?;
    let Ok(entry) = tree.get_path(path.strip_prefix(&root)?) else {
        return Ok(false);
    };
    let blob = repository.find_blob(entry.id())?;
    Ok(blob.content() == std::fs::read(&path)?)
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
        names: names(arguments.catalog.as_deref()).map_err(|error| told(&error))?,
        store: arguments.store.clone(),
    })
}

fn shown(verification: &Verification) -> String {
    let Verification { file, kind, checked, discrepancies, notes, .. } = verification;
    let mut counts: Vec<String> =
        checked.iter().map(|checked| format!("{} {}", checked.count, checked.what)).collect();
    if counts.is_empty() {
        counts.push("nothing could be derived".to_owned());
    }
    let word = if discrepancies.is_empty() { "ok" } else { "FAILED" };
    let mut text = format!("{word} {}: {kind}: {}", one_line(file.display()), counts.join(", "));
    if !discrepancies.is_empty() {
        let verb = if discrepancies.len() == 1 { "does" } else { "do" };
        // OK to ignore: writing to a String does not fail.
        let _ = write!(text, "; {} {verb} not follow", discrepancies.len());
    }
    text.push('\n');
    for discrepancy in discrepancies {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "  {}", one_line(discrepancy));
    }
    for note in notes {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "  note: {}", one_line(note));
    }
    text
}
