//! The ladder of identities: each level looks at more of a folder than the one below and costs more.
//!
//! | level | covers                                                                     | relation           |
//! |-------|----------------------------------------------------------------------------|--------------------|
//! | 0     | the canonical path                                                         | same folder        |
//! | 1     | `config.json` and the sorted (name, size) list of all `*.safetensors`      | speed-equivalent   |
//! | 2     | and their headers (names, dtypes, shapes, offsets)                         | speed-equivalent   |
//! | 3     | and sampled blocks of every tensor                                         | content-identical  |
//! | 4     | and every byte, in pieces                                                  | content-identical  |
//!
//! Each level from 1 has two digests: the raw one covers `config.json` byte by byte, the canonical one its canonical form
//! ([`crate::config::canonical_form`]). Links are followed: sizes and bytes are those of the targets. Tokenizer and
//! generation files are left out; they belong to the workload.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::Serialize;
use thiserror::Error;

use super::content::{ContentCache, hash_files};
use super::files::{WeightFile, weight_files};
use super::{CanonicalPath, CheckpointId, ResolveError, ShardFacts, sampled, sha256_hex};
use crate::config::{CONFIG_FILE, canonical_sha256};
use crate::files::{MAX_CONFIG_BYTES, read_regular};
use crate::folder::CheckpointProblem;
use crate::headers::{HeaderError, read_raw};

/// Threads that look at folders.
const THREADS: usize = 2;

/// The highest level.
pub const HIGHEST_LEVEL: u8 = 4;

/// What two folders have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Two paths of one folder.
    SameFolder,
    /// They run at the same speed, but may be different trainings of one network.
    SpeedEquivalent,
    /// They hold the same checkpoint.
    ContentIdentical,
}

impl Relation {
    /// What equal digests of a level mean.
    pub const fn of_level(level: u8) -> Self {
        match level {
            0 => Self::SameFolder,
            1 | 2 => Self::SpeedEquivalent,
            _ => Self::ContentIdentical,
        }
    }

    /// The relation in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameFolder => "same-folder",
            Self::SpeedEquivalent => "speed-equivalent",
            Self::ContentIdentical => "content-identical",
        }
    }
}

/// The digests of one folder.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Level 0.
    pub path: CanonicalPath,
    /// Level 1 and up, `config.json` byte by byte.
    pub raw: Vec<CheckpointId>,
    /// Level 1 and up, `config.json` in canonical form; empty where it has none (a key given twice).
    pub canonical: Vec<CheckpointId>,
    /// The files covered.
    pub files: Vec<WeightFile>,
}

impl Identity {
    /// The raw digest of a level.
    pub fn raw(&self, level: u8) -> Option<&CheckpointId> {
        self.raw.iter().find(|id| id.level == level)
    }

    /// The canonical digest of a level.
    pub fn canonical(&self, level: u8) -> Option<&CheckpointId> {
        self.canonical.iter().find(|id| id.level == level)
    }

    /// The digest that folders are grouped by: the canonical one, or the raw one of a configuration without a form.
    pub fn grouping(&self, level: u8) -> Option<&CheckpointId> {
        self.canonical(level).or_else(|| self.raw(level))
    }

    /// Bytes of the weight files.
    pub fn weight_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.key.bytes).fold(0, u64::saturating_add)
    }
}

