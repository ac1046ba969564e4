//! Source trees of every kind against what the stamp must say of them.

use std::error::Error;
use std::fs;
use std::path::Path;

use git2::{IndexAddOption, Repository, Signature};
use mlxcel_build_stamp::{Change, SourceTree, TreeState, differences};
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

const ROOTS: [&str; 3] = ["Cargo.toml", "runtime", ".cargo"];

fn write(root: &Path, path: &str, text: &str) -> std::io::Result<()> {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap_or(root))?;
    fs::write(path, text)
}

fn commit_all(repository: &Repository) -> Result<(), git2::Error> {
    let mut index = repository.index()?;
    index.add_all(["*"], IndexAddOption::DEFAULT, None)?;
    index.update_all(["*"], None)?;
    index.write()?;
    let tree = repository.find_tree(index.write_tree()?)?;
    let who = Signature::now("test", "test@example.invalid")?;
    let parent = repository.head().ok().and_then(|head| head.peel_to_commit().ok());
    let parents: Vec<_> = parent.iter().collect();
    repository.commit(Some("HEAD"), &who, &who, "commit", &tree, &parents)?;
    Ok(())
}

fn workspace(root: &Path) -> std::io::Result<()> {
    write(root, "Cargo.toml", "[workspace]\n")?;
    write(root, "runtime/src/lib.rs", "pub fn f() {}\n")?;
    write(root, "runtime/src/blocks/mlp.rs", "pub fn g() {}\n")?;
    write(root, "docs/notes.md", "notes\n")?;
    write(root, ".gitignore", "target/\n*.log\n")
}

fn committed() -> Result<(TempDir, Repository), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    workspace(folder.path())?;
    let repository = Repository::init(folder.path())?;
    commit_all(&repository)?;
    Ok((folder, repository))
}

fn read(folder: &TempDir) -> Result<TreeState, Box<dyn Error>> {
    Ok(SourceTree::read(folder.path(), &ROOTS)?)
}

fn change_of(state: &TreeState, path: &str) -> Option<Change> {
    state.files.iter().find(|file| file.path == path).and_then(|file| file.change)
}

#[test]
fn a_clean_tree_is_stamped_with_eight_digits_of_its_commit() -> Outcome {
    let (folder, repository) = committed()?;
    let state = read(&folder)?;
    let head = repository.head()?.peel_to_commit()?.id().to_string();
    assert_eq!(state.commit.as_deref(), Some(head.as_str()));
    assert_eq!(state.stamp().as_deref(), head.get(..8));
    let paths: Vec<_> = state.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["Cargo.toml", "runtime/src/blocks/mlp.rs", "runtime/src/lib.rs"]);
    Ok(())
}

#[test]
fn every_way_of_differing_makes_the_tree_dirty() -> Outcome {
    let (folder, repository) = committed()?;
    write(folder.path(), "runtime/src/lib.rs", "pub fn f() { }\n")?;
    fs::remove_file(folder.path().join("runtime/src/blocks/mlp.rs"))?;
    write(folder.path(), "runtime/src/new.rs", "")?;
    write(folder.path(), "runtime/src/staged.rs", "")?;
    let mut index = repository.index()?;
    index.add_path(Path::new("runtime/src/staged.rs"))?;
    index.write()?;
    let state = read(&folder)?;
    assert_eq!(change_of(&state, "runtime/src/lib.rs"), Some(Change::Modified));
    assert_eq!(change_of(&state, "runtime/src/blocks/mlp.rs"), Some(Change::Deleted));
    assert_eq!(change_of(&state, "runtime/src/new.rs"), Some(Change::Untracked));
    assert_eq!(change_of(&state, "runtime/src/staged.rs"), Some(Change::Added));
    assert!(state.stamp().is_some_and(|stamp| stamp.ends_with("-dirty")));
    Ok(())
}

