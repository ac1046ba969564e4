//! The build script's fetching, against a Python that answers as told.
#![allow(
    missing_docs,
    dead_code,
    clippy::print_stdout,
    reason = "the build script's modules are used in part"
)]

#[path = "../build/fetch.rs"]
mod fetch;
#[path = "../build/pins.rs"]
mod pins;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// What `build.rs` gives these modules.
pub(crate) struct MlxBuild {
    include: PathBuf,
    library_dirs: Vec<PathBuf>,
}

pub(crate) fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// A program that stands in for Python with pip: says its version, and runs `download` for a download, with the
/// destination folder in `$dest`.
fn python(dir: &Path, download: &str) -> String {
    let path = dir.join("python");
    let script = format!(
        "#!/bin/sh\nif [ \"$3\" = --version ]; then exit 0; fi\n\
         while [ \"$1\" != --dest ]; do shift; done\ndest=$2\n{download}\n"
    );
    // Written by a process that has ended: a program that is open for writing anywhere, be it in a process which
    // another test's thread just started, cannot be started.
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("OK because every Unix has a shell");
    let mut input = writer.stdin.take().expect("OK because it is a pipe");
    input.write_all(script.as_bytes()).expect("OK because the shell reads it");
    drop(input);
    assert!(
        writer.wait().expect("OK because it was started").success(),
        "{} was not written",
        path.display()
    );
    path.display().to_string()
}

fn wheel() -> pins::Wheel {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("pins.json");
    let pins = pins::read(&manifest).expect("OK because the pins are ours");
    pins.wheel("linux", "x86_64", false).expect("OK because there is one for Linux")
}

fn fetched_with(download: &str) -> (TempDir, Result<(), String>) {
    let dir = TempDir::new().expect("OK because there is a temporary folder");
    let program = python(dir.path(), download);
    let unpacked = dir.path().join("unpacked");
    let scratch = dir.path().join("scratch");
    fs::create_dir(&scratch).expect("OK because the folder is ours");
    let result = fetch::fetch_into(&scratch, &wheel(), "0.32.2", &unpacked, &[&program]);
    (dir, result)
}

#[test]
fn another_file_than_the_pinned_one_is_refused_and_both_digests_are_named() {
    let name = wheel().file;
    let (dir, result) = fetched_with(&format!("echo something else > \"$dest/{name}\""));
    let message = result.expect_err("the digest cannot fit");
    assert!(message.contains(&name), "{message}");
    assert!(message.contains(&wheel().sha256), "{message}");
    assert!(
        message.contains("a1621be95040239ee14362c16e20510ddc20f527d772d823b2a1679b33f5cd74"),
        "{message}"
    );
    assert!(!dir.path().join("unpacked").exists(), "nothing of a wrong file may be used");
}

#[test]
fn without_a_network_the_error_names_the_file_and_what_pip_said() {
    let (_dir, result) = fetched_with("echo 'ERROR: Could not find a version' >&2; exit 1");
    let message = result.expect_err("nothing was downloaded");
    assert!(message.contains(&wheel().file), "{message}");
    assert!(message.contains("Could not find a version"), "{message}");
    assert!(message.contains("MLXCEL_MLX_DIR"), "{message}");
}

#[test]
fn without_pip_the_error_says_what_to_install() {
    let dir = TempDir::new().expect("OK because there is a temporary folder");
    let result =
        fetch::fetch_into(dir.path(), &wheel(), "0.32.2", &dir.path().join("unpacked"), &["no-such-python"]);
    let message = result.expect_err("there is no such program");
    assert!(message.contains("no Python 3 with pip was found (tried no-such-python)"), "{message}");
    assert!(message.contains("Install Python 3 with pip"), "{message}");
}

#[test]
fn a_platform_without_a_release_binary_is_told_which_there_are() {
    let pins = pins::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("pins.json"))
        .expect("OK because they are ours");
    let Err(message) = pins.wheel("windows", "x86_64", false) else { panic!("there is none for Windows") };
    assert!(message.contains("windows x86_64"), "{message}");
    assert!(message.contains("linux aarch64 with feature cuda"), "{message}");
}

#[test]
fn every_pinned_file_belongs_to_the_pinned_version_and_has_a_digest() {
    let pins = pins::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("pins.json"))
        .expect("OK because they are ours");
    for (os, arch, cuda) in [
        ("linux", "x86_64", false),
        ("linux", "aarch64", false),
        ("linux", "x86_64", true),
        ("linux", "aarch64", true),
        ("macos", "aarch64", false),
    ] {
        let wheel = pins.wheel(os, arch, cuda).expect("OK because these are the supported platforms");
        assert!(wheel.file.contains(&format!("-{}-", pins.mlx_version)), "{}", wheel.file);
        assert!(wheel.sha256.len() == 64 && wheel.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

#[test]
fn a_relative_cache_folder_is_one_of_the_workspace_as_it_is_for_a_program_run_from_there() {
    let with = |variables: &'static [(&'static str, &'static str)]| {
        fetch::cache_dir_of(Path::new("/workspace"), move |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        })
    };
    let folder = |path: &str| Ok(PathBuf::from(path));
    assert_eq!(with(&[("MLXCEL_CACHE_DIR", ".cache"), ("HOME", "/home")]), folder("/workspace/.cache"));
    assert_eq!(with(&[("MLXCEL_CACHE_DIR", "/cache")]), folder("/cache"));
    assert_eq!(with(&[("MLXCEL_CACHE_DIR", ""), ("XDG_CACHE_HOME", "/x")]), folder("/x/mlxcel"));
    assert_eq!(with(&[("HOME", "/home")]), folder("/home/.cache/mlxcel"));
    assert!(with(&[]).is_err());
}
