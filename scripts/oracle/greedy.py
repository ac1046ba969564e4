"""Greedy token ids of the oracle: ``greedy.py CHECKPOINT --prompt TEXT [--chat] [--steps 64] [--out FILE]``.

The ids come from mlx-lm's own ``generate_step``; end-of-sequence tokens do not stop it. For each step it gives the
gap between the two largest logits as well, so that a difference elsewhere can be told from a near-tie. The result
is one JSON object on standard output, or in the file.

The prompt's ids are the oracle's (its tokenizer, with the special tokens its post-processor adds), or are given with
``--ids``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.utils import load, load_model

import shared


def prompt_ids(tokenizer: Any, text: str, chat: bool) -> list[int]:
    """Return the prompt's token ids, as a chat turn where asked."""
    if not chat:
        return list(tokenizer.encode(text))
    messages = [{"role": "user", "content": text}]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


def run(model: Any, ids: list[int], steps: int) -> dict[str, list[Any]]:
    """Return the greedy ids of ``steps`` steps, each step's logit gap and the id that came second."""
    tokens: list[int] = []
    gaps: list[float] = []
    seconds: list[int] = []
    prompt = mx.array(ids, dtype=mx.uint32)
    stream = mx.default_stream(mx.default_device())  # mlx-lm's own is on the device that was set when it was imported
    for token, logprobs in generate_step(prompt, model, stream, max_tokens=steps):
        # Log-probabilities differ from logits by a constant, so the gap is the logits'.
        values = logprobs.astype(mx.float32)
        best = mx.argpartition(-values, 1)[:2].tolist()
        second = best[1] if best[0] == token else best[0]
        tokens.append(int(token))
        seconds.append(int(second))
        gaps.append(float((values[token] - values[second]).item()))
    return {"tokens": tokens, "logit_gaps": gaps, "seconds": seconds}


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="greedy token ids of the oracle")
    parser.add_argument("checkpoint", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT")
    source.add_argument("--ids", type=int, nargs="+", metavar="ID")
    parser.add_argument("--chat", action="store_true", help="put the prompt through the chat template")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--out", type=Path, help="write the JSON there instead of to standard output")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps is at least 1")
    try:
        with shared.quiet():
            if arguments.ids is None:
                model, tokenizer, *_ = load(str(arguments.checkpoint))
                ids = prompt_ids(tokenizer, arguments.prompt, arguments.chat)
            else:
                model, _ = load_model(arguments.checkpoint, strict=True)
                ids = arguments.ids
        if not ids:
            raise ValueError("the prompt has no tokens")
        result = run(model, ids, arguments.steps)
    except (ValueError, OSError, KeyError) as fault:
        print(f"error: {arguments.checkpoint}: {fault}", file=sys.stderr)
        return shared.FAULT
    result = {"prompt_ids": ids, **result, "versions": shared.versions()}
    if arguments.out is None:
        print(json.dumps(result))
    else:
        shared.write_json(arguments.out, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
