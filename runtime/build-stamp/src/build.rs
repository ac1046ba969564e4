//! The stamp a binary carries: its sources and how they were compiled.
//!
//! Filling it in a build script is left to `emit`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::TreeState;

/// An embedded stamp is not one of ours.
#[derive(Debug, thiserror::Error)]
#[error("the embedded build stamp cannot be read: {0}; rebuild the program")]
pub struct StampParseError(#[from] serde_json::Error);

/// What a binary was built from and how. It holds no time, so that equal inputs give equal binaries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildStamp {
    /// The package whose build script made the stamp.
    pub package: String,
    /// That package's version.
    pub version: String,
    /// The sources.
    pub tree: TreeState,
    /// The folder the sources were in, for the check at run time.
    pub workspace_root: PathBuf,
    /// Cargo profile folder name: `release`, `debug`, or a custom profile's name.
    pub profile: Option<String>,
    /// `opt-level` of the package: `0` to `3`, `s` or `z`.
    pub opt_level: Option<String>,
    /// Cargo features of the package, sorted.
    pub features: Vec<String>,
    /// Target triple.
    pub target: Option<String>,
    /// `-C target-cpu`, where one was given; else the compiler's default for the triple was used.
    pub target_cpu: Option<String>,
    /// CPU features the compiler could assume.
    pub target_features: Vec<String>,
    /// Every flag given to the compiler through `RUSTFLAGS` or the configuration.
    pub rustflags: Vec<String>,
    /// The compiler's version line.
    pub rustc: Option<String>,
    /// The LLVM version of the compiler.
    pub llvm: Option<String>,
    /// SHA-256 of the `Cargo.lock` of the workspace.
    pub cargo_lock_sha256: Option<String>,
}

impl BuildStamp {
    /// Reads an embedded stamp.
    ///
    /// # Errors
    /// [`StampParseError`] when the text is not a stamp of this version.
    pub fn parse(text: &str) -> Result<Self, StampParseError> {
        Ok(serde_json::from_str(text)?)
    }
}
