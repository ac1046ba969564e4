//! `verify`: whether what files state follows from the rows they name. The deriving is `mlxcel_reports::verify`'s; here
//! the command line of a comparison is read again, by the very flags that `compare` has.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Parser as _;
use git2::Repository;
use mlxcel_reports::compare::options::Options;
use mlxcel_reports::verify::{Context, GateInvocation, Invocation, Verdict, Verification, verify};
use serde_json::{Value, json};

use super::compare::options;
use crate::cli::{Cli, Command, ListFormat, VerifyArgs};
use crate::exit::Exit;
use crate::text::{complain, one_line, say, told};

pub(super) fn run(arguments: &VerifyArgs) -> anyhow::Result<Exit> {
    let mut text = String::new();
    let mut documents = Vec::new();
    let mut exit = Exit::Fine;
    let context =
        Context { read_command: &read_command, read_gate: &read_gate, read_committed: &read_committed };
    for file in &arguments.files {
        match verify(file, context) {
            Ok(mut verification) => {
                if arguments.committed {
                    committed(&mut verification);
                }
                exit = worse(exit, &verification);
                text.push_str(&shown(&verification));
                documents.push(document(&verification)?);
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

/// What does not follow outweighs what could not be looked at, and both are outweighed by a file that cannot be read.
fn worse(exit: Exit, verification: &Verification) -> Exit {
    match (exit, verification.verdict()) {
        (Exit::BadInput, _) => Exit::BadInput,
        (_, Verdict::Failed) => Exit::Failure,
        (Exit::Fine, Verdict::Unverifiable) => Exit::Inconclusive,
        (exit, _) => exit,
    }
}

/// A verification with what it comes to, for programs.
fn document(verification: &Verification) -> serde_json::Result<Value> {
    let mut document = serde_json::to_value(verification)?;
    if let Some(fields) = document.as_object_mut() {
        fields.insert("verdict".to_owned(), verification.verdict().as_str().into());
    }
    Ok(document)
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

fn parsed(command: &[String]) -> Result<Command, String> {
    Cli::try_parse_from(command).map(|cli| cli.command).map_err(|error| {
        let said = error.to_string();
        said.lines().next().unwrap_or_default().to_owned()
    })
}

/// What a comparison's command line asked for.
fn read_command(command: &[String]) -> Result<Invocation, String> {
    let Command::Compare(arguments) = parsed(command)? else {
        return Err("it is not that of `compare`".to_owned());
    };
    Ok(Invocation {
        before: arguments.before.clone(),
        after: arguments.after.clone(),
        options: Options { command: command.to_vec(), ..options(&arguments) },
        catalog: arguments.catalog.clone(),
        store: arguments.store.clone(),
    })
}

/// What a gate's command line asked for.
fn read_gate(command: &[String]) -> Result<GateInvocation, String> {
    let Command::Gate(arguments) = parsed(command)? else {
        return Err("it is not that of `gate`".to_owned());
    };
    Ok(GateInvocation {
        baseline: arguments.baseline.clone(),
        candidate: arguments.candidate.clone(),
        baseline_from_git: arguments.baseline_from_git.is_some(),
        policy: arguments.policy.clone(),
        overrides: arguments.overrides(),
        spreads: arguments.spreads.clone(),
        catalog: arguments.catalog.clone(),
        tell_improvements: arguments.tell_improvements,
        confirm: arguments.confirm,
    })
}

/// The bytes of `COMMIT:PATH` in the repository around the current folder.
fn read_committed(name: &str) -> Option<Vec<u8>> {
    let (commit, path) = name.split_once(':')?;
    let repository = Repository::discover(".").ok()?;
    let tree = repository.revparse_single(commit).ok()?.peel_to_tree().ok()?;
    let entry = tree.get_path(Path::new(path)).ok()?;
    let blob = repository.find_blob(entry.id()).ok()?;
    Some(blob.content().to_vec())
}

fn shown(verification: &Verification) -> String {
    let Verification { file, kind, checked, discrepancies, missing, notes, .. } = verification;
    let mut counts: Vec<String> =
        checked.iter().map(|checked| format!("{} {}", checked.count, checked.what)).collect();
    if counts.is_empty() {
        counts.push("nothing could be derived".to_owned());
    }
    let word = match verification.verdict() {
        Verdict::Ok => "ok",
        Verdict::Failed => "FAILED",
        Verdict::Unverifiable => "UNVERIFIABLE",
    };
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
    for missing in missing {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "  {}", one_line(missing));
    }
    for note in notes {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "  note: {}", one_line(note));
    }
    text
}
