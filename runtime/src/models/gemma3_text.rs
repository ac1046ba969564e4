//! `gemma3_text`: Gemma 3's language model. Norms around both halves of a layer, weights stored as an offset from 1,
//! scaled embeddings, and a sliding window in all layers but every sixth, each kind with a rotary base of its own.

use super::llama::{MOST_LAYERS, attention_scale, check_heads, kinds_of_layer_types};
use super::{Architecture, Loaded};
use crate::blocks::attention::Attention;
use crate::blocks::embedding::Embedding;
use crate::blocks::linear::{Held, Linear};
use crate::blocks::mlp::{Activation, GatedMlp};
use crate::blocks::parallel::Parallel;
use crate::blocks::rms_norm::RmsNorm;
use crate::blocks::rope::{Rope, RopeConfig};
use crate::cache::{Cache, CacheKind, Mask, Masks};
use crate::checkpoint::{ConfigError, LoadError, Weights, parse_config, size};
use crate::kernels::mlx::Result;
use crate::model::Positions;
use mlx_rs::{Array, Dtype, ops};
use mlxcel_catalog::folder::CheckpointFolder;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The config's fields, in the checkpoints' own spelling. Defaults are those of the published architecture.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Config {
    hidden_size: u64,
    num_hidden_layers: u64,
    intermediate_size: u64,
    num_attention_heads: u64,
    head_dim: u64,
    rms_norm_eps: f32,
    vocab_size: u64,
    num_key_value_heads: u64,
    rope_local_base_freq: f64,
    query_pre_attn_scalar: f64,
    sliding_window: u64,
    sliding_window_pattern: u64,
    max_position_embeddings: u64,
    layer_types: Option<Vec<String>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hidden_size: 1152,
            num_hidden_layers: 26,
            intermediate_size: 6912,
            num_attention_heads: 4,
            head_dim: 256,
            rms_norm_eps: 1e-6,
            vocab_size: 262_144,
            num_key_value_heads: 1,
            rope_local_base_freq: 10_000.0,
            query_pre_attn_scalar: 256.0,
            sliding_window: 512,
            sliding_window_pattern: 6,
            max_position_embeddings: 32_768,
            layer_types: None,
        }
    }
}

/// Rotary base of the layers that see everything.
const DEFAULT_ROPE_THETA: f64 = 1_000_000.0;

struct Gemma3Text {
    embed_tokens: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    lm_head: Option<Linear>,
    /// Multiplies the embeddings.
    embedding_scale: f32,
}

struct Layer {
    self_attn: Attention,
    mlp: GatedMlp,
    input_layernorm: RmsNorm,
    post_attention_layernorm: RmsNorm,
    pre_feedforward_layernorm: RmsNorm,
    post_feedforward_layernorm: RmsNorm,
    cache_kind: CacheKind,
}

pub(super) fn load(
    folder: &CheckpointFolder,
    weights: &mut Weights,
) -> std::result::Result<Loaded, LoadError> {
    let config: Config = parse_config(folder)?;
    let in_config = |error| LoadError::config(folder, error);
    let ropes = Ropes::read(folder.config().raw(), &config).map_err(in_config)?;
    let model = config.build(weights, &ropes).map_err(in_config)?;
    Ok(Loaded {
        architecture: Box::new(model),
        vocab_size: size("vocab_size", config.vocab_size).map_err(in_config)?,
        context_length: Some(config.max_position_embeddings),
    })
}

/// The rotary parameters of the two kinds of layer.
struct Ropes {
    full: RopeConfig,
    sliding: RopeConfig,
}

impl Ropes {
    fn read(raw: &Map<String, Value>, config: &Config) -> std::result::Result<Self, ConfigError> {
        let local = RopeConfig { theta: config.rope_local_base_freq, scaling: None };
        // Newer configs hold one set of parameters for each kind of layer.
        let nested = raw.get("rope_parameters").and_then(Value::as_object);
        let of_kind = |kind: &str, default_theta: f64| {
            nested.and_then(|nested| nested.get(kind)).and_then(Value::as_object).map(|parameters| {
                let mut wrapped = Map::new();
                wrapped.insert("rope_parameters".to_owned(), Value::Object(parameters.clone()));
                RopeConfig::read(&wrapped, default_theta)
            })
        };
        Ok(Self {
            full: match of_kind("full_attention", DEFAULT_ROPE_THETA) {
                Some(read) => read?,
                None => RopeConfig::read(raw, DEFAULT_ROPE_THETA)?,
            },
            sliding: match of_kind("sliding_attention", config.rope_local_base_freq) {
                Some(read) => read?,
                None => local,
            },
        })
    }
}

