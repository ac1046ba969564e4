//! What an architecture is for, judged from `config.json` and the files beside it, never from a folder's name.
//!
//! The first sign that fits decides, in this order: files of sentence-transformers, the task that the model card names, parts
//! of drafters, heads named in `architectures`, the `model_type`, a vision tower. What shows no sign generates text. Embedders
//! and rerankers that are language models by their configuration are told by the first two; one with nothing but its name to
//! tell so is taken for text generation.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::Config;
use crate::files::{MAX_CONFIG_BYTES, read_regular};

/// What a model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ArchitectureClass {
    /// Generates text from text.
    TextGeneration,
    /// Generates text from text and images.
    VisionLanguage,
    /// Turns text or images into vectors.
    Embedding,
    /// Scores how well texts fit a question.
    Reranker,
    /// Guesses tokens ahead for a target model, and runs only beside it.
    Drafter,
    /// Recognizes or makes speech and sound.
    Speech,
    /// Finds the parts of a page.
    Layout,
    /// Something else that generates no text: a classifier, an image encoder.
    Other,
}

impl ArchitectureClass {
    /// The class in words, as the catalog spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TextGeneration => "text_generation",
            Self::VisionLanguage => "vision_language",
            Self::Embedding => "embedding",
            Self::Reranker => "reranker",
            Self::Drafter => "drafter",
            Self::Speech => "speech",
            Self::Layout => "layout",
            Self::Other => "other",
        }
    }

    /// Every class.
    pub const ALL: &[Self] = &[
        Self::TextGeneration,
        Self::VisionLanguage,
        Self::Embedding,
        Self::Reranker,
        Self::Drafter,
        Self::Speech,
        Self::Layout,
        Self::Other,
    ];

    /// The class spelt so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|class| class.name() == name)
    }

    /// Whether a row of a generation benchmark can be about it.
    pub const fn generates_text(self) -> bool {
        matches!(self, Self::TextGeneration | Self::VisionLanguage)
    }
}

impl fmt::Display for ArchitectureClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The class of a folder with this configuration, and the sign that it was told by.
pub fn architecture(dir: &Path, config: &Config) -> (ArchitectureClass, String) {
    if let Some(file) = SENTENCE_TRANSFORMERS.iter().find(|file| dir.join(file).exists()) {
        let class =
            if is_cross_encoder(dir) { ArchitectureClass::Reranker } else { ArchitectureClass::Embedding };
        return (class, format!("{file} marks a sentence-transformers model"));
    }
    if let Some(task) = task_of_card(dir)
        && let Some((_, class)) = TASKS.iter().find(|(name, _)| *name == task)
    {
        return (*class, format!("pipeline_tag {task} of README.md"));
    }
    of_config(config.model_type(), config.raw())
}

/// The card of a model.
const CARD: &str = "README.md";
/// Tasks of model cards in which no text is generated.
const TASKS: &[(&str, ArchitectureClass)] = &[
    ("feature-extraction", ArchitectureClass::Embedding),
    ("sentence-similarity", ArchitectureClass::Embedding),
    ("text-ranking", ArchitectureClass::Reranker),
];

/// The `pipeline_tag` in the block of metadata that a model card begins with.
fn task_of_card(dir: &Path) -> Option<String> {
    let card = read_regular(&dir.join(CARD), MAX_CONFIG_BYTES).ok()?;
    let card = String::from_utf8_lossy(&card);
    let mut lines = card.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let tag = lines
        .take_while(|line| line.trim_end() != "---")
        .find_map(|line| line.strip_prefix("pipeline_tag:"))?;
    Some(tag.trim().trim_matches(['"', '\'']).to_owned())
}

/// Files that sentence-transformers puts beside the weights of embedders and rerankers.
const SENTENCE_TRANSFORMERS: &[&str] = &[
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "modules.json",
    "1_Pooling/config.json",
];

