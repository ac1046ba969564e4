//! What can be wrong with a checkpoint folder, collected and said together.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::INDEX_FILE;
use crate::config::ConfigError;
use crate::headers::HeaderError;

/// Everything found wrong with a checkpoint folder; each problem is one line of the message.
#[derive(Debug, Error)]
pub struct CheckpointError {
    /// The folder as it was given.
    pub path: PathBuf,
    /// The problems, never none.
    pub problems: Vec<CheckpointProblem>,
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} cannot be used as a checkpoint:", self.path.display())?;
        if let [problem] = self.problems.as_slice() {
            return write!(formatter, " {problem}");
        }
        self.problems.iter().try_for_each(|problem| write!(formatter, "\n  {problem}"))
    }
}

/// One thing wrong with a checkpoint folder.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointProblem {
    /// The configuration or the folder itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A weight file.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A file or folder cannot be read.
    #[error("{} cannot be read: {source}; see to its permissions or get it again", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A weight file's name cannot be written in an index.
    #[error("the file name {file:?} is not UTF-8; rename it")]
    NameNotUtf8 {
        /// The name, wrong bytes replaced.
        file: String,
    },
    /// A weight file is a link to nothing.
    #[error("{} is a link to {}, which does not exist; get the file", path.display(), target.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The index cannot be used.
    #[error("{} is not a usable index: {detail}; get it again", path.display())]
    BadIndex {
        /// The index.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// The index names files that are not there.
    #[error("{INDEX_FILE} names shards that are not there, get them: {}", files.join(", "))]
    MissingShards {
        /// The files.
        files: Vec<String>,
    },
    /// The index is stale: a file lacks a tensor.
    #[error(
        "{INDEX_FILE} is stale: it puts tensor {tensor:?} into {file}, which does not hold it; get both again"
    )]
    NotInShard {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// The index is stale: it leaves out a tensor.
    #[error("{INDEX_FILE} is stale: it does not name tensor {tensor:?}, which {file} holds; get both again")]
    NotInIndex {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// Shards are numbered and some numbers are missing.
    #[error("the set of shards is incomplete, get these: {}", files.join(", "))]
    IncompleteSet {
        /// The missing files.
        files: Vec<String>,
    },
    /// Files hold the same tensor.
    #[error("tensor {tensor:?} is in more than one file: {}; remove the files that do not belong", files.join(", "))]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// The files.
        files: Vec<String>,
    },
    /// There is no weight file.
    #[error("no *.safetensors files, so there are no weights; get them, or convert other formats first")]
    NoWeights,
    /// There are weight files without a tensor.
    #[error("the *.safetensors files hold no tensor; get them again")]
    NoTensors,
}
