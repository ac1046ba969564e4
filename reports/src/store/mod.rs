//! Result sets on disk: how they are named, written without ever replacing anything, and read again.
//!
//! A result set is three files of one name: `NAME.csv` (one line a row), `NAME.samples.jsonl` (one line a repetition) and
//! `NAME.provenance.json`. While a run is under way each ends in `.partial`; a run that was interrupted in good order
//! leaves `NAME.partial.csv` and so on. Whoever writes a set holds a lock on it, which ends with the process. What the lines hold is [`crate::wire`]'s business.

mod claim;
mod error;
mod lines;
mod name;
mod read;
mod resume;
mod samples;
mod write;

pub use error::StoreError;
pub use name::{FileName, SetKind};
pub(crate) use read::{Beside, beside, read_provenance};
pub use read::{Completeness, OpenError, ResultFile, open, read_all_samples, read_samples};
pub use resume::{Resumed, being_written, resumable};
pub use samples::{StoredSample, parse as parse_sample};
pub(crate) use write::sha256_of;
pub use write::{Finished, ResultSet};