impl Config {
    fn build(&self, weights: &mut Weights, ropes: &Ropes) -> std::result::Result<Gemma3Text, ConfigError> {
        let hidden = size("hidden_size", self.hidden_size)?;
        let vocabulary = size("vocab_size", self.vocab_size)?;
        let embed_tokens = weights.embedding("model.embed_tokens", vocabulary, hidden);
        let layers = self
            .cache_kinds()?
            .into_iter()
            .enumerate()
            .map(|(index, kind)| self.layer(weights, ropes, index, kind))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let norm = self.norm(weights, "model.norm", hidden)?;
        // Tied unless the checkpoint brings an output layer of its own.
        let lm_head =
            weights.has("lm_head.weight").then(|| weights.linear("lm_head", vocabulary, hidden, false));
        let embedding_scale = bf16_rounded(f64::from(hidden).sqrt());
        Ok(Gemma3Text { embed_tokens, layers, norm, lm_head, embedding_scale })
    }

    fn layer(
        &self,
        weights: &mut Weights,
        ropes: &Ropes,
        index: usize,
        cache_kind: CacheKind,
    ) -> std::result::Result<Layer, ConfigError> {
        let hidden = size("hidden_size", self.hidden_size)?;
        let intermediate = size("intermediate_size", self.intermediate_size)?;
        let prefix = format!("model.layers.{index}");
        let rope = if cache_kind == CacheKind::Full { &ropes.full } else { &ropes.sliding };
        let self_attn = self.attention(weights, &format!("{prefix}.self_attn"), rope)?;
        let mlp = |weights: &mut Weights, name: &str, out: i32, in_: i32| {
            weights.linear(&format!("{prefix}.mlp.{name}"), out, in_, false)
        };
        let mut norm = |name: &str| self.norm(weights, &format!("{prefix}.{name}"), hidden);
        Ok(Layer {
            self_attn,
            input_layernorm: norm("input_layernorm")?,
            post_attention_layernorm: norm("post_attention_layernorm")?,
            pre_feedforward_layernorm: norm("pre_feedforward_layernorm")?,
            post_feedforward_layernorm: norm("post_feedforward_layernorm")?,
            mlp: GatedMlp {
                inputs: Parallel::Apart([
                    mlp(weights, "gate_proj", intermediate, hidden),
                    mlp(weights, "up_proj", intermediate, hidden),
                ]),
                down_proj: mlp(weights, "down_proj", hidden, intermediate),
                activation: Activation::GeluTanh,
                held: Held::new(),
            },
            cache_kind,
        })
    }

    fn attention(
        &self,
        weights: &mut Weights,
        prefix: &str,
        rope: &RopeConfig,
    ) -> std::result::Result<Attention, ConfigError> {
        let hidden = size("hidden_size", self.hidden_size)?;
        let heads = size("num_attention_heads", self.num_attention_heads)?;
        let key_value_heads = size("num_key_value_heads", self.num_key_value_heads)?;
        let head_dim = size("head_dim", self.head_dim)?;
        check_heads(heads, key_value_heads, head_dim)?;
        if !(self.query_pre_attn_scalar.is_finite() && self.query_pre_attn_scalar > 0.0) {
            return Err(ConfigError::field("query_pre_attn_scalar", "must be positive"));
        }
        let mut project =
            |name: &str, out: i32, in_: i32| weights.linear(&format!("{prefix}.{name}"), out, in_, false);
        Ok(Attention {
            projections: Parallel::Apart([
                project("q_proj", heads * head_dim, hidden),
                project("k_proj", key_value_heads * head_dim, hidden),
                project("v_proj", key_value_heads * head_dim, hidden),
            ]),
            o_proj: project("o_proj", hidden, heads * head_dim),
            q_norm: Some(self.norm(weights, &format!("{prefix}.q_norm"), head_dim)?),
            k_norm: Some(self.norm(weights, &format!("{prefix}.k_norm"), head_dim)?),
            rope: Rope::new(head_dim, false, rope)?,
            heads,
            key_value_heads,
            head_dim,
            scale: attention_scale(self.query_pre_attn_scalar),
            held: Held::new(),
        })
    }

