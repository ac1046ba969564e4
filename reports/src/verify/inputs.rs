//! The files that a document names: where they lie now, and whether they are the ones.

use std::path::{Path, PathBuf};

use super::report::{Discrepancy, MissingInput, Verification};
use crate::history::{self, SourceFile};
use crate::store::sha256_of;

/// A file as a document states it.
pub(super) struct Stated {
    /// The side of a result file, or what another file is.
    pub(super) what: String,
    pub(super) path: String,
    /// None where the document says that it could not be read.
    pub(super) sha256: Option<String>,
    /// Where the document states it.
    pub(super) line: u64,
    /// The field that states the digest.
    pub(super) field: String,
}

impl Stated {
    /// That the file is not at hand.
    pub(super) fn is_missing(&self, document: &Path, reason: impl Into<String>) -> MissingInput {
        MissingInput {
            file: document.to_owned(),
            line: Some(self.line),
            what: self.what.clone(),
            path: self.path.clone(),
            sha256: self.sha256.clone(),
            reason: reason.into(),
        }
    }
}

/// Where a file may lie that a document names: as it is named, seen from here or from the document's folder, or beside the
/// document.
fn places(document: &Path, named: &str) -> Vec<PathBuf> {
    let named = Path::new(named);
    let beside = document.parent().unwrap_or_else(|| Path::new(""));
    let mut places = vec![named.to_owned(), beside.join(named)];
    places.extend(named.file_name().map(|name| beside.join(name)));
    places.dedup();
    places
}

/// What was found under a file's name.
pub(super) enum Found {
    /// The file, by its digest; or one that could not be read then and cannot be now.
    Same(PathBuf),
    /// A file of the name, and its digest.
    Other(PathBuf, String),
    /// None that can be read.
    Nothing(String),
}

/// Looks for a file.
pub(super) fn find(document: &Path, stated: &Stated) -> Found {
    let mut other = None;
    let mut complaint = "no such file, neither from here nor from the folder of the document".to_owned();
    for place in places(document, &stated.path).into_iter().filter(|place| place.exists()) {
        match (sha256_of(&place), &stated.sha256) {
            (Ok(found), Some(sha256)) if found == *sha256 => return Found::Same(place),
            (Ok(found), _) => other = other.or(Some((place, found))),
            (Err(_), None) => return Found::Same(place),
            (Err(error), Some(_)) => complaint = error.to_string(),
        }
    }
    other.map_or(Found::Nothing(complaint), |(place, found)| Found::Other(place, found))
}

/// A result file that a document names, and the folder that it lies in. One of the name with another digest is looked at as
/// well, so that what differs is said; one that is not there cannot be verified.
pub(super) fn result_file(
    document: &Path,
    stated: &Stated,
    verification: &mut Verification,
) -> Option<(SourceFile, PathBuf)> {
    let (place, sha256) = match find(document, stated) {
        Found::Same(place) => (place, None),
        Found::Other(place, sha256) => (place, Some(sha256)),
        Found::Nothing(reason) => {
            verification.is_missing(stated.is_missing(document, reason));
            return None;
        }
    };
    let mut file = match history::read(&place) {
        Ok(file) => file,
        Err(error) => {
            let message = format!("`{}` cannot be looked at again: {error}", stated.path);
            let discrepancy = Discrepancy::new(document, &stated.field, message).at(stated.line);
            verification.found(discrepancy.values(stated.sha256.as_ref(), None::<String>));
            return None;
        }
    };
    verification.count("input digests", 1);
    verification.count("input rows", file.records.len());
    if let Some(sha256) = sha256 {
        let message = format!("from the bytes of {}: it is not the file that was compared", place.display());
        let discrepancy = Discrepancy::new(document, &stated.field, message).at(stated.line);
        verification.found(discrepancy.values(stated.sha256.as_ref(), Some(sha256)));
    }
    verification.sources.push(place.clone());
    let folder = place.parent().unwrap_or_else(|| Path::new("")).to_owned();
    file.path = PathBuf::from(&stated.path);
    Some((file, folder))
}

/// Where a file lies that is no result file and that a document names with its digest. With another digest it is another file,
/// so nothing follows from it.
pub(super) fn other_file(
    document: &Path,
    stated: &Stated,
    verification: &mut Verification,
) -> Option<PathBuf> {
    match find(document, stated) {
        Found::Same(place) => {
            verification.count("input digests", 1);
            verification.sources.push(place.clone());
            Some(place)
        }
        Found::Other(place, sha256) => {
            let reason = format!("{} is another file, with the SHA-256 {sha256}", place.display());
            verification.is_missing(stated.is_missing(document, reason));
            None
        }
        Found::Nothing(reason) => {
            verification.is_missing(stated.is_missing(document, reason));
            None
        }
    }
}

/// The file of this kind and name, among those that a document states. One that the command line names and the document does
/// not is a discrepancy.
pub(super) fn named<'s>(
    document: &Path,
    (line, sources): (u64, &'s [Stated]),
    (what, path): (&str, &Path),
    verification: &mut Verification,
) -> Option<&'s Stated> {
    let named = path.display().to_string();
    let found = sources.iter().find(|source| source.what == what && source.path == named);
    if found.is_none() {
        let message = format!("the command line names it as {what}, and the document states no digest of it");
        let discrepancy = Discrepancy::new(document, "sources", message).at(line);
        verification.found(discrepancy.values(None::<String>, Some(named)));
    }
    found
}
