"""The table of tiny checkpoints: which model types, config fields, dtypes and quantizations parity is shown on.

Data only. Each variant is one folder; ``tiny_checkpoints.py`` makes them, ``logits.py`` runs them. Sizes are
small enough for a slow CPU backend, and every dimension is a multiple of 128, the largest quantization group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VOCAB = 320
CONTEXT = 4096
# One token, less than a block, across a power of two, and across the default prefill chunk of 2,048.
ALL_LENGTHS = (1, 7, 33, 2100)
# Where MLX's CPU kernels are some thirty times slower (16-bit scales or activations), the long prompt is left out.
SHORT_LENGTHS = (1, 7, 33)


@dataclass(frozen=True)
class Quantized:
    """How a checkpoint is quantized: the default, and the layers that differ (``False``: left dense)."""

    mode: str = "affine"
    bits: int = 4
    group_size: int = 64
    overrides: dict[str, dict[str, Any] | bool] = field(default_factory=dict)
    # mlx-lm leaves dense layers out of the config and sees them by their missing scales; others write ``false``.
    name_dense_layers: bool = False


@dataclass(frozen=True)
class Variant:
    """One tiny checkpoint."""

    name: str
    config: dict[str, Any]
    dtype: str = "float32"
    quantized: Quantized | None = None
    shard_bytes: int | None = None
    prompt_lengths: tuple[int, ...] = ALL_LENGTHS


def _config(model_type: str, architecture: str, **changes: Any) -> dict[str, Any]:
    """Return the fields every model type here has, with ``changes`` over them; a ``None`` removes a field."""
    config = {
        "model_type": model_type,
        "architectures": [architecture],
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    config.update(changes)
    return {key: value for key, value in config.items() if value is not None}


def _llama(**changes: Any) -> dict[str, Any]:
    return _config("llama", "LlamaForCausalLM", **changes)


def _mistral(**changes: Any) -> dict[str, Any]:
    return _config(
        "mistral",
        "MistralForCausalLM",
        **{"head_dim": 32, "sliding_window": None, "tie_word_embeddings": False, **changes},
    )


def _qwen2(**changes: Any) -> dict[str, Any]:
    return _config(
        "qwen2",
        "Qwen2ForCausalLM",
        **{"rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "use_sliding_window": False, **changes},
    )


def _qwen3(**changes: Any) -> dict[str, Any]:
    return _config(
        "qwen3", "Qwen3ForCausalLM", **{"rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "head_dim": 64, **changes}
    )


def _gemma3(**changes: Any) -> dict[str, Any]:
    fields = {
        "num_hidden_layers": 6,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "query_pre_attn_scalar": 64,
        "sliding_window": 32,
        "sliding_window_pattern": 3,
        "tie_word_embeddings": None,
        "hidden_act": None,
        "hidden_activation": "gelu_pytorch_tanh",
    }
    return _config("gemma3_text", "Gemma3ForCausalLM", **{**fields, **changes})


LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}
YARN_SCALING = {
    "rope_type": "yarn",
    "factor": 8.0,
    "original_max_position_embeddings": 512,
    "beta_fast": 32,
    "beta_slow": 1,
}
EIGHT_BIT = {"bits": 8, "group_size": 64}

DENSE = (
    Variant("llama-f32", _llama()),
    Variant("llama-untied-f32", _llama(tie_word_embeddings=False)),
    Variant("llama-biases-f32", _llama(attention_bias=True, mlp_bias=True)),
    Variant("llama-rope-llama3-f32", _llama(rope_theta=500000.0, rope_scaling=LLAMA3_SCALING)),
    Variant("llama-rope-linear-f32", _llama(rope_scaling={"rope_type": "linear", "factor": 4.0})),
    Variant("llama-rope-linear-legacy-key-f32", _llama(rope_scaling={"type": "linear", "factor": 2.5})),
    Variant("llama-rope-yarn-f32", _llama(rope_scaling=YARN_SCALING)),
    Variant(
        "llama-rope-yarn-mscale-f32",
        _llama(rope_scaling={**YARN_SCALING, "factor": 4.0, "mscale": 0.8, "mscale_all_dim": 0.4}),
    ),
    Variant("llama-rope-traditional-f32", _llama(rope_traditional=True)),
    Variant("llama-head-dim-f32", _llama(head_dim=64, num_key_value_heads=1)),
    Variant("llama-full-heads-f32", _llama(num_key_value_heads=None, head_dim=None)),
    Variant("llama-shards-f32", _llama(), shard_bytes=400_000),
    Variant("llama-f16", _llama(), dtype="float16"),
    Variant("llama-bf16", _llama(), dtype="bfloat16"),
    Variant("mistral-f32", _mistral()),
    Variant("qwen2-f32", _qwen2()),
    Variant("qwen2-untied-f32", _qwen2(tie_word_embeddings=False)),
    Variant("qwen2-bf16", _qwen2(), dtype="bfloat16"),
    Variant("qwen3-f32", _qwen3()),
    Variant(
        "qwen3-rope-parameters-f32",
        _qwen3(rope_theta=None, rope_parameters={"rope_theta": 500000.0, "rope_type": "default"}),
    ),
    Variant("qwen3-untied-f32", _qwen3(tie_word_embeddings=False)),
    Variant("qwen3-bf16", _qwen3(), dtype="bfloat16"),
    Variant("gemma3-text-f32", _gemma3()),
    Variant("gemma3-text-untied-f32", _gemma3(tie_word_embeddings=False)),
    Variant("gemma3-text-wide-window-f32", _gemma3(sliding_window=512, sliding_window_pattern=2, num_hidden_layers=4)),
    Variant("gemma3-text-f16", _gemma3(), dtype="float16"),
    Variant("gemma3-text-bf16", _gemma3(), dtype="bfloat16"),
)

QUANTIZED = (
    Variant("llama-4bit", _llama(), quantized=Quantized()),
    Variant("llama-untied-4bit-g32", _llama(tie_word_embeddings=False), quantized=Quantized(group_size=32)),
    Variant("llama-biases-4bit", _llama(attention_bias=True, mlp_bias=True), quantized=Quantized()),
    Variant("llama-2bit-g32", _llama(), quantized=Quantized(bits=2, group_size=32)),
    Variant("llama-3bit-g64", _llama(), quantized=Quantized(bits=3)),
    Variant("llama-5bit-g128", _llama(), quantized=Quantized(bits=5, group_size=128)),
    Variant("llama-6bit-g32", _llama(), quantized=Quantized(bits=6, group_size=32)),
    Variant("llama-8bit-g128", _llama(), quantized=Quantized(bits=8, group_size=128)),
    Variant(
        "llama-4bit-embeddings-8bit",
        _llama(),
        quantized=Quantized(group_size=32, overrides={"model.embed_tokens": {**EIGHT_BIT, "group_size": 32}}),
    ),
    Variant(
        "llama-4bit-mixed",
        _llama(tie_word_embeddings=False),
        quantized=Quantized(
            overrides={
                "model.embed_tokens": EIGHT_BIT,
                "model.layers.0.self_attn.o_proj": False,
                "model.layers.1.mlp.down_proj": {"bits": 6, "group_size": 128},
            }
        ),
    ),
    Variant(
        "llama-4bit-dense-layer-named",
        _llama(),
        quantized=Quantized(overrides={"model.layers.0.mlp.up_proj": False}, name_dense_layers=True),
    ),
    Variant("llama-mxfp4", _llama(), quantized=Quantized("mxfp4", 4, 32)),
    Variant("llama-nvfp4", _llama(), quantized=Quantized("nvfp4", 4, 16)),
    Variant("llama-4bit-f16", _llama(), dtype="float16", quantized=Quantized(), prompt_lengths=SHORT_LENGTHS),
    Variant("llama-4bit-bf16", _llama(), dtype="bfloat16", quantized=Quantized(), prompt_lengths=SHORT_LENGTHS),
    Variant("llama-shards-4bit", _llama(), quantized=Quantized(), shard_bytes=80_000),
    Variant("mistral-4bit", _mistral(), quantized=Quantized()),
    Variant("qwen2-4bit", _qwen2(), quantized=Quantized()),
    Variant("qwen3-4bit", _qwen3(), quantized=Quantized()),
    Variant("gemma3-text-4bit", _gemma3(), quantized=Quantized()),
)

VARIANTS = DENSE + QUANTIZED
