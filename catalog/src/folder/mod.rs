//! A checkpoint folder as a whole: its configuration, its weight files and their index, checked against each other.
//!
//! ## Which files are weights
//! - every `model*.safetensors` (MLX's convention) and every file that `model.safetensors.index.json` names;
//! - where there is neither, every `*.safetensors` except `adapter*.safetensors`, which belong to a fine-tuning.
//!
//! So a `consolidated.safetensors` or `adapters.safetensors` beside the weights is not read. Subfolders and names that
//! begin with a dot are never looked at. Links are followed: sizes and headers are those of the targets.
//!
//! What the tensors must be called and how they must be shaped is the runtime's to know.

mod index;
mod problem;
mod shard_name;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use index::INDEX_FILE;
pub use problem::{CheckpointError, CheckpointProblem};

use crate::config::{Config, ConfigError};
use crate::headers::{Header, TensorEntry, read_header, read_raw};
use crate::identity::{CanonicalPath, CheckpointId, ShardFacts};
use index::Index;

/// One weight file.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Name within the folder.
    pub file_name: String,
    /// Where it is; not resolved when it is a link.
    pub path: PathBuf,
    /// Its header.
    pub header: Header,
}

/// A checkpoint folder whose files fit together.
#[derive(Debug, Clone)]
pub struct CheckpointFolder {
    path: CanonicalPath,
    config: Config,
    shards: Vec<Shard>,
    tensors: BTreeMap<String, (usize, TensorEntry)>,
    /// Files that are not read as weights but count for the identity: name, size, SHA-256 of the header.
    bystanders: Vec<(String, u64, String)>,
}

impl CheckpointFolder {
    /// Reads the folder's configuration, index and headers. Everything wrong with them is collected into one error.
    pub fn open(dir: &Path) -> Result<Self, CheckpointError> {
        let fail = |problems| CheckpointError { path: dir.to_owned(), problems };
        let path = match resolve(dir) {
            Ok(path) => path,
            Err(problem) => return Err(fail(vec![problem])),
        };
        let mut problems = Vec::new();
        let config = Config::read(path.as_path()).map_err(|error| problems.push(error.into())).ok();
        let names = match list(path.as_path()) {
            Ok(names) => names,
            Err(problem) => {
                problems.push(problem);
                return Err(fail(problems));
            }
        };
        let index = Index::read(path.as_path()).map_err(|error| problems.push(error)).ok().flatten();
        let mut files = weight_files(&names, index.as_ref());
        if files.is_empty() && index.is_none() {
            problems.push(CheckpointProblem::NoWeights);
        }
        let shards = read_shards(&path, &files, &mut problems);
        if let Some(index) = &index {
            index.check(&names, &shards, &mut problems);
            // Missing ones among these are reported by now.
            files.extend(index.files().map(str::to_owned));
        }
        let missing = shard_name::missing_of_sets(files.iter().map(String::as_str));
        if !missing.is_empty() {
            problems.push(CheckpointProblem::IncompleteSet { files: missing });
        }
        let tensors = merge(&shards, &mut problems);
        match config {
            Some(config) if problems.is_empty() => {
                let bystanders = bystanders(&path, names.difference(&files));
                Ok(Self { path, config, shards, tensors, bystanders })
            }
            _ => Err(fail(problems)),
        }
    }

    /// The folder, resolved.
    pub fn path(&self) -> &CanonicalPath {
        &self.path
    }

    /// Its `config.json`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weight files, sorted by name.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// All tensors by name: the position of their file in [`Self::shards`] and their entry there.
    pub fn tensors(&self) -> &BTreeMap<String, (usize, TensorEntry)> {
        &self.tensors
    }

    /// Bytes of all tensors together, without headers.
    pub fn weight_bytes(&self) -> u64 {
        self.tensors.values().map(|(_, entry)| entry.byte_count()).sum()
    }

    /// Identity by `config.json` and the names and sizes of all `*.safetensors`, those included that are not read.
    pub fn id_of_files(&self) -> CheckpointId {
        CheckpointId::of_files(self.config.sha256(), &self.shard_facts())
    }

    /// Identity by `config.json`, the names and sizes of all `*.safetensors` and their headers.
    pub fn id_of_headers(&self) -> CheckpointId {
        CheckpointId::of_headers(self.config.sha256(), &self.shard_facts())
    }

    fn shard_facts(&self) -> Vec<ShardFacts<'_>> {
        let shards = self.shards.iter().map(|shard| ShardFacts {
            file_name: &shard.file_name,
            file_bytes: shard.header.file_bytes,
            content_sha256: &shard.header.sha256,
        });
        let bystanders = self.bystanders.iter().map(|(file_name, file_bytes, content_sha256)| ShardFacts {
            file_name,
            file_bytes: *file_bytes,
            content_sha256,
        });
        shards.chain(bystanders).collect()
    }
}

