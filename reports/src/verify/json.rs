//! The JSON output of a comparison against the comparison done again. That of a gate is handed on.

use std::path::Path;

use serde_json::Value;

use super::comparison::{Files, recomputed};
use super::diff::Diff;
use super::inputs::Stated;
use super::json_lines::Lines;
use super::report::{Verification, VerifyError};
use super::{Context, gate};
use crate::render::comparison as render;

pub(super) fn verify(path: &Path, text: &str, context: Context<'_>) -> Result<Verification, VerifyError> {
    let unfit = |reason: String| VerifyError::NothingToDerive { path: path.to_owned(), reason };
    let stated: Value =
        serde_json::from_str(text).map_err(|error| unfit(format!("it is not JSON: {error}")))?;
    let has = |keys: [&str; 3]| keys.iter().all(|key| stated.get(key).is_some());
    if has(["outcome", "rows", "policy"]) {
        return gate::verify(path, text, &stated, context);
    }
    if !has(["verdict", "pairs", "inputs"]) {
        return Err(unfit("it is JSON, but neither a comparison nor a gate's report".to_owned()));
    }
    let lines = Lines::of(text);
    let mut verification = Verification::new(path, "comparison (JSON)");
    let command = strings(stated.get("command"));
    let (inputs, sources) =
        (files(&stated, &lines, "inputs", "side"), files(&stated, &lines, "sources", "what"));
    let files =
        Files { command: &command, command_line: lines.get("/command"), inputs: &inputs, sources: &sources };
    let Some(comparison) = recomputed(path, &files, context, &mut verification) else {
        return Ok(verification);
    };
    let derived = render::json(&comparison).map_err(|error| unfit(error.to_string()))?;
    let diff = Diff::new(path, &lines, "from the files and the command line");
    diff.documents(&stated, &derived, &mut verification);
    Ok(verification)
}

pub(super) fn strings(list: Option<&Value>) -> Vec<String> {
    let texts = list.and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The files of a list, each called what `what` says.
pub(super) fn files(stated: &Value, lines: &Lines, list: &str, what: &str) -> Vec<Stated> {
    let entries = stated.get(list).and_then(Value::as_array).into_iter().flatten();
    entries
        .enumerate()
        .filter_map(|(index, entry)| {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            let field = format!("/{list}/{index}/sha256");
            let line = lines.get(&field);
            Some(Stated { what: text(what)?, path: text("path")?, sha256: text("sha256"), line, field })
        })
        .collect()
}
