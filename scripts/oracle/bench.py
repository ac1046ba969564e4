"""A persistent mlx-lm worker for speed comparisons; speaks the worker protocol of the benchmark harness.

One JSON object a line, requests on standard input, events on standard output (``harness/src/worker/protocol.rs`` is
the authority): ``hello`` first; ``load`` is answered by ``loaded``, ``generate`` by ``generated``, ``finish`` by
``done``. A request that cannot be served is answered by ``failed``, which ends the process.

A generation is prefill and exactly ``max_tokens`` greedy tokens with mlx-lm's model, cache and order of work: chunks
of the prompt but its last token, then that token, then one step of look-ahead. It knows no end of sequence:
``suppress_eos`` has nothing to do, the token is one like any other. Times are monotonic, since the first forward call:
``token_nanos[i]`` is when token i's value was on the host, so the first is the prefill and the steps after it are the
decode.

mlx-lm's own ``generate_step`` submits the second step before it reads the first token. Where submitting blocks until
the queue is short, as on a CPU, that counts a decode step into the prefill, and it submits one step more than it needs
at the end. Neither is done here, so that both sides of a comparison time the same thing.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import hashlib
import json
import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

PROTOCOL = 1
Event = dict[str, Any]


class Refusal(Exception):
    """A request that cannot be served, with the kind that the protocol gives it."""

    def __init__(self, kind: str, message: str) -> None:
        """Keep the kind beside the message."""
        super().__init__(message)
        self.kind = kind


def mlx_library() -> Path | None:
    """Return the path of the MLX library that this process has loaded, where the system tells."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    paths = (Path(line.split(maxsplit=5)[5].strip()) for line in maps.read_text().splitlines() if "/" in line)
    return next((path for path in paths if path.name.startswith("libmlx.")), None)


def hello(versions: dict[str, str]) -> Event:
    """Return the event that says who speaks."""
    library = mlx_library()
    backend = "cpu" if mx.default_device() == mx.Device(mx.cpu) else ("metal" if mx.metal.is_available() else "cuda")
    runtime = {
        "version": f"mlx-lm {versions['mlx_lm']}",
        "backend": backend,
        "executable_sha256": None,
        "mlx_version": versions["mlx"],
        "mlx_revision": f"v{versions['mlx']}",
        "mlx_library": None if library is None else str(library),
        "mlx_library_sha256": None if library is None else hashlib.sha256(library.read_bytes()).hexdigest(),
        "mlx_rs_version": None,
        "mlx_c_version": None,
        "report": versions,
    }
    return {"event": "hello", "protocol": PROTOCOL, "pid": os.getpid(), "stamp": None, "runtime": runtime}


@dataclasses.dataclass
class HostTimes:
    """Where the host's time in the decode loop went, in nanoseconds; counted as our runtime counts it."""

    build: int = 0
    submit: int = 0
    wait: int = 0


def greedy_steps(
    model: Any, prompt: mx.array, max_tokens: int, prefill_chunk: int, times: HostTimes
) -> Iterator[int]:
    """Yield greedy tokens as soon as each is on the host, the next step submitted ahead but for the first."""
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)

    def step(ids: mx.array) -> tuple[mx.array, mx.array]:
        logits = model(ids[None], cache=cache)[:, -1, :]
        logprobs = logits - mx.logsumexp(logits, keepdims=True)
        return mx.argmax(logprobs, axis=-1), logprobs.squeeze(0)

    while prompt.size > 1:
        chunk = prompt[: min(prefill_chunk, prompt.size - 1)]
        model(chunk[None], cache=cache)
        mx.eval([layer.state for layer in cache])
        prompt = prompt[chunk.size :]
        mx.clear_cache()
    ahead = step(prompt)
    mx.async_eval(ahead)
    for position in range(max_tokens):
        building = time.monotonic_ns()
        following = step(ahead[0]) if position + 1 < max_tokens else None
        submitting = time.monotonic_ns()
        if position > 0 and following is not None:
            mx.async_eval(following)
        waiting = time.monotonic_ns()
        token = int(ahead[0].item())
        read = time.monotonic_ns()
        if position > 0:
            times.build += submitting - building
            times.submit += waiting - submitting
            times.wait += read - waiting
        yield token
        if position == 0 and following is not None:
            submitting = time.monotonic_ns()
            mx.async_eval(following)
            times.submit += time.monotonic_ns() - submitting
        if position % 256 == 0:
            mx.clear_cache()
        if following is not None:
            ahead = following