#[test]
fn ignored_files_and_files_outside_the_roots_do_not_count() -> Outcome {
    let (folder, _repository) = committed()?;
    write(folder.path(), "runtime/target/debug/x.rs", "x")?;
    write(folder.path(), "runtime/build.log", "x")?;
    write(folder.path(), "docs/notes.md", "other")?;
    let state = read(&folder)?;
    assert!(!state.is_dirty(), "{:?}", state.changed().collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_tracked_file_counts_although_a_rule_ignores_it() -> Outcome {
    let (folder, repository) = committed()?;
    write(folder.path(), "runtime/kept.log", "one")?;
    let mut index = repository.index()?;
    index.add_path(Path::new("runtime/kept.log"))?;
    index.write()?;
    assert_eq!(change_of(&read(&folder)?, "runtime/kept.log"), Some(Change::Added));
    Ok(())
}

#[test]
fn an_edit_is_seen_though_the_file_time_says_otherwise() -> Outcome {
    let (folder, _repository) = committed()?;
    let path = folder.path().join("runtime/src/lib.rs");
    let time = fs::metadata(&path)?.modified()?;
    fs::write(&path, "pub fn h() {}\n")?;
    fs::File::options().write(true).open(&path)?.set_modified(time)?;
    assert_eq!(change_of(&read(&folder)?, "runtime/src/lib.rs"), Some(Change::Modified));
    Ok(())
}

#[test]
fn a_source_archive_has_files_but_no_commit() -> Outcome {
    let folder = tempfile::tempdir()?;
    workspace(folder.path())?;
    write(folder.path(), "runtime/target/debug/x.rs", "x")?;
    let state = read(&folder)?;
    assert_eq!((state.commit.as_deref(), state.stamp()), (None, None));
    assert!(state.commit_unknown.is_some());
    assert_eq!(state.files.len(), 3);
    assert!(!state.is_dirty());
    Ok(())
}

#[test]
fn a_source_archive_inside_another_repository_does_not_take_its_commit() -> Outcome {
    let outer = tempfile::tempdir()?;
    write(outer.path(), "README", "mine")?;
    let repository = Repository::init(outer.path())?;
    commit_all(&repository)?;
    let inner = outer.path().join("unpacked");
    workspace(&inner)?;
    let state = SourceTree::read(&inner, &ROOTS)?;
    assert_eq!(state.commit, None);
    assert!(state.commit_unknown.is_some_and(|why| why.contains("does not track")));
    Ok(())
}

#[test]
fn a_workspace_below_the_repository_root_is_stamped_by_its_own_paths() -> Outcome {
    let outer = tempfile::tempdir()?;
    let inner = outer.path().join("bench");
    workspace(&inner)?;
    let repository = Repository::init(outer.path())?;
    commit_all(&repository)?;
    write(&inner, "runtime/src/lib.rs", "changed")?;
    let state = SourceTree::read(&inner, &ROOTS)?;
    assert_eq!(change_of(&state, "runtime/src/lib.rs"), Some(Change::Modified));
    assert_eq!(change_of(&state, "Cargo.toml"), None);
    assert!(state.commit.is_some());
    Ok(())
}

#[test]
fn nothing_differs_from_the_same_tree() -> Outcome {
    let (folder, _repository) = committed()?;
    assert!(differences(&read(&folder)?, &read(&folder)?).is_empty());
    Ok(())
}

#[test]
fn differences_name_both_commits_and_every_file() -> Outcome {
    let (folder, repository) = committed()?;
    let built = read(&folder)?;
    write(folder.path(), "runtime/src/lib.rs", "changed")?;
    fs::remove_file(folder.path().join("runtime/src/blocks/mlp.rs"))?;
    write(folder.path(), ".cargo/config.toml", "[build]\n")?;
    commit_all(&repository)?;
    let now = read(&folder)?;
    let found = differences(&built, &now);
    assert_eq!(
        found,
        [
            format!(
                "built from {}, but the working tree is at {}",
                built.stamp().unwrap_or_default(),
                now.stamp().unwrap_or_default()
            ),
            ".cargo/config.toml was not there at the build".to_owned(),
            "runtime/src/blocks/mlp.rs is gone since the build".to_owned(),
            "runtime/src/lib.rs changed since the build".to_owned(),
        ]
    );
    assert_ne!(built.digest, now.digest);
    Ok(())
}

#[test]
fn committing_what_was_built_dirty_changes_the_commit_alone() -> Outcome {
    let (folder, repository) = committed()?;
    write(folder.path(), "runtime/src/lib.rs", "changed")?;
    let built = read(&folder)?;
    commit_all(&repository)?;
    let found = differences(&built, &read(&folder)?);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found.first().is_some_and(|line| line.contains("-dirty")));
    Ok(())
}

#[test]
fn the_stamp_survives_being_written_and_read() -> Outcome {
    let (folder, _repository) = committed()?;
    write(folder.path(), "runtime/src/new.rs", "")?;
    let state = read(&folder)?;
    let back: TreeState = serde_json::from_str(&serde_json::to_string(&state)?)?;
    assert_eq!(back, state);
    Ok(())
}

#[test]
fn a_commit_that_is_no_longer_known_is_a_difference_with_its_reason() -> Outcome {
    let (folder, _repository) = committed()?;
    let built = read(&folder)?;
    fs::remove_dir_all(folder.path().join(".git"))?;
    let found = differences(&built, &read(&folder)?);
    assert!(found.first().is_some_and(|line| line.contains("not in a git repository")), "{found:?}");
    Ok(())
}
