"""Write the tiny random-weight checkpoints of ``tiny_variants.py`` into a folder: ``tiny_checkpoints.py OUT``.

Dense ones are laid out as Hugging Face checkpoints; quantized ones are made from them and saved by mlx-lm's own
``convert``. The weights depend on the tensor's name and shape alone, so every run writes the same ones. They are
scaled so that attention looks around, no layer drowns the others and the logits spread by one to a few units: a
fault in any layer then shows in the logits.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm import convert
from mlx_lm.utils import _get_classes

import shared
import tiny_tokenizer
from tiny_variants import VARIANTS, Quantized, Variant

# Standard deviations are gain / sqrt(inputs). Residual branches outweigh the embedding so that a tied head does
# not simply repeat its input; queries and keys give attention scores a spread of about two.
GAINS = {"q_proj": 1.5, "k_proj": 1.5, "v_proj": 1.5, "o_proj": 2.0, "gate_proj": 1.5, "up_proj": 1.5, "down_proj": 3.0}
EMBEDDING_STD = 0.2
HEAD_GAIN = 2.0
# gemma3_text multiplies its embeddings by sqrt(hidden size): its branches have to keep up.
GEMMA_BRANCH_SCALE = 3.0


def norm_mean(name: str, model_type: str) -> float:
    """Return what a norm's weights lie around: gemma3_text stores w - 1, and its norms after a branch set its size."""
    if model_type != "gemma3_text":
        return 1.0
    is_after_branch = "post_attention_layernorm" in name or "post_feedforward_layernorm" in name
    return GEMMA_BRANCH_SCALE - 1.0 if is_after_branch else 0.0


def random_tensor(name: str, shape: tuple[int, ...], model_type: str) -> np.ndarray:
    """Return a tensor's values, f32, drawn by a generator seeded with its name."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    draw = np.random.Generator(np.random.PCG64(seed)).standard_normal(shape, dtype=np.float32)
    module, leaf = name.split(".")[-2:]
    if leaf == "bias":
        return 0.3 * draw
    if module.endswith("norm"):
        return norm_mean(name, model_type) + 0.15 * draw
    if module == "embed_tokens":
        return EMBEDDING_STD * draw
    gain = HEAD_GAIN if module == "lm_head" else GAINS[module]
    return (gain / math.sqrt(shape[-1])) * draw


def random_weights(variant: Variant) -> dict[str, mx.array]:
    """Return every tensor that mlx-lm's model of this config has, filled at random, in the variant's dtype."""
    model_class, arguments_class = _get_classes(variant.config)
    model = model_class(arguments_class.from_dict(variant.config))
    shapes = {name: value.shape for name, value in tree_flatten(model.parameters())}
    if variant.config.get("tie_word_embeddings", True):
        shapes.pop("lm_head.weight", None)
    dtype = getattr(mx, variant.dtype)
    model_type = variant.config["model_type"]
    return {name: mx.array(random_tensor(name, shape, model_type)).astype(dtype) for name, shape in shapes.items()}


def write_weights(folder: Path, weights: dict[str, mx.array], shard_bytes: int | None, layout: str) -> None:
    """Write one ``model.safetensors``, or shards of about ``shard_bytes`` with an index."""
    shards: list[dict[str, mx.array]] = [{}]
    size = 0
    for name, value in sorted(weights.items()):
        if shard_bytes is not None and shards[-1] and size + value.nbytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = value
        size += value.nbytes
    if shard_bytes is None:
        mx.save_safetensors(str(folder / "model.safetensors"), shards[0], metadata={"format": layout})
        return
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        file_name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        mx.save_safetensors(str(folder / file_name), shard, metadata={"format": layout})
        weight_map.update(dict.fromkeys(shard, file_name))
    index = {"metadata": {"total_size": sum(value.nbytes for value in weights.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def write_dense(folder: Path, variant: Variant) -> None:
    """Write the variant's dense checkpoint in Hugging Face layout."""
    config = {**variant.config, "torch_dtype": variant.dtype}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    generation = {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"]}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    tiny_tokenizer.write(folder, config["max_position_embeddings"])
    write_weights(folder, random_weights(variant), variant.shard_bytes, "pt")


def layer_rule(overrides: dict[str, dict[str, Any] | bool], path: str, _module: Any) -> dict[str, Any] | bool:
    """Answer mlx-lm's question how a layer is to be quantized."""
    return overrides.get(path, True)


def quantize(dense: Path, folder: Path, quantized: Quantized, shard_bytes: int | None) -> None:
    """Quantize a dense checkpoint with mlx-lm into ``folder``."""
    with shared.quiet():
        convert(
            str(dense),
            str(folder),
            quantize=True,
            q_mode=quantized.mode,
            q_bits=quantized.bits,
            q_group_size=quantized.group_size,
            quant_predicate=functools.partial(layer_rule, quantized.overrides),
        )
    if quantized.name_dense_layers:
        config = json.loads((folder / "config.json").read_text())
        dense_layers = {path: False for path, rule in quantized.overrides.items() if rule is False}
        config["quantization"].update(dense_layers)
        config["quantization_config"] = config["quantization"]
        (folder / "config.json").write_text(json.dumps(config, indent=4) + "\n")
    if shard_bytes is not None:
        whole = folder / "model.safetensors"
        weights = mx.load(str(whole))
        mx.eval(weights)
        whole.unlink()
        write_weights(folder, weights, shard_bytes, "mlx")


def make(variant: Variant, folder: Path) -> None:
    """Make one checkpoint in ``folder``, which appears only when it is complete."""
    with shared.new_folder(folder) as scratch:
        if variant.quantized is None:
            write_dense(scratch, variant)
            return
        dense = scratch / "dense"
        dense.mkdir()
        write_dense(dense, variant)
        quantize(dense, scratch / "quantized", variant.quantized, variant.shard_bytes)
        for path in sorted((scratch / "quantized").iterdir()):
            path.rename(scratch / path.name)
        (scratch / "quantized").rmdir()
        for path in dense.iterdir():
            path.unlink()
        dense.rmdir()


def describe(variant: Variant) -> dict[str, Any]:
    """Return the variant's line of ``manifest.json``."""
    quantized = variant.quantized
    scaling = variant.config.get("rope_scaling") or {}
    return {
        "name": variant.name,
        "model_type": variant.config["model_type"],
        "dtype": variant.dtype,
        "rope_type": scaling.get("rope_type", scaling.get("type", "default")),
        "quantization": None
        if quantized is None
        else {"mode": quantized.mode, "bits": quantized.bits, "group_size": quantized.group_size},
        "prompt_lengths": list(variant.prompt_lengths),
    }


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="write the tiny random-weight checkpoints")
    parser.add_argument("out", type=Path, help="folder that gets one folder a checkpoint and manifest.json")
    parser.add_argument("--only", action="append", metavar="NAME", help="make these alone (may be repeated)")
    arguments = parser.parse_args()
    known = {variant.name for variant in VARIANTS}
    if unknown := sorted(set(arguments.only or ()) - known):
        print(
            f"error: no tiny checkpoint is named {', '.join(unknown)}; there are: {', '.join(sorted(known))}",
            file=sys.stderr,
        )
        return shared.FAULT
    chosen = [variant for variant in VARIANTS if arguments.only is None or variant.name in arguments.only]
    for variant in chosen:
        make(variant, arguments.out / variant.name)
    shared.write_json(
        arguments.out / "manifest.json", {"versions": shared.versions(), "checkpoints": [describe(v) for v in chosen]}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
