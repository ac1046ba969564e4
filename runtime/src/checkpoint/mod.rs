//! From a checkpoint folder to weights in memory: errors, typed configs, and the strict pairing of tensors to layers.

mod weights;

pub(crate) use weights::Weights;
pub use weights::{TensorProblem, TensorProblems};

use crate::device::DeviceError;
use crate::kernels::setting::SettingError;
use mlx_rs::error::Exception;
use mlxcel_catalog::config::CONFIG_FILE;
use mlxcel_catalog::folder::{CheckpointError, CheckpointFolder};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::PathBuf;

/// A field of `config.json` that the runtime cannot work with.
#[derive(Debug, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct ConfigError {
    /// The field's name.
    pub field: String,
    /// What is wrong with it, as the rest of a sentence.
    pub problem: String,
}

impl ConfigError {
    pub(crate) fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// Why a checkpoint cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder's files are missing, damaged or contradict each other.
    #[error(transparent)]
    Folder(#[from] CheckpointError),
    /// The config lacks a field or has one that does not fit.
    #[error("{}: {source}", path.display())]
    Config {
        /// The config file.
        path: PathBuf,
        /// The field and the rule it breaks.
        source: ConfigError,
    },
    /// The environment asks for kernels that there are not.
    #[error(transparent)]
    Kernels(#[from] SettingError),
    /// The architecture is not one of those built in.
    #[error("{}: the model type `{model_type}` is not supported; known are {}", path.display(), known.join(", "))]
    UnknownModelType {
        /// The config file.
        path: PathBuf,
        /// What the config asks for.
        model_type: String,
        /// Every model type that would load.
        known: Vec<&'static str>,
    },
    /// The tensors are not those that the config calls for.
    #[error("{}: {problems}", path.display())]
    Tensors {
        /// The checkpoint folder.
        path: PathBuf,
        /// All of them.
        problems: TensorProblems,
    },
    /// There is no device to load it onto.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// MLX could not read the weights, most often for lack of memory.
    #[error("{}: MLX could not load the weights: {source}", path.display())]
    Mlx {
        /// The checkpoint folder or file.
        path: PathBuf,
        /// MLX's own words.
        source: Exception,
    },
}

impl LoadError {
    pub(crate) fn config(folder: &CheckpointFolder, source: ConfigError) -> Self {
        Self::Config { path: folder.path().as_path().join(CONFIG_FILE), source }
    }
}

/// Reads the fields of an architecture's config.
pub(crate) fn parse_config<C: DeserializeOwned>(folder: &CheckpointFolder) -> Result<C, LoadError> {
    let raw: serde_json::Map<String, Value> = folder
        .config()
        .raw()
        .iter()
        // A null field is an absent one.
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    serde_json::from_value(Value::Object(raw)).map_err(|error| {
        let model_type = folder.config().model_type();
        LoadError::config(folder, ConfigError::field(model_type, format!("config does not parse: {error}")))
    })
}

/// Checks that a size from the config is at least 1 and at most what MLX can index.
pub(crate) fn size(field: &str, value: u64) -> Result<i32, ConfigError> {
    i32::try_from(value).ok().filter(|size| *size > 0).ok_or_else(|| {
        ConfigError::field(field, format!("is {value}; it must be between 1 and {}", i32::MAX))
    })
}
