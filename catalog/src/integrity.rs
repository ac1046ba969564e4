//! Whether the folders on a disk hold what they say: every fault one line that names the file, the rule and the remedy.
//!
//! A folder with neither a `config.json` nor weights is no checkpoint and so no faulty one; it is listed all the same.
//! Whether the tokenizer loads is asked of whoever calls, since loading one is the runtime's part.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::architecture::{ArchitectureClass, architecture};
use crate::config::{CONFIG_FILE, Config, ConfigError};
use crate::files::{MAX_CONFIG_BYTES, read_regular};
use crate::folder::{self, CheckpointFolder, CheckpointProblem};
use crate::headers::{HeaderError, HeaderFault, read_header};
use crate::identity::in_two_threads;
use crate::json::UniqueValue;
use crate::listing::Found;

/// Loads a folder's tokenizer; what is wrong with it, with the remedy, if anything is.
pub type TokenizerCheck<'a> = &'a (dyn Fn(&Path) -> Option<String> + Sync);

/// One thing wrong with a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The rule that is broken.
    pub rule: &'static str,
    /// The thing, what is wrong with it and the remedy, on one line.
    pub message: String,
}

/// What was found out about a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FolderReport {
    /// What it is called.
    pub name: String,
    /// Where it is.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Whether it has a `config.json` or weights at all.
    pub is_checkpoint: bool,
    /// What the model does, where the configuration can be read.
    pub class: Option<ArchitectureClass>,
    /// Number of `*.safetensors` files.
    pub shards: usize,
    /// Bytes of the `*.safetensors` files, links followed.
    pub weight_bytes: u64,
    /// Bytes that all files of the folder take on the disk, links followed, each file once.
    pub disk_bytes: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// Every file with its bytes on the disk, so that folders can be added up.
    #[serde(skip)]
    pub disk_files: BTreeMap<(u64, u64), u64>,
}

/// A path need not be UTF-8, JSON must.
fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Bytes on the disk of all folders together, each file once.
pub fn disk_bytes(reports: &[FolderReport]) -> u64 {
    let files: BTreeMap<_, _> = reports.iter().flat_map(|report| &report.disk_files).collect();
    files.into_values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// Checks folders, two at a time; the reports are in their order.
pub fn check_all(folders: &[Found], tokenizer: TokenizerCheck<'_>) -> Vec<FolderReport> {
    in_two_threads(folders, |found| check(found, tokenizer))
}

/// Checks one folder.
pub fn check(found: &Found, tokenizer: TokenizerCheck<'_>) -> FolderReport {
    let dir = found.path.as_path();
    let mut faults = Vec::new();
    let names = folder::list(dir).unwrap_or_default();
    let has_config = fs::symlink_metadata(dir.join(CONFIG_FILE)).is_ok();
    let weight_bytes =
        names.iter().filter_map(|name| fs::metadata(dir.join(name)).ok()).map(|file| file.len());
    let disk_files = disk_files(dir);
    let mut report = FolderReport {
        name: found.name.clone(),
        path: found.path.clone(),
        is_checkpoint: has_config || !names.is_empty() || fs::read_dir(dir).is_err(),
        class: None,
        shards: names.len(),
        weight_bytes: weight_bytes.fold(0, u64::saturating_add),
        disk_bytes: disk_files.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
        faults: Vec::new(),
        disk_files,
    };
    if !report.is_checkpoint {
        return report;
    }
    let mut read: BTreeSet<String> = BTreeSet::new();
    match CheckpointFolder::open(dir) {
        Ok(opened) => read.extend(opened.shards().iter().map(|shard| shard.file_name.clone())),
        Err(error) => {
            read.extend(error.problems.iter().filter_map(named_file));
            faults.extend(folded(error.problems));
        }
    }
    faults.extend(other_files(dir, names.iter().filter(|name| !read.contains(*name)), &faults));
    faults.extend(key_given_twice(dir));
    if let Ok(config) = Config::read(dir) {
        let (class, _) = architecture(dir, &config);
        report.class = Some(class);
        if class.generates_text()
            && let Some(message) = tokenizer(dir)
        {
            faults.push(Fault { rule: "tokenizer", message: one_line(&message) });
        }
    }
    report.faults = faults;
    report
}

/// Faults of the files that are not read as weights; weights of a folder that could not be opened are read again, and what
/// is known of them is left out.
fn other_files<'a>(dir: &Path, names: impl Iterator<Item = &'a String>, known: &[Fault]) -> Vec<Fault> {
    let fault = |name: &String| {
        let path = dir.join(name);
        let problem = match read_header(&path) {
            Ok(_) => return None,
            Err(error) => match fs::read_link(&path) {
                Ok(target) if !path.exists() => CheckpointProblem::DanglingLink { path, target },
                _ => CheckpointProblem::Header(error),
            },
        };
        let fault = Fault { rule: rule(&problem), message: one_line(&problem.to_string()) };
        (!known.contains(&fault)).then_some(fault)
    };
    names.filter_map(fault).collect()
}

