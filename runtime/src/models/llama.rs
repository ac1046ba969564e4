//! `llama`: SmolLM, SmolLM2, Llama 3.x, and Mistral, whose `model_type` differs alone.

use super::Loaded;
use crate::blocks::attention::Attention;
use crate::blocks::linear::Held;
use crate::blocks::mlp::{Activation, GatedMlp};
use crate::blocks::parallel::Parallel;
use crate::blocks::pre_norm_decoder::{PreNormDecoder, PreNormLayer};
use crate::blocks::rms_norm::RmsNorm;
use crate::blocks::rope::{Rope, RopeConfig};
use crate::cache::CacheKind;
use crate::checkpoint::{ConfigError, LoadError, Weights, parse_config, size};
use mlxcel_catalog::folder::CheckpointFolder;
use serde::Deserialize;

/// The fields of a decoder config, in the checkpoints' own spelling. `qwen2` and `qwen3` read the same ones.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of config.json")]
pub(super) struct DecoderConfig {
    hidden_size: u64,
    num_hidden_layers: u64,
    intermediate_size: u64,
    num_attention_heads: u64,
    rms_norm_eps: f32,
    vocab_size: u64,
    head_dim: Option<u64>,
    max_position_embeddings: Option<u64>,
    num_key_value_heads: Option<u64>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    rope_traditional: bool,
    #[serde(default = "default_true")]
    tie_word_embeddings: bool,
    layer_types: Option<Vec<String>>,
    sliding_window: Option<u64>,
    hidden_act: Option<String>,
}

fn default_true() -> bool {
    true
}

/// Where the architectures built on this decoder differ.
pub(super) struct Traits {
    pub(super) default_rope_theta: f64,
    /// Biases on the query, key, value and output projections; `None` leaves it to the config's `attention_bias`.
    pub(super) attention_bias: Option<[bool; 4]>,
    /// Whether each head's queries and keys are normalized.
    pub(super) head_norms: bool,
    /// Whether a `sliding_window` without `layer_types` is obeyed in every layer.
    pub(super) window_everywhere: bool,
}

pub(super) fn load(folder: &CheckpointFolder, weights: &mut Weights) -> Result<Loaded, LoadError> {
    let mistral = folder.config().model_type() == "mistral";
    load_decoder(
        folder,
        weights,
        &Traits {
            default_rope_theta: 10_000.0,
            attention_bias: None,
            head_norms: false,
            window_everywhere: mistral,
        },
    )
}

/// Builds the decoder, claiming its tensors.
pub(super) fn load_decoder(
    folder: &CheckpointFolder,
    weights: &mut Weights,
    traits: &Traits,
) -> Result<Loaded, LoadError> {
    let config: DecoderConfig = parse_config(folder)?;
    let built = RopeConfig::read(folder.config().raw(), traits.default_rope_theta)
        .and_then(|rope| config.build(weights, traits, &rope));
    let decoder = built.map_err(|error| LoadError::config(folder, error))?;
    Ok(Loaded {
        architecture: Box::new(decoder),
        vocab_size: size("vocab_size", config.vocab_size)
            .map_err(|error| LoadError::config(folder, error))?,
        context_length: config.max_position_embeddings,
    })
}

impl DecoderConfig {
    fn build(
        &self,
        weights: &mut Weights,
        traits: &Traits,
        rope: &RopeConfig,
    ) -> Result<PreNormDecoder, ConfigError> {
        let hidden = size("hidden_size", self.hidden_size)?;
        let vocabulary = size("vocab_size", self.vocab_size)?;
        let layers = size("num_hidden_layers", self.num_hidden_layers)?;
        if let Some(activation) = self.hidden_act.as_deref().filter(|name| *name != "silu") {
            return Err(ConfigError::field(
                "hidden_act",
                format!("is `{activation}`; this architecture uses silu"),
            ));
        }
        let kinds = self.cache_kinds(traits)?;

        // Some exporters write the rotary tables, which are computed here, and the tied output layer.
        weights.discard(|name| name.ends_with("self_attn.rotary_emb.inv_freq"));
        if self.tie_word_embeddings {
            weights.discard(|name| name.starts_with("lm_head."));
        }
        let embed_tokens = weights.embedding("model.embed_tokens", vocabulary, hidden);
        let layers = (0..layers)
            .zip(kinds)
            .map(|(index, kind)| self.layer(weights, traits, rope, index, kind))
            .collect::<Result<Vec<_>, _>>()?;
        let norm = RmsNorm::new(weights.tensor("model.norm.weight", &[hidden]), self.rms_norm_eps);
        let lm_head =
            (!self.tie_word_embeddings).then(|| weights.linear("lm_head", vocabulary, hidden, false));
        Ok(PreNormDecoder { embed_tokens, layers, norm, lm_head })
    }

    fn layer(
        &self,
        weights: &mut Weights,
        traits: &Traits,
        rope: &RopeConfig,
        index: i32,
        cache_kind: CacheKind,
    ) -> Result<PreNormLayer, ConfigError> {
        let hidden = size("hidden_size", self.hidden_size)?;
        let intermediate = size("intermediate_size", self.intermediate_size)?;
        let prefix = format!("model.layers.{index}");
        let norm = |weights: &mut Weights, name: &str, width: i32| {
            RmsNorm::new(weights.tensor(&format!("{prefix}.{name}.weight"), &[width]), self.rms_norm_eps)
        };
        let mlp = |weights: &mut Weights, name: &str, out: i32, in_: i32| {
            weights.linear(&format!("{prefix}.mlp.{name}"), out, in_, self.mlp_bias)
        };
        Ok(PreNormLayer {
            self_attn: self.attention(weights, traits, rope, &format!("{prefix}.self_attn"))?,
            mlp: GatedMlp {
                inputs: Parallel::Apart([
                    mlp(weights, "gate_proj", intermediate, hidden),
                    mlp(weights, "up_proj", intermediate, hidden),
                ]),
                down_proj: mlp(weights, "down_proj", hidden, intermediate),
                activation: Activation::Silu,
                held: Held::new(),
            },
            input_layernorm: norm(weights, "input_layernorm", hidden),
            post_attention_layernorm: norm(weights, "post_attention_layernorm", hidden),
            cache_kind,
        })
    }

