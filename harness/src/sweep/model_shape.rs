//! What the configuration of a checkpoint and the headers of its weights say of sizes: the key/value cache, the context,
//! and what one decode step must read.
//!
//! Everything is a lower bound where it cannot be exact, so that a rate is called impossible only when it is. Keys are
//! those of the `transformers` configurations, in the text part of a configuration that has parts.

use mlxcel_catalog::config::Config;
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::headers::Dtype;
use serde_json::{Map, Value};

/// Sizes of a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ModelShape {
    /// Longest context, in tokens.
    pub(super) context_length: Option<u64>,
    /// For each layer that keeps keys and values, the longest stretch it keeps; `None` for all of it.
    layers: Option<Vec<Option<u64>>>,
    /// Bytes that one token takes in one layer.
    bytes_per_token_and_layer: Option<u64>,
    /// Bytes of the weights that every decode step reads at least.
    touched_weight_bytes: u64,
}

impl ModelShape {
    /// Of a checkpoint.
    pub(super) fn of(folder: &CheckpointFolder) -> Self {
        let config = Text::of(folder.config());
        Self {
            context_length: config.number(&[
                "max_position_embeddings",
                "n_positions",
                "max_seq_len",
                "seq_length",
            ]),
            layers: config.layers(),
            bytes_per_token_and_layer: config
                .values_per_token()
                .and_then(|values| values.checked_mul(element_bytes(folder))),
            touched_weight_bytes: touched_weight_bytes(folder, &config),
        }
    }

    /// Why the context has no room for such a prompt and so many tokens to generate; `None` where it has, or is not known.
    pub(super) fn exceeded_by(&self, prompt_tokens: u64, max_tokens: u64) -> Option<String> {
        let context = self.context_length?;
        (prompt_tokens.saturating_add(max_tokens) > context).then(|| {
            format!(
                "a prompt of {prompt_tokens} tokens and {max_tokens} to generate exceed the context of {context}; shorten the prompt \
                 or ask for fewer tokens (--prompt-tokens, --max-tokens)"
            )
        })
    }

    /// Bytes of the key/value cache at so many tokens; `None` where the configuration does not tell.
    pub(super) fn cache_bytes(&self, tokens: u64) -> Option<u64> {
        let each = self.bytes_per_token_and_layer?;
        let kept = |window: &Option<u64>| window.map_or(tokens, |window| window.min(tokens));
        let sum = |sum: u64, kept: u64| sum.checked_add(kept.checked_mul(each)?);
        self.layers.as_ref()?.iter().map(kept).try_fold(0, sum)
    }

    /// Bytes that a decode step reads, the mean over the steps of a generation after such a prompt. Without a known cache,
    /// the weights alone.
    pub(super) fn bytes_per_decode_step(&self, prompt_tokens: u64, generated_tokens: u64) -> Option<u64> {
        if self.touched_weight_bytes == 0 {
            return None;
        }
        // The first step reads the prompt, the last one all tokens but the last two.
        let last = prompt_tokens.saturating_add(generated_tokens.saturating_sub(2));
        let cache = self
            .cache_bytes(prompt_tokens)
            .zip(self.cache_bytes(last))
            .map_or(0, |(first, last)| first / 2 + last / 2);
        self.touched_weight_bytes.checked_add(cache)
    }
}

/// The text part of a configuration.
struct Text<'a> {
    whole: &'a Map<String, Value>,
    text: Option<&'a Map<String, Value>>,
}

impl<'a> Text<'a> {
    fn of(config: &'a Config) -> Self {
        let whole = config.raw();
        let parts = ["text_config", "llm_config", "language_config"];
        Self { whole, text: parts.iter().find_map(|part| whole.get(*part)?.as_object()) }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        let known = |map: &'a Map<String, Value>| map.get(key).filter(|value| !value.is_null());
        self.text.and_then(known).or_else(|| known(self.whole))
    }

    fn number(&self, keys: &[&str]) -> Option<u64> {
        keys.iter().find_map(|key| self.get(key)?.as_u64()).filter(|number| *number > 0)
    }

    /// Keys and values of one token in one layer; with compressed ones, those.
    fn values_per_token(&self) -> Option<u64> {
        if let Some(rank) = self.number(&["kv_lora_rank"]) {
            return rank.checked_add(self.number(&["qk_rope_head_dim"]).unwrap_or(0));
        }
        let heads = self.number(&["num_attention_heads", "n_head", "num_heads"])?;
        let kept = self.number(&["num_key_value_heads", "num_kv_heads", "n_head_kv"]).unwrap_or(heads);
        let size = match self.number(&["head_dim"]) {
            Some(size) => size,
            None => self.number(&["hidden_size", "n_embd", "d_model"])?.checked_div(heads)?,
        };
        kept.checked_mul(size)?.checked_mul(2)
    }

