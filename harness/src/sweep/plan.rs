//! Which checkpoints a sweep is about, in which order, and which of them need not be started.
//!
//! Every folder gets a place, also one that holds no checkpoint, and so does a link that leads nowhere: rows are folders.
//! Whether a checkpoint can be run is found out by running it, except where its files or its name alone forbid it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mlxcel_catalog::class::{CheckpointClass, ClassError, classify};
use mlxcel_catalog::folder::{CheckpointFolder, CheckpointProblem};
use mlxcel_reports::status::{Exclusion, Fail, Skip};

/// A folder and what is to be done with it.
#[derive(Debug)]
pub struct Place {
    /// The folder as it was named.
    pub path: PathBuf,
    /// Its name.
    pub model: String,
    /// What is to be done.
    pub action: Action,
    /// Whether the checkpoint takes images.
    pub takes_images: bool,
}

impl Place {
    /// The path as rows and plans hold it: bytes that are not UTF-8 as `\xNN`, so that two folders are never one.
    pub fn shown_path(&self) -> String {
        shown(self.path.as_os_str())
    }
}

/// What is to be done with a folder.
#[derive(Debug)]
pub enum Action {
    /// Measure it.
    Measure(Box<CheckpointFolder>),
    /// Record why not.
    Record(Exclusion, String),
}

/// What is wrong with a folder whose name is no text.
const NOT_UTF8: &str = "a name that is not UTF-8, under which nothing can be recorded; rename it";

/// A folder cannot be planned for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is nothing of that name.
    #[error("{} does not exist; name a checkpoint folder, or `all` for every folder of --models", path.display())]
    NoSuchFolder {
        /// The path.
        path: PathBuf,
    },
    /// It is a file.
    #[error("{} is not a folder; a checkpoint is a folder with config.json and *.safetensors", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// A folder cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder is no checkpoint.
    #[error("{} is not a checkpoint: it has no config.json; name the folder that has one{hint}", path.display())]
    NotACheckpoint {
        /// The path.
        path: PathBuf,
        /// A likelier command.
        hint: String,
    },
    /// Nothing can be recorded under the folder's name.
    #[error("{} has {NOT_UTF8}", shown(path.as_os_str()))]
    NameNotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// The checkpoint's files are wrong.
    #[error("{0}")]
    BadCheckpoint(String),
    /// A models folder without checkpoints.
    #[error(
        "none of the {folders} folders in {} holds a checkpoint (a config.json with *.safetensors beside it); \
         nothing to measure",
        path.display()
    )]
    NoCheckpoints {
        /// The models folder.
        path: PathBuf,
        /// How many folders it has.
        folders: usize,
    },
}

/// The plan for one folder, which must be a checkpoint.
///
/// # Errors
/// [`PlanError`], naming the path and the remedy.
pub fn single(path: &Path) -> Result<Place, PlanError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(PlanError::NoSuchFolder { path: path.to_owned() });
        }
        Err(source) => return Err(PlanError::Unreadable { path: path.to_owned(), source }),
        Ok(metadata) if !metadata.is_dir() => return Err(PlanError::NotAFolder { path: path.to_owned() }),
        Ok(_) => {}
    }
    if matches!(classify(path), Ok(CheckpointClass::NotACheckpoint)) {
        let holds_some = subfolders(path)
            .is_ok_and(|folders| folders.iter().any(|folder| folder.join("config.json").exists()));
        let hint = if holds_some {
            format!(", or sweep all of its folders: sweep all --models {}", path.display())
        } else {
            String::new()
        };
        return Err(PlanError::NotACheckpoint { path: path.to_owned(), hint });
    }
    if !has_text_name(path) {
        return Err(PlanError::NameNotUtf8 { path: path.to_owned() });
    }
    if let Ok(CheckpointClass::NotGenerative { .. }) = classify(path) {
        return Ok(place(path));
    }
    let folder = CheckpointFolder::open(path).map_err(|error| PlanError::BadCheckpoint(error.to_string()))?;
    Ok(Place {
        model: name_of(path),
        path: tidy(path),
        action: Action::Measure(Box::new(folder)),
        takes_images: takes_images(path),
    })
}

/// The plan for every folder of a models folder.
///
/// # Errors
/// [`PlanError`] when the folder cannot be read or holds no checkpoint at all.
pub fn all(models: &Path) -> Result<Vec<Place>, PlanError> {
    match fs::metadata(models) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(PlanError::NoSuchFolder { path: models.to_owned() });
        }
        Err(source) => return Err(PlanError::Unreadable { path: models.to_owned(), source }),
        Ok(metadata) if !metadata.is_dir() => return Err(PlanError::NotAFolder { path: models.to_owned() }),
        Ok(_) => {}
    }
    let folders =
        subfolders(models).map_err(|source| PlanError::Unreadable { path: models.to_owned(), source })?;
    let places: Vec<Place> = folders.iter().map(|path| place(path)).collect();
    if !places
        .iter()
        .any(|place| matches!(place.action, Action::Measure(_) | Action::Record(Exclusion::Fail(_), _)))
    {
        return Err(PlanError::NoCheckpoints { path: models.to_owned(), folders: places.len() });
    }
    Ok(places)
}

