//! `config.json` rebuilt from GGUF metadata, with the field names of Hugging Face checkpoints.

use serde_json::{Map, Value, json};

use super::keys::{Keys, shortest};
use super::rope::rope_scaling;
use crate::convert::architecture::{Architecture, MAX_LAYERS};
use crate::convert::error::ConvertError;
use crate::convert::gguf::{Array, GgufFile};

/// Gemma 3's frequency base in its sliding-window layers; a constant of the architecture that files may leave out.
const GEMMA3_LOCAL_THETA: f64 = 10_000.0;
/// Every so many layers, Gemma 3 attends to everything; a constant of the architecture.
const GEMMA3_PATTERN: usize = 6;

/// Rebuilds the configuration, without the element type and the quantization of the output.
pub(in crate::convert) fn rebuild_config(
    file: &GgufFile,
    architecture: Architecture,
    rope_factors: Option<&[f32]>,
) -> Result<Map<String, Value>, ConvertError> {
    let keys = Keys::of(file);
    let prefix = keys.text("general.architecture")?;
    let key = |name: &str| format!("{prefix}.{name}");
    refuse_unsupported(keys, prefix)?;

    let embedding = file.tensors().get("token_embd.weight").and_then(|tensor| tensor.shape.first().copied());
    let vocab_size =
        embedding.ok_or_else(|| keys.wrong("token_embd.weight", "is missing among the tensors"))?;
    let hidden_size = keys.size(&key("embedding_length"))?;
    let heads = keys.size(&key("attention.head_count"))?;
    let layers = keys.size(&key("block_count"))?;
    if layers > MAX_LAYERS {
        return Err(keys.wrong(&key("block_count"), format!("is {layers}, more than any model has")));
    }
    let head_dim = match keys.optional_size(&key("attention.key_length"))? {
        Some(head_dim) => head_dim,
        None if heads > 0 && hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => return Err(keys.wrong(&key("attention.head_count"), "does not divide the embedding length")),
    };
    for name in ["attention.value_length", "rope.dimension_count"] {
        if let Some(width) = keys.optional_size(&key(name))?.filter(|&width| width != head_dim) {
            let rule =
                format!("is {width}, but a head has {head_dim} elements; such models are not supported");
            return Err(keys.wrong(&key(name), rule));
        }
    }
    let default_theta = if architecture == Architecture::Gemma3Text { 1_000_000.0 } else { 10_000.0 };
    let theta = keys.optional_number(&key("rope.freq_base"))?.map_or(default_theta, shortest);

    let mut config = Map::new();
    let mut set = |field: &str, value: Value| _ = config.insert(field.to_owned(), value);
    set("architectures", json!([architecture.class()]));
    set("model_type", json!(architecture.model_type()));
    set("hidden_size", json!(hidden_size));
    set("intermediate_size", json!(keys.size(&key("feed_forward_length"))?));
    set("num_hidden_layers", json!(layers));
    set("num_attention_heads", json!(heads));
    set("num_key_value_heads", json!(keys.optional_size(&key("attention.head_count_kv"))?.unwrap_or(heads)));
    set("head_dim", json!(head_dim));
    set("rms_norm_eps", json!(shortest(keys.number(&key("attention.layer_norm_rms_epsilon"))?)));
    set("rope_theta", json!(theta));
    let scaling = rope_scaling(keys, prefix, theta, head_dim, rope_factors)?;
    set("rope_scaling", scaling.unwrap_or(Value::Null));
    set("max_position_embeddings", json!(keys.size(&key("context_length"))?));
    set("vocab_size", json!(vocab_size));
    set("tie_word_embeddings", json!(!file.tensors().contains_key("output.weight")));
    if architecture == Architecture::Llama {
        set("attention_bias", json!(file.tensors().contains_key("blk.0.attn_q.bias")));
        set("mlp_bias", json!(file.tensors().contains_key("blk.0.ffn_gate.bias")));
    }
    let window = keys.optional_size(&key("attention.sliding_window"))?.filter(|&window| window > 0);
    if architecture == Architecture::Gemma3Text {
        set("hidden_activation", json!("gelu_pytorch_tanh"));
        // The 27B model alone scales its queries by something else than the head: hidden_size / heads.
        let scalar = if hidden_size == 5376 && layers == 62 { hidden_size / heads.max(1) } else { head_dim };
        set("query_pre_attn_scalar", json!(scalar));
        let local = keys.optional_number(&key("rope.freq_base_swa"))?.map_or(GEMMA3_LOCAL_THETA, shortest);
        set("rope_local_base_freq", json!(local));
        let window = window.ok_or_else(|| keys.wrong(&key("attention.sliding_window"), "is missing"))?;
        set("sliding_window", json!(window));
        let pattern = window_pattern(keys, &key("attention.sliding_window_pattern"))?;
        set("sliding_window_pattern", json!(pattern));
        let kinds = (1..=layers)
            .map(|layer| if layer.is_multiple_of(pattern) { "full_attention" } else { "sliding_attention" });
        set("layer_types", kinds.collect());
    } else {
        set("hidden_act", json!("silu"));
        if let (Architecture::Llama, Some(window)) = (architecture, window) {
            set("sliding_window", json!(window));
        }
    }
    for (field, value) in token_ids(keys)? {
        set(field, value);
    }
    Ok(config)
}

/// Features of the format that the architectures here do not have; silently dropped they would make a wrong model.
fn refuse_unsupported(keys: Keys<'_>, prefix: &str) -> Result<(), ConvertError> {
    for name in ["expert_count", "attn_logit_softcapping", "final_logit_softcapping", "logit_scale"] {
        let key = format!("{prefix}.{name}");
        if let Some(value) = keys.optional_number(&key)?.filter(|&value| value != 0.0) {
            return Err(keys.wrong(&key, format!("is {value}; {prefix} models with it are not supported")));
        }
    }
    Ok(())
}

/// Every so many layers attention is full. Files give the number, or a truth value for each layer (true: windowed).
fn window_pattern(keys: Keys<'_>, key: &str) -> Result<usize, ConvertError> {
    let pattern = match keys.get(key) {
        Some(value) => match value.as_array() {
            Some(Array::Bool(windowed)) => windowed.iter().position(|&windowed| !windowed).map(|at| at + 1),
            Some(_) => None,
            None => value.as_usize(),
        },
        None => Some(GEMMA3_PATTERN),
    };
    pattern.filter(|&pattern| pattern > 0).ok_or_else(|| {
        keys.wrong(key, "must be a positive number, or truth values of which the full layers are false")
    })
}

/// `bos_token_id`, `eos_token_id` and `pad_token_id`. A chat model's end of turn ends a text as well.
pub(super) fn token_ids(keys: Keys<'_>) -> Result<Vec<(&'static str, Value)>, ConvertError> {
    let id = |name: &str| keys.optional_size(&format!("tokenizer.ggml.{name}_token_id"));
    let mut ids = Vec::new();
    if let Some(bos) = id("bos")? {
        ids.push(("bos_token_id", json!(bos)));
    }
    match (id("eos")?, id("eot")?) {
        (Some(eos), Some(eot)) if eos != eot => ids.push(("eos_token_id", json!([eos, eot]))),
        (Some(eos), _) | (None, Some(eos)) => ids.push(("eos_token_id", json!(eos))),
        (None, None) => {}
    }
    if let Some(pad) = id("padding")? {
        ids.push(("pad_token_id", json!(pad)));
    }
    Ok(ids)
}