    /// Nothing where the number of layers is unknown or beyond any model's.
    fn layers(&self) -> Option<Vec<Option<u64>>> {
        const MOST: u64 = 10_000;
        let count = self.number(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"])?;
        if count > MOST {
            return None;
        }
        let windowed = self.get("use_sliding_window").and_then(Value::as_bool) != Some(false);
        let window = self.number(&["sliding_window", "attention_window_size"]).filter(|_| windowed);
        let Some(types) = self.get("layer_types").and_then(Value::as_array) else {
            // Without a list, a window may hold for some layers only: each keeps at least so much.
            return Some((0..count).map(|_| window).collect());
        };
        let of_type = |kind: &str| match kind {
            "full_attention" | "attention" | "global_attention" => Some(None),
            "sliding_attention" | "chunked_attention" | "local_attention" => Some(window),
            // What keeps a state of fixed size.
            _ => None,
        };
        Some(types.iter().filter_map(Value::as_str).filter_map(of_type).collect())
    }
}

/// Bytes of a key or a value: the cache has the type of the weights that are not quantized.
fn element_bytes(folder: &CheckpointFolder) -> u64 {
    let (mut wide, mut narrow) = (0_u64, 0_u64);
    for (_, entry) in folder.tensors().values() {
        match entry.dtype {
            Dtype::F32 => wide = wide.saturating_add(entry.byte_count()),
            Dtype::F16 | Dtype::Bf16 => narrow = narrow.saturating_add(entry.byte_count()),
            _ => {}
        }
    }
    if wide > narrow { 4 } else { 2 }
}

/// All weights but those that only images need, the rows of an embedding that are not looked up, and the experts that are
/// not chosen.
fn touched_weight_bytes(folder: &CheckpointFolder, config: &Text<'_>) -> u64 {
    let head = folder
        .tensors()
        .keys()
        .any(|name| name.split('.').any(|part| matches!(part, "lm_head" | "output" | "embed_out")));
    let experts = config.number(&["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"]);
    let chosen = config.number(&[
        "num_experts_per_tok",
        "num_experts_per_token",
        "top_k_experts",
        "moe_top_k",
        "moe_topk",
    ]);
    let touched = |(name, bytes): (&String, u64)| {
        let part = |wanted: &[&str]| name.split('.').any(|part| wanted.contains(&part));
        if part(&[
            "vision_tower",
            "vision_model",
            "visual",
            "multi_modal_projector",
            "mm_projector",
            "audio_tower",
        ]) {
            return 0;
        }
        // One row of it is read, unless it also serves as the head.
        if head && part(&["embed_tokens", "wte", "tok_embeddings", "word_embeddings"]) {
            return 0;
        }
        match (experts, chosen) {
            (Some(experts), Some(chosen)) if part(&["experts", "switch_mlp"]) && chosen < experts => {
                u64::try_from(u128::from(bytes) * u128::from(chosen) / u128::from(experts)).unwrap_or(bytes)
            }
            _ => bytes,
        }
    };
    folder
        .tensors()
        .iter()
        .map(|(name, (_, entry))| touched((name, entry.byte_count())))
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    /// A checkpoint of F32 tensors of so many elements each.
    fn checkpoint(
        root: &Path,
        config: &str,
        tensors: &[(&str, u64)],
    ) -> Result<ModelShape, Box<dyn std::error::Error>> {
        std::fs::write(root.join("config.json"), config)?;
        let mut header = Map::new();
        let mut at = 0;
        for (name, elements) in tensors {
            let end = at + elements * 4;
            let entry = serde_json::json!({ "dtype": "F32", "shape": [elements], "data_offsets": [at, end] });
            header.insert((*name).to_owned(), entry);
            at = end;
        }
        let header = serde_json::to_vec(&header)?;
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header);
        file.resize(file.len() + usize::try_from(at)?, 0);
        std::fs::write(root.join("model.safetensors"), file)?;
        Ok(ModelShape::of(&CheckpointFolder::open(root)?))
    }

