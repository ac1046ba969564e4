//! Which checkpoint folders lie under the folders that somebody named.
//!
//! A folder that holds a `config.json` or weights stands for itself, any other for its subfolders, in the order in which a
//! shell lists `*/`: by name with a slash after it, hidden ones left out. A hub cache's `models--ORGANISATION--NAME` stands
//! for its snapshots, which are called `NAME`, with `@` and the revision's beginning where there are several.
//!
//! What cannot be listed is a fault; the rest goes on.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config::CONFIG_FILE;

/// A folder that may hold a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The folder as it was reached.
    pub path: PathBuf,
    /// What it is called.
    pub name: String,
}

/// Something that cannot be listed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListingFault {
    /// The path leads nowhere, or cannot be read.
    #[error("{} cannot be listed: {source}; see to the path and its permissions", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A link leads nowhere or in a circle.
    #[error("{} is a link that leads nowhere ({source}); restore its target or remove it", path.display())]
    DeadLink {
        /// The link.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path is no folder.
    #[error("{} is not a folder; name a checkpoint folder or a folder of such", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// A folder's name is not text.
    #[error("{} has a name that is not UTF-8, under which nothing can be recorded; rename it", path.display())]
    NameNotUtf8 {
        /// The folder.
        path: PathBuf,
    },
    /// There is nothing in a folder that could be a checkpoint.
    #[error("{} holds neither a checkpoint nor folders; name a checkpoint folder or a folder of such", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

/// The folders under `dirs`, and what could not be listed.
pub fn list<P: AsRef<Path>>(dirs: &[P]) -> (Vec<Found>, Vec<ListingFault>) {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for dir in dirs {
        let dir = dir.as_ref();
        match fs::metadata(dir) {
            Err(source) => faults.push(ListingFault::Io { path: dir.to_owned(), source }),
            Ok(metadata) if !metadata.is_dir() => {
                faults.push(ListingFault::NotAFolder { path: dir.to_owned() });
            }
            Ok(_) if stands_for_itself(dir) => add(dir, &mut found, &mut faults),
            Ok(_) => {
                let before = (found.len(), faults.len());
                if !add_snapshots(dir, &mut found, &mut faults) {
                    for path in subfolders(dir, &mut faults) {
                        if !add_snapshots(&path, &mut found, &mut faults) {
                            add(&path, &mut found, &mut faults);
                        }
                    }
                }
                if before == (found.len(), faults.len()) {
                    faults.push(ListingFault::Empty { path: dir.to_owned() });
                }
            }
        }
    }
    (found, faults)
}

/// Whether the folder looks like a checkpoint, a damaged one included.
fn stands_for_itself(dir: &Path) -> bool {
    fs::symlink_metadata(dir.join(CONFIG_FILE)).is_ok()
        || fs::read_dir(dir).is_ok_and(|mut entries| {
            entries.any(|entry| {
                entry.is_ok_and(|entry| {
                    Path::new(&entry.file_name()).extension() == Some(OsStr::new("safetensors"))
                })
            })
        })
}

fn add(path: &Path, found: &mut Vec<Found>, faults: &mut Vec<ListingFault>) {
    match name_of(path) {
        Ok(name) => found.push(Found { path: path.to_owned(), name }),
        Err(fault) => faults.push(fault),
    }
}

/// The last part of the path, also of `.` and the like.
fn name_of(path: &Path) -> Result<String, ListingFault> {
    let resolved;
    let name = if let Some(name) = path.file_name() {
        name
    } else {
        resolved =
            fs::canonicalize(path).map_err(|source| ListingFault::Io { path: path.to_owned(), source })?;
        resolved.file_name().unwrap_or(OsStr::new("/"))
    };
    name.to_str().map(str::to_owned).ok_or_else(|| ListingFault::NameNotUtf8 { path: path.to_owned() })
}

/// Adds the snapshots of a folder of a hub cache; whether it is one.
fn add_snapshots(dir: &Path, found: &mut Vec<Found>, faults: &mut Vec<ListingFault>) -> bool {
    let file_name = dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some((_, name)) = file_name.strip_prefix("models--").and_then(|rest| rest.split_once("--")) else {
        return false;
    };
    let snapshots = dir.join("snapshots");
    if !snapshots.is_dir() {
        return false;
    }
    let revisions = subfolders(&snapshots, faults);
    let several = revisions.len() > 1;
    for path in revisions {
        let revision: String =
            path.file_name().unwrap_or_default().to_string_lossy().chars().take(8).collect();
        let name = if several { format!("{name}@{revision}") } else { name.to_owned() };
        found.push(Found { path, name });
    }
    true
}

/// The folders in a folder, links included, in the order of the shell.
fn subfolders(dir: &Path, faults: &mut Vec<ListingFault>) -> Vec<PathBuf> {
    let io = |source| ListingFault::Io { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            faults.push(io(error));
            return Vec::new();
        }
    };
    let mut folders = Vec::new();
    let mut dead = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                faults.push(io(error));
                continue;
            }
        };
        let mut key = entry.file_name().into_encoded_bytes();
        if key.first() == Some(&b'.') {
            continue;
        }
        key.push(b'/');
        let path = entry.path();
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => folders.push((key, path)),
            Ok(_) => {}
            Err(source) if path.is_symlink() => dead.push(ListingFault::DeadLink { path, source }),
            Err(source) => dead.push(ListingFault::Io { path, source }),
        }
    }
    dead.sort_by_key(ToString::to_string);
    faults.extend(dead);
    folders.sort();
    folders.into_iter().map(|(_, path)| path).collect()
}
