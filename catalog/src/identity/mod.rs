//! Resolved paths and content digests: what tells whether two folders hold the same checkpoint.
//!
//! A [`CheckpointId`] has a level: the higher, the more of the content is covered and the more it costs. Ids of
//! different levels say nothing about each other. [`identify`] computes them; the ladder is told in `ladder`.

mod content;
mod files;
mod ladder;
mod sampled;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::files::open_regular;

pub use content::{ContentCache, PIECE_BYTES, hash_files};
pub use files::{FileKey, WeightFile};
pub use ladder::{HIGHEST_LEVEL, Identity, IdentityError, Relation, identify, identify_all, in_two_threads};
pub use sampled::BLOCK_BYTES;

/// A path of something that exists, with every link followed and no `.` or `..`; made only by [`Self::resolve`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CanonicalPath(PathBuf);

impl CanonicalPath {
    /// Follows every link of `path`, which must exist.
    pub fn resolve(path: &Path) -> Result<Self, ResolveError> {
        std::fs::canonicalize(path).map(Self).map_err(|source| ResolveError { path: path.to_owned(), source })
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The last part of the path, or the whole of it for a root; bytes that are not UTF-8 are replaced.
    pub fn name(&self) -> String {
        self.0.file_name().unwrap_or(self.0.as_os_str()).to_string_lossy().into_owned()
    }
}

impl AsRef<Path> for CanonicalPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for CanonicalPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(formatter)
    }
}

/// A path that leads nowhere.
#[derive(Debug, Error)]
#[error("{} cannot be resolved: {source}", path.display())]
pub struct ResolveError {
    /// The path as it was given.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Digest of a checkpoint's content. Compare with [`Self::same_as`], which knows when there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckpointId {
    /// What is covered. 1: `config.json` and the names and sizes of the weight files; 2: their headers, too; 3: samples of
    /// every tensor, too; 4: every byte, by the digests of pieces. Level 4 was once the plain digest of whole files; that
    /// definition had the text form `4:`, this one has `4p:`, and nothing reads the one as the other.
    pub level: u8,
    /// SHA-256 in lower-case hex.
    pub digest: String,
}

impl CheckpointId {
    /// Whether both stand for the same content; nothing when they are of different levels.
    pub fn same_as(&self, other: &Self) -> Option<bool> {
        (self.level == other.level).then(|| self.digest == other.digest)
    }

    /// Level 1, from the SHA-256 of `config.json` and the weight files. The order of `shards` does not matter.
    pub fn of_files(config_sha256: &str, shards: &[ShardFacts<'_>]) -> Self {
        Self::of_level(1, config_sha256, shards)
    }

    /// Level 2: as level 1, with the SHA-256 of every header.
    pub fn of_headers(config_sha256: &str, shards: &[ShardFacts<'_>]) -> Self {
        Self::of_level(2, config_sha256, shards)
    }

    /// Any level: from 2 on, each file's `content_sha256` is what that level takes of it.
    pub(crate) fn of_level(level: u8, config_sha256: &str, shards: &[ShardFacts<'_>]) -> Self {
        let what = match level {
            0..=2 => "header",
            3 => "sample",
            _ => "content",
        };
        let mut shards = shards.to_vec();
        shards.sort_unstable();
        let mut lines =
            vec![format!("checkpoint id, level {}", level_name(level)), format!("config {config_sha256}")];
        for shard in shards {
            // The length before the name keeps names with line breaks from imitating other lists.
            let name_bytes = shard.file_name.len();
            lines.push(format!("shard {name_bytes} {} {}", shard.file_name, shard.file_bytes));
            if level >= 2 {
                lines.push(format!("{what} {}", shard.content_sha256));
            }
        }
        let text = lines.join("\n");
        Self { level, digest: sha256_hex(text.as_bytes()) }
    }
}

impl fmt::Display for CheckpointId {
    /// `1:` and the digest; `4p:` at level 4.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", level_name(self.level), self.digest)
    }
}

impl FromStr for CheckpointId {
    type Err = NotACheckpointId;

    fn from_str(text: &str) -> Result<Self, NotACheckpointId> {
        let wrong = || NotACheckpointId(text.to_owned());
        let (level, digest) = text.split_once(':').ok_or_else(wrong)?;
        let is_digest =
            digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let level = match level {
            "1" => 1,
            "2" => 2,
            "3" => 3,
            "4p" => 4,
            _ => return Err(wrong()),
        };
        if is_digest { Ok(Self { level, digest: digest.to_owned() }) } else { Err(wrong()) }
    }
}

impl CheckpointId {
    /// The level as texts name it: with a letter where its definition is not the first.
    pub const fn level_name(&self) -> &'static str {
        level_name(self.level)
    }

    /// Whether a text is an id of level 4 by its first definition, which is known and compared with nothing.
    pub fn is_outdated(text: &str) -> bool {
        text.strip_prefix("4:").is_some_and(|digest| Self::from_str(&format!("4p:{digest}")).is_ok())
    }
}

/// As [`CheckpointId::level_name`].
const fn level_name(level: u8) -> &'static str {
    match level {
        0 => "0",
        1 => "1",
        2 => "2",
        3 => "3",
        4 => "4p",
        _ => "unknown",
    }
}

/// Text that is no [`CheckpointId`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no checkpoint id: 1, 2, 3 or 4p, a colon and 64 lower-case hex digits")]
pub struct NotACheckpointId(pub String);

/// What a [`CheckpointId`] takes of one weight file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShardFacts<'a> {
    /// Name within the folder.
    pub file_name: &'a str,
    /// Size.
    pub file_bytes: u64,
    /// SHA-256 of what the level takes of the content (at level 2 the header), in lower-case hex.
    pub content_sha256: &'a str,
}

/// SHA-256 of a whole file in lower-case hex, read in pieces (links are followed).
pub fn digest_file(path: &Path) -> io::Result<String> {
    let mut file = open_regular(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..read]);
    }
}

/// SHA-256 of `bytes` in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).flatten().collect()
}