    #[test]
    fn the_cache_is_layers_times_heads_times_tokens() -> Outcome {
        let root = tempfile::tempdir()?;
        let config = r#"{"model_type":"llama","num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":2,
            "hidden_size":64,"max_position_embeddings":2048}"#;
        let shape = checkpoint(root.path(), config, &[("model.norm.weight", 64)])?;
        // 3 layers, keys and values of 2 heads of 8, 4 bytes each.
        assert_eq!(shape.cache_bytes(100), Some(3 * 2 * 2 * 8 * 4 * 100));
        assert_eq!(shape.context_length, Some(2048));
        assert_eq!(shape.exceeded_by(2000, 48), None);
        assert!(
            shape
                .exceeded_by(2000, 49)
                .is_some_and(|why| why.contains("2000") && why.contains("context of 2048"))
        );
        assert_eq!(ModelShape::default().exceeded_by(u64::MAX, 2), None, "a context that nobody knows");
        Ok(())
    }

    #[test]
    fn windows_states_and_compressed_keys_take_less() -> Outcome {
        let root = tempfile::tempdir()?;
        let config = r#"{"model_type":"x","text_config":{"num_hidden_layers":3,"num_attention_heads":1,"head_dim":4,
            "sliding_window":10,"layer_types":["full_attention","sliding_attention","linear_attention"]}}"#;
        let shape = checkpoint(root.path(), config, &[("a", 1)])?;
        assert_eq!(shape.cache_bytes(100), Some(2 * 4 * 4 * (100 + 10)));
        let config = r#"{"model_type":"x","num_hidden_layers":2,"num_attention_heads":128,"hidden_size":7168,
            "kv_lora_rank":512,"qk_rope_head_dim":64}"#;
        let shape = checkpoint(root.path(), config, &[("a", 1)])?;
        assert_eq!(shape.cache_bytes(10), Some(2 * 576 * 4 * 10));
        Ok(())
    }

    #[test]
    fn a_configuration_without_sizes_has_no_cache_and_absurd_ones_do_not_overflow() -> Outcome {
        let root = tempfile::tempdir()?;
        assert_eq!(checkpoint(root.path(), r#"{"model_type":"x"}"#, &[("a", 1)])?.cache_bytes(10), None);
        let absurd = r#"{"model_type":"x","num_hidden_layers":18446744073709551615,"num_attention_heads":1,"head_dim":1}"#;
        assert_eq!(checkpoint(root.path(), absurd, &[("a", 1)])?.cache_bytes(10), None);
        let absurd = r#"{"model_type":"x","num_hidden_layers":9,"num_attention_heads":4294967295,"head_dim":4294967295}"#;
        assert_eq!(checkpoint(root.path(), absurd, &[("a", 1)])?.cache_bytes(u64::MAX), None);
        Ok(())
    }

    #[test]
    fn a_step_reads_the_chosen_experts_and_no_embedding_but_the_one_that_is_the_head() -> Outcome {
        let root = tempfile::tempdir()?;
        let config = r#"{"model_type":"x","num_experts":8,"num_experts_per_tok":2}"#;
        let experts = ("model.layers.0.mlp.switch_mlp.up_proj.weight", 800);
        let shared = ("model.layers.0.mlp.shared_expert.up_proj.weight", 10);
        let embedding = ("model.embed_tokens.weight", 100);
        let tied = checkpoint(root.path(), config, &[experts, shared, embedding])?;
        assert_eq!(tied.bytes_per_decode_step(5, 3), Some(4 * (200 + 10 + 100)));
        let untied = checkpoint(root.path(), config, &[experts, shared, embedding, ("lm_head.weight", 100)])?;
        assert_eq!(untied.bytes_per_decode_step(5, 3), Some(4 * (200 + 10 + 100)));
        let vision = checkpoint(root.path(), config, &[("vision_tower.x.weight", 7), shared])?;
        assert_eq!(vision.bytes_per_decode_step(5, 3), Some(40));
        Ok(())
    }

    #[test]
    fn the_cache_of_a_step_is_that_of_the_middle_of_the_generation() -> Outcome {
        let root = tempfile::tempdir()?;
        let config = r#"{"model_type":"x","num_hidden_layers":1,"num_attention_heads":1,"head_dim":1}"#;
        let shape = checkpoint(root.path(), config, &[("a", 1)])?;
        // 11 tokens are 10 steps, which read 100 to 109 tokens of 8 bytes.
        assert_eq!(shape.bytes_per_decode_step(100, 11), Some(4 + 836));
        Ok(())
    }
}
