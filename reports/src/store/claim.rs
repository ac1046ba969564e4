//! Taking a name that nobody else has or can take, and putting files under their final name without replacing any.
//!
//! A name is claimed by creating `NAME.csv.partial`, which only one process can do, and by then looking for every other
//! file of the name. The order matters: whoever finishes holds its `.partial` until the very moment the final file
//! exists, so a claim that succeeded and sees no other file can have no rival.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::error::StoreError;

const MAX_ATTEMPTS: u32 = 9_999;

pub(super) const CSV: &str = "csv";
pub(super) const SAMPLES: &str = "samples.jsonl";
pub(super) const PROVENANCE: &str = "provenance.json";
const KINDS: [&str; 3] = [CSV, SAMPLES, PROVENANCE];

/// How far the files of a name have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// `NAME.csv.partial`: being written, or left by a crash.
    Unfinished,
    /// `NAME.partial.csv`: ended early, in good order.
    Partial,
    /// `NAME.csv`.
    Complete,
}

/// The path of one file of a result set.
pub(super) fn path_of(folder: &Path, stem: &str, kind: &str, stage: Stage) -> PathBuf {
    folder.join(match stage {
        Stage::Unfinished => format!("{stem}.{kind}.partial"),
        Stage::Partial => format!("{stem}.partial.{kind}"),
        Stage::Complete => format!("{stem}.{kind}"),
    })
}

/// A name that is ours in its folder.
#[derive(Debug)]
pub(super) struct Claim {
    folder: PathBuf,
    stem: String,
}

impl Claim {
    /// Claims `stem`, or `stem_2`, `stem_3` and so on, and hands back the empty CSV file.
    pub(super) fn take(folder: &Path, stem: &str) -> Result<(Self, File), StoreError> {
        for attempt in 1..=MAX_ATTEMPTS {
            let stem = if attempt == 1 { stem.to_owned() } else { format!("{stem}_{attempt}") };
            let path = path_of(folder, &stem, CSV, Stage::Unfinished);
            let file = match create_new(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(source) => return Err(StoreError::creating(&path, source)),
            };
            let claim = Self { folder: folder.to_owned(), stem };
            if !claim.others_exist() {
                return Ok((claim, file));
            }
            std::fs::remove_file(&path).map_err(|source| StoreError::Write { path, source })?;
        }
        Err(StoreError::NamesExhausted {
            folder: folder.to_owned(),
            stem: stem.to_owned(),
            attempts: MAX_ATTEMPTS - 1,
        })
    }

    /// The claim on a name whose unfinished CSV file is held by a lock already.
    pub(super) const fn held(folder: PathBuf, stem: String) -> Self {
        Self { folder, stem }
    }

    /// Moves one file from its name at `stage` back to its unfinished name, which must be free.
    pub(super) fn demote(&self, kind: &str, stage: Stage) -> Result<(), StoreError> {
        let (from, to) = (self.path(kind, stage), self.path(kind, Stage::Unfinished));
        rename_without_replacing(&from, &to).map_err(|source| StoreError::writing(&to, 0, source))
    }

    fn others_exist(&self) -> bool {
        let stages = [Stage::Unfinished, Stage::Partial, Stage::Complete];
        let own = self.path(CSV, Stage::Unfinished);
        KINDS
            .iter()
            .flat_map(|kind| stages.map(|stage| self.path(kind, stage)))
            .filter(|path| *path != own)
            .any(|path| path.symlink_metadata().is_ok())
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, kind: &str, stage: Stage) -> PathBuf {
        path_of(&self.folder, &self.stem, kind, stage)
    }

    /// Whether all names of `stage` are free, so that nothing is moved when one is not.
    pub(super) fn check_free(&self, stage: Stage) -> Result<(), StoreError> {
        let taken =
            KINDS.map(|kind| self.path(kind, stage)).into_iter().find(|path| path.symlink_metadata().is_ok());
        match taken {
            None => Ok(()),
            Some(path) => {
                Err(StoreError::FinalNameTaken { path, partial: self.path(CSV, Stage::Unfinished) })
            }
        }
    }

    /// Moves one file from its unfinished name to that of `stage`, which must be free.
    pub(super) fn promote(&self, kind: &str, stage: Stage) -> Result<PathBuf, StoreError> {
        let partial = self.path(kind, Stage::Unfinished);
        let path = self.path(kind, stage);
        match rename_without_replacing(&partial, &path) {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(StoreError::FinalNameTaken { path, partial })
            }
            Err(source) => Err(StoreError::writing(&path, 0, source)),
        }
    }

    /// Removes the unfinished files; one that is not there is no error.
    pub(super) fn remove(&self) {
        for kind in [PROVENANCE, SAMPLES, CSV] {
            let path = self.path(kind, Stage::Unfinished);
            let _ = std::fs::remove_file(path.with_added_extension("tmp"));
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Creates a file that must not exist, for appending.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).open(path)
}

fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    rename_over_own_placeholder(from, to)
}

/// For file systems that cannot rename without replacing: only one process can create the placeholder, and only that
/// process replaces it.
fn rename_over_own_placeholder(from: &Path, to: &Path) -> io::Result<()> {
    create_new(to)?;
    std::fs::rename(from, to).inspect_err(|_| {
        let _ = std::fs::remove_file(to);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_way_of_renaming_replaces_a_file() {
        for rename in [rename_without_replacing, rename_over_own_placeholder] {
            let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
            let (from, to) = (folder.path().join("from"), folder.path().join("to"));
            std::fs::write(&from, "new").expect("OK because the folder is ours");
            std::fs::write(&to, "old").expect("OK because the folder is ours");
            let error = rename(&from, &to).expect_err("OK because the name is taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read_to_string(&to).expect("OK because it was just written"), "old");
            std::fs::remove_file(&to).expect("OK because the folder is ours");
            rename(&from, &to).expect("OK because the name is free");
            assert_eq!(std::fs::read_to_string(&to).expect("OK because it was just renamed"), "new");
            assert!(!from.exists());
        }
    }
}
