"""Compare our logits with mlx-lm's on this machine's device, and say whether each side repeats its own bits.

    device_logits.py CHECKPOINT --ours target/release/mlxcel --out RESULT.json --length 8 --length 512

The parity tests run on CPUs; this is for the other backends, whose results no test sees. Both sides are given the same
ids: a prompt, then ``--steps`` greedy choices of mlx-lm's. Three forms of mlx-lm are told apart, since half precision
rounds otherwise wherever the work is cut otherwise: the prompt as mlx-lm takes it (its last token by itself), the
prompt in one pass, as we take it, and the same model in single precision, which says how far half precision is off at
all (``--reference-up-to`` tokens; it is slow).

The measure is that of the parity tests: the largest absolute difference over a row of logits, in standard deviations of
mlx-lm's row. Where there is a reference, the sides agree when they lie no further apart than two sides can of which
each is as far from the reference as mlx-lm is. The result holds the nodes of a decode step's graph as well.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Single precision is to be that: products with 10-bit inputs are no reference. Half precision does not know the setting.
os.environ.setdefault("MLX_ENABLE_TF32", "0")

import mlx.core as mx
import numpy as np

DEVICE = mx.default_device()

import shared  # noqa: E402, I001
from abba import prompt_ids  # noqa: E402

mx.set_default_device(DEVICE)  # `shared` asks for the CPU

CHUNK = 2048
# What single precision itself leaves open, in standard deviations: the bound of the parity tests.
SINGLE_PRECISION = 1e-4
FAULT = 4
DISAGREE = 1
REFUSED = 2
Rows = np.ndarray


def forward(model: Any, cache: list[Any], ids: list[int]) -> mx.array:
    """Run ``ids`` through the model and return the last position's logits, f32 [V]."""
    logits = model(mx.array([ids], dtype=mx.uint32), cache=cache)[0, -1].astype(mx.float32)
    mx.eval(logits)
    return logits


def rows(model: Any, prompt: list[int], steps: list[int] | int, last_alone: bool) -> tuple[Rows, list[int]]:
    """Return the logits after the prompt and after each step, [1 + steps, V], and the steps' ids.

    ``steps`` are ids, or how many greedy choices to follow.
    """
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    head = prompt[:-1] if last_alone else prompt
    logits = None
    for start in range(0, len(head), CHUNK):
        logits = forward(model, cache, head[start : start + CHUNK])
    if last_alone or logits is None:
        logits = forward(model, cache, prompt[-1:])
    found, fed = [np.array(logits)], []
    for index in range(steps if isinstance(steps, int) else len(steps)):
        fed.append(int(np.argmax(found[-1])) if isinstance(steps, int) else steps[index])
        found.append(np.array(forward(model, cache, fed[-1:])))
    return np.stack(found), fed


def distance(one: Rows, other: Rows) -> dict[str, float]:
    """Return how far the rows lie apart, in standard deviations of ``other``'s, and how many share their largest logit."""
    apart = np.abs(one.astype(np.float64) - other).max(axis=1) / other.astype(np.float64).std(axis=1)
    return {
        "prompt": float(apart[0]),
        "worst": float(apart.max()) if np.isfinite(apart).all() else float("inf"),
        "mean": float(apart.mean()),
        "same_choice": float((one.argmax(axis=1) == other.argmax(axis=1)).mean()),
    }


def repeated(runs: list[Rows]) -> dict[str, Any]:
    """Return whether all runs gave the same bits, and the worst difference where not."""
    equal = [run.tobytes() == runs[0].tobytes() for run in runs[1:]]
    return {
        "runs": len(runs),
        "same_bits": all(equal),
        "prompt_same_bits": all(run[0].tobytes() == runs[0][0].tobytes() for run in runs[1:]),
        "worst": max((distance(run, runs[0])["worst"] for run in runs[1:]), default=0.0),
    }