/// The plan for named folders, each of which is known to be a checkpoint.
pub fn listed(paths: &[PathBuf]) -> Vec<Place> {
    paths.iter().map(|path| place(path)).collect()
}

fn place(path: &Path) -> Place {
    Place { path: tidy(path), model: name_of(path), action: action(path), takes_images: takes_images(path) }
}

fn takes_images(path: &Path) -> bool {
    matches!(classify(path), Ok(CheckpointClass::Vision))
}

fn action(path: &Path) -> Action {
    if let Some(why) = dead_link(path) {
        return Action::Record(Skip::NotACheckpoint.into(), why);
    }
    match classify(path) {
        Ok(CheckpointClass::NotACheckpoint) => {
            Action::Record(Skip::NotACheckpoint.into(), "no config.json".to_owned())
        }
        _ if !has_text_name(path) => Action::Record(Fail::Load.into(), format!("the folder has {NOT_UTF8}")),
        Ok(CheckpointClass::MissingWeights) => Action::Record(
            Skip::MissingWeights.into(),
            format!("a config.json, but no readable *.safetensors{}", others(path)),
        ),
        Ok(CheckpointClass::NotGenerative { reason }) => Action::Record(Skip::NotGenerative.into(), reason),
        Ok(CheckpointClass::Text | CheckpointClass::Vision) => match CheckpointFolder::open(path) {
            Ok(folder) => Action::Measure(Box::new(folder)),
            Err(error) => {
                let incomplete = error.problems.iter().all(|problem| {
                    matches!(
                        problem,
                        CheckpointProblem::MissingShards { .. }
                            | CheckpointProblem::IncompleteSet { .. }
                            | CheckpointProblem::DanglingLink { .. }
                            | CheckpointProblem::NoWeights
                    )
                });
                let exclusion = if incomplete { Skip::MissingWeights.into() } else { Fail::Load.into() };
                Action::Record(exclusion, error.to_string())
            }
        },
        Err(error @ (ClassError::Config(_) | ClassError::Folder(_))) => {
            Action::Record(Fail::Load.into(), error.to_string())
        }
        Err(error) => Action::Record(Fail::Load.into(), error.to_string()),
    }
}

/// What else a folder holds that are weights, though of a form that is not read here.
fn others(path: &Path) -> String {
    let files =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| PathBuf::from(entry.file_name()));
    let mut endings: Vec<String> = files
        .filter_map(|file| file.extension().map(|ending| ending.to_string_lossy().to_lowercase()))
        .filter(|ending| ["gguf", "bin", "pt", "pth", "npz", "onnx"].contains(&ending.as_str()))
        .map(|ending| format!("*.{ending}"))
        .collect();
    endings.sort();
    endings.dedup();
    if endings.is_empty() {
        return String::new();
    }
    format!("; its {} are not read: convert them, for example with mlx_lm.convert", endings.join(" and "))
}

/// Why a link leads to nothing; `None` for what is no such link.
fn dead_link(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    let error = fs::metadata(path).err()?;
    let leads = match error.kind() {
        io::ErrorKind::NotFound => "which does not exist".to_owned(),
        // A circle has no kind of its own that is stable.
        _ => format!("which cannot be reached ({error})"),
    };
    Some(format!("a link to {}, {leads}; restore its target or remove the link", shown(target.as_os_str())))
}

