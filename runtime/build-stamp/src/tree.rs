//! The source files under a workspace's roots: their hashes, and which of them differ from the commit.
//!
//! Reading the repository itself is left to `git`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::git::Head;
use crate::hex;

/// Folders that hold no sources, for trees without a repository whose ignore rules would say so.
const NEVER_SOURCES: [&str; 4] = ["target", ".venv", "node_modules", "__pycache__"];

/// A source tree could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A file or folder could not be read.
    #[error(
        "cannot read {path} of the source tree: {source}; make it readable or remove it",
        path = path.display()
    )]
    Read {
        /// What could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// How a source file differs from the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// In the commit with other contents.
    Modified,
    /// Not in the commit, but in the index.
    Added,
    /// In the commit, not in the working tree.
    Deleted,
    /// Neither in the commit nor in the index, and not ignored.
    Untracked,
}

/// One source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Path relative to the workspace root, with `/` between its parts.
    pub path: String,
    /// SHA-256 of the contents (of the target path, for a symbolic link); `None` for a deleted file.
    pub sha256: Option<String>,
    /// How it differs from the commit; `None` when it does not or there is no commit.
    pub change: Option<Change>,
}

/// The state of a source tree at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeState {
    /// The roots that were read, relative to the workspace root.
    pub roots: Vec<String>,
    /// The checked-out commit, 40 hex digits; `None` outside a repository or before the first commit.
    pub commit: Option<String>,
    /// Why the commit is unknown, in words.
    pub commit_unknown: Option<String>,
    /// Every source file under the roots, by path.
    pub files: Vec<SourceFile>,
    /// SHA-256 over the paths and hashes of `files`.
    pub digest: String,
}

impl TreeState {
    /// Whether any source file differs from the commit.
    pub fn is_dirty(&self) -> bool {
        self.files.iter().any(|file| file.change.is_some())
    }

    /// The files that differ from the commit.
    pub fn changed(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.change.is_some())
    }

    /// The short form: the first 8 hex digits of the commit, then `-dirty` when a source file differs. `None`
    /// without a commit.
    pub fn stamp(&self) -> Option<String> {
        let short = self.commit.as_deref()?.get(..8)?;
        Some(if self.is_dirty() { format!("{short}-dirty") } else { short.to_owned() })
    }
}

/// Reads source trees.
#[derive(Debug)]
pub struct SourceTree;

impl SourceTree {
    /// Reads the files under `roots` (files or folders relative to `workspace_root`; one that does not exist
    /// holds no files): all that are tracked, and all that are neither tracked nor ignored.
    ///
    /// # Errors
    /// [`TreeError::Read`] for a file or folder that exists but cannot be read. A missing, foreign or unreadable repository is no
    /// error: the commit is then unknown and [`TreeState::commit_unknown`] says why.
    pub fn read(workspace_root: &Path, roots: &[&str]) -> Result<TreeState, TreeError> {
        let (head, commit_unknown) = match Head::open(workspace_root, roots) {
            Ok(head) => (Some(head), None),
            Err(reason) => (None, Some(reason)),
        };
        let mut paths = BTreeSet::new();
        for root in roots {
            walk(workspace_root, root, head.as_ref(), &mut paths)?;
        }
        if let Some(head) = &head {
            paths.extend(
                head.tracked_paths()
                    .filter(|path| is_file_or_link(&workspace_root.join(path)))
                    .map(str::to_owned),
            );
        }
        let mut files = BTreeMap::new();
        for path in paths {
            let contents = contents(&workspace_root.join(&path))?;
            let change = head.as_ref().and_then(|head| head.change_of(&path, &contents));
            let sha256 = Some(hex(&Sha256::digest(&contents)));
            files.insert(path.clone(), SourceFile { path, sha256, change });
        }
        if let Some(head) = &head {
            for path in head.committed_paths() {
                files.entry(path.to_owned()).or_insert_with(|| SourceFile {
                    path: path.to_owned(),
                    sha256: None,
                    change: Some(Change::Deleted),
                });
            }
        }
        let files: Vec<SourceFile> = files.into_values().collect();
        Ok(TreeState {
            roots: roots.iter().map(|&root| root.to_owned()).collect(),
            commit: head.map(|head| head.commit().to_owned()),
            commit_unknown,
            digest: digest(&files),
            files,
        })
    }
}

/// What differs between the tree a binary was built from and the tree as it is now, one sentence each; empty
/// when nothing does.
///
/// Both must have been read with the same roots. Staging a file makes no difference; committing does, since
/// the commit is then another one.
pub fn differences(built: &TreeState, now: &TreeState) -> Vec<String> {
    let mut found = Vec::new();
    if built.commit != now.commit {
        let name = |state: &TreeState| {
            state.stamp().unwrap_or_else(|| match &state.commit_unknown {
                Some(why) => format!("an unknown commit ({why})"),
                None => "an unknown commit".to_owned(),
            })
        };
        found.push(format!("built from {}, but the working tree is at {}", name(built), name(now)));
    }
    let hashes = |state: &TreeState| -> BTreeMap<String, Option<String>> {
        state.files.iter().map(|file| (file.path.clone(), file.sha256.clone())).collect()
    };
    let (before, after) = (hashes(built), hashes(now));
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let then = before.get(path).and_then(Option::as_ref);
        let today = after.get(path).and_then(Option::as_ref);
        match (then, today) {
            (Some(then), Some(today)) if then != today => {
                found.push(format!("{path} changed since the build"));
            }
            (None, Some(_)) => found.push(format!("{path} was not there at the build")),
            (Some(_), None) => found.push(format!("{path} is gone since the build")),
            _ => {}
        }
    }
    found
}

fn digest(files: &[SourceFile]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        hasher.update(file.path.as_bytes());
        hasher.update([0]);
        hasher.update(file.sha256.as_deref().unwrap_or("deleted").as_bytes());
        hasher.update([b'\n']);
    }
    hex(&hasher.finalize())
}

fn is_file_or_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_dir())
}

/// What git would store for the path: a file's bytes, or a link's target.
fn contents(path: &Path) -> Result<Vec<u8>, TreeError> {
    let read = || {
        if fs::symlink_metadata(path)?.is_symlink() {
            Ok(fs::read_link(path)?.as_os_str().as_encoded_bytes().to_vec())
        } else {
            fs::read(path)
        }
    };
    read().map_err(|source| TreeError::Read { path: path.to_owned(), source })
}

/// Collects every file at or below `relative` that no ignore rule hides.
fn walk(
    root: &Path,
    relative: &str,
    head: Option<&Head>,
    found: &mut BTreeSet<String>,
) -> Result<(), TreeError> {
    let path = root.join(relative);
    let failed = |source| TreeError::Read { path: path.clone(), source };
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let is_folder = metadata.is_dir();
    if !is_folder && !metadata.is_file() && !metadata.is_symlink() {
        return Ok(()); // sockets and pipes are no sources
    }
    let hidden = match head {
        Some(head) => head.ignores(relative, is_folder),
        None => {
            is_folder && path.file_name().is_some_and(|name| NEVER_SOURCES.iter().any(|never| name == *never))
        }
    };
    if hidden {
        return Ok(());
    }
    if !is_folder {
        found.insert(relative.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != ".git" {
            walk(root, &format!("{relative}/{}", name.to_string_lossy()), head, found)?;
        }
    }
    Ok(())
}