fn key_given_twice(dir: &Path) -> Option<Fault> {
    let path = dir.join(CONFIG_FILE);
    let bytes = read_regular(&path, MAX_CONFIG_BYTES).ok()?;
    // What is no JSON at all has been told by then.
    serde_json::from_slice::<serde_json::Value>(&bytes).ok()?;
    let error = serde_json::from_slice::<UniqueValue>(&bytes).err()?;
    let message = format!(
        "{}: {error}, so what it says depends on who reads it; remove one of the two",
        path.display()
    );
    Some(Fault { rule: "config_duplicate_key", message: one_line(&message) })
}

fn named_file(problem: &CheckpointProblem) -> Option<String> {
    let path = match problem {
        CheckpointProblem::Header(error) => &error.path,
        CheckpointProblem::DanglingLink { path, .. } => path,
        _ => return None,
    };
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// How many problems of one kind are written out in full.
const WRITTEN_OUT: usize = 3;

/// The problems as faults. A stale index breaks its rule once for every tensor, so the later ones are only counted.
fn folded(problems: Vec<CheckpointProblem>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for problem in problems {
        let rule = rule(&problem);
        let is_per_tensor = matches!(
            problem,
            CheckpointProblem::NotInShard { .. }
                | CheckpointProblem::NotInIndex { .. }
                | CheckpointProblem::DuplicateTensor { .. }
        );
        let count = counts.entry(rule).or_default();
        if is_per_tensor {
            *count += 1;
        }
        if *count <= WRITTEN_OUT {
            faults.push(Fault { rule, message: one_line(&problem.to_string()) });
        }
    }
    for (rule, count) in counts.into_iter().filter(|(_, count)| *count > WRITTEN_OUT) {
        let message =
            format!("and {} more tensors like the last; the remedy is the same", count - WRITTEN_OUT);
        let last = faults.iter().rposition(|fault| fault.rule == rule).unwrap_or_default();
        faults.insert((last + 1).min(faults.len()), Fault { rule, message });
    }
    faults
}

fn rule(problem: &CheckpointProblem) -> &'static str {
    match problem {
        CheckpointProblem::Config(error) => match error {
            ConfigError::NoFolder { .. } | ConfigError::NotAFolder { .. } => "folder",
            ConfigError::NoConfig { .. } => "config_missing",
            ConfigError::Quantization { .. } => "config_quantization",
            _ => "config",
        },
        CheckpointProblem::Header(HeaderError { fault, .. }) => match fault {
            HeaderFault::Io(_) | HeaderFault::NotAFile => "shard_unreadable",
            HeaderFault::TooShort { .. }
            | HeaderFault::HeaderBeyondFile { .. }
            | HeaderFault::Truncated { .. } => "shard_truncated",
            HeaderFault::TrailingBytes { .. } => "shard_length",
            HeaderFault::Overlap { .. } => "shard_overlap",
            HeaderFault::Hole { .. } => "shard_hole",
            HeaderFault::WrongSpan { .. } => "shard_span",
            _ => "shard_header",
        },
        CheckpointProblem::NameNotUtf8 { .. } => "name",
        CheckpointProblem::DanglingLink { .. } => "shard_dangling_link",
        CheckpointProblem::BadIndex { .. } => "index",
        CheckpointProblem::MissingShards { .. } => "index_shard_missing",
        CheckpointProblem::NotInShard { .. } => "index_tensor_missing",
        CheckpointProblem::NotInIndex { .. } => "index_tensor_unlisted",
        CheckpointProblem::IncompleteSet { .. } => "shard_set_incomplete",
        CheckpointProblem::DuplicateTensor { .. } => "tensor_twice",
        CheckpointProblem::NoWeights => "weights_missing",
        CheckpointProblem::NoTensors => "tensors_missing",
        CheckpointProblem::Io { .. } => "unreadable",
    }
}

/// Files and their bytes on the disk, by device and number.
fn disk_files(dir: &Path) -> BTreeMap<(u64, u64), u64> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::metadata(entry.path()).ok())
        .filter(fs::Metadata::is_file)
        // POSIX counts in units of 512 bytes, whatever the blocks of the file system are.
        .map(|file| ((file.dev(), file.ino()), file.blocks().saturating_mul(512)))
        .collect()
}

/// Names from files may hold line breaks and control characters, which would forge lines of the listing.
fn one_line(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let escape = character.is_control().then(|| character.escape_default());
            let plain = if escape.is_some() { None } else { Some(character) };
            escape.into_iter().flatten().chain(plain)
        })
        .collect()
}
