//! Writes the output folder: under a temporary name beside it, renamed when it is complete, removed when it never is.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::error::ConvertError;
use super::plan::{OutputTensor, Plan, ShardPlan};

/// An output folder in the making.
#[derive(Debug)]
pub(super) struct OutputFolder {
    target: PathBuf,
    partial: PathBuf,
    finished: bool,
}

/// Refuses an output path that is taken: a file, or a folder that is not empty.
pub(super) fn check_target(target: &Path) -> Result<(), ConvertError> {
    match fs::metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link to nowhere would be replaced by the folder.
            if fs::symlink_metadata(target).is_ok() {
                return refuse(
                    target,
                    "is a link to a path that does not exist; remove it or choose another output",
                );
            }
            Ok(())
        }
        Err(error) => refuse(target, format!("cannot be looked at: {error}; choose another output folder")),
        Ok(metadata) if !metadata.is_dir() => refuse(target, "is a file; choose another output folder"),
        Ok(_) => match fs::read_dir(target).map(|mut entries| entries.next().is_some()) {
            Ok(false) => Ok(()),
            Ok(true) => refuse(target, "exists and is not empty; remove it or choose another output folder"),
            Err(error) => {
                refuse(target, format!("cannot be looked at: {error}; choose another output folder"))
            }
        },
    }
}

fn refuse<T>(target: &Path, rule: impl Into<String>) -> Result<T, ConvertError> {
    Err(ConvertError::Output { path: target.to_owned(), rule: rule.into() })
}

impl OutputFolder {
    /// Makes the temporary folder beside `target`.
    pub(super) fn create(target: &Path) -> Result<Self, ConvertError> {
        check_target(target)?;
        let Some(name) = target.file_name() else {
            return refuse(target, "does not end in a folder name; name the output folder itself");
        };
        let mut partial_name = name.to_owned();
        partial_name.push(format!(".{}.partial", std::process::id()));
        let partial = target.with_file_name(partial_name);
        // A bare name has the parent "", which is there already.
        let parent = partial.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Err(error) = parent.map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::create_dir(&partial))
        {
            return refuse(
                target,
                format!("cannot be made: {error}; choose an output folder that can be written"),
            );
        }
        Ok(Self { target: target.to_owned(), partial, finished: false })
    }

    /// Where files are written until the folder is complete.
    pub(super) fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes a small file.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ConvertError> {
        let path = self.partial.join(name);
        fs::write(&path, bytes).map_err(|cause| ConvertError::Write {
            path,
            action: "cannot be written",
            cause,
        })
    }

    /// Writes a JSON file.
    pub(super) fn write_json(&self, name: &str, value: &impl serde::Serialize) -> Result<(), ConvertError> {
        let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| ConvertError::Write {
            path: self.partial.join(name),
            action: "cannot be made",
            cause: error.into(),
        })?;
        bytes.push(b'\n');
        self.write(name, &bytes)
    }

    /// Gives the folder its name. An empty folder of that name is replaced.
    pub(super) fn finish(mut self) -> Result<(), ConvertError> {
        let failed = |cause| ConvertError::Write {
            path: self.target.clone(),
            action: "cannot be put in place",
            cause,
        };
        check_target(&self.target)?;
        match fs::remove_dir(&self.target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::rename(&self.partial, &self.target).map_err(failed)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: the error that led here matters more than one of the clean-up.
            _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// A shard file open for writing.
#[derive(Debug)]
pub(super) struct ShardWriter {
    path: PathBuf,
    file: File,
}

impl ShardWriter {
    /// Makes the file with its header and its full length.
    pub(super) fn create(folder: &Path, shard: &ShardPlan) -> Result<Self, ConvertError> {
        let path = folder.join(&shard.file_name);
        let open = || {
            let mut file = File::create_new(&path)?;
            file.write_all(&shard.header)?;
            file.set_len(shard.file_bytes)?;
            Ok(file)
        };
        match open() {
            Ok(file) => Ok(Self { path, file }),
            Err(cause) => Err(ConvertError::Write { path, action: "cannot be written", cause }),
        }
    }

    /// Writes rows of an output tensor, from row `first` on.
    pub(super) fn write_rows(
        &mut self,
        output: &OutputTensor,
        first: usize,
        bytes: &[u8],
    ) -> Result<(), ConvertError> {
        let start = output.start + first as u64 * output.row_bytes;
        let result = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.write_all(bytes));
        result.map_err(|cause| ConvertError::Write {
            path: self.path.clone(),
            action: "cannot be written",
            cause,
        })
    }

    /// Brings the file to the disk.
    pub(super) fn finish(self) -> Result<(), ConvertError> {
        let result = self.file.sync_all();
        result.map_err(|cause| ConvertError::Write { path: self.path, action: "cannot be written", cause })
    }
}

/// The index of a checkpoint of several shards.
pub(super) fn index(plan: &Plan) -> Value {
    let mut names: Vec<(&str, &str)> = plan
        .jobs
        .iter()
        .flat_map(|job| job.outputs.iter().map(move |output| (output.name.as_str(), job.shard)))
        .filter_map(|(name, shard)| plan.shards.get(shard).map(|shard| (name, shard.file_name.as_str())))
        .collect();
    names.sort_unstable();
    let map: Map<String, Value> =
        names.into_iter().map(|(name, file)| (name.to_owned(), json!(file))).collect();
    json!({"metadata": {"total_size": plan.total_bytes}, "weight_map": map})
}
