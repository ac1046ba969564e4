//! The cache folder of the default models: where it is, one process at a time, folders whole or absent.

#![cfg_attr(not(feature = "runtime"), expect(dead_code, reason = "only used with the runtime"))]

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

use crate::text::complain;

/// In every folder that was made here: from what, and by which recipe.
const RECIPE_FILE: &str = "mlxcel_recipe.txt";
const REMEDY: &str = "set MLXCEL_CACHE_DIR to a folder that can be written";

/// The cache folder.
#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
}

/// Held while the cache is changed.
#[derive(Debug)]
pub(super) struct CacheLock(#[expect(dead_code, reason = "closing the file is what releases the lock")] File);

impl Cache {
    /// `MLXCEL_CACHE_DIR`, else the user's cache folder.
    pub(super) fn open() -> anyhow::Result<Self> {
        Self::at(
            cache_root(|name| env::var_os(name))
                .ok_or_else(|| anyhow!("there is no cache folder: {REMEDY}"))?,
        )
    }

    fn at(root: PathBuf) -> anyhow::Result<Self> {
        let cache = Self { root };
        for folder in [cache.models(), cache.downloads()] {
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make the cache folder {}; {REMEDY}", folder.display()))?;
        }
        Ok(cache)
    }

    fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Where downloads are kept.
    pub(super) fn downloads(&self) -> PathBuf {
        self.root.join("downloads")
    }

    /// Waits until no other process changes the cache.
    pub(super) fn lock(&self, interrupted: &dyn Fn() -> bool) -> anyhow::Result<CacheLock> {
        let path = self.models().join(".lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}; {REMEDY}", path.display()))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(CacheLock(file)),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
                Err(TryLockError::WouldBlock) if interrupted() => bail!("interrupted"),
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        complain(&format!(
                            "waiting for another process that makes the default models ({})",
                            path.display()
                        ));
                        told = true;
                    }
                    thread::sleep(Duration::from_millis(200));
                }
            }
        }
    }

    /// Where a model of this name is, or will be.
    pub(super) fn model(&self, name: &str) -> PathBuf {
        self.models().join(name)
    }

    /// The model of this name, when it is there and was made by this recipe.
    pub(super) fn made(&self, name: &str, recipe: &str) -> Option<PathBuf> {
        let folder = self.model(name);
        fs::read_to_string(folder.join(RECIPE_FILE)).is_ok_and(|text| text == recipe).then_some(folder)
    }

    /// Makes a model, unless it is there: `make` fills a new folder, which gets its name when it is whole.
    pub(super) fn make(
        &self,
        name: &str,
        recipe: &str,
        make: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        if let Some(folder) = self.made(name, recipe) {
            return Ok(folder);
        }
        let (folder, unfinished) = (self.model(name), self.models().join(format!(".{name}.unfinished")));
        remove(&unfinished)?;
        let outcome = make(&unfinished).and_then(|()| {
            fs::write(unfinished.join(RECIPE_FILE), recipe)
                .with_context(|| format!("cannot write into {}", unfinished.display()))?;
            remove(&folder)?;
            fs::rename(&unfinished, &folder)
                .with_context(|| format!("cannot rename {}", unfinished.display()))
        });
        if outcome.is_err() {
            let _ = fs::remove_dir_all(&unfinished);
        }
        outcome.map(|()| folder)
    }

    /// Makes another name for a model: a folder of links to its files.
    pub(super) fn alias(&self, name: &str, of: &Path, recipe: &str) -> anyhow::Result<PathBuf> {
        self.make(name, recipe, |folder| {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            for entry in fs::read_dir(of).with_context(|| format!("cannot read {}", of.display()))? {
                let file = entry.with_context(|| format!("cannot read {}", of.display()))?.file_name();
                if file != RECIPE_FILE {
                    // Relative, so that the cache can be moved.
                    let target = Path::new("..").join(of.file_name().unwrap_or_default()).join(&file);
                    symlink(&target, folder.join(&file))
                        .with_context(|| format!("cannot link into {}", folder.display()))?;
                }
            }
            Ok(())
        })
    }
}

fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("MLXCEL_CACHE_DIR")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("mlxcel")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/mlxcel")))
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}; remove it by hand", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_model(folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        Ok(fs::write(folder.join("config.json"), "{}")?)
    }

    #[test]
    fn the_project_variable_counts_before_the_system_ones() {
        let all = |name: &str| match name {
            "MLXCEL_CACHE_DIR" => Some(OsString::from("/a")),
            "XDG_CACHE_HOME" => Some(OsString::from("/b")),
            _ => Some(OsString::from("/c")),
        };
        assert_eq!(cache_root(all), Some(PathBuf::from("/a")));
        assert_eq!(
            cache_root(|name| all(name).filter(|_| name != "MLXCEL_CACHE_DIR")),
            Some(PathBuf::from("/b/mlxcel"))
        );
        assert_eq!(
            cache_root(|name| all(name).filter(|_| name == "HOME")),
            Some(PathBuf::from("/c/.cache/mlxcel"))
        );
        assert_eq!(cache_root(|_| None), None);
    }

    #[test]
    fn a_model_is_made_once_and_again_for_another_recipe() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let cache = Cache::at(root.path().join("cache"))?;
        let folder = cache.make("m", "one", write_model)?;
        assert!(folder.join("config.json").exists());
        cache.make("m", "one", |_| bail!("made twice"))?;
        assert!(cache.make("m", "two", |_| bail!("asked to")).is_err());
        Ok(())
    }

    #[test]
    fn what_an_older_program_made_under_another_name_is_neither_taken_nor_touched() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let cache = Cache::at(root.path().to_owned())?;
        let old = cache.make("m-4bit", "m-4bit, recipe 2", write_model)?;
        fs::write(old.join("config.json"), "old")?;
        assert!(cache.made("m-4bit-f16", "m-4bit-f16, recipe 2").is_none());
        let new = cache.make("m-4bit-f16", "m-4bit-f16, recipe 2", write_model)?;
        cache.alias("n", &new, "alias")?;
        // Even a folder that was given the new name by hand is made anew.
        fs::remove_dir_all(&new)?;
        fs::rename(&old, &new)?;
        assert!(cache.made("m-4bit-f16", "m-4bit-f16, recipe 2").is_none());
        cache.make("m-4bit-f16", "m-4bit-f16, recipe 2", write_model)?;
        assert_eq!(fs::read_to_string(new.join("config.json"))?, "{}");
        Ok(())
    }

    #[test]
    fn a_model_that_fails_to_be_made_leaves_the_old_one_and_no_rest() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let cache = Cache::at(root.path().to_owned())?;
        cache.make("m", "one", write_model)?;
        let failed = cache.make("m", "two", |folder| {
            write_model(folder)?;
            bail!("disk full")
        });
        assert!(failed.is_err());
        assert!(cache.made("m", "one").is_some());
        let names: Vec<_> =
            fs::read_dir(cache.models())?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        assert_eq!(names, ["m"]);
        Ok(())
    }

    #[test]
    fn an_alias_holds_links_to_the_same_files() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let cache = Cache::at(root.path().to_owned())?;
        let model = cache.make("m", "one", write_model)?;
        let alias = cache.alias("n", &model, "alias")?;
        let file = alias.join("config.json");
        assert!(fs::symlink_metadata(&file)?.is_symlink());
        assert_eq!(fs::canonicalize(file)?, fs::canonicalize(model.join("config.json"))?);
        Ok(())
    }

    #[test]
    fn a_second_process_waits_for_the_lock() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let cache = Cache::at(root.path().to_owned())?;
        let lock = cache.lock(&|| false)?;
        assert!(cache.lock(&|| true).is_err());
        drop(lock);
        cache.lock(&|| false)?;
        Ok(())
    }
}
