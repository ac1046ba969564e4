//! A baseline by ancestry: never from the change under test, but from the commit where it parts from a protected branch.
//!
//! Files are read from that commit's tree, so neither the working tree nor a later commit can alter them. Of the files
//! found there, those count whose rows were measured with the nearest ancestor; the others are named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use git2::{ObjectType, Oid, Repository, Tree};
use mlxcel_catalog::identity::sha256_hex;
use mlxcel_reports::gate::rules::{Copy, Protected};
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::record::Field;

/// A baseline and what must be said of it.
pub(super) struct Baseline {
    pub(super) files: Vec<SourceFile>,
    pub(super) remarks: Vec<String>,
}

/// Finds the baseline at these paths of the repository around the current folder.
pub(super) fn baseline(revision: &str, paths: &[PathBuf]) -> anyhow::Result<Baseline> {
    in_repository(
        &Repository::discover(".").context("--baseline-from-git needs a git repository")?,
        revision,
        paths,
    )
}

fn in_repository(repository: &Repository, revision: &str, paths: &[PathBuf]) -> anyhow::Result<Baseline> {
    let base = base(repository, revision)?;
    let tree = repository.find_commit(base)?.tree()?;
    let mut blobs = Vec::new();
    for path in paths {
        collect(repository, &tree, path, &mut blobs)
            .with_context(|| format!("`{}` in commit {}", path.display(), short(base)))?;
    }
    let mut by_distance: BTreeMap<usize, Vec<SourceFile>> = BTreeMap::new();
    let mut remarks = vec![format!("baseline read from commit {}, where `{revision}` parts", short(base))];
    for (path, blob) in blobs {
        let name = format!("{}:{}", short(base), path.display());
        let file = history::read_bytes(&name, repository.find_blob(blob)?.content())?;
        match distance(repository, base, &file) {
            Ok(distance) => by_distance.entry(distance).or_default().push(file),
            Err(reason) => remarks.push(format!("{name} is no baseline: {reason}")),
        }
    }
    let Some((distance, files)) = by_distance.pop_first() else {
        bail!(
            "no result file in commit {} was measured with it or an ancestor of it: {}",
            short(base),
            remarks.join("; ")
        );
    };
    remarks.push(format!("the nearest measured ancestor lies {distance} commits before it"));
    for file in by_distance.values().flatten() {
        remarks.push(format!("{} is of an earlier ancestor and was left out", file.path.display()));
    }
    Ok(Baseline { files, remarks })
}

/// The commit where a protected branch and the checked-out commit part.
fn base(repository: &Repository, revision: &str) -> anyhow::Result<Oid> {
    let head =
        repository.head().and_then(|head| head.peel_to_commit()).context("no commit is checked out")?;
    let other =
        repository.revparse_single(revision).and_then(|object| object.peel_to_commit()).with_context(
            || format!("`{revision}` is no commit of this repository; fetch it, with its history"),
        )?;
    let base = repository.merge_base(head.id(), other.id()).with_context(|| {
        format!("`{revision}` and the checked-out commit have no common ancestor; a shallow clone lacks it")
    })?;
    // On the protected branch itself the checked-out commit is the change under test, and its parent the baseline.
    if base != head.id() {
        return Ok(base);
    }
    head.parent_id(0).context("the checked-out commit has no parent to take a baseline from")
}

/// The files of a baseline as a protected branch has them, where it and the checked-out commit part.
pub(super) fn copies(revision: &str, files: &[SourceFile]) -> anyhow::Result<Protected> {
    let repository = Repository::discover(".").context("a protected branch needs a git repository")?;
    let root = repository.workdir().context("the repository has no working tree")?.canonicalize()?;
    let base = base(&repository, revision)?;
    let tree = repository.find_commit(base)?.tree()?;
    let copies = files.iter().map(|file| {
        let place = file.path.canonicalize().ok();
        let place = place.and_then(|place| place.strip_prefix(&root).map(Path::to_owned).ok());
        let blob = place
            .as_deref()
            .and_then(|place| tree.get_path(place).ok())
            .and_then(|entry| repository.find_blob(entry.id()).ok());
        Copy {
            path: file.path.display().to_string(),
            in_repository: place.map(|place| place.display().to_string()),
            sha256: blob.map(|blob| sha256_hex(blob.content())),
        }
    });
    Ok(Protected { revision: revision.to_owned(), copies: copies.collect(), commit: base.to_string() })
}

/// Result files at a path of a tree: the file, or those directly in the folder.
fn collect(
    repository: &Repository,
    tree: &Tree<'_>,
    path: &Path,
    blobs: &mut Vec<(PathBuf, Oid)>,
) -> anyhow::Result<()> {
    let entry = tree
        .get_path(path)
        .context("no such file or folder; --baseline names a path within the repository")?;
    if entry.kind() == Some(ObjectType::Blob) {
        blobs.push((path.to_owned(), entry.id()));
        return Ok(());
    }
    let folder = entry.to_object(repository)?.peel_to_tree()?;
    let before = blobs.len();
    for entry in &folder {
        let Ok(name) = entry.name() else { continue };
        let is_result = Path::new(name).extension().is_some_and(|ending| ending == "csv");
        if entry.kind() == Some(ObjectType::Blob) && is_result && !name.starts_with('.') {
            blobs.push((path.join(name), entry.id()));
        }
    }
    if blobs.len() == before {
        bail!("the folder holds no result file; results are files ending in .csv");
    }
    Ok(())
}

/// How many commits lie between the commit that a file was measured with and `base`, its descendant.
fn distance(repository: &Repository, base: Oid, file: &SourceFile) -> Result<usize, String> {
    let commits: BTreeSet<&str> = file
        .records
        .iter()
        .filter(|record| record.outcome.is_ok())
        .filter_map(|record| record.facts.known(Field::Commit))
        .collect();
    let mut commits = commits.into_iter();
    let (Some(commit), None) = (commits.next(), commits.next()) else {
        return Err("its rows do not all name one commit".to_owned());
    };
    if commit.len() < 7 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("`{commit}` is no clean commit"));
    }
    let measured = repository
        .revparse_single(commit)
        .and_then(|object| object.peel_to_commit())
        .map_err(|_| format!("commit {commit} is not in this repository"))?;
    if measured.id() != base && !repository.graph_descendant_of(base, measured.id()).unwrap_or(false) {
        return Err(format!("commit {commit} is no ancestor of {}", short(base)));
    }
    let (ahead, _) =
        repository.graph_ahead_behind(base, measured.id()).map_err(|error| error.message().to_owned())?;
    Ok(ahead)
}

fn short(id: Oid) -> String {
    id.to_string().chars().take(8).collect()
}
