//! Whether tokenizers load, remembered: building one takes longer than everything else about a folder.
//!
//! Only tokenizers that loaded are remembered, by device, number, size and time of change of every file beside the weights
//! and of this executable, so that another build looks again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[cfg(not(feature = "runtime"))]
use mlxcel_catalog::files::{MAX_TABLE_BYTES, read_regular};
use mlxcel_catalog::identity::{FileKey, sha256_hex};

use crate::digests::cache_folder;

const FIRST_LINE: &str = "mlxcel tokenizers that load 1";

/// Tokenizers that are known to load.
pub(super) struct Tokenizers {
    path: Option<PathBuf>,
    executable: Option<FileKey>,
    known: Mutex<BTreeSet<String>>,
    before: usize,
}

impl Tokenizers {
    pub(super) fn open() -> Self {
        let path = cache_folder().map(|folder| folder.join("tokenizers"));
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let mut lines = text.lines();
        let known: BTreeSet<String> = if lines.next() == Some(FIRST_LINE) {
            lines.filter(|line| line.len() == 64).map(str::to_owned).collect()
        } else {
            BTreeSet::new()
        };
        let executable = std::env::current_exe().and_then(fs::metadata).ok().map(|file| FileKey::of(&file));
        Self { path, executable, before: known.len(), known: Mutex::new(known) }
    }

    /// What is wrong with the tokenizer of a folder.
    pub(super) fn fault(&self, dir: &Path) -> Option<String> {
        let key = self.key(dir);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if key.as_ref().is_some_and(|key| known().contains(key)) {
            return None;
        }
        let fault = special_file(dir).or_else(|| load(dir));
        if let (None, Some(key)) = (&fault, key) {
            known().insert(key);
        }
        fault
    }

    /// Writes what is new. Losing it costs time and nothing else, so nobody is told.
    pub(super) fn close(self) {
        let known = self.known.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = self.path.filter(|_| known.len() > self.before) else { return };
        let lines = known.into_iter().collect::<Vec<_>>().join("\n");
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let _ = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&part, format!("{FIRST_LINE}\n{lines}\n")))
            .and_then(|()| fs::rename(&part, &path));
    }

    fn key(&self, dir: &Path) -> Option<String> {
        let executable = self.executable?;
        let mut files = Vec::new();
        for entry in fs::read_dir(dir).ok()? {
            let path = entry.ok()?.path();
            if path.extension().is_none_or(|extension| extension != "safetensors")
                && let Ok(metadata) = fs::metadata(&path)
            {
                files.push((path.file_name()?.to_owned(), FileKey::of(&metadata)));
            }
        }
        files.sort_unstable();
        Some(sha256_hex(format!("{executable:?} {files:?}").as_bytes()))
    }
}

/// A pipe or a device in the place of a file, which whoever loads it would wait for or read for ever.
fn special_file(dir: &Path) -> Option<String> {
    let path = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"]
        .map(|name| dir.join(name))
        .into_iter()
        .find(|path| fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()))?;
    Some(format!("{}: it is not a regular file; get the tokenizer's files again", path.display()))
}

#[cfg(feature = "runtime")]
fn load(dir: &Path) -> Option<String> {
    use mlxcel::tokenizer::{Tokenizer, TokenizerError as Fault};
    let error = Tokenizer::open(dir).err()?;
    // These say what to do by themselves.
    let says_what_to_do =
        matches!(error, Fault::NoTokenizer { .. } | Fault::BadTokenizer { .. } | Fault::NotAnObject { .. });
    let error = crate::text::told(&anyhow::Error::new(error));
    Some(if says_what_to_do { error } else { format!("{error}; get the tokenizer's files again") })
}

/// Without the runtime nothing can be loaded; that the file is there and is a tokenizer's can be seen all the same.
#[cfg(not(feature = "runtime"))]
fn load(dir: &Path) -> Option<String> {
    let path = dir.join("tokenizer.json");
    let bad = |why: String| Some(format!("{}: {why}; get the tokenizer's files again", path.display()));
    let bytes = match read_regular(&path, MAX_TABLE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => return bad(error.to_string()),
    };
    match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(value) if value.get("model").is_some_and(serde_json::Value::is_object) => None,
        Ok(_) => bad("it has no model".to_owned()),
        Err(error) => bad(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_one_remedy() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("tokenizer.json");
        for content in [None, Some("{"), Some("{}"), Some("[]")] {
            if let Some(content) = content {
                fs::write(&file, content)?;
            }
            let fault = load(folder.path()).unwrap_or_default();
            let remedies = fault.matches("get ").count();
            assert_eq!(remedies, 1, "{content:?}: {fault}");
        }
        Ok(())
    }
}