    fn attention(
        &self,
        weights: &mut Weights,
        traits: &Traits,
        rope: &RopeConfig,
        prefix: &str,
    ) -> Result<Attention, ConfigError> {
        let hidden = size("hidden_size", self.hidden_size)?;
        let (heads, key_value_heads, head_dim) = self.heads()?;
        let [q_bias, k_bias, v_bias, o_bias] = traits.attention_bias.unwrap_or([self.attention_bias; 4]);
        let mut project = |name: &str, out: i32, in_: i32, bias: bool| {
            weights.linear(&format!("{prefix}.{name}"), out, in_, bias)
        };
        let q_proj = project("q_proj", heads * head_dim, hidden, q_bias);
        let k_proj = project("k_proj", key_value_heads * head_dim, hidden, k_bias);
        let v_proj = project("v_proj", key_value_heads * head_dim, hidden, v_bias);
        let o_proj = project("o_proj", hidden, heads * head_dim, o_bias);
        let mut norm = |name: &str| {
            traits.head_norms.then(|| {
                RmsNorm::new(
                    weights.tensor(&format!("{prefix}.{name}.weight"), &[head_dim]),
                    self.rms_norm_eps,
                )
            })
        };
        Ok(Attention {
            projections: Parallel::Apart([q_proj, k_proj, v_proj]),
            o_proj,
            q_norm: norm("q_norm"),
            k_norm: norm("k_norm"),
            rope: Rope::new(head_dim, self.rope_traditional, rope)?,
            heads,
            key_value_heads,
            head_dim,
            scale: attention_scale(f64::from(head_dim)),
            held: Held::new(),
        })
    }

    /// Heads, key-value heads, and the width of one.
    fn heads(&self) -> Result<(i32, i32, i32), ConfigError> {
        let heads = size("num_attention_heads", self.num_attention_heads)?;
        let key_value_heads =
            size("num_key_value_heads", self.num_key_value_heads.unwrap_or(self.num_attention_heads))?;
        let head_dim = match self.head_dim {
            Some(head_dim) => size("head_dim", head_dim)?,
            None if self.hidden_size.is_multiple_of(self.num_attention_heads) => {
                size("hidden_size", self.hidden_size / self.num_attention_heads)?
            }
            None => {
                let problem =
                    format!("is not a multiple of the {heads} attention heads, and there is no head_dim");
                return Err(ConfigError::field("hidden_size", problem));
            }
        };
        check_heads(heads, key_value_heads, head_dim)?;
        Ok((heads, key_value_heads, head_dim))
    }

    fn cache_kinds(&self, traits: &Traits) -> Result<Vec<CacheKind>, ConfigError> {
        let layers = usize::try_from(self.num_hidden_layers).unwrap_or(usize::MAX);
        let window = || match self.sliding_window {
            Some(window) => size("sliding_window", window).map(CacheKind::Window),
            None => Err(ConfigError::field("sliding_window", "is missing, but layer_types asks for it")),
        };
        let Some(types) = &self.layer_types else {
            let everywhere = traits.window_everywhere && self.sliding_window.is_some();
            let kind = if everywhere { window()? } else { CacheKind::Full };
            return Ok(vec![kind; layers.min(MOST_LAYERS)]);
        };
        kinds_of_layer_types(types, self.num_hidden_layers, window)
    }
}

/// The cache of each layer by a config's `layer_types`; `window` gives the one of a sliding layer.
pub(super) fn kinds_of_layer_types(
    types: &[String],
    layers: u64,
    window: impl Fn() -> Result<CacheKind, ConfigError>,
) -> Result<Vec<CacheKind>, ConfigError> {
    if u64::try_from(types.len()) != Ok(layers) {
        let problem = format!("names {} layers, num_hidden_layers says {layers}", types.len());
        return Err(ConfigError::field("layer_types", problem));
    }
    types
        .iter()
        .map(|layer_type| match layer_type.as_str() {
            "full_attention" => Ok(CacheKind::Full),
            "sliding_attention" => window(),
            other => Err(ConfigError::field(
                "layer_types",
                format!("has `{other}`; known are full_attention and sliding_attention"),
            )),
        })
        .collect()
}

/// More layers than any model has; a config that asks for more finds its tensors missing.
pub(super) const MOST_LAYERS: usize = 10_000;

/// Checks what attention needs of its heads.
pub(super) fn check_heads(heads: i32, key_value_heads: i32, head_dim: i32) -> Result<(), ConfigError> {
    if heads % key_value_heads != 0 {
        let problem = format!("is {key_value_heads}, which does not divide the {heads} attention heads");
        return Err(ConfigError::field("num_key_value_heads", problem));
    }
    if head_dim % 2 != 0 {
        return Err(ConfigError::field(
            "head_dim",
            format!("is {head_dim}; rotary embedding needs an even one"),
        ));
    }
    if heads.checked_mul(head_dim).is_none() {
        return Err(ConfigError::field(
            "num_attention_heads",
            format!("times the head_dim of {head_dim} overflows"),
        ));
    }
    Ok(())
}

/// `1 / sqrt(width)` in single precision.
#[expect(clippy::cast_possible_truncation, reason = "MLX takes the scale in single precision")]
pub(super) fn attention_scale(width: f64) -> f32 {
    width.powf(-0.5) as f32
}
