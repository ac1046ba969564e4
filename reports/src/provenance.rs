//! The provenance file of a result set: how the run was started, what ran, where, and whether it came to its end.
//!
//! What the executable and the machine say of themselves is kept as they say it (JSON objects); the facts that a
//! comparison looks at are columns of each row.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::row::{Backend, HarnessKind};
use crate::stamp::Stamp;

/// Version of the provenance file this crate writes and reads.
pub const PROVENANCE_SCHEMA_VERSION: u32 = 1;

/// How a run was started, what ran and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Version of this layout.
    pub schema_version: u32,
    /// The run; the same in every row.
    pub run_id: String,
    /// Kind of measurement.
    pub harness: HarnessKind,
    /// Backend MLX ran on.
    pub backend: Backend,
    /// When the run began.
    pub started_at: Timestamp,
    /// Full argument list, the program included.
    pub argv: Vec<String>,
    /// Environment variables that matter to the measurement and were set.
    pub environment: BTreeMap<String, String>,
    /// What the executable says of itself.
    pub binary: Value,
    /// What the machine says of itself.
    pub machine: Value,
    /// The source tree beside the executable.
    pub tree: TreeState,
    /// The settings of the run after defaults and flags were resolved.
    pub settings: Value,
    /// How the run ended; written by the store.
    #[serde(default)]
    pub ending: Ending,
}

impl Provenance {
    /// Size of the last-level cache of the host's processor, where the run recorded it.
    pub fn last_level_cache_bytes(&self) -> Option<u64> {
        self.settings.pointer("/host/last_level_cache_bytes")?.as_u64()
    }
}

/// How the executable relates to the source tree it was started in.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeState {
    /// Commit of the working tree, where there is one.
    pub commit: Stamp<String>,
    /// Whether the executable was built from exactly these sources; unknown without a tree.
    pub matches_binary: Stamp<bool>,
    /// Files that differ between the executable's sources and the tree.
    pub differing_files: Vec<String>,
    /// Measuring was allowed although they differ.
    pub stale_binary_allowed: bool,
}

/// How a run ended. The default is a run that has not ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// Every planned row was written.
    pub complete: bool,
    /// Why it is not complete, when the run ended early in good order.
    pub reason: Option<String>,
    /// When the run ended.
    pub finished_at: Option<Timestamp>,
    /// Rows written.
    pub rows: Option<u64>,
    /// SHA-256 of the CSV file as it was finished.
    pub csv_sha256: Option<String>,
    /// SHA-256 of the samples file as it was finished.
    pub samples_sha256: Option<String>,
}
