//! Writes checkpoint folders by hand, byte for byte, so that the tests do not lean on the code they test.

#![allow(dead_code, reason = "each test file takes what it needs")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A safetensors file of `header` and `data`.
pub(crate) fn file_bytes(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A safetensors file of one-element F32 tensors of these names.
pub(crate) fn shard_bytes(tensors: &[&str]) -> Vec<u8> {
    let entries: Vec<_> = tensors
        .iter()
        .enumerate()
        .map(|(position, name)| {
            let (begin, end) = (position * 4, position * 4 + 4);
            format!(r#"{name:?}:{{"dtype":"F32","shape":[1],"data_offsets":[{begin},{end}]}}"#)
        })
        .collect();
    file_bytes(&format!("{{{}}}", entries.join(",")), &vec![0; tensors.len() * 4])
}

/// A folder that is gone after the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// An empty one.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// One with a `config.json` of a llama.
    pub(crate) fn with_config() -> Self {
        Self::empty().file("config.json", br#"{"model_type":"llama","architectures":["LlamaForCausalLM"]}"#)
    }

    /// Adds a file.
    pub(crate) fn file(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.path().join(name), bytes).expect("a written file");
        self
    }

    /// Adds a safetensors file.
    pub(crate) fn shard(self, name: &str, tensors: &[&str]) -> Self {
        self.file(name, shard_bytes(tensors))
    }

    /// Adds an index of `(tensor, file)` pairs.
    pub(crate) fn index(self, entries: &[(&str, &str)]) -> Self {
        let map: Vec<_> = entries.iter().map(|(tensor, file)| format!("{tensor:?}:{file:?}")).collect();
        let text = format!(r#"{{"metadata":{{"total_size":8}},"weight_map":{{{}}}}}"#, map.join(","));
        self.file("model.safetensors.index.json", text)
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file in it.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

/// Asserts that the message holds every one of `parts`.
#[track_caller]
pub(crate) fn assert_says(error: &dyn std::error::Error, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}
