//! The built binary finds MLX wherever its folder is copied, with no environment variable set.

#![expect(clippy::print_stdout, reason = "a test that is not run says so")]

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// What `mlxcel version --json` says when it runs with an empty environment.
fn version(binary: &Path) -> Value {
    let output = Command::new(binary).env_clear().args(["version", "--json"]).assert().success();
    serde_json::from_slice(&output.get_output().stdout).expect("OK because the command prints JSON")
}

/// Copies by a process that has ended: a program that is open for writing anywhere, be it in a process which another
/// test's thread just started, cannot be started.
fn copied(from: &Path, to: &Path) {
    Command::new("cp").arg(from).arg(to).assert().success();
}

#[test]
fn the_binary_runs_from_where_cargo_puts_it() {
    let version = version(Path::new(env!("CARGO_BIN_EXE_mlxcel")));
    assert_eq!(version["mlx"]["version"], version["mlx"]["pinned_version"]);
}

#[test]
fn the_version_is_told_as_json_by_either_flag() {
    let said = |flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_mlxcel")).arg("version").args(flags).assert().success();
        output.get_output().stdout.clone()
    };
    assert_eq!(said(&["--format", "json"]), said(&["--json"]));
    assert_eq!(said(&["--format", "table"]), said(&[]));
    assert_ne!(said(&["--json"]), said(&[]));
}

#[test]
fn a_copied_folder_brings_its_own_library() {
    let binary = Path::new(env!("CARGO_BIN_EXE_mlxcel"));
    let built = binary.parent().expect("OK because a binary lies in a folder");
    let copy = TempDir::new().expect("OK because there is a temporary folder");
    let entries = fs::read_dir(built).expect("OK because the folder was just built");
    for file in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        let name = file.file_name().expect("OK because a file has a name");
        let is_library =
            name.to_string_lossy().starts_with("lib") && !name.to_string_lossy().ends_with(".rlib");
        if file == binary || is_library || name.to_string_lossy().ends_with(".metallib") {
            copied(&file, &copy.path().join(name));
        }
    }
    let version = version(&copy.path().join("mlxcel"));
    let library = version["mlx"]["library_path"].as_str().map(Path::new).expect("OK because it is a path");
    let expected = copy.path().canonicalize().expect("OK because the folder exists");
    assert_eq!(library.parent(), Some(expected.as_path()), "the library was taken from elsewhere");
    assert_eq!(version["mlx"]["version"], version["mlx"]["pinned_version"]);
}

#[test]
fn the_binary_alone_finds_the_cache_folder() {
    if option_env!("MLXCEL_MLX_DIR").is_some() {
        println!("not run: another MLX than the pinned one is linked");
        return;
    }
    let copy = TempDir::new().expect("OK because there is a temporary folder");
    let alone = copy.path().join("mlxcel");
    copied(Path::new(env!("CARGO_BIN_EXE_mlxcel")), &alone);
    let version = version(&alone);
    assert_eq!(version["mlx"]["version"], version["mlx"]["pinned_version"]);
}