/// sentence-transformers writes what the model is into its own configuration.
fn is_cross_encoder(dir: &Path) -> bool {
    let read = |file: &str| read_regular(&dir.join(file), MAX_CONFIG_BYTES).unwrap_or_default();
    let config: Value =
        serde_json::from_slice(&read("config_sentence_transformers.json")).unwrap_or_default();
    let modules = String::from_utf8_lossy(&read("modules.json")).into_owned();
    config.get("model_type").and_then(Value::as_str) == Some("CrossEncoder") || modules.contains("LogitScore")
}

/// Parts of the names of drafters.
const DRAFTERS: &[&str] =
    &["Assistant", "DFlash", "DSpark", "Drafter", "Eagle", "Medusa", "MLPSpeculator", "MTP"];

/// Keys that only drafters' configurations have.
const DRAFTER_KEYS: &[&str] = &["dflash_config", "eagle_config", "medusa_num_heads", "speculators_config"];

/// Parts of the names of late-interaction retrievers.
const RETRIEVERS: &[&str] = &["ColIdefics", "ColPali", "ColQwen", "ColSmol", "ColVBert"];

/// Endings of `architectures`, without a version behind them, whose head is not a language model's.
const HEADS: &[(&str, ArchitectureClass)] = &[
    ("ForAudioClassification", ArchitectureClass::Speech),
    ("ForCTC", ArchitectureClass::Speech),
    ("ForRNNT", ArchitectureClass::Speech),
    ("ForSpeechSeq2Seq", ArchitectureClass::Speech),
    ("ForTDT", ArchitectureClass::Speech),
    ("ForTextToSpeech", ArchitectureClass::Speech),
    ("ForTextToWaveform", ArchitectureClass::Speech),
    ("ForObjectDetection", ArchitectureClass::Layout),
    ("ForImageClassification", ArchitectureClass::Other),
    ("ForMaskedLM", ArchitectureClass::Embedding),
    ("ForMultipleChoice", ArchitectureClass::Other),
    ("ForQuestionAnswering", ArchitectureClass::Other),
    ("ForRetrieval", ArchitectureClass::Embedding),
    ("ForRewardModel", ArchitectureClass::Other),
    ("ForSemanticSegmentation", ArchitectureClass::Other),
    ("ForSequenceClassification", ArchitectureClass::Reranker),
    ("ForTextEncoding", ArchitectureClass::Embedding),
    ("ForTokenClassification", ArchitectureClass::Other),
];

/// `model_type`s that never generate text by themselves, or only from sound.
const MODEL_TYPES: &[(&str, ArchitectureClass)] = &[
    ("albert", ArchitectureClass::Embedding),
    ("bert", ArchitectureClass::Embedding),
    ("camembert", ArchitectureClass::Embedding),
    ("clip", ArchitectureClass::Other),
    ("csm", ArchitectureClass::Speech),
    ("dac", ArchitectureClass::Speech),
    ("deberta", ArchitectureClass::Embedding),
    ("deberta-v2", ArchitectureClass::Embedding),
    ("dia", ArchitectureClass::Speech),
    ("dinov2", ArchitectureClass::Other),
    ("distilbert", ArchitectureClass::Embedding),
    ("eagle", ArchitectureClass::Drafter),
    ("electra", ArchitectureClass::Embedding),
    ("encodec", ArchitectureClass::Speech),
    ("granite_speech", ArchitectureClass::Speech),
    ("granite_speech_nar", ArchitectureClass::Speech),
    ("hubert", ArchitectureClass::Speech),
    ("kokoro", ArchitectureClass::Speech),
    ("layoutlm", ArchitectureClass::Layout),
    ("layoutlmv2", ArchitectureClass::Layout),
    ("layoutlmv3", ArchitectureClass::Layout),
    ("lilt", ArchitectureClass::Layout),
    ("medusa", ArchitectureClass::Drafter),
    ("mimi", ArchitectureClass::Speech),
    ("mlp_speculator", ArchitectureClass::Drafter),
    ("modernbert", ArchitectureClass::Embedding),
    ("moonshine", ArchitectureClass::Speech),
    ("mpnet", ArchitectureClass::Embedding),
    ("nomic_bert", ArchitectureClass::Embedding),
    ("parakeet", ArchitectureClass::Speech),
    ("qwen2_audio", ArchitectureClass::Speech),
    ("qwen3_asr", ArchitectureClass::Speech),
    ("qwen3_tts", ArchitectureClass::Speech),
    ("roberta", ArchitectureClass::Embedding),
    ("rt_detr", ArchitectureClass::Layout),
    ("rt_detr_v2", ArchitectureClass::Layout),
    ("siglip", ArchitectureClass::Other),
    ("siglip2", ArchitectureClass::Other),
    ("speech_to_text", ArchitectureClass::Speech),
    ("speecht5", ArchitectureClass::Speech),
    ("table-transformer", ArchitectureClass::Layout),
    ("vit", ArchitectureClass::Other),
    ("vits", ArchitectureClass::Speech),
    ("voxtral", ArchitectureClass::Speech),
    ("wav2vec2", ArchitectureClass::Speech),
    ("wav2vec2-bert", ArchitectureClass::Speech),
    ("whisper", ArchitectureClass::Speech),
    ("xlm-roberta", ArchitectureClass::Embedding),
];

