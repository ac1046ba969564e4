//! The architectures that can be converted, and the shape of a model as its configuration gives it.
//!
//! Which tensors follow from a shape is left to [`super::layout`].

use std::path::Path;

use serde_json::{Map, Value};

use super::error::ConvertError;

/// A model architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama and what shares its form: SmolLM, SmolLM2, Mistral.
    Llama,
    /// Qwen2 and Qwen2.5.
    Qwen2,
    /// Qwen3, the dense models.
    Qwen3,
    /// Gemma 3, text only.
    Gemma3Text,
}

struct Names {
    architecture: Architecture,
    /// The first is what a rebuilt configuration gets.
    model_types: &'static [&'static str],
    gguf: &'static str,
    class: &'static str,
}

const TABLE: &[Names] = &[
    Names {
        architecture: Architecture::Llama,
        model_types: &["llama", "mistral"],
        gguf: "llama",
        class: "LlamaForCausalLM",
    },
    Names {
        architecture: Architecture::Qwen2,
        model_types: &["qwen2"],
        gguf: "qwen2",
        class: "Qwen2ForCausalLM",
    },
    Names {
        architecture: Architecture::Qwen3,
        model_types: &["qwen3"],
        gguf: "qwen3",
        class: "Qwen3ForCausalLM",
    },
    Names {
        architecture: Architecture::Gemma3Text,
        model_types: &["gemma3_text"],
        gguf: "gemma3",
        class: "Gemma3ForCausalLM",
    },
];

/// The names of the known architectures, as model types (GGUF calls `gemma3_text` `gemma3`).
pub fn known_names() -> Vec<&'static str> {
    TABLE.iter().flat_map(|names| names.model_types).copied().collect()
}

impl Architecture {
    fn names(self) -> &'static Names {
        // The table has an entry for each variant; a test goes through them.
        TABLE.iter().find(|names| names.architecture == self).unwrap_or(&TABLE[0])
    }

    /// The architecture of a configuration's `model_type`.
    pub fn from_model_type(model_type: &str) -> Option<Self> {
        TABLE.iter().find(|names| names.model_types.contains(&model_type)).map(|names| names.architecture)
    }

    /// The architecture of a GGUF file's `general.architecture`.
    pub fn from_gguf(name: &str) -> Option<Self> {
        TABLE.iter().find(|names| names.gguf == name).map(|names| names.architecture)
    }

    /// The `model_type` of a rebuilt configuration.
    pub fn model_type(self) -> &'static str {
        self.names().model_types.first().copied().unwrap_or_default()
    }

    /// The entry of `architectures` of a rebuilt configuration.
    pub fn class(self) -> &'static str {
        self.names().class
    }
}

/// The sizes that decide which tensors a model has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each stands for tensors that are there or not, independently"
)]
pub struct ModelShape {
    /// The architecture.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Whether the output projection is the embedding.
    pub tied: bool,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection of attention has a bias.
    pub output_bias: bool,
    /// Whether the feed-forward projections have biases.
    pub mlp_bias: bool,
}

/// No axis of a real model comes near this; products of two stay far from overflow.
const MAX_AXIS: usize = 1 << 28;
/// More than any model has.
pub(super) const MAX_LAYERS: usize = 4096;