/// Facts of files that are not weights. One that cannot be read counts as an empty one: it makes the folder differ from
/// one that lacks it, and harms no measurement.
fn bystanders<'a>(
    dir: &CanonicalPath,
    names: impl Iterator<Item = &'a String>,
) -> Vec<(String, u64, String)> {
    let facts = |name: &String| {
        let raw = read_raw(&dir.as_path().join(name)).ok();
        let (bytes, sha256) = raw.map(|raw| (raw.file_bytes(), raw.sha256())).unwrap_or_default();
        (name.clone(), bytes, sha256)
    };
    names.map(facts).collect()
}

fn resolve(dir: &Path) -> Result<CanonicalPath, CheckpointProblem> {
    let path = CanonicalPath::resolve(dir).map_err(|error| match error.source.kind() {
        std::io::ErrorKind::NotFound => ConfigError::NoFolder { path: dir.to_owned() }.into(),
        _ => CheckpointProblem::Io { path: dir.to_owned(), source: error.source },
    })?;
    if !path.as_path().is_dir() {
        return Err(ConfigError::NotAFolder { path: dir.to_owned() }.into());
    }
    Ok(path)
}

/// Names of all `*.safetensors` of the folder, hidden ones left out.
pub(crate) fn list(dir: &Path) -> Result<BTreeSet<String>, CheckpointProblem> {
    let io = |source| CheckpointProblem::Io { path: dir.to_owned(), source };
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let Some(text) = name.to_str() else {
            if Path::new(&name).extension().is_some_and(|extension| extension == "safetensors") {
                return Err(CheckpointProblem::NameNotUtf8 { file: name.to_string_lossy().into_owned() });
            }
            continue;
        };
        if text.ends_with(".safetensors") && !text.starts_with('.') {
            names.insert(text.to_owned());
        }
    }
    Ok(names)
}

/// Whether the file belongs to a fine-tuning rather than to the checkpoint.
pub(crate) fn is_adapter_file(name: &str) -> bool {
    name.starts_with("adapter")
}

fn is_model_file(name: &str) -> bool {
    name.starts_with("model")
}

/// The files of `names` that hold weights; the module's documentation has the rule.
fn weight_files(names: &BTreeSet<String>, index: Option<&Index>) -> BTreeSet<String> {
    let indexed: BTreeSet<_> = index.into_iter().flat_map(Index::files).collect();
    let chosen: BTreeSet<_> =
        names.iter().filter(|name| is_model_file(name) || indexed.contains(name.as_str())).cloned().collect();
    if chosen.is_empty() && indexed.is_empty() {
        return names.iter().filter(|name| !is_adapter_file(name)).cloned().collect();
    }
    chosen
}

/// Reads the headers of those files that can be read.
fn read_shards(
    dir: &CanonicalPath,
    files: &BTreeSet<String>,
    problems: &mut Vec<CheckpointProblem>,
) -> Vec<Shard> {
    let mut shards = Vec::new();
    for file_name in files {
        let path = dir.as_path().join(file_name);
        match read_header(&path) {
            Ok(header) => shards.push(Shard { file_name: file_name.clone(), path, header }),
            Err(error) => problems.push(match std::fs::read_link(&path) {
                Ok(target) if !path.exists() => CheckpointProblem::DanglingLink { path, target },
                _ => error.into(),
            }),
        }
    }
    shards
}

/// All tensors of all shards under one roof.
fn merge(shards: &[Shard], problems: &mut Vec<CheckpointProblem>) -> BTreeMap<String, (usize, TensorEntry)> {
    let mut tensors: BTreeMap<String, (usize, TensorEntry)> = BTreeMap::new();
    let mut duplicates: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (position, shard) in shards.iter().enumerate() {
        for (name, entry) in &shard.header.tensors {
            if let Some((first, _)) = tensors.get(name) {
                let first = shards.get(*first).map(|shard| shard.file_name.clone());
                duplicates
                    .entry(name)
                    .or_insert_with(|| first.into_iter().collect())
                    .push(shard.file_name.clone());
            } else {
                tensors.insert(name.clone(), (position, entry.clone()));
            }
        }
    }
    problems.extend(
        duplicates
            .into_iter()
            .map(|(tensor, files)| CheckpointProblem::DuplicateTensor { tensor: tensor.to_owned(), files }),
    );
    if !shards.is_empty() && tensors.is_empty() {
        problems.push(CheckpointProblem::NoTensors);
    }
    tensors
}