/// The class of every model of this `model_type`, where it never generates text by itself. None says nothing: heads and
/// files beside the configuration decide among the others.
pub fn never_generative(model_type: &str) -> Option<ArchitectureClass> {
    MODEL_TYPES.iter().find(|(name, _)| *name == model_type).map(|(_, class)| *class)
}

/// Keys of a vision tower's configuration.
const VISION_KEYS: &[&str] =
    &["img_processor", "mm_vision_tower", "vision_cfg", "vision_config", "vision_tower", "visual"];

fn of_config(model_type: &str, config: &Map<String, Value>) -> (ArchitectureClass, String) {
    let names = config.get("architectures").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    let sign = |name: &str| format!("architecture {name}");
    for name in &names {
        if DRAFTERS.iter().any(|part| name.contains(part)) {
            return (ArchitectureClass::Drafter, sign(name));
        }
    }
    if let Some(key) = DRAFTER_KEYS.iter().find(|key| config.get(**key).is_some_and(|value| !value.is_null()))
    {
        return (ArchitectureClass::Drafter, format!("key {key}"));
    }
    for name in &names {
        if let Some((_, class)) = HEADS.iter().find(|(head, _)| name.ends_with(head)) {
            return (*class, sign(name));
        }
        if RETRIEVERS.iter().any(|part| name.contains(part)) {
            return (ArchitectureClass::Embedding, sign(name));
        }
    }
    if let Some(class) = never_generative(model_type) {
        return (class, format!("model_type {model_type}"));
    }
    if let Some(name) = names.iter().find(|name| is_bare_encoder(name)) {
        return (ArchitectureClass::Embedding, sign(name));
    }
    match VISION_KEYS.iter().find(|key| config.get(**key).is_some_and(|value| !value.is_null())) {
        Some(key) => (ArchitectureClass::VisionLanguage, format!("key {key}")),
        None => (ArchitectureClass::TextGeneration, format!("model_type {model_type}")),
    }
}

