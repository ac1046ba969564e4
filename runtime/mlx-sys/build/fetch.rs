//! Brings the pinned release binary into the cache folder shared between builds: download by pip, check, unpack.

use crate::pins::{Pins, Wheel};
use crate::{MlxBuild, variable};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fmt::Write as _};

/// The unpacked release binary for the target, fetched unless the cache has it.
pub(crate) fn pinned_build(pins: &Pins) -> Result<MlxBuild, String> {
    let cuda = env::var_os("CARGO_FEATURE_CUDA").is_some();
    let wheel = pins.wheel(&variable("CARGO_CFG_TARGET_OS")?, &variable("CARGO_CFG_TARGET_ARCH")?, cuda)?;
    let cache = cache_dir()?.join("mlx");
    // The digest in the name: a changed pin never meets the old files.
    let unpacked = cache.join(format!("{}-{}-{}", wheel.package, pins.mlx_version, &wheel.sha256[..12]));
    if !unpacked.is_dir() {
        fs::create_dir_all(&cache).map_err(|error| cannot("create the cache folder", &cache, &error))?;
        let scratch = cache.join(format!("fetching-{}-{}", wheel.package, process::id()));
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).map_err(|error| cannot("create the folder", &scratch, &error))?;
        let result = fetch_into(&scratch, &wheel, &pins.mlx_version, &unpacked, &["python3", "python"]);
        let _ = fs::remove_dir_all(&scratch);
        result?;
    }
    // Gone from the cache means: run this script again.
    let lib = unpacked.join("mlx/lib");
    println!("cargo::rerun-if-changed={}", lib.display());
    let mut library_dirs = vec![lib];
    let entries = fs::read_dir(&unpacked).map_err(|error| cannot("list", &unpacked, &error))?;
    library_dirs.extend(
        entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "libs")),
    );
    Ok(MlxBuild { include: unpacked.join("mlx/include"), library_dirs })
}

/// Downloads into `scratch`, checks, unpacks, and moves the result to `unpacked`. `pythons` are tried in order.
pub(crate) fn fetch_into(
    scratch: &Path,
    wheel: &Wheel,
    version: &str,
    unpacked: &Path,
    pythons: &[&str],
) -> Result<(), String> {
    let file = download(scratch, wheel, version, pythons)?;
    let actual = sha256(&file).map_err(|error| cannot("read", &file, &error))?;
    if actual != wheel.sha256 {
        return Err(format!(
            "{} has the wrong SHA-256: expected {}, got {actual}\n\
             The package index served another file than the one pinned in runtime/mlx-sys/pins.json. \
             Check pip's index and mirror settings; nothing of it was used.",
            wheel.file, wheel.sha256,
        ));
    }
    let contents = scratch.join("contents");
    unpack(&file, &contents)?;
    match fs::rename(&contents, unpacked) {
        Ok(()) => Ok(()),
        // Another build was quicker; what it left has passed the same check.
        Err(_) if unpacked.is_dir() => Ok(()),
        Err(error) => Err(cannot("move the unpacked release to", unpacked, &error)),
    }
}

fn download(scratch: &Path, wheel: &Wheel, version: &str, pythons: &[&str]) -> Result<PathBuf, String> {
    let has_pip = |python: &&&str| {
        Command::new(python)
            .args(["-m", "pip", "--version"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let python = pythons.iter().find(has_pip).ok_or_else(|| {
        format!(
            "{} is needed and is fetched by pip, but no Python 3 with pip was found (tried {})\n\
                 Install Python 3 with pip, or set MLXCEL_MLX_DIR to an MLX {version} build.",
            wheel.file,
            pythons.join(" and "),
        )
    })?;
    let output = Command::new(python)
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--python-version=3.11",
        ])
        .arg("--disable-pip-version-check")
        .arg(format!("--platform={}", wheel.platform))
        .arg("--dest")
        .arg(scratch)
        .arg(format!("{}=={version}", wheel.package))
        .output()
        .map_err(|error| format!("{python} -m pip could not be started: {error}"))?;
    let file = scratch.join(&wheel.file);
    if output.status.success() && file.is_file() {
        return Ok(file);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint =
        complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("pip gave no reason");
    Err(format!(
        "{} (SHA-256 {}) could not be downloaded by `{python} -m pip download {}=={version}`: {complaint}\n\
         Check the network and pip's index settings, or set MLXCEL_MLX_DIR to an MLX {version} build.",
        wheel.file, wheel.sha256, wheel.package,
    ))
}

fn unpack(file: &Path, contents: &Path) -> Result<(), String> {
    let archive = File::open(file).map_err(|error| cannot("open", file, &error))?;
    zip::ZipArchive::new(archive).and_then(|mut archive| archive.extract(contents)).map_err(|error| {
        format!("{} cannot be unpacked into {}: {error}", file.display(), contents.display())
    })
}

/// `MLXCEL_CACHE_DIR`, else the user's cache folder. Relative to the workspace, where cargo is run most often: a build
/// script itself runs in its package's folder.
fn cache_dir() -> Result<PathBuf, String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../..");
    let root = root.canonicalize().map_err(|error| cannot("find", &root, &error))?;
    cache_dir_of(&root, |name| env::var_os(name))
}

pub(crate) fn cache_dir_of(
    root: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, String> {
    let named = |name: &str| {
        variable(name).filter(|value| !value.is_empty()).map(PathBuf::from).map(|dir| root.join(dir))
    };
    named("MLXCEL_CACHE_DIR")
        .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("mlxcel")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/mlxcel")))
        .ok_or_else(|| "no cache folder: set MLXCEL_CACHE_DIR, XDG_CACHE_HOME or HOME".to_owned())
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    loop {
        let read = io::Read::read(&mut file, &mut block)?;
        if read == 0 {
            break;
        }
        hasher.update(&block[..read]);
    }
    Ok(hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

fn cannot(action: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {action} {}: {error}", path.display())
}