impl ModelShape {
    /// Reads the shape from the object of the `config.json` at `path`. `has_output` says whether the checkpoint holds
    /// its own `lm_head.weight`, where that is known; it overrides a missing `tie_word_embeddings`.
    pub fn from_config(
        path: &Path,
        config: &Map<String, Value>,
        has_output: Option<bool>,
    ) -> Result<Self, ConvertError> {
        let fields = Fields { path, config };
        let model_type = fields.text("model_type")?;
        let architecture = Architecture::from_model_type(model_type).ok_or_else(|| {
            ConvertError::UnknownArchitecture { path: path.to_owned(), found: model_type.to_owned() }
        })?;
        let hidden_size = fields.size("hidden_size")?;
        let heads = fields.size("num_attention_heads")?;
        let kv_heads = fields.optional_size("num_key_value_heads")?.unwrap_or(heads);
        let head_dim = match fields.optional_size("head_dim")? {
            Some(head_dim) => head_dim,
            // The default of the model's own configuration class.
            None if architecture == Architecture::Gemma3Text => 256,
            None if architecture == Architecture::Qwen3 => 128,
            None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
            None => {
                return Err(fields
                    .wrong("head_dim", "is missing, and num_attention_heads does not divide hidden_size"));
            }
        };
        if !heads.is_multiple_of(kv_heads) {
            return Err(fields.wrong("num_key_value_heads", "must divide num_attention_heads"));
        }
        let layers = fields.size("num_hidden_layers")?;
        if layers > MAX_LAYERS {
            return Err(fields.wrong("num_hidden_layers", "is larger than any model has"));
        }
        for (field, width) in [("num_attention_heads", heads), ("num_key_value_heads", kv_heads)] {
            if width.checked_mul(head_dim).is_none_or(|width| width > MAX_AXIS) {
                return Err(fields.wrong(field, "times head_dim is larger than any model has"));
            }
        }
        let tied = match fields.optional_bool("tie_word_embeddings")? {
            Some(tied) => tied,
            None => has_output.map_or(architecture == Architecture::Gemma3Text, |has_output| !has_output),
        };
        let attention_bias =
            architecture == Architecture::Llama && fields.optional_bool("attention_bias")?.unwrap_or(false);
        Ok(Self {
            architecture,
            hidden_size,
            intermediate_size: fields.size("intermediate_size")?,
            layers,
            heads,
            kv_heads,
            head_dim,
            vocab_size: fields.size("vocab_size")?,
            tied,
            qkv_bias: attention_bias || architecture == Architecture::Qwen2,
            output_bias: attention_bias,
            mlp_bias: architecture == Architecture::Llama
                && fields.optional_bool("mlp_bias")?.unwrap_or(false),
        })
    }
}

struct Fields<'a> {
    path: &'a Path,
    config: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn wrong(&self, field: &str, rule: &str) -> ConvertError {
        ConvertError::Field { path: self.path.to_owned(), field: field.to_owned(), rule: rule.to_owned() }
    }

    /// A field that is there and not null.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.config.get(field).filter(|value| !value.is_null())
    }

    fn text(&self, field: &str) -> Result<&'a str, ConvertError> {
        let value = self.get(field).ok_or_else(|| self.wrong(field, "is missing"))?;
        value.as_str().ok_or_else(|| self.wrong(field, "must be text"))
    }

    fn size(&self, field: &str) -> Result<usize, ConvertError> {
        self.optional_size(field)?.ok_or_else(|| self.wrong(field, "is missing"))
    }

    fn optional_size(&self, field: &str) -> Result<Option<usize>, ConvertError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let size = value.as_u64().and_then(|value| usize::try_from(value).ok());
        match size.filter(|size| (1..=MAX_AXIS).contains(size)) {
            Some(size) => Ok(Some(size)),
            None => {
                Err(self.wrong(field, &format!("is {value}; it must be a whole number from 1 to {MAX_AXIS}")))
            }
        }
    }

    fn optional_bool(&self, field: &str) -> Result<Option<bool>, ConvertError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(field, "must be true or false"))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(config: &Value) -> Result<ModelShape, ConvertError> {
        let config = config.as_object().cloned().unwrap_or_default();
        ModelShape::from_config(Path::new("config.json"), &config, None)
    }

    fn tiny(model_type: &str) -> Value {
        json!({
            "model_type": model_type, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "vocab_size": 300,
        })
    }

    #[test]
    fn every_architecture_is_found_by_each_of_its_names() {
        for architecture in
            [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3, Architecture::Gemma3Text]
        {
            assert_eq!(Architecture::from_model_type(architecture.model_type()), Some(architecture));
            assert_eq!(Architecture::from_gguf(architecture.names().gguf), Some(architecture));
        }
    }

    #[test]
    fn defaults_follow_the_model_type() {
        let llama = shape(&tiny("mistral")).unwrap();
        assert_eq!((llama.kv_heads, llama.head_dim, llama.tied, llama.qkv_bias), (4, 16, false, false));
        let gemma = shape(&tiny("gemma3_text")).unwrap();
        assert_eq!((gemma.head_dim, gemma.tied), (256, true));
        assert!(shape(&tiny("qwen2")).unwrap().qkv_bias);
    }

    #[test]
    fn an_unknown_model_type_is_answered_with_the_known_ones() {
        let message = shape(&tiny("rwkv")).unwrap_err().to_string();
        assert!(message.contains("rwkv") && message.contains("gemma3_text"), "{message}");
    }

    #[test]
    fn a_size_out_of_range_is_named() {
        for value in [json!(0), json!(-3), json!(1.5), json!("64"), json!(1_u64 << 60)] {
            let mut config = tiny("llama");
            config["hidden_size"] = value;
            let message = shape(&config).unwrap_err().to_string();
            assert!(message.contains("hidden_size"), "{message}");
        }
    }
}
