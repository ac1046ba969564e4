//! The weight files of a folder as the file system has them: names, sizes and what tells one file from another.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::folder;
use crate::identity::IdentityError;

/// What tells a file's content from another's without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Device that the file is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub changed_nanos: i128,
}

impl FileKey {
    /// The key of a file; links are followed.
    pub fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed_nanos: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }
}

/// One `*.safetensors` file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightFile {
    /// Name within the folder.
    pub file_name: String,
    /// Where it is; not resolved when it is a link.
    pub path: PathBuf,
    /// What it is, with links followed.
    pub key: FileKey,
}

/// All `*.safetensors` of a folder, sorted by name; hidden ones are left out.
pub(super) fn weight_files(dir: &Path) -> Result<Vec<WeightFile>, IdentityError> {
    let names = folder::list(dir).map_err(Box::new)?;
    if names.is_empty() {
        return Err(IdentityError::NoWeights { path: dir.to_owned() });
    }
    let facts = |file_name: String| {
        let path = dir.join(&file_name);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                Ok(WeightFile { file_name, key: FileKey::of(&metadata), path })
            }
            Ok(_) => Err(IdentityError::NotAFile { path }),
            Err(source) => Err(match fs::read_link(&path) {
                Ok(target) if source.kind() == io::ErrorKind::NotFound => {
                    IdentityError::DanglingLink { path, target }
                }
                _ => IdentityError::Io { path, source },
            }),
        }
    };
    names.into_iter().map(facts).collect()
}