/// The folders in a folder, links to folders included, in the order in which a shell lists `*/`: by name with
/// a slash after it, so that `x-4bit` comes before `x`. Hidden ones are left out, as there. Links that lead nowhere may have
/// been folders, and what cannot be looked at may be one: both are in the list.
fn subfolders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
        let is_folder = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata.is_dir(),
            Err(_) => entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink()),
        };
        if !hidden && is_folder {
            let mut key = entry.file_name().into_encoded_bytes();
            key.push(b'/');
            found.push((key, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The last part of the path, also of `.` and the like.
fn name_of(path: &Path) -> String {
    let named = path.file_name().map(ToOwned::to_owned);
    let resolved = || fs::canonicalize(path).ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    named.or_else(resolved).map_or_else(|| shown(path.as_os_str()), |name| shown(&name))
}

/// Text that tells names apart: bytes that are not UTF-8 as `\xNN`.
fn shown(name: &OsStr) -> String {
    name.as_bytes().utf8_chunks().fold(String::new(), |text, chunk| {
        format!("{text}{}{}", chunk.valid(), chunk.invalid().escape_ascii())
    })
}

/// Whether rows can be recorded under the folder's name. Those of folders above it do not matter.
fn has_text_name(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.to_str().is_some())
}

/// One spelling for one folder: no trailing or doubled slashes.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn folder(root: &Path, name: &str, config: Option<&str>) -> io::Result<PathBuf> {
        let path = root.join(name);
        fs::create_dir_all(&path)?;
        if let Some(config) = config {
            fs::write(path.join("config.json"), config)?;
        }
        Ok(path)
    }

    #[test]
    fn every_folder_has_a_place_in_the_order_of_the_shell() -> Outcome {
        let root = tempfile::tempdir()?;
        for name in ["x", "x-4bit", "a", ".hidden"] {
            folder(root.path(), name, Some("not json"))?;
        }
        fs::write(root.path().join("file"), "")?;
        let names: Vec<_> = all(root.path())?.into_iter().map(|place| place.model).collect();
        assert_eq!(names, ["a", "x-4bit", "x"]);
        Ok(())
    }

    #[test]
    fn a_link_that_leads_nowhere_or_in_a_circle_has_a_place_and_says_why() -> Outcome {
        let root = tempfile::tempdir()?;
        folder(root.path(), "a", Some("{"))?;
        for (target, name) in [("nowhere", "gone"), ("circle", "circle"), ("a", "whole")] {
            std::os::unix::fs::symlink(target, root.path().join(name))?;
        }
        let places = all(root.path())?;
        let names: Vec<&str> = places.iter().map(|place| place.model.as_str()).collect();
        assert_eq!(names, ["a", "circle", "gone", "whole"]);
        for (place, why) in [
            (&places[1], "a link to circle, which cannot be reached"),
            (&places[2], "a link to nowhere, which does not exist"),
        ] {
            let Action::Record(exclusion, detail) = &place.action else { return Err("measured".into()) };
            assert_eq!(exclusion.to_string(), "SKIP:not_a_checkpoint");
            assert!(detail.starts_with(why), "{detail}");
        }
        assert!(matches!(&places[3].action, Action::Record(Exclusion::Fail(_), _)));
        Ok(())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_not_utf8_is_a_fault_and_two_of_them_are_not_one() -> Outcome {
        let root = tempfile::tempdir()?;
        for name in [b"a\xff", b"a\xfe"] {
            let path = root.path().join(OsStr::from_bytes(name));
            fs::create_dir(&path)?;
            fs::write(path.join("config.json"), r#"{"model_type":"llama"}"#)?;
            assert!(matches!(single(&path), Err(PlanError::NameNotUtf8 { .. })));
        }
        let places = all(root.path())?;
        let names: Vec<&str> = places.iter().map(|place| place.model.as_str()).collect();
        assert_eq!(names, [r"a\xfe", r"a\xff"]);
        assert_ne!(places[0].shown_path(), places[1].shown_path());
        for place in &places {
            let Action::Record(exclusion, detail) = &place.action else { return Err("measured".into()) };
            assert_eq!(exclusion.to_string(), "FAIL:load");
            assert!(detail.contains("not UTF-8") && detail.contains("rename"), "{detail}");
        }
        Ok(())
    }

    #[test]
    fn folders_that_cannot_be_measured_say_why() -> Outcome {
        let root = tempfile::tempdir()?;
        folder(root.path(), "broken", Some("{"))?;
        folder(root.path(), "empty", None)?;
        folder(root.path(), "weightless", Some(r#"{"model_type":"llama"}"#))?;
        let tokens: Vec<_> = all(root.path())?
            .into_iter()
            .map(|place| match place.action {
                Action::Record(exclusion, detail) => {
                    assert!(!detail.is_empty());
                    exclusion.to_string()
                }
                Action::Measure(_) => "measure".to_owned(),
            })
            .collect();
        assert_eq!(tokens, ["FAIL:load", "SKIP:not_a_checkpoint", "SKIP:missing_weights"]);
        fs::write(root.path().join("weightless/model-Q4.gguf"), "GGUF")?;
        let Action::Record(_, detail) = action(&root.path().join("weightless")) else {
            return Err("measured".into());
        };
        assert!(detail.ends_with("no readable *.safetensors; its *.gguf are not read: convert them, for example with mlx_lm.convert"), "{detail}");
        Ok(())
    }

    #[test]
    fn a_models_folder_without_checkpoints_is_an_error() -> Outcome {
        let root = tempfile::tempdir()?;
        assert!(matches!(all(root.path()), Err(PlanError::NoCheckpoints { folders: 0, .. })));
        folder(root.path(), "empty", None)?;
        let message = all(root.path()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            message.contains("none of the 1 folders") && message.contains(&root.path().display().to_string()),
            "{message}"
        );
        Ok(())
    }

    #[test]
    fn a_folder_of_checkpoints_is_not_one_and_the_message_says_what_to_type() -> Outcome {
        let root = tempfile::tempdir()?;
        folder(root.path(), "x", Some("{}"))?;
        let message = single(root.path()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("sweep all --models"), "{message}");
        Ok(())
    }

    #[test]
    fn trailing_slashes_make_no_other_path() {
        assert_eq!(tidy(Path::new("./models//x/")), Path::new("./models/x"));
        assert_eq!(name_of(Path::new("models/x/")), "x");
    }
}
