//! Deriving again what a file states, from that file and the rows it names alone.
//!
//! A result set is three files that say much of it twice: rates beside counts and times, figures beside samples, stamps in
//! rows beside the record of the executable, digests beside bytes. A comparison document is a function of two files and a
//! command line. Whatever does not follow is a [`Discrepancy`] with its file, line, field and both values. What is stated
//! nowhere else is not looked at; [`Verification::checked`] says what was.

mod comparison;
mod diff;
mod gate;
mod historical;
mod inputs;
mod json;
mod json_lines;
mod markdown;
mod provenance;
mod report;
mod roster;
mod rows;
mod samples;
mod set;
mod stamps;
mod statuses;

use std::io::Read;
use std::path::{Path, PathBuf};

use mlxcel_catalog::files::open_regular;

pub use comparison::Invocation;
pub use gate::GateInvocation;
pub use report::{Checked, Discrepancy, MissingInput, Verdict, Verification, VerifyError};

/// Longest document that is read; a comparison is far smaller.
const MAX_DOCUMENT_BYTES: u64 = 256 << 20;

/// What is said beside a file.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Turns the command line of a comparison into what it asked for; the program knows its flags, this crate does not.
    pub read_command: &'a dyn Fn(&[String]) -> Result<Invocation, String>,
    /// The same for the command line of a gate.
    pub read_gate: &'a dyn Fn(&[String]) -> Result<GateInvocation, String>,
    /// The bytes of a file of a commit, named `COMMIT:PATH`, where a repository around has it.
    pub read_committed: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// For documents that state no command line of a gate and no file of a commit.
impl<'a> Context<'a> {
    /// Only comparisons can be verified.
    pub fn of_comparisons(read_command: &'a dyn Fn(&[String]) -> Result<Invocation, String>) -> Self {
        Self {
            read_command,
            read_gate: &|_| Err("gates are not looked at here".to_owned()),
            read_committed: &|_| None,
        }
    }
}

/// Verifies one file: a result file of any layout, the JSON or Markdown output of a comparison, or the JSON output of a gate. Any of the three files
/// of a result set stands for all of them.
pub fn verify(path: &Path, context: Context<'_>) -> Result<Verification, VerifyError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.as_ref();
    if let Some(rows) = rows_beside(path, name) {
        return result_file(&rows);
    }
    if [".csv", ".csv.partial"].iter().any(|ending| name.ends_with(ending)) {
        return result_file(path);
    }
    document(path, &read_text(path)?, context)
}

/// Verifies the text of a comparison document; `path` says where it lies, for complaints and for finding its inputs.
pub fn document(path: &Path, text: &str, context: Context<'_>) -> Result<Verification, VerifyError> {
    if text.trim_start().starts_with('{') {
        json::verify(path, text, context)
    } else {
        markdown::verify(path, text, context)
    }
}

fn result_file(path: &Path) -> Result<Verification, VerifyError> {
    if rows::is_own(path)? { set::verify(path) } else { historical::verify(path) }
}

/// The rows beside a samples or provenance file.
fn rows_beside(path: &Path, name: &str) -> Option<PathBuf> {
    ["samples.jsonl", "provenance.json"].iter().find_map(|kind| {
        [(format!(".{kind}.partial"), ".csv.partial"), (format!(".{kind}"), ".csv")].iter().find_map(
            |(ending, rows)| {
                name.strip_suffix(ending.as_str()).map(|stem| path.with_file_name(format!("{stem}{rows}")))
            },
        )
    })
}

fn read_text(path: &Path) -> Result<String, VerifyError> {
    let failed = |source| VerifyError::Read { path: path.to_owned(), source };
    let unfit =
        |reason: &str| VerifyError::NothingToDerive { path: path.to_owned(), reason: reason.to_owned() };
    let mut bytes = Vec::new();
    open_regular(path)
        .and_then(|file| file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(unfit("it is larger than any comparison"));
    }
    String::from_utf8(bytes).map_err(|_| unfit("it is not UTF-8"))
}
