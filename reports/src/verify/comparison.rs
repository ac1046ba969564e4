//! A comparison once more: from the command line and the two files that a document names.

use std::path::{Path, PathBuf};

use super::Context;
use super::report::{Discrepancy, Verification};
use crate::command_line::joined;
use crate::compare::baseline::readings;
use crate::compare::compare;
use crate::compare::finding::Finding;
use crate::compare::options::Options;
use crate::compare::report::Comparison;
use crate::history::{self, SourceFile};
use crate::names::NameResolver;
use crate::rules::RuleSet;

/// What the command line of a comparison asked for.
pub struct Invocation {
    /// The first file, as it was named.
    pub before: PathBuf,
    /// The second file, as it was named.
    pub after: PathBuf,
    /// What was said of the comparison, the command line itself included.
    pub options: Options,
    /// Which names mean one checkpoint.
    pub names: Box<dyn NameResolver>,
    /// Folder in which newer readings of the baseline were looked for; none for that of the baseline.
    pub store: Option<PathBuf>,
}

/// An input as a document states it.
pub(super) struct StatedInput {
    /// `before` or `after`.
    pub(super) side: String,
    pub(super) path: String,
    pub(super) sha256: String,
    /// Where the document states it.
    pub(super) line: u64,
    /// The field that states the digest.
    pub(super) field: String,
}

/// The rule whose findings depend on other files than the two: those may have come since, so a difference is a remark.
pub(super) const DEPENDS_ON_OTHER_FILES: &str = "P17";

/// Compares again. None, with discrepancies, where that cannot be done.
pub(super) fn recomputed(
    document: &Path,
    (command_line, command): (u64, &[String]),
    inputs: &[StatedInput],
    context: Context<'_>,
    verification: &mut Verification,
) -> Option<Comparison> {
    let read =
        if command.is_empty() { Err("there is none".to_owned()) } else { (context.read_command)(command) };
    let invocation = match read {
        Ok(invocation) => invocation,
        Err(reason) => {
            let message = format!("the command line cannot be read, so nothing follows from it: {reason}");
            let discrepancy = Discrepancy::new(document, "command", message).at(command_line);
            let stated = (!command.is_empty()).then(|| joined(command));
            verification.found(discrepancy.values(stated, None::<String>));
            return None;
        }
    };
    let mut files = Vec::new();
    for (side, named) in [("before", &invocation.before), ("after", &invocation.after)] {
        let Some(input) = inputs.iter().find(|input| input.side == side) else {
            let message = format!("the document names no file `{side}` and no digest of it");
            verification.found(Discrepancy::new(document, "inputs", message).at(command_line));
            continue;
        };
        let named = named.display().to_string();
        if named != input.path {
            let discrepancy = Discrepancy::new(document, format!("{side} path"), "from the command line");
            verification.found(discrepancy.at(input.line).values(Some(&input.path), Some(named)));
        }
        if let Some(file) = input_file(document, input, verification) {
            files.push(file);
        }
    }
    let [(before, folder), (after, _)] = <[_; 2]>::try_from(files).ok()?;
    let folder = invocation.store.as_deref().unwrap_or(&folder);
    let names = invocation.names.as_ref();
    let (readings, _) = readings(folder, [&before, &after], names, invocation.options.metric);
    verification.count("comparisons", 1);
    Some(compare(&before, &after, names, &invocation.options, &readings, &RuleSet::all()))
}

/// The file that an input names: where it is named, seen from here or from the document; or beside the document. The one
/// with the stated digest, where several exist.
fn input_file(
    document: &Path,
    input: &StatedInput,
    verification: &mut Verification,
) -> Option<(SourceFile, PathBuf)> {
    let named = Path::new(&input.path);
    let beside = document.parent().unwrap_or_else(|| Path::new(""));
    let mut places = vec![named.to_owned(), beside.join(named)];
    places.extend(named.file_name().map(|name| beside.join(name)));
    let mut found: Option<SourceFile> = None;
    let mut complaint = "no such file, neither from here nor from the folder of the document".to_owned();
    for place in places.iter().filter(|place| place.is_file()) {
        match history::read(place) {
            Ok(file) if file.sha256 == input.sha256 => {
                found = Some(file);
                break;
            }
            Ok(file) => found = found.or(Some(file)),
            Err(error) => complaint = error.to_string(),
        }
    }
    let at = |discrepancy: Discrepancy| discrepancy.at(input.line);
    let Some(mut file) = found else {
        let message = format!("`{}` cannot be compared again: {complaint}", input.path);
        let discrepancy = Discrepancy::new(document, &input.field, message);
        verification.found(at(discrepancy).values(Some(&input.sha256), None::<String>));
        return None;
    };
    verification.count("input digests", 1);
    verification.count("input rows", file.records.len());
    if file.sha256 != input.sha256 {
        let message =
            format!("from the bytes of {}: it is not the file that was compared", file.path.display());
        let discrepancy = Discrepancy::new(document, &input.field, message);
        verification.found(at(discrepancy).values(Some(&input.sha256), Some(&file.sha256)));
    }
    verification.sources.push(file.path.clone());
    let folder = file.path.parent().unwrap_or_else(|| Path::new("")).to_owned();
    named.clone_into(&mut file.path);
    Some((file, folder))
}

/// Takes the findings that depend on other files out of a comparison.
pub(super) fn set_apart(comparison: &mut Comparison) -> Vec<Finding> {
    let (apart, kept) = std::mem::take(&mut comparison.warnings)
        .into_iter()
        .partition(|finding| finding.rule == DEPENDS_ON_OTHER_FILES);
    comparison.warnings = kept;
    apart
}

/// Remarks on the findings that depend on other files.
pub(super) fn remark(stated: usize, derived: usize, verification: &mut Verification) {
    if stated != derived {
        verification.notes.push(format!(
            "{stated} warnings of rule {DEPENDS_ON_OTHER_FILES} are stated, {derived} follow from the files that lie beside \
             the baseline now; files that were added or removed since explain the difference"
        ));
    }
}
