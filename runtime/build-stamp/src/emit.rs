//! The build-script side: gathers a [`BuildStamp`] from Cargo's environment and tells Cargo when to do so
//! again.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::git::watched_files;
use crate::{BuildStamp, SourceTree, TreeState, hex};

/// Name of the file [`emit()`] writes into `OUT_DIR`.
pub const FILE_NAME: &str = "build_stamp.json";

/// Writes `OUT_DIR/build_stamp.json` and prints the `cargo:rerun-if-changed` lines that keep it true: the
/// roots, the checked-out commit, the ignore rules, the compiler flags.
///
/// `roots` are files or folders relative to the workspace root. For build scripts; the program embeds the
/// file with `include_str!(concat!(env!("OUT_DIR"), "/build_stamp.json"))` and reads it with
/// [`BuildStamp::parse`]. What cannot be found out is left unknown: neither a missing repository nor a
/// missing git fails the build.
///
/// # Panics
/// Outside a build script, or when `OUT_DIR` cannot be written: the build has to stop there.
pub fn emit(roots: &[&str]) {
    let out = PathBuf::from(
        env::var_os("OUT_DIR").unwrap_or_else(|| panic!("emit() is for build scripts: OUT_DIR is not set")),
    );
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let workspace_root = workspace_root(&manifest_dir);
    for line in rerun_lines(&workspace_root, roots) {
        say(&line);
    }
    let stamp = gather(workspace_root, roots);
    let path = out.join(FILE_NAME);
    let written = serde_json::to_vec_pretty(&stamp)
        .map_err(std::io::Error::from)
        .and_then(|bytes| fs::write(&path, bytes));
    if let Err(error) = written {
        panic!("cannot write {}: {error}", path.display());
    }
}

#[expect(clippy::print_stdout, reason = "a build script speaks to Cargo on stdout")]
fn say(line: &str) {
    println!("cargo:{line}");
}

fn rerun_lines(workspace_root: &Path, roots: &[&str]) -> Vec<String> {
    // One that does not exist would make Cargo run the script, and with it the compiler, at every build.
    // Should it appear, the stamp is out of date until something else changes; who compares trees notices
    // that, and touching Cargo.toml renews the stamp.
    let roots = roots.iter().map(|root| workspace_root.join(root)).filter(|path| path.exists());
    let mut lines: Vec<String> = roots
        .chain(watched_files(workspace_root))
        .map(|path| format!("rerun-if-changed={}", path.display()))
        .collect();
    lines.extend(["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].map(|name| format!("rerun-if-env-changed={name}")));
    lines
}

fn gather(workspace_root: PathBuf, roots: &[&str]) -> BuildStamp {
    let tree = SourceTree::read(&workspace_root, roots).unwrap_or_else(|error| {
        say(&format!("warning=the build will carry no source stamp: {error}"));
        TreeState {
            roots: roots.iter().map(|&root| root.to_owned()).collect(),
            commit: None,
            commit_unknown: Some(error.to_string()),
            files: Vec::new(),
            digest: hex(&Sha256::digest([])),
        }
    });
    let rustflags = rustflags();
    let (rustc, llvm) = compiler();
    let cargo_lock = fs::read(workspace_root.join("Cargo.lock")).ok();
    BuildStamp {
        package: text("CARGO_PKG_NAME").unwrap_or_default(),
        version: text("CARGO_PKG_VERSION").unwrap_or_default(),
        tree,
        profile: profile(),
        opt_level: text("OPT_LEVEL"),
        features: features(env::vars_os().filter_map(|(name, _)| name.into_string().ok())),
        target: text("TARGET"),
        target_cpu: codegen_option(&rustflags, "target-cpu"),
        target_features: list(&text("CARGO_CFG_TARGET_FEATURE").unwrap_or_default(), ','),
        rustflags,
        rustc,
        llvm,
        cargo_lock_sha256: cargo_lock.map(|bytes| hex(&Sha256::digest(bytes))),
        workspace_root,
    }
}

fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn list(text: &str, separator: char) -> Vec<String> {
    text.split(separator).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The folder whose manifest has the `[workspace]` table; the package's own when none has.
fn workspace_root(manifest_dir: &Path) -> PathBuf {
    let has_workspace = |folder: &&Path| {
        fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|manifest| manifest.lines().any(|line| line.trim() == "[workspace]"))
    };
    manifest_dir.ancestors().find(has_workspace).unwrap_or(manifest_dir).to_owned()
}

/// The profile's folder name: `OUT_DIR` is `<target>/[<triple>/]<profile>/build/<package>-<hash>/out`.
/// `PROFILE` only ever says `debug` or `release`, also for profiles of other names.
fn profile() -> Option<String> {
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    let build = out.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "build"));
    let named = build
        .and_then(Path::parent)
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    named.or_else(|| text("PROFILE"))
}

