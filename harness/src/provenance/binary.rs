//! The executable that runs: its file and the stamp it carries.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel_build_stamp::BuildStamp;
use mlxcel_catalog::identity::digest_file;
use mlxcel_reports::row::BuildType;
use serde::Serialize;

/// The stamp this program was built with.
const STAMP: &str = include_str!(concat!(env!("OUT_DIR"), "/build_stamp.json"));

/// This executable.
#[derive(Clone, Debug, Serialize)]
pub struct Executable {
    /// Where it lies, or lay when it was started.
    pub path: PathBuf,
    /// SHA-256 of its file.
    pub sha256: String,
    /// What it was built from, and how.
    pub stamp: BuildStamp,
    /// Whether it checks for overflow and the like as it runs, which costs time.
    pub debug_assertions: bool,
}

impl Executable {
    /// Reads it.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn this() -> anyhow::Result<Self> {
        let path = std::env::current_exe().context("the system does not say where this executable lies")?;
        // Through /proc it is the very file that runs, even when the path has come to hold another build.
        let proc = Path::new("/proc/self/exe");
        let sha256 = digest_file(if proc.exists() { proc } else { &path })
            .with_context(|| format!("cannot read this executable ({})", path.display()))?;
        Ok(Self { path, sha256, stamp: stamp()?, debug_assertions: cfg!(debug_assertions) })
    }
}

/// The stamp this program carries.
///
/// # Errors
/// When it is not one; a fault of the build.
pub fn stamp() -> anyhow::Result<BuildStamp> {
    Ok(BuildStamp::parse(STAMP)?)
}

/// How a build was compiled, as far as rows tell builds apart: by the profile's name where that says it, else
/// by its optimization.
pub fn build_type(stamp: &BuildStamp) -> BuildType {
    let optimized = match stamp.profile.as_deref() {
        Some("release") => true,
        Some("debug") => false,
        _ => matches!(stamp.opt_level.as_deref(), Some("2" | "3" | "s" | "z")),
    };
    if optimized { BuildType::Release } else { BuildType::Debug }
}

/// The digest of a file where it can be read.
pub fn digest_if_readable(path: &Path) -> Option<String> {
    let digest: io::Result<String> = digest_file(path);
    digest.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_carries_a_stamp_of_its_sources() -> anyhow::Result<()> {
        let stamp = stamp()?;
        assert_eq!(stamp.package, "mlxcel-bench");
        assert!(
            stamp.tree.files.iter().any(|file| file.path == "harness/src/provenance/binary.rs"),
            "{:?}",
            stamp.tree.roots
        );
        assert!(stamp.rustc.is_some_and(|rustc| rustc.starts_with("rustc ")));
        assert!(stamp.cargo_lock_sha256.is_some_and(|hash| hash.len() == 64));
        Ok(())
    }

    #[test]
    fn a_named_profile_counts_by_its_optimization() -> anyhow::Result<()> {
        let mut stamp = stamp()?;
        stamp.profile = Some("profiling".to_owned());
        stamp.opt_level = Some("3".to_owned());
        assert_eq!(build_type(&stamp), BuildType::Release);
        stamp.opt_level = Some("0".to_owned());
        assert_eq!(build_type(&stamp), BuildType::Debug);
        stamp.profile = Some("release".to_owned());
        assert_eq!(build_type(&stamp), BuildType::Release);
        Ok(())
    }
}