    /// The norm with its weight as the architecture means it: one plus what is stored, in the stored data type.
    fn norm(
        &self,
        weights: &mut Weights,
        layer: &str,
        width: i32,
    ) -> std::result::Result<RmsNorm, ConfigError> {
        let name = format!("{layer}.weight");
        let offset = weights.tensor(&name, &[width]);
        Array::from_f32(1.0)
            .as_dtype(offset.dtype())
            .and_then(|one| offset.add(one))
            .map(|weight| RmsNorm::new(weight, self.rms_norm_eps))
            .map_err(|error| ConfigError::field(name, format!("cannot be used as a norm: {error}")))
    }

    fn cache_kinds(&self) -> std::result::Result<Vec<CacheKind>, ConfigError> {
        let layers = size("num_hidden_layers", self.num_hidden_layers)?;
        let window = CacheKind::Window(size("sliding_window", self.sliding_window)?);
        let pattern = size("sliding_window_pattern", self.sliding_window_pattern)?;
        let Some(types) = &self.layer_types else {
            return Ok((1..=layers)
                .take(MOST_LAYERS)
                .map(|position| if position % pattern == 0 { CacheKind::Full } else { window })
                .collect());
        };
        kinds_of_layer_types(types, self.num_hidden_layers, || Ok(window))
    }
}

impl Layer {
    fn forward(&self, x: &Array, masks: &Masks, cache: &mut Cache, positions: Positions) -> Result<Array> {
        let attended = self.self_attn.forward(&self.input_layernorm, x, masks, cache, positions, None)?;
        let x = add_clipped(&positions.of(x)?, &self.post_attention_layernorm.forward(&attended)?)?;
        let fed = self.mlp.forward(&self.pre_feedforward_layernorm, &x, None)?;
        add_clipped(&x, &self.post_feedforward_layernorm.forward(&fed)?)
    }
}

/// The sum; in half precision, whose range Gemma's residuals leave, clipped to the largest finite number.
fn add_clipped(x: &Array, y: &Array) -> Result<Array> {
    if x.dtype() != Dtype::Float16 {
        return x.add(y);
    }
    let sum = x.as_dtype(Dtype::Float32)?.add(y.as_dtype(Dtype::Float32)?)?;
    let most = half::f16::MAX.to_f32();
    ops::clip(sum, (-most, most))?.as_dtype(Dtype::Float16)
}

impl Architecture for Gemma3Text {
    fn cache_kinds(&self) -> Vec<CacheKind> {
        self.layers.iter().map(|layer| layer.cache_kind).collect()
    }

    fn join(&mut self) -> Result<()> {
        self.layers.iter_mut().try_for_each(|layer| {
            layer.self_attn.projections.join()?;
            layer.mlp.inputs.join()
        })
    }

    fn hidden(&self, ids: &Array, caches: &mut [Cache], positions: Positions) -> Result<Array> {
        let embedded = self.embed_tokens.forward(ids)?;
        let scale = Array::from_f32(self.embedding_scale).as_dtype(embedded.dtype())?;
        let mut x = embedded.multiply(scale)?;
        let masks = Mask::per_kind(ids.dim(1), caches)?;
        let last = self.layers.len().saturating_sub(1);
        for (index, (layer, cache)) in self.layers.iter().zip(caches).enumerate() {
            let positions = if index == last { positions } else { Positions::All };
            x = layer.forward(&x, &masks, cache, positions)?;
        }
        self.norm.forward(&x)
    }

    fn logits(&self, hidden: &Array) -> Result<Array> {
        match &self.lm_head {
            Some(lm_head) => lm_head.forward(hidden),
            None => self.embed_tokens.as_linear(hidden),
        }
    }
}

/// The reference implementation rounds the embedding scale to bfloat16, whatever the weights are.
fn bf16_rounded(value: f64) -> f32 {
    half::bf16::from_f64(value).to_f32()
}
