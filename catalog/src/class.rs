//! What kind of checkpoint a folder holds, judged from its file names and `config.json` alone.
//!
//! | class              | sign                                                                                       |
//! |--------------------|--------------------------------------------------------------------------------------------|
//! | not a checkpoint   | no `config.json`                                                                           |
//! | missing weights    | no readable `*.safetensors` besides `adapter*.safetensors`; a link to nothing is not readable |
//! | not generative     | an embedding, reranker, drafter, speech, layout or other model by [`crate::architecture`]  |
//! | vision             | a vision-language model by the same                                                        |
//! | text               | everything else                                                                            |
//!
//! The first sign that fits decides. Signs in the name of the folder are not looked at: names are the user's. Whether the
//! weights are complete is [`crate::folder`]'s to say.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::architecture::{ArchitectureClass, architecture};
use crate::config::{Config, ConfigError};
use crate::folder;

/// The kind of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum CheckpointClass {
    /// No `config.json`.
    NotACheckpoint,
    /// A configuration without weights.
    MissingWeights,
    /// A model that does not generate text: an embedder, reranker, classifier, drafter and the like.
    NotGenerative {
        /// What it is instead, and the sign that it was told by.
        reason: String,
    },
    /// Generates text from text.
    Text,
    /// Generates text from text and images.
    Vision,
}

impl CheckpointClass {
    /// The class in one word, as result files spell it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotACheckpoint => "not_a_checkpoint",
            Self::MissingWeights => "missing_weights",
            Self::NotGenerative { .. } => "not_generative",
            Self::Text => "text",
            Self::Vision => "vision",
        }
    }
}

impl fmt::Display for CheckpointClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A folder that cannot be judged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClassError {
    /// The folder does not exist, or its configuration is broken.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder cannot be listed.
    #[error(transparent)]
    Folder(#[from] folder::CheckpointProblem),
}

/// Judges the folder `dir`.
pub fn classify(dir: &Path) -> Result<CheckpointClass, ClassError> {
    let config = match Config::read(dir) {
        Ok(config) => config,
        Err(ConfigError::NoConfig { .. }) => return Ok(CheckpointClass::NotACheckpoint),
        Err(error) => return Err(error.into()),
    };
    let has_weights = folder::list(dir)?.iter().any(|name| {
        !folder::is_adapter_file(name) && std::fs::metadata(dir.join(name)).is_ok_and(|file| file.is_file())
    });
    if !has_weights {
        return Ok(CheckpointClass::MissingWeights);
    }
    Ok(match architecture(dir, &config) {
        (ArchitectureClass::TextGeneration, _) => CheckpointClass::Text,
        (ArchitectureClass::VisionLanguage, _) => CheckpointClass::Vision,
        (class, sign) => CheckpointClass::NotGenerative { reason: format!("{class}: {sign}") },
    })
}
