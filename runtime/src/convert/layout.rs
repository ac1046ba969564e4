//! The tensors of a model: names as in Hugging Face checkpoints, shapes and roles.
//!
//! One list serves all inputs: it says what a GGUF file must hold, what a checkpoint folder must hold, and what a
//! synthetic checkpoint gets.

use super::architecture::{Architecture, ModelShape};

/// What a tensor is in its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The token embedding, a matrix that can be quantized.
    Embedding,
    /// The weight of a linear layer, a matrix that can be quantized.
    Linear,
    /// The weight of a normalization.
    Norm,
    /// The bias of a linear layer.
    Bias,
}

impl Role {
    /// Whether the tensor may be quantized.
    pub const fn is_matrix(self) -> bool {
        matches!(self, Self::Embedding | Self::Linear)
    }
}

/// A tensor that a model of a given shape has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// Name in a Hugging Face checkpoint.
    pub name: String,
    /// Name in a GGUF file.
    pub gguf_name: String,
    /// Axes, outermost first.
    pub shape: Vec<usize>,
    /// Its role.
    pub role: Role,
}

/// The tensors of a model of `shape`, in the order of its computation.
pub fn expected_tensors(shape: &ModelShape) -> Vec<ExpectedTensor> {
    let hidden = shape.hidden_size;
    let mut list = Vec::new();
    let mut push = |name: String, gguf_name: String, axes: &[usize], role| {
        list.push(ExpectedTensor { name, gguf_name, shape: axes.to_vec(), role });
    };
    push(
        "model.embed_tokens.weight".to_owned(),
        "token_embd.weight".to_owned(),
        &[shape.vocab_size, hidden],
        Role::Embedding,
    );
    for layer in 0..shape.layers {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        let gguf = |part: &str| format!("blk.{layer}.{part}");
        for (part, gguf_part) in norms(shape.architecture) {
            push(
                name(&format!("{part}.weight")),
                gguf(&format!("{gguf_part}.weight")),
                &[hidden],
                Role::Norm,
            );
        }
        let (queries, keys) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let wide = shape.intermediate_size;
        for (part, gguf_part, rows, columns, bias) in [
            ("self_attn.q_proj", "attn_q", queries, hidden, shape.qkv_bias),
            ("self_attn.k_proj", "attn_k", keys, hidden, shape.qkv_bias),
            ("self_attn.v_proj", "attn_v", keys, hidden, shape.qkv_bias),
            ("self_attn.o_proj", "attn_output", hidden, queries, shape.output_bias),
            ("mlp.gate_proj", "ffn_gate", wide, hidden, shape.mlp_bias),
            ("mlp.up_proj", "ffn_up", wide, hidden, shape.mlp_bias),
            ("mlp.down_proj", "ffn_down", hidden, wide, shape.mlp_bias),
        ] {
            let axes = [rows, columns];
            push(name(&format!("{part}.weight")), gguf(&format!("{gguf_part}.weight")), &axes, Role::Linear);
            if bias {
                push(name(&format!("{part}.bias")), gguf(&format!("{gguf_part}.bias")), &[rows], Role::Bias);
            }
        }
        if matches!(shape.architecture, Architecture::Qwen3 | Architecture::Gemma3Text) {
            for (part, gguf_part) in [("q_norm", "attn_q_norm"), ("k_norm", "attn_k_norm")] {
                push(
                    name(&format!("self_attn.{part}.weight")),
                    gguf(&format!("{gguf_part}.weight")),
                    &[shape.head_dim],
                    Role::Norm,
                );
            }
        }
    }
    push("model.norm.weight".to_owned(), "output_norm.weight".to_owned(), &[hidden], Role::Norm);
    if !shape.tied {
        push(
            "lm_head.weight".to_owned(),
            "output.weight".to_owned(),
            &[shape.vocab_size, hidden],
            Role::Linear,
        );
    }
    list
}

/// The norms of a layer over the residual stream. Gemma's `ffn_norm` is the one before the feed-forward block; the
/// others' stands in the same place under the name `post_attention_layernorm`.
fn norms(architecture: Architecture) -> &'static [(&'static str, &'static str)] {
    match architecture {
        Architecture::Gemma3Text => &[
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "post_attention_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm"),
        ],
        _ => &[("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")],
    }
}
