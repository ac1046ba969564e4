//! What can go wrong while a result set is written.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::wire::WireError;

/// A result set could not be created, extended or finished. Rows written before stay readable.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The output folder cannot be made or is no folder.
    #[error("cannot create the output folder `{}`: {source}; name another one", path.display())]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The output folder takes no new file.
    #[error("cannot create `{}`: {source}; the output folder must exist and be writable", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Every numbered name is taken.
    #[error("`{stem}` and {attempts} numbered names after it are taken in `{}`; give the set another suffix", folder.display())]
    NamesExhausted {
        /// The folder.
        folder: PathBuf,
        /// The first name tried.
        stem: String,
        /// How many were tried.
        attempts: u32,
    },
    /// No space left.
    #[error(
        "no space left for {bytes} more bytes in `{}`; rows that were finished before, if any, stay there, free some space and run the rest again",
        path.display()
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// Bytes that were to be written.
        bytes: u64,
        /// The cause.
        source: io::Error,
    },
    /// Any other failure to write.
    #[error("cannot write `{}`: {source}; rows that were finished before, if any, stay there", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// What was written cannot be read back.
    #[error("cannot read back `{}`: {source}; rows that were finished before, if any, stay there", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process writes this set.
    #[error(
        "`{}` is being written by another sweep; wait for its end, or name another folder or suffix",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A set that came to its end.
    #[error("`{}` is complete: there is nothing to resume", path.display())]
    AlreadyComplete {
        /// The file.
        path: PathBuf,
    },
    /// A set that cannot be read cannot be resumed.
    #[error("`{}` cannot be resumed: {source}", path.display())]
    Unresumable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<super::OpenError>,
    },
    /// No provenance says what run the rows are of.
    #[error("`{}` cannot be resumed: no provenance lies beside it, so nobody knows which run it is of", path.display())]
    NoProvenance {
        /// The file.
        path: PathBuf,
    },
    /// A row that is to be replaced is not there.
    #[error("`{}` has no row with the place {order_index} in the order of measurement", path.display())]
    NoSuchRow {
        /// The file.
        path: PathBuf,
        /// The place.
        order_index: u32,
    },
    /// Somebody made a file of the final name during the run.
    #[error(
        "`{}` appeared during the run and is not replaced; the results are in `{}`, rename that by hand",
        path.display(), partial.display()
    )]
    FinalNameTaken {
        /// The final name.
        path: PathBuf,
        /// Where the results are.
        partial: PathBuf,
    },
    /// A row that cannot be written.
    #[error(transparent)]
    Row(#[from] WireError),
    /// A row of another run.
    #[error("row of `{model}` belongs to run `{found}`, the result set to run `{expected}`")]
    ForeignRow {
        /// The row's model.
        model: String,
        /// The row's run.
        found: String,
        /// The set's run.
        expected: String,
    },
    /// A row whose figures are not those of its samples.
    #[error("row of `{model}`: its figures are not those of the samples that came with it")]
    SamplesDisagree {
        /// The row's model.
        model: String,
    },
    /// Something that cannot be said in JSON.
    #[error("cannot write `{}` as JSON: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A result set without rows says nothing; its files were removed.
    #[error("the run wrote no row, so no result set is kept in `{}`", folder.display())]
    NoRows {
        /// The folder.
        folder: PathBuf,
    },
}

impl StoreError {
    pub(super) fn writing(path: &Path, bytes: usize, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, bytes: bytes as u64, source }
            }
            _ => Self::Write { path, source },
        }
    }

    pub(super) fn creating(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::writing(path, 0, source),
            _ => Self::Create { path: path.to_owned(), source },
        }
    }
}
