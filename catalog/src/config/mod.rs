//! `config.json` of a checkpoint: the raw object, its `model_type` and its quantization.
//!
//! The fields of an architecture are the runtime's to read from [`Config::raw`]; so are configurations nested under
//! `text_config` and the like.

mod canonical;
mod quantization;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use thiserror::Error;

use crate::files::{MAX_CONFIG_BYTES, read_regular};

pub use canonical::{VOLATILE_KEYS, canonical_form, canonical_sha256};
pub use quantization::{
    LayerQuantization, Quantization, QuantizationError, QuantizationMode, QuantizationSpec,
};

use crate::identity::sha256_hex;

/// Name of the file within a checkpoint folder.
pub const CONFIG_FILE: &str = "config.json";

/// The configuration of a checkpoint.
#[derive(Debug, Clone)]
pub struct Config {
    raw: Map<String, Value>,
    model_type: String,
    quantization: Option<Quantization>,
    sha256: String,
}

impl Config {
    /// Reads `config.json` of the folder `dir`.
    pub fn read(dir: &Path) -> Result<Self, ConfigError> {
        let path = dir.join(CONFIG_FILE);
        let bytes = read_regular(&path, MAX_CONFIG_BYTES).map_err(|source| unreadable(dir, &path, source))?;
        Self::parse(&path, &bytes)
    }

    /// Reads a configuration from memory; `path` is only for messages.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        let path = || path.to_owned();
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|source| ConfigError::NotJson { path: path(), detail: source.to_string() })?;
        let Value::Object(raw) = value else {
            return Err(ConfigError::NotAnObject { path: path(), found: kind(&value) });
        };
        let model_type = match raw.get("model_type") {
            Some(Value::String(model_type)) if !model_type.is_empty() => model_type.clone(),
            Some(other) => {
                return Err(ConfigError::BadModelType { path: path(), found: other.to_string() });
            }
            None => return Err(ConfigError::NoModelType { path: path() }),
        };
        let quantization = Quantization::of_config(&raw)
            .map_err(|source| ConfigError::Quantization { path: path(), source })?;
        Ok(Self { raw, model_type, quantization, sha256: sha256_hex(bytes) })
    }

    /// The whole object, in the order of the file.
    pub fn raw(&self) -> &Map<String, Value> {
        &self.raw
    }

    /// The `model_type`, never empty.
    pub fn model_type(&self) -> &str {
        &self.model_type
    }

    /// How the weights are quantized; nothing for a dense checkpoint.
    pub fn quantization(&self) -> Option<&Quantization> {
        self.quantization.as_ref()
    }

    /// SHA-256 of the file's bytes in lower-case hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

fn unreadable(dir: &Path, path: &Path, source: io::Error) -> ConfigError {
    match std::fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            ConfigError::NoFolder { path: dir.to_owned() }
        }
        Ok(metadata) if !metadata.is_dir() => ConfigError::NotAFolder { path: dir.to_owned() },
        _ if source.kind() == io::ErrorKind::NotFound => ConfigError::NoConfig { path: dir.to_owned() },
        _ => ConfigError::Io { path: path.to_owned(), source },
    }
}

/// What a JSON value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A `config.json` that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The checkpoint folder does not exist.
    #[error("{}: no such folder; give the folder that holds the checkpoint's {CONFIG_FILE}", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The path given for the folder is something else.
    #[error("{}: not a folder; give the folder that holds the checkpoint's {CONFIG_FILE}", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder has no `config.json`.
    #[error(
        "{}: no {CONFIG_FILE} in this folder, so it is not a checkpoint; give the folder that directly holds it, or get \
         the file",
        path.display()
    )]
    NoConfig {
        /// The folder.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{} cannot be read: {source}; see to its permissions or get it again", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not JSON.
    #[error("{} is not JSON: {detail}; get the file again", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Where and why.
        detail: String,
    },
    /// The file holds JSON, but no object.
    #[error("{} holds {found} where an object is needed; get the file again", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: &'static str,
    },
    /// The object has no `model_type`.
    #[error(
        "{} has no model_type, so the architecture is unknown; add the field, such as \"model_type\": \"llama\"",
        path.display()
    )]
    NoModelType {
        /// The file.
        path: PathBuf,
    },
    /// `model_type` is not a name.
    #[error("{} has the model_type {found}; it must be a string that is not empty; put the name of the architecture there", path.display())]
    BadModelType {
        /// The file.
        path: PathBuf,
        /// The value found.
        found: String,
    },
    /// The quantization block cannot be used.
    #[error("{}: {source}; repair the block or convert the checkpoint anew", path.display())]
    Quantization {
        /// The file.
        path: PathBuf,
        /// Why.
        source: QuantizationError,
    },
}
