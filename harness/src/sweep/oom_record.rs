//! What ran out of memory before, so that the same is not started again: prompts at least as long, on the same host, with
//! the same executable, checkpoint and settings.
//!
//! Only rows whose status is `SKIP:oom` are recorded. A new build, another setting or another host starts afresh, so that
//! a fault that was mended is not skipped for ever. One JSON object a line in the cache folder; a line that cannot be read
//! is told and passed over.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::text::complain;

/// The variable that stands for `--ignore-oom-record`.
pub(super) const IGNORE: &str = "MLXCEL_BENCH_IGNORE_OOM_RECORD";
/// The file in the cache folder.
const FILE: &str = "oom-record.jsonl";

/// What the record of a row is found by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    /// Digest of the host.
    pub(super) host_id: String,
    /// SHA-256 of the executable.
    pub(super) executable_sha256: String,
    /// Digest of the checkpoint, with its level.
    pub(super) checkpoint: String,
    /// Everything else that memory depends on.
    pub(super) settings: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    key: Key,
    prompt_tokens: u64,
    recorded_at: Timestamp,
    model: String,
    peak_memory_bytes: Option<u64>,
}

/// The record, and what this sweep adds to it.
#[derive(Debug, Default)]
pub(super) struct OomRecord {
    path: Option<PathBuf>,
    entries: Vec<Entry>,
}

impl OomRecord {
    /// The record of the cache folder; an empty one when it is to be ignored. What this sweep adds counts all the same.
    pub(super) fn open(cache: Option<PathBuf>, ignore: bool) -> Self {
        let path = cache.map(|folder| folder.join(FILE));
        let mut entries = Vec::new();
        if !ignore
            && let Some(path) = &path
            && let Ok(text) = fs::read_to_string(path)
        {
            for (line, text) in (1..).zip(text.lines()) {
                match serde_json::from_str(text) {
                    Ok(entry) => entries.push(entry),
                    Err(error) => complain(&format!(
                        "note: {}:{line} is no record of want of memory and is passed over: {error}",
                        path.display()
                    )),
                }
            }
        }
        Self { path, entries }
    }

    /// Why a prompt of this length is not started; `None` where nothing speaks against it.
    pub(super) fn forbids(&self, key: &Key, prompt_tokens: u64) -> Option<String> {
        let shortest = self
            .entries
            .iter()
            .filter(|entry| entry.key == *key && entry.prompt_tokens <= prompt_tokens)
            .min_by_key(|entry| entry.prompt_tokens)?;
        Some(format!(
            "a prompt of {} tokens ran out of memory at {} with the same executable and settings; \
             --ignore-oom-record starts it all the same",
            shortest.prompt_tokens,
            shortest.recorded_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        ))
    }

    /// A prompt of this length ran out of memory.
    pub(super) fn add(&mut self, key: Key, prompt_tokens: u64, model: &str, peak_memory_bytes: Option<u64>) {
        let entry = Entry {
            key,
            prompt_tokens,
            recorded_at: Timestamp::now(),
            model: model.to_owned(),
            peak_memory_bytes,
        };
        if let Some(path) = &self.path {
            let kept = path
                .parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| OpenOptions::new().create(true).append(true).open(path))
                .and_then(|mut file| {
                    let mut line = serde_json::to_string(&entry).map_err(std::io::Error::from)?;
                    line.push('\n');
                    file.write_all(line.as_bytes())
                });
            if let Err(error) = kept {
                complain(&format!("note: {} cannot be written: {error}", path.display()));
            }
        }
        self.entries.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(executable: &str) -> Key {
        Key {
            host_id: "h".to_owned(),
            executable_sha256: executable.to_owned(),
            checkpoint: "2:c".to_owned(),
            settings: "max_tokens=32".to_owned(),
        }
    }

    #[test]
    fn longer_prompts_of_the_same_run_are_forbidden_and_others_are_not() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = || Some(folder.path().to_owned());
        OomRecord::open(cache(), false).add(key("e"), 8_192, "m", Some(5));
        let record = OomRecord::open(cache(), false);
        assert_eq!(record.forbids(&key("e"), 2_048), None);
        for length in [8_192, 32_768] {
            let why = record.forbids(&key("e"), length).unwrap_or_default();
            assert!(why.contains("8192 tokens") && why.contains("--ignore-oom-record"), "{why}");
        }
        assert_eq!(record.forbids(&key("rebuilt"), 32_768), None);
        let other_host = Key { host_id: "i".to_owned(), ..key("e") };
        assert_eq!(record.forbids(&other_host, 32_768), None);
        let other_settings = Key { settings: "max_tokens=64".to_owned(), ..key("e") };
        assert_eq!(record.forbids(&other_settings, 32_768), None);
        Ok(())
    }

    #[test]
    fn an_ignored_record_still_holds_what_this_sweep_adds() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        OomRecord::open(Some(folder.path().to_owned()), false).add(key("e"), 512, "m", None);
        let mut record = OomRecord::open(Some(folder.path().to_owned()), true);
        assert_eq!(record.forbids(&key("e"), 512), None);
        record.add(key("e"), 512, "m", None);
        assert!(record.forbids(&key("e"), 600).is_some());
        Ok(())
    }

    #[test]
    fn a_line_that_is_no_record_hides_no_other() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        OomRecord::open(Some(folder.path().to_owned()), false).add(key("e"), 512, "m", None);
        let path = folder.path().join(FILE);
        let text = format!("torn li\n{}", fs::read_to_string(&path)?);
        fs::write(&path, text)?;
        assert!(OomRecord::open(Some(folder.path().to_owned()), false).forbids(&key("e"), 512).is_some());
        Ok(())
    }
}
