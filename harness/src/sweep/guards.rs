//! What must hold before anything is measured or written: the executable is built from the tree, the output
//! folder takes files, and the worker is what this executable is.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};

use crate::exit::{EndsWith, Exit};
use crate::provenance::binary::Executable;
use crate::provenance::tree::{Comparison, compare};
use crate::worker::protocol::{Hello, RuntimeIdentity};

/// Allows measuring with an executable that is not built from the tree; every row is then marked.
const ALLOW_STALE: &str = "BENCH_ALLOW_STALE_BINARY";

/// How the executable relates to the tree, and whether that was overridden.
#[derive(Debug)]
pub(super) struct TreeCheck {
    /// The comparison.
    pub(super) comparison: Comparison,
    /// They differ, and measuring was allowed all the same.
    pub(super) stale_allowed: bool,
}

/// Refuses when the executable is not built from the working tree.
pub(super) fn tree(executable: &Executable) -> anyhow::Result<TreeCheck> {
    let current = std::env::current_dir().context("the current folder cannot be told")?;
    let comparison = compare(&executable.stamp, &current)?;
    let allowed = std::env::var_os(ALLOW_STALE).is_some_and(|value| value == "1");
    match (&comparison.root, comparison.matches()) {
        (Some(root), Some(false)) if !allowed => {
            let built = executable.stamp.tree.stamp().unwrap_or_else(|| "an unknown commit".to_owned());
            let now = comparison.now.as_ref().and_then(mlxcel_build_stamp::TreeState::stamp);
            let message = format!(
                "refused: {} (built from {built}) is not built from the working tree {} (at {}), so its rows \
                 would be recorded with sources it does not have:\n  {}\nBuild it again there (touch Cargo.toml \
                 && cargo build --release -p mlxcel-bench), or set {ALLOW_STALE}=1 to measure anyway and have \
                 every row marked.",
                executable.path.display(),
                root.display(),
                now.unwrap_or_else(|| "an unknown commit".to_owned()),
                comparison.differences.join("\n  "),
            );
            Err(EndsWith(Exit::Refused, message).into())
        }
        (_, matches) => {
            let stale_allowed = matches == Some(false);
            Ok(TreeCheck { comparison, stale_allowed })
        }
    }
}

/// The same without a refusal, for what records nothing.
pub(super) fn any_tree(executable: &Executable) -> anyhow::Result<TreeCheck> {
    let current = std::env::current_dir().context("the current folder cannot be told")?;
    let comparison = compare(&executable.stamp, &current)?;
    let stale_allowed = comparison.matches() == Some(false);
    Ok(TreeCheck { comparison, stale_allowed })
}

/// Fails when results could not be written; leaves nothing behind.
pub(super) fn output_folder(out: &Path) -> anyhow::Result<()> {
    let remedy = "name another folder with --out";
    let Some(existing) = out
        .ancestors()
        .map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path })
        .find(|path| path.exists())
    else {
        bail!("the output folder {} cannot be made: no folder above it exists; {remedy}", out.display());
    };
    if !existing.is_dir() {
        bail!(
            "the output folder {} cannot be made: {} is a file; {remedy}",
            out.display(),
            existing.display()
        );
    }
    let probe = existing.join(format!(".mlxcel-bench-{}", std::process::id()));
    let tried = fs::File::create_new(&probe)
        .and_then(|mut file| io::Write::write_all(&mut file, b"probe"))
        .and_then(|()| fs::remove_file(&probe));
    tried.map_err(|error| {
        let _ = fs::remove_file(&probe);
        let space = if error.kind() == io::ErrorKind::StorageFull { "free some space or " } else { "" };
        anyhow!("the output folder {} takes no files: {error}; {space}{remedy}", out.display())
    })
}

/// What a worker must be: this very executable, and the same from the first to the last row.
pub(super) fn same_program(executable: &Executable, hello: &Hello) -> Result<(), String> {
    let digest = hello.runtime.executable_sha256.as_deref();
    if digest.is_some_and(|digest| digest != executable.sha256) {
        return Err(format!(
            "the worker is another executable ({}) than the harness ({})",
            digest.unwrap_or_default(),
            executable.sha256
        ));
    }
    match &hello.stamp {
        Some(stamp) if *stamp == executable.stamp => Ok(()),
        _ => Err("the worker carries another build stamp than the harness".to_owned()),
    }
}

/// What has changed between two workers of one sweep; `None` when nothing has.
pub(super) fn changed_runtime(first: &RuntimeIdentity, now: &RuntimeIdentity) -> Option<String> {
    let facts = |runtime: &RuntimeIdentity| {
        [
            ("backend", runtime.backend.clone()),
            ("runtime's version", runtime.version.clone()),
            ("executable", runtime.executable_sha256.clone()),
            ("MLX version", runtime.mlx_version.clone()),
            ("MLX revision", runtime.mlx_revision.clone()),
            ("MLX library", runtime.mlx_library_sha256.clone()),
        ]
    };
    facts(first).into_iter().zip(facts(now)).find(|(before, after)| before != after).map(
        |((what, before), (_, after))| {
            let name = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
            format!("the {what} changed during the sweep, from {} to {}", name(before), name(after))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_can_be_made_is_accepted_and_not_yet_made() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let out = root.path().join("a/b");
        output_folder(&out)?;
        assert_eq!(fs::read_dir(root.path())?.count(), 0);
        Ok(())
    }

    #[test]
    fn a_file_is_no_output_folder() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let file = root.path().join("file");
        fs::write(&file, "")?;
        for out in [file.clone(), file.join("below")] {
            let message = output_folder(&out).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains("is a file") && message.contains("--out"), "{message}");
        }
        Ok(())
    }

    #[test]
    fn a_library_that_changes_during_a_sweep_is_noticed() {
        let first =
            RuntimeIdentity { mlx_library_sha256: Some("a".to_owned()), ..RuntimeIdentity::default() };
        let mut now = first.clone();
        assert_eq!(changed_runtime(&first, &now), None);
        now.mlx_library_sha256 = None;
        assert!(changed_runtime(&first, &now).is_some_and(|what| what.contains("MLX library")));
    }

    #[test]
    fn a_runtime_of_another_version_is_another_one_whatever_its_libraries() {
        let of = |version: &str| RuntimeIdentity {
            version: Some(version.to_owned()),
            mlx_library_sha256: Some("a".to_owned()),
            ..RuntimeIdentity::default()
        };
        assert_eq!(changed_runtime(&of("mlx-lm-0.31"), &of("mlx-lm-0.31")), None);
        let what = changed_runtime(&of("mlx-lm-0.31"), &of("mlx-lm-0.99")).unwrap_or_default();
        assert!(what.contains("from mlx-lm-0.31 to mlx-lm-0.99"), "{what}");
    }
}