/// Feature names from the names of Cargo's variables, which spell `-` as `_`.
fn features(variables: impl Iterator<Item = String>) -> Vec<String> {
    let mut features: Vec<String> = variables
        .filter_map(|name| {
            name.strip_prefix("CARGO_FEATURE_").map(|feature| feature.to_lowercase().replace('_', "-"))
        })
        .filter(|feature| feature != "default")
        .collect();
    features.sort();
    features
}

fn rustflags() -> Vec<String> {
    // Cargo gives build scripts the flags of the target, whichever way they were set, separated by 0x1f.
    list(&text("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default(), '\u{1f}')
}

/// The last `-C name=value` (or `-Cname=value`) among compiler flags.
fn codegen_option(flags: &[String], name: &str) -> Option<String> {
    let mut value = None;
    let mut after_c = false;
    for flag in flags {
        let option = match flag.as_str() {
            "-C" | "--codegen" => {
                after_c = true;
                continue;
            }
            option if after_c => Some(option),
            option => option.strip_prefix("-C").or_else(|| option.strip_prefix("--codegen=")),
        };
        after_c = false;
        if let Some(given) =
            option.and_then(|option| option.strip_prefix(name)).and_then(|rest| rest.strip_prefix('='))
        {
            value = Some(given.to_owned());
        }
    }
    value
}

fn compiler() -> (Option<String>, Option<String>) {
    let Some(rustc) = env::var_os("RUSTC") else {
        return (None, None);
    };
    let Ok(output) = Command::new(rustc).arg("-vV").output() else {
        return (None, None);
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().next().filter(|line| line.starts_with("rustc")).map(str::to_owned);
    let llvm = said.lines().find_map(|line| line.strip_prefix("LLVM version: ")).map(str::to_owned);
    (version, llvm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Vec<String> {
        list(text, ' ')
    }

    #[test]
    fn finds_the_last_target_cpu_in_either_spelling() {
        assert_eq!(codegen_option(&flags("-C target-cpu=native"), "target-cpu").as_deref(), Some("native"));
        assert_eq!(
            codegen_option(&flags("-Ctarget-cpu=a -C target-cpu=b"), "target-cpu").as_deref(),
            Some("b")
        );
        assert_eq!(codegen_option(&flags("-C opt-level=3 target-cpu=b"), "target-cpu"), None);
        assert_eq!(codegen_option(&[], "target-cpu"), None);
    }

    #[test]
    fn spells_features_as_the_manifest_does() {
        let names = ["CARGO_FEATURE_METAL_JIT", "PATH", "CARGO_FEATURE_DEFAULT", "CARGO_FEATURE_CUDA"];
        assert_eq!(features(names.iter().map(ToString::to_string)), ["cuda", "metal-jit"]);
    }

    #[test]
    fn climbs_to_the_folder_with_the_workspace_table() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let package = folder.path().join("runtime/stamp");
        fs::create_dir_all(&package)?;
        fs::write(folder.path().join("Cargo.toml"), "[workspace]\nmembers = []\n")?;
        fs::write(package.join("Cargo.toml"), "[package]\nname = \"x\"\n")?;
        assert_eq!(workspace_root(&package), folder.path());
        Ok(())
    }

    #[test]
    fn asks_to_be_run_again_for_every_root_and_the_commit() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        git2::Repository::init(folder.path())?;
        fs::create_dir(folder.path().join("runtime"))?;
        fs::write(folder.path().join("Cargo.toml"), "")?;
        let lines = rerun_lines(folder.path(), &["Cargo.toml", "runtime", "absent"]).join("\n");
        assert!(!lines.contains("absent"), "{lines}");
        for wanted in ["/Cargo.toml", "/runtime", "/.git/HEAD", "/.git/refs/heads"] {
            assert!(
                lines.lines().any(|line| line.starts_with("rerun-if-changed=") && line.ends_with(wanted)),
                "{wanted}: {lines}"
            );
        }
        Ok(())
    }
}