/// `BertModel`, `Gemma3TextModel`: the layers without a head. `GPT2LMHeadModel` and the chat models named
/// `ChatGLMModel` or `InternVLChatModel` have one.
fn is_bare_encoder(architecture: &str) -> bool {
    architecture.ends_with("Model") && !architecture.contains("LMHead") && !architecture.contains("Chat")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ArchitectureClass, of_config};

    #[track_caller]
    fn check(expected: ArchitectureClass, configs: &[serde_json::Value]) {
        for config in configs {
            let object = config.as_object().expect("OK because the tests pass objects");
            let model_type = object["model_type"].as_str().expect("OK because the tests set it");
            assert_eq!(of_config(model_type, object).0, expected, "{config}");
        }
    }

    #[test]
    fn language_models_generate_text() {
        check(
            ArchitectureClass::TextGeneration,
            &[
                json!({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}),
                json!({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}),
                json!({"model_type": "chatglm", "architectures": ["ChatGLMModel"]}),
                json!({"model_type": "gemma3", "vision_config": null}),
                json!({"model_type": "qwen3"}),
            ],
        );
    }

    #[test]
    fn a_vision_tower_makes_vision_language() {
        for key in super::VISION_KEYS {
            check(
                ArchitectureClass::VisionLanguage,
                &[
                    json!({"model_type": "some_vl", "architectures": ["SomeForConditionalGeneration"], *key: {"d": 1}}),
                ],
            );
        }
    }

    #[test]
    fn embedders_and_rerankers_are_told_by_their_heads() {
        check(
            ArchitectureClass::Embedding,
            &[
                json!({"model_type": "bert"}),
                json!({"model_type": "gemma3_text", "architectures": ["Gemma3TextModel"]}),
                json!({"model_type": "colqwen2", "architectures": ["ColQwen2"], "vision_config": {}}),
            ],
        );
        check(
            ArchitectureClass::Reranker,
            &[json!({"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"]})],
        );
    }

    #[test]
    fn language_models_that_embed_or_rank_are_told_by_the_files_beside_them()
    -> Result<(), Box<dyn std::error::Error>> {
        let class = |file: &str, text: &str| -> Result<ArchitectureClass, Box<dyn std::error::Error>> {
            let folder = tempfile::tempdir()?;
            std::fs::write(
                folder.path().join("config.json"),
                r#"{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"]}"#,
            )?;
            if let Some(parent) = folder.path().join(file).parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(folder.path().join(file), text)?;
            Ok(super::architecture(folder.path(), &crate::config::Config::read(folder.path())?).0)
        };
        for (file, text, expected) in [
            ("modules.json", "[]", ArchitectureClass::Embedding),
            ("1_Pooling/config.json", "{}", ArchitectureClass::Embedding),
            (
                "README.md",
                "---\nlicense: x\npipeline_tag: text-ranking\n---\n# R\n",
                ArchitectureClass::Reranker,
            ),
            ("README.md", "---\npipeline_tag: \"feature-extraction\"\n---\n", ArchitectureClass::Embedding),
            ("README.md", "---\npipeline_tag: text-generation\n---\n", ArchitectureClass::TextGeneration),
            // Only the block of metadata counts.
            (
                "README.md",
                "---\nlicense: x\n---\npipeline_tag: text-ranking\n",
                ArchitectureClass::TextGeneration,
            ),
            ("README.md", "pipeline_tag: text-ranking\n", ArchitectureClass::TextGeneration),
        ] {
            assert_eq!(class(file, text)?, expected, "{file} {text}");
        }
        Ok(())
    }

    #[test]
    fn drafters_are_told_by_their_parts_and_keys() {
        check(
            ArchitectureClass::Drafter,
            &[
                json!({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]}),
                json!({"model_type": "qwen3", "architectures": ["DFlashDraftModel"]}),
                json!({"model_type": "gemma4", "architectures": ["Gemma4AssistantForCausalLM"]}),
                json!({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "dflash_config": {"k": 4}}),
            ],
        );
    }

    #[test]
    fn speech_layout_and_others_are_told_apart() {
        check(
            ArchitectureClass::Speech,
            &[
                json!({"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]}),
                json!({"model_type": "parakeet_ctc", "architectures": ["ParakeetForCTC"]}),
                json!({"model_type": "granite_speech", "architectures": ["GraniteSpeechForConditionalGeneration"]}),
            ],
        );
        check(
            ArchitectureClass::Layout,
            &[
                json!({"model_type": "layoutlmv3", "architectures": ["LayoutLMv3Model"]}),
                json!({"model_type": "rt_detr_v2", "architectures": ["RTDetrV2ForObjectDetection"]}),
            ],
        );
        check(ArchitectureClass::Other, &[json!({"model_type": "clip", "vision_config": {}})]);
    }
}
