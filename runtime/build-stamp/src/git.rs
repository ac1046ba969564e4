//! The checked-out commit, through libgit2: its files under the roots, the index, and the ignore rules.
//!
//! Contents are compared by their git hash, not through the index's cached file times, so that a file marked
//! "assume unchanged" or edited within a clock tick is still seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository, TreeWalkMode, TreeWalkResult};

use crate::Change;

/// The entry kind of a submodule, which has no contents here.
const SUBMODULE_MODE: i32 = 0o160_000;

/// The commit a workspace is checked out at.
pub(crate) struct Head {
    repository: Repository,
    commit: String,
    /// The workspace root relative to the repository's, empty or ending in `/`.
    prefix: String,
    committed: BTreeMap<String, Oid>,
    indexed: BTreeSet<String>,
}

impl Head {
    /// Opens the repository that tracks the workspace. The error says in words why there is no commit.
    pub(crate) fn open(workspace_root: &Path, roots: &[&str]) -> Result<Self, String> {
        let repository = open_repository(workspace_root)?;
        let prefix = prefix_of(&repository, workspace_root)?;
        let (commit, committed) = {
            let commit = repository
                .head()
                .and_then(|head| head.peel_to_commit())
                .map_err(|error| format!("the repository has no commit checked out: {}", error.message()))?;
            let tree = commit
                .tree()
                .map_err(|error| format!("the commit's tree is unreadable: {}", error.message()))?;
            let mut committed = BTreeMap::new();
            tree.walk(TreeWalkMode::PreOrder, |folder, entry| {
                if entry.kind() == Some(ObjectType::Blob) && entry.filemode() != SUBMODULE_MODE {
                    let path = format!("{folder}{}", String::from_utf8_lossy(entry.name_bytes()));
                    if let Some(path) = path.strip_prefix(&prefix) {
                        committed.insert(path.to_owned(), entry.id());
                    }
                }
                TreeWalkResult::Ok
            })
            .map_err(|error| format!("the commit's tree is unreadable: {}", error.message()))?;
            (commit.id().to_string(), committed)
        };
        // An unpacked source archive below somebody's own repository is not that repository's.
        if !committed.contains_key("Cargo.toml") {
            return Err("the enclosing repository does not track this workspace".to_owned());
        }
        let under_roots = |path: &str| {
            roots.iter().any(|root| {
                path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let index =
            repository.index().map_err(|error| format!("the index is unreadable: {}", error.message()))?;
        let indexed = index
            .iter()
            .filter(|entry| i32::try_from(entry.mode).is_ok_and(|mode| mode != SUBMODULE_MODE))
            .map(|entry| String::from_utf8_lossy(&entry.path).into_owned())
            .filter_map(|path| path.strip_prefix(&prefix).map(str::to_owned))
            .filter(|path| under_roots(path))
            .collect();
        let committed = committed.into_iter().filter(|(path, _)| under_roots(path)).collect();
        Ok(Self { repository, commit, prefix, committed, indexed })
    }

    /// The commit, 40 hex digits.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// The files under the roots that the commit holds.
    pub(crate) fn committed_paths(&self) -> impl Iterator<Item = &str> {
        self.committed.keys().map(String::as_str)
    }

    /// The files under the roots that the commit or the index holds.
    pub(crate) fn tracked_paths(&self) -> impl Iterator<Item = &str> {
        self.committed.keys().chain(&self.indexed).map(String::as_str)
    }

    /// How a file of the working tree differs from the commit.
    pub(crate) fn change_of(&self, path: &str, contents: &[u8]) -> Option<Change> {
        let Some(committed) = self.committed.get(path) else {
            return Some(if self.indexed.contains(path) { Change::Added } else { Change::Untracked });
        };
        match Oid::hash_object(ObjectType::Blob, contents) {
            Ok(now) if now == *committed => None,
            // A hash that could not be made proves no equality.
            _ => Some(Change::Modified),
        }
    }

    /// Whether the ignore rules hide a path.
    pub(crate) fn ignores(&self, path: &str, is_folder: bool) -> bool {
        let slash = if is_folder { "/" } else { "" };
        self.repository.is_path_ignored(format!("{}{path}{slash}", self.prefix)).unwrap_or(false)
    }
}

/// The files of the repository whose change can mean another commit or other ignore rules.
pub(crate) fn watched_files(workspace_root: &Path) -> Vec<PathBuf> {
    let Ok(repository) = open_repository(workspace_root) else {
        return Vec::new();
    };
    // A branch moves by a new file under refs/heads (whether or not it was packed before) or in packed-refs.
    let common = repository.commondir();
    let mut files = vec![
        repository.path().join("HEAD"),
        common.join("packed-refs"),
        common.join("refs/heads"),
        common.join("info/exclude"),
    ];
    files.extend(repository.workdir().map(|folder| folder.join(".gitignore")));
    files.retain(|path| fs::exists(path).unwrap_or(false));
    files
}

fn open_repository(workspace_root: &Path) -> Result<Repository, String> {
    Repository::discover(workspace_root).map_err(|error| {
        if error.code() == git2::ErrorCode::NotFound {
            "the workspace is not in a git repository".to_owned()
        } else {
            format!("the git repository cannot be opened: {}", error.message())
        }
    })
}

fn prefix_of(repository: &Repository, workspace_root: &Path) -> Result<String, String> {
    let folder = repository.workdir().ok_or("the repository has no working tree")?;
    let resolve = |path: &Path| {
        fs::canonicalize(path).map_err(|error| format!("{} cannot be resolved: {error}", path.display()))
    };
    let (folder, root) = (resolve(folder)?, resolve(workspace_root)?);
    let below = root
        .strip_prefix(&folder)
        .map_err(|_| "the workspace is not in the repository's working tree".to_owned())?;
    let below = below.to_string_lossy();
    Ok(if below.is_empty() { String::new() } else { format!("{below}/") })
}
