//! What kind of checkpoint a folder holds, judged from its file names and `config.json` alone.
//!
//! | class              | sign                                                                                       |
//! |--------------------|--------------------------------------------------------------------------------------------|
//! | not a checkpoint   | no `config.json`                                                                           |
//! | missing weights    | no readable `*.safetensors` besides `adapter*.safetensors`; a link to nothing is not readable |
//! | not generative     | a sentence-transformers file; an architecture or `model_type` of the tables below          |
//! | vision             | generative, with a vision tower in the configuration                                       |
//! | text               | everything else                                                                            |
//!
//! The first sign that fits decides. Signs in the name of the folder are not looked at: names are the user's. A reranker
//! that is a language model with nothing but its name to tell so is therefore taken for text. Whether the weights are
//! complete is [`crate::folder`]'s to say.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

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
        /// The sign that it was told by.
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
    if let Some(file) = EMBEDDER_FILES.iter().find(|file| dir.join(file).exists()) {
        return Ok(CheckpointClass::NotGenerative {
            reason: format!("{file} marks a sentence-transformers model"),
        });
    }
    Ok(class_of_config(config.model_type(), config.raw()))
}

/// Files that sentence-transformers puts beside the weights of embedders and rerankers.
const EMBEDDER_FILES: &[&str] = &["config_sentence_transformers.json", "sentence_bert_config.json"];

/// Endings of `architectures` whose head is not a language model's.
const HEADS: &[&str] = &[
    "ForAudioClassification",
    "ForCTC",
    "ForImageClassification",
    "ForMaskedLM",
    "ForMultipleChoice",
    "ForObjectDetection",
    "ForQuestionAnswering",
    "ForRetrieval",
    "ForRewardModel",
    "ForSemanticSegmentation",
    "ForSequenceClassification",
    "ForTextEncoding",
    "ForTokenClassification",
];

/// Parts of `architectures` of late-interaction retrievers and of drafters, which only run beside a target model.
const PARTS: &[&str] =
    &["ColIdefics", "ColPali", "ColQwen", "DFlash", "DSpark", "Drafter", "Eagle", "Medusa", "MLPSpeculator"];

/// `model_type`s that never generate text by themselves.
const MODEL_TYPES: &[&str] = &[
    "albert",
    "bert",
    "camembert",
    "clip",
    "deberta",
    "deberta-v2",
    "dinov2",
    "distilbert",
    "eagle",
    "electra",
    "layoutlm",
    "layoutlmv3",
    "medusa",
    "mlp_speculator",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "roberta",
    "siglip",
    "siglip2",
    "vit",
    "wav2vec2",
    "xlm-roberta",
];

/// Keys of a vision tower's configuration.
const VISION_KEYS: &[&str] =
    &["img_processor", "mm_vision_tower", "vision_cfg", "vision_config", "vision_tower", "visual"];

fn class_of_config(model_type: &str, config: &Map<String, Value>) -> CheckpointClass {
    let not_generative = |reason| CheckpointClass::NotGenerative { reason };
    let architectures = config.get("architectures").and_then(Value::as_array).into_iter().flatten();
    for architecture in architectures.filter_map(Value::as_str) {
        if HEADS.iter().any(|head| architecture.ends_with(head))
            || PARTS.iter().any(|part| architecture.contains(part))
            || is_bare_encoder(architecture)
        {
            return not_generative(format!("architecture {architecture}"));
        }
    }
    if MODEL_TYPES.contains(&model_type) {
        return not_generative(format!("model_type {model_type}"));
    }
    if VISION_KEYS.iter().any(|key| config.get(*key).is_some_and(|value| !value.is_null())) {
        return CheckpointClass::Vision;
    }
    CheckpointClass::Text
}

/// `BertModel`, `Gemma3TextModel`: the layers without a head. `GPT2LMHeadModel` and the chat models named
/// `ChatGLMModel` or `InternVLChatModel` have one.
fn is_bare_encoder(architecture: &str) -> bool {
    architecture.ends_with("Model") && !architecture.contains("LMHead") && !architecture.contains("Chat")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{CheckpointClass, class_of_config};

    fn class(config: &serde_json::Value) -> CheckpointClass {
        let object = config.as_object().expect("OK because the tests pass objects");
        class_of_config(object["model_type"].as_str().expect("OK because the tests set it"), object)
    }

    #[test]
    fn language_models_are_text() {
        for config in [
            json!({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}),
            json!({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}),
            json!({"model_type": "chatglm", "architectures": ["ChatGLMModel"]}),
            json!({"model_type": "gemma3", "vision_config": null}),
            json!({"model_type": "qwen3"}),
        ] {
            assert_eq!(class(&config), CheckpointClass::Text, "{config}");
        }
    }

    #[test]
    fn embedders_rerankers_and_drafters_are_not_generative() {
        for config in [
            json!({"model_type": "bert"}),
            json!({"model_type": "gemma3_text", "architectures": ["Gemma3TextModel"]}),
            json!({"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"]}),
            json!({"model_type": "colqwen2", "architectures": ["ColQwen2"], "vision_config": {}}),
            json!({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]}),
            json!({"model_type": "clip", "vision_config": {}}),
        ] {
            assert_eq!(class(&config).name(), "not_generative", "{config}");
        }
    }

    #[test]
    fn a_vision_tower_makes_vision() {
        for key in super::VISION_KEYS {
            let config = json!({"model_type": "some_vl", "architectures": ["SomeForConditionalGeneration"], *key: {"d": 1}});
            assert_eq!(class(&config), CheckpointClass::Vision, "{config}");
        }
    }
}