/// A folder without an identity: it is listed, and never grouped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The folder cannot be resolved: it is not there, or links lead in a circle.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// There is no `config.json`.
    #[error("{}: no {CONFIG_FILE}, so nothing tells what its weights are; get the file", path.display())]
    NoConfig {
        /// The folder.
        path: PathBuf,
    },
    /// There are no weights.
    #[error("{}: no *.safetensors; get them, or convert other formats first", path.display())]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// A weight file is a link to nothing.
    #[error("{} is a link to {}, which does not exist; get the file", path.display(), target.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Something of a weight file's name is no file.
    #[error("{} is not a regular file; remove it or get the file", path.display())]
    NotAFile {
        /// What it is.
        path: PathBuf,
    },
    /// The folder cannot be listed.
    #[error(transparent)]
    Folder(#[from] Box<CheckpointProblem>),
    /// A header cannot be read.
    #[error(transparent)]
    Header(#[from] Box<HeaderError>),
    /// A file cannot be read.
    #[error("{} cannot be read: {source}; see to its permissions or get it again", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The digests of a folder up to a level. Level 4 goes through `cache`; `progress` is told of bytes that it reads.
///
/// # Errors
/// [`IdentityError`]: why the folder has no identity at that level.
pub fn identify(
    dir: &Path,
    level: u8,
    cache: &mut ContentCache,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Identity, IdentityError> {
    let mut surveyed = vec![survey(dir, level)];
    complete(&mut surveyed, level, cache, progress);
    surveyed
        .pop()
        .unwrap_or_else(|| Err(IdentityError::NoConfig { path: dir.to_owned() }))
        .map(|found| found.identity)
}

/// The digests of many folders up to a level, in their order; two threads read.
pub fn identify_all<P: AsRef<Path> + Sync>(
    dirs: &[P],
    level: u8,
    cache: &mut ContentCache,
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<Result<Identity, IdentityError>> {
    let mut surveyed = in_two_threads(dirs, |dir| survey(dir.as_ref(), level));
    complete(&mut surveyed, level, cache, progress);
    surveyed.into_iter().map(|found| found.map(|found| found.identity)).collect()
}

/// Applies `work` to every item in two threads; the results are in the order of the items.
pub fn in_two_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let take = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            let result = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..THREADS.min(items.len()) {
            scope.spawn(take);
        }
        take();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What was found without reading whole files.
struct Surveyed {
    identity: Identity,
    raw_config: String,
    canonical_config: Option<String>,
}

impl Surveyed {
    /// Adds the digests of a level, given one digest a file for the levels above 1.
    fn add(&mut self, level: u8, digests: &[String]) {
        let files = &self.identity.files;
        let facts: Vec<ShardFacts<'_>> = files
            .iter()
            .enumerate()
            .map(|(at, file)| ShardFacts {
                file_name: &file.file_name,
                file_bytes: file.key.bytes,
                content_sha256: digests.get(at).map_or("", String::as_str),
            })
            .collect();
        let raw = CheckpointId::of_level(level, &self.raw_config, &facts);
        let canonical =
            self.canonical_config.as_ref().map(|config| CheckpointId::of_level(level, config, &facts));
        self.identity.raw.push(raw);
        self.identity.canonical.extend(canonical);
    }
}

/// Levels up to 3.
fn survey(dir: &Path, level: u8) -> Result<Surveyed, IdentityError> {
    let path = CanonicalPath::resolve(dir)?;
    let config_path = path.as_path().join(CONFIG_FILE);
    let config = match read_regular(&config_path, MAX_CONFIG_BYTES) {
        Ok(config) => config,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !config_path.is_symlink() => {
            return Err(IdentityError::NoConfig { path: dir.to_owned() });
        }
        Err(source) => return Err(IdentityError::Io { path: dir.join(CONFIG_FILE), source }),
    };
    let files = weight_files(path.as_path())?;
    let mut surveyed = Surveyed {
        raw_config: sha256_hex(&config),
        canonical_config: canonical_sha256(&config),
        identity: Identity { path, raw: Vec::new(), canonical: Vec::new(), files },
    };
    if level >= 1 {
        surveyed.add(1, &[]);
    }
    if level >= 2 {
        let header = |file: &WeightFile| match read_raw(&file.path) {
            Ok(raw) if raw.file_bytes() == file.key.bytes => Ok(raw.sha256()),
            Ok(_) => Err(IdentityError::Io {
                path: file.path.clone(),
                source: io::Error::other("its size changed while it was read"),
            }),
            Err(error) => Err(Box::new(error).into()),
        };
        let digests: Vec<String> =
            surveyed.identity.files.iter().map(header).collect::<Result<_, IdentityError>>()?;
        surveyed.add(2, &digests);
    }
    if level >= 3 {
        let files = surveyed.identity.files.iter();
        let digests: Vec<String> = files.map(|file| sampled::digest(&file.path)).collect::<Result<_, _>>()?;
        surveyed.add(3, &digests);
    }
    Ok(surveyed)
}

/// Level 4, over all folders at once so that every thread has work.
fn complete(
    surveyed: &mut [Result<Surveyed, IdentityError>],
    level: u8,
    cache: &mut ContentCache,
    progress: &(dyn Fn(u64) + Sync),
) {
    if level < 4 {
        return;
    }
    let files: Vec<&WeightFile> = surveyed.iter().flatten().flat_map(|found| &found.identity.files).collect();
    let mut hashes = hash_files(&files, cache, progress);
    for slot in surveyed {
        let Ok(found) = slot else { continue };
        let digest = |file: &WeightFile| match hashes.get_mut(&file.key) {
            Some(Ok(sha256)) => Ok(sha256.clone()),
            Some(Err(error)) => Err(IdentityError::Io {
                path: file.path.clone(),
                source: io::Error::new(error.kind(), error.to_string()),
            }),
            None => Err(IdentityError::Io {
                path: file.path.clone(),
                source: io::Error::other("it was not hashed"),
            }),
        };
        match found.identity.files.iter().map(digest).collect::<Result<Vec<String>, _>>() {
            Ok(digests) => found.add(4, &digests),
            Err(error) => *slot = Err(error),
        }
    }
}
