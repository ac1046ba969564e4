//! `model.safetensors.index.json`: which tensor lies in which file, checked against the files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::{CheckpointProblem, Shard};
use crate::files::{MAX_TABLE_BYTES, read_regular};
use crate::json::UniqueMap;

/// Name of the index within a checkpoint folder.
pub const INDEX_FILE: &str = "model.safetensors.index.json";

/// The index: tensor names and the files that should hold them.
#[derive(Debug)]
pub(super) struct Index {
    weight_map: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct WireIndex {
    weight_map: UniqueMap<String>,
}

impl Index {
    /// Reads the index of a folder; nothing when there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, CheckpointProblem> {
        let path = dir.join(INDEX_FILE);
        let bytes = match read_regular(&path, MAX_TABLE_BYTES) {
            Ok(bytes) => bytes,
            // A dangling link is an index that is there but cannot be read.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                return Ok(None);
            }
            Err(source) => return Err(CheckpointProblem::Io { path, source }),
        };
        let wire: WireIndex = match serde_json::from_slice(&bytes) {
            Ok(wire) => wire,
            Err(error) => {
                return Err(CheckpointProblem::BadIndex { path, detail: error.to_string() });
            }
        };
        let weight_map = wire.weight_map.0;
        if let Some((tensor, file)) = weight_map.iter().find(|(_, file)| !is_plain_name(file)) {
            let detail = format!(
                "it puts tensor {tensor:?} into {file:?}, which is not the name of a file of the folder"
            );
            return Err(CheckpointProblem::BadIndex { path, detail });
        }
        if weight_map.is_empty() {
            return Err(CheckpointProblem::BadIndex { path, detail: "its weight_map is empty".to_owned() });
        }
        Ok(Some(Self { weight_map }))
    }

    /// The files it names, each once.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.weight_map.values().map(String::as_str).collect::<BTreeSet<_>>().into_iter()
    }

    /// Compares the index with the names of the files that exist and with those that could be read.
    pub(super) fn check(
        &self,
        names: &BTreeSet<String>,
        shards: &[Shard],
        problems: &mut Vec<CheckpointProblem>,
    ) {
        let missing: Vec<_> = self.files().filter(|file| !names.contains(*file)).map(str::to_owned).collect();
        if !missing.is_empty() {
            problems.push(CheckpointProblem::MissingShards { files: missing });
        }
        let shards: BTreeMap<_, _> = shards.iter().map(|shard| (shard.file_name.as_str(), shard)).collect();
        for (tensor, file) in &self.weight_map {
            let Some(shard) = shards.get(file.as_str()) else {
                continue;
            };
            if !shard.header.tensors.contains_key(tensor) {
                problems.push(CheckpointProblem::NotInShard { tensor: tensor.clone(), file: file.clone() });
            }
        }
        for (file, shard) in &shards {
            for tensor in shard.header.tensors.keys().filter(|tensor| !self.weight_map.contains_key(*tensor))
            {
                problems
                    .push(CheckpointProblem::NotInIndex { tensor: tensor.clone(), file: (*file).to_owned() });
            }
        }
    }
}

fn is_plain_name(file: &str) -> bool {
    !file.is_empty() && !file.starts_with('.') && !file.contains(['/', '\\', '\0'])
}