def nodes_of_step(model: Any) -> dict[str, int]:
    """Return how often each operation stands in the graph of a greedy decode step."""
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    model(mx.array([[0, 0]], dtype=mx.uint32), cache=cache)
    mx.eval([layer.state for layer in cache])
    logits = model(mx.array([[0]], dtype=mx.uint32), cache=cache)[:, -1, :]
    logprobs = logits - mx.logsumexp(logits, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.dot"
        mx.export_to_dot(str(file), mx.argmax(logprobs, axis=-1), logprobs.squeeze(0))
        names = re.findall(r'\[label ="([^"]*)", shape=rectangle\]', file.read_text())
    return dict(sorted(collections.Counter(names).items()))


def ours(command: list[str], checkpoint: Path, sequences: dict[str, Any], runs: int) -> tuple[dict[str, list[Rows]], Any]:
    """Return our rows by the sequences' names, one array a run, and the nodes of our decode step."""
    with tempfile.TemporaryDirectory() as folder:
        asked, given = Path(folder) / "ids.json", Path(folder) / "logits.safetensors"
        asked.write_text(json.dumps(sequences))
        arguments = ["logits", "--model", str(checkpoint), "--ids", str(asked), "--out", str(given), "--runs", str(runs)]
        done = subprocess.run([*command, *arguments], check=True, stdout=subprocess.PIPE, text=True)
        tensors = {name: np.array(value) for name, value in mx.load(str(given)).items()}
    found = {
        name: [
            np.concatenate([tensors[f"{name}.{run}.prompt"][None], tensors[f"{name}.{run}.steps"]])
            for run in range(1, runs + 1)
        ]
        for name in sequences
    }
    return found, json.loads(done.stdout.splitlines()[-1])["decode_step_nodes"]


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return everything that is told."""
    from mlx_lm.utils import load_model

    model, config = load_model(arguments.checkpoint, strict=True)
    cut, whole, sequences = {}, {}, {}
    for length in arguments.length:
        prompt = prompt_ids(length, config["vocab_size"])
        first, steps = rows(model, prompt, arguments.steps, last_alone=True)
        cut[length] = [first] + [rows(model, prompt, steps, last_alone=True)[0] for _ in range(1, arguments.runs)]
        whole[length] = rows(model, prompt, steps, last_alone=False)[0]
        sequences[str(length)] = {"prompt": prompt, "steps": steps}
        print(f"mlx-lm after {length} tokens", file=sys.stderr)
    nodes = {"theirs": nodes_of_step(model)}
    found, nodes["ours"] = ours(shlex.split(arguments.ours), arguments.checkpoint, sequences, arguments.runs)
    model.set_dtype(mx.float32)
    results = []
    for length in arguments.length:
        own = found[str(length)]
        result = {
            "prompt_tokens": length,
            "steps": arguments.steps,
            "finite": all(bool(np.isfinite(run).all()) for run in (*own, *cut[length])),
            "ours_repeats": repeated(own),
            "theirs_repeats": repeated(cut[length]),
            "ours_to_theirs": distance(own[0], cut[length][0]),
            "ours_to_theirs_in_one_pass": distance(own[0], whole[length]),
            "theirs_in_one_pass_to_theirs": distance(whole[length], cut[length][0]),
            "agree": None,
        }
        if length <= arguments.reference_up_to:
            sequence = sequences[str(length)]
            reference = rows(model, sequence["prompt"], sequence["steps"], last_alone=True)[0]
            result["ours_to_reference"] = distance(own[0], reference)
            result["theirs_to_reference"] = distance(cut[length][0], reference)
            result["theirs_in_one_pass_to_reference"] = distance(whole[length], reference)
            bound = max(2 * result["theirs_to_reference"]["worst"], SINGLE_PRECISION)
            result["agree"] = result["finite"] and result["ours_to_theirs"]["worst"] <= bound
            print(f"reference after {length} tokens", file=sys.stderr)
        results.append(result)
    return {
        "schema_version": 1,
        "kind": "device_logits",
        "checkpoint": arguments.checkpoint.name,
        "versions": {**shared.versions(), "device": str(DEVICE)},
        "decode_step_nodes": nodes,
        "results": results,
    }


def line(result: dict[str, Any]) -> str:
    """Return a result as a line of text."""

    def far(name: str) -> str:
        return f"{result[name]['worst']:.2e}" if name in result else "?"

    return (
        f"after {result['prompt_tokens']} tokens: agree {result['agree']}; same bits ours "
        f"{result['ours_repeats']['same_bits']}, theirs {result['theirs_repeats']['same_bits']}; ours to theirs "
        f"{far('ours_to_theirs')}, in one pass {far('ours_to_theirs_in_one_pass')}; theirs in one pass to theirs "
        f"{far('theirs_in_one_pass_to_theirs')}; to the reference ours {far('ours_to_reference')}, theirs "
        f"{far('theirs_to_reference')}; same choice {result['ours_to_theirs']['same_choice']:.0%}"
    )


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="our logits and mlx-lm's on this machine's device")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--ours", default="target/release/mlxcel", help="our command")
    parser.add_argument("--length", type=int, action="append", help="prompt length in tokens [8, 512, 4096]")
    parser.add_argument("--steps", type=int, default=16, help="decode steps after each prompt")
    parser.add_argument("--runs", type=int, default=3, help="how often each side computes everything")
    parser.add_argument("--reference-up-to", type=int, default=512, help="longest prompt for the reference, in tokens")
    parser.add_argument("--out", type=Path, required=True, help="file for the result, which must not exist")
    arguments = parser.parse_args()
    arguments.length = arguments.length or [8, 512, 4096]
    if arguments.out.exists():
        print(f"error: {arguments.out} exists and results are never overwritten; name another file", file=sys.stderr)
        return REFUSED
    if min(arguments.length) < 1 or arguments.steps < 1 or arguments.runs < 1:
        print("error: a prompt of 1 token, 1 step and 1 run are the least", file=sys.stderr)
        return REFUSED
    try:
        record = compare(arguments)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return FAULT
    with arguments.out.open("x") as handle:
        json.dump(record, handle, indent=1)
        handle.write("\n")
    for result in record["results"]:
        print(line(result))
    return DISAGREE if any(result["agree"] is False for result in record["results"]) else 0


if __name__ == "__main__":
    sys.exit(main())
