"""Record the oracle's logits for a checkpoint: ``logits.py CHECKPOINT OUT.safetensors --lengths 1 7 33 2100``.

The model is mlx-lm's, loaded strictly, with its own cache, and the prompt goes in as ``mlx_lm.generate_step`` puts
it: all but the last token in chunks of at most 2,048, the cache evaluated after each, then the last token alone.

The file (all logits f32, in the order of the vocabulary):

- ``prompt_N.ids`` i32 [N], ``prompt_N.logits`` f32 [V]: after the last token of an N-token prompt;
- ``decode_N.ids`` i32 [S], ``decode_N.logits`` f32 [S, V]: S decode steps after that prompt; step i is fed ``ids[i]``
  and gives ``logits[i]``. The first ids are the oracle's greedy choices, the rest are drawn at random, since the
  greedy ids of a random model come to repeat themselves.

Its metadata holds the versions. Ids are drawn from a generator seeded with the length, so they are the same for
every checkpoint of one vocabulary size.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

import shared

PREFILL_STEP = 2048
# Which prompt lengths are followed by decode steps: greedy ones, then ones with random ids.
DECODES = {33: (64, 64), 2100: (16, 48)}
# The first ids of the tiny tokenizer are its special tokens; real prompts have them, but not all over.
FIRST_ORDINARY_ID = 4


def random_ids(count: int, vocab_size: int, seed: int) -> list[int]:
    """Return ``count`` token ids that depend on the arguments alone."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return generator.integers(FIRST_ORDINARY_ID, vocab_size, count).tolist()


def step(model: Any, cache: list[Any], ids: list[int]) -> mx.array:
    """Run ``ids`` through the model and return the last position's logits, f32 [V]."""
    logits = model(mx.array([ids], dtype=mx.uint32), cache=cache)[0, -1].astype(mx.float32)
    mx.eval(logits)
    return logits


def prefill(model: Any, ids: list[int]) -> tuple[list[Any], mx.array]:
    """Return a cache filled with the prompt and the logits after its last token."""
    cache = make_prompt_cache(model)
    head = ids[:-1]
    for start in range(0, len(head), PREFILL_STEP):
        model(mx.array([head[start : start + PREFILL_STEP]], dtype=mx.uint32), cache=cache)
        mx.eval([part.state for part in cache])
    return cache, step(model, cache, ids[-1:])


def record(
    model: Any, config: dict[str, Any], lengths: list[int], decodes: dict[int, tuple[int, int]] = DECODES
) -> tuple[dict[str, mx.array], dict[str, str]]:
    """Return the tensors and the metadata of one checkpoint's file."""
    vocab_size = config["vocab_size"]
    tensors: dict[str, mx.array] = {}
    for length in lengths:
        ids = random_ids(length, vocab_size, length)
        cache, logits = prefill(model, ids)
        tensors[f"prompt_{length}.ids"] = mx.array(ids, dtype=mx.int32)
        tensors[f"prompt_{length}.logits"] = logits
        greedy, drawn = decodes.get(length, (0, 0))
        if greedy + drawn > 0:
            fed, rows = [], []
            for token in [None] * greedy + random_ids(drawn, vocab_size, 10_000 + length):
                fed.append(int(mx.argmax(logits).item()) if token is None else token)
                logits = step(model, cache, fed[-1:])
                rows.append(logits)
            tensors[f"decode_{length}.ids"] = mx.array(fed, dtype=mx.int32)
            tensors[f"decode_{length}.logits"] = mx.stack(rows)
    if not all(mx.all(mx.isfinite(value)).item() for name, value in tensors.items() if name.endswith("logits")):
        raise ValueError("the oracle's logits are not finite: the checkpoint is of no use")
    return tensors, {**shared.versions(), "prefill_step": str(PREFILL_STEP), "model_type": config["model_type"]}


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="record the oracle's logits for a checkpoint")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 7, 33, 2100], help="prompt lengths in tokens")
    arguments = parser.parse_args()
    if min(arguments.lengths) < 1:
        parser.error("a prompt has at least one token")
    try:
        tensors, metadata = record(*load_model(arguments.checkpoint, strict=True), arguments.lengths)
    except (ValueError, OSError, KeyError) as fault:
        print(f"error: {arguments.checkpoint}: {fault}", file=sys.stderr)
        return shared.FAULT
    shared.save_tensors(arguments.out, tensors, metadata)
    return 0


if __name__ == "__main__":
    sys.exit(main())