class Worker:
    """Serves requests on one model."""

    def __init__(self) -> None:
        """Start without a model."""
        self.model: Any = None

    def load(self, path: Path) -> Event:
        """Load the checkpoint and describe it."""
        from mlx_lm.utils import compute_bits_per_weight, get_total_parameters, load_model

        if self.model is not None:
            raise Refusal("bad_input", "a checkpoint is loaded already; a worker loads one")
        mx.reset_peak_memory()
        started = time.monotonic_ns()
        try:
            self.model, config = load_model(path, strict=True)
        except (OSError, ValueError, KeyError) as fault:
            raise Refusal("bad_input", f"{path}: {fault}") from fault
        nanos = time.monotonic_ns() - started
        weights = tree_flatten(self.model.parameters())
        return {
            "event": "loaded",
            "load_nanos": nanos,
            "model_type": config["model_type"],
            "parameters": get_total_parameters(self.model),
            "weight_bytes": sum(value.nbytes for _, value in weights),
            "bits_per_weight": compute_bits_per_weight(self.model),
            "context_length": config.get("max_position_embeddings"),
            "synthetic": "mlxcel_synthetic" in config,
            "kv_mode": None,
            "kernels": "mlx",
            "active_memory_bytes": mx.get_active_memory(),
            "peak_memory_bytes": mx.get_peak_memory(),
            "summary": {"vocab_size": config["vocab_size"], "quantization": config.get("quantization")},
        }

    def generate(self, request: Event) -> Event:
        """Run one generation and hand back its times."""
        if self.model is None:
            raise Refusal("bad_input", "no checkpoint is loaded")
        ids = request["prompt"].get("tokens")
        if ids is None:
            raise Refusal("bad_input", "this worker has no synthetic prompts; give it the prompt's token ids")
        if not ids or request["max_tokens"] < 1:
            raise Refusal("bad_input", "the prompt and max_tokens have to be at least one token")
        prompt = mx.array(ids, dtype=mx.uint32)
        mx.eval(prompt)
        mx.clear_cache()
        mx.reset_peak_memory()
        tokens: list[int] = []
        nanos: list[int] = []
        times = HostTimes()
        steps = greedy_steps(self.model, prompt, request["max_tokens"], request["prefill_chunk"], times)
        started_at = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
        started = time.monotonic_ns()
        for token in steps:
            nanos.append(time.monotonic_ns() - started)
            tokens.append(token)
        peak = mx.get_peak_memory()
        sample = {
            "rep": request["rep"],
            "prompt_tokens": len(ids),
            "token_nanos": nanos,
            "host_nanos": max(0, nanos[-1] - nanos[0] - times.build - times.submit - times.wait),
            "peak_memory_bytes": peak,
            "started_at": started_at,
            "finish": "length",
        }
        digest = hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()
        return {
            "event": "generated",
            "sample": sample,
            "tokens": tokens,
            "prompt_sha256": digest,
            "build_nanos": times.build,
            "submit_nanos": times.submit,
        }


STAGES = {"load": "load", "generate": "bench", "finish": "finish"}


def answer(worker: Worker, line: str) -> Event:
    """Return the event that answers a request line."""
    stage = "start"
    try:
        request = json.loads(line)
        name = request["request"]
        stage = STAGES.get(name, "start")
        if name == "load":
            return worker.load(Path(request["path"]))
        if name == "generate":
            stage = "bench" if request["rep"] else "warmup"
            return worker.generate(request)
        if name == "finish":
            return {"event": "done"}
        raise Refusal("bad_input", f"unknown request {name!r}; known are load, generate, finish")
    except Exception as fault:
        if isinstance(fault, Refusal):
            return {"event": "failed", "stage": stage, "kind": fault.kind, "message": str(fault)}
        kind = "other"
        if isinstance(fault, MemoryError) or "allocate" in str(fault):
            kind = "out_of_memory"
        return {"event": "failed", "stage": stage, "kind": kind, "message": f"{type(fault).__name__}: {fault}"}


def main() -> int:
    """Handle the command line and serve until told to finish or until standard input ends."""
    parser = argparse.ArgumentParser(description="mlx-lm worker: JSON lines in, JSON lines out")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="default: the one that MLX takes by itself")
    arguments = parser.parse_args()
    device = mx.Device(getattr(mx, arguments.device)) if arguments.device else mx.default_device()
    mx.set_default_device(device)  # before mlx-lm is imported: it makes its stream then
    import mlx_lm.generate  # noqa: F401

    import shared

    mx.set_default_device(device)  # `shared` asks for the CPU
    out = sys.stdout
    sys.stdout = sys.stderr  # events alone go to standard output, whatever a library prints
    print(json.dumps(hello(shared.versions())), file=out, flush=True)
    worker = Worker()
    for line in sys.stdin:
        event = answer(worker, line)
        print(json.dumps(event), file=out, flush=True)
        if event["event"] == "done":
            return 0
        if event["event"] == "failed":
            return 1
    return 1


if __name__ == "__main__":
    sys.exit(main())
