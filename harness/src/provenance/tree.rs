//! Whether this executable is built from the working tree it would be recorded with.
//!
//! The tree is the checkout of this project that the current folder lies in, else the one the executable was
//! built in. The comparison is by content and by commit (see `mlxcel-build-stamp`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mlxcel_build_stamp::{BuildStamp, SourceTree, TreeState, differences};

/// How an executable and a tree relate.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The tree that was looked at; `None` where there is none.
    pub root: Option<PathBuf>,
    /// The tree as it is.
    pub now: Option<TreeState>,
    /// What differs, a sentence each.
    pub differences: Vec<String>,
}

impl Comparison {
    /// Whether the executable is built from exactly this tree; `None` without a tree.
    pub fn matches(&self) -> Option<bool> {
        self.now.is_some().then_some(self.differences.is_empty())
    }
}

/// Compares a stamp with the tree around `current`, or with the one it was built in.
///
/// # Errors
/// When there is a tree but it cannot be read.
pub fn compare(stamp: &BuildStamp, current: &Path) -> anyhow::Result<Comparison> {
    let around = current.ancestors().find(|folder| is_checkout(folder));
    let Some(root) =
        around.or_else(|| Some(stamp.workspace_root.as_path()).filter(|folder| is_checkout(folder)))
    else {
        return Ok(Comparison { root: None, now: None, differences: Vec::new() });
    };
    let roots: Vec<&str> = stamp.tree.roots.iter().map(String::as_str).collect();
    let now = SourceTree::read(root, &roots).with_context(|| {
        format!("cannot tell whether the executable is built from the sources in {}", root.display())
    })?;
    let mut differences = differences(&stamp.tree, &now);
    if stamp.tree.files.is_empty() {
        differences.push("the executable carries no list of its sources".to_owned());
    }
    Ok(Comparison { root: Some(root.to_owned()), now: Some(now), differences })
}

/// Whether a folder is a checkout of this project: it has this package where this project has it.
fn is_checkout(folder: &Path) -> bool {
    fs::read_to_string(folder.join("harness/Cargo.toml")).is_ok_and(|manifest| {
        manifest.lines().any(|line| {
            let mut parts = line.split('=').map(str::trim);
            parts.next() == Some("name") && parts.next() == Some("\"mlxcel-bench\"")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::binary::stamp;

    fn checkout(root: &Path) -> std::io::Result<()> {
        fs::create_dir_all(root.join("harness/src"))?;
        fs::write(root.join("harness/Cargo.toml"), "[package]\nname = \"mlxcel-bench\"\n")?;
        fs::write(root.join("harness/src/main.rs"), "fn main() {}\n")
    }

    fn built_from(root: &Path) -> anyhow::Result<BuildStamp> {
        let mut stamp = stamp()?;
        stamp.workspace_root = root.to_owned();
        stamp.tree = SourceTree::read(root, &["harness"])?;
        Ok(stamp)
    }

    #[test]
    fn a_binary_matches_the_tree_it_was_built_from() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        checkout(folder.path())?;
        let found = compare(&built_from(folder.path())?, &folder.path().join("harness/src"))?;
        assert_eq!(found.matches(), Some(true), "{:?}", found.differences);
        Ok(())
    }

    #[test]
    fn an_edit_after_the_build_is_named() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        checkout(folder.path())?;
        let stamp = built_from(folder.path())?;
        fs::write(folder.path().join("harness/src/main.rs"), "fn main() { }\n")?;
        let found = compare(&stamp, folder.path())?;
        assert_eq!(found.differences, ["harness/src/main.rs changed since the build"]);
        Ok(())
    }

    #[test]
    fn the_checkout_around_the_current_folder_counts_before_the_build_folder() -> anyhow::Result<()> {
        let (built, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
        checkout(built.path())?;
        checkout(other.path())?;
        fs::write(other.path().join("harness/src/extra.rs"), "")?;
        let found = compare(&built_from(built.path())?, other.path())?;
        assert_eq!(found.root.as_deref(), Some(other.path()));
        assert_eq!(found.matches(), Some(false));
        Ok(())
    }

    #[test]
    fn elsewhere_the_build_folder_counts_while_it_exists() -> anyhow::Result<()> {
        let (built, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
        checkout(built.path())?;
        let stamp = built_from(built.path())?;
        fs::write(built.path().join("harness/src/extra.rs"), "")?;
        assert_eq!(compare(&stamp, elsewhere.path())?.matches(), Some(false));
        drop(built);
        assert_eq!(compare(&stamp, elsewhere.path())?.matches(), None);
        Ok(())
    }
}
