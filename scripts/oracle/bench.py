"""A persistent mlx-lm worker for speed comparisons: JSON lines in, JSON lines out.

A request: ``{"model": DIR, "prompt_ids": [..], "max_tokens": M}``, optionally ``"prefill_step_size"`` (2,048) and
``"id"`` (handed back). A model is loaded at its first request and kept until another one is asked for. Each request
runs prefill and exactly M greedy tokens with mlx-lm's own ``generate_step``, its look-ahead and chunking included;
end-of-sequence tokens do not stop it.

A reply: ``{"id", "prompt_tokens", "tokens", "prefill_nanos", "token_nanos", "load_nanos", "peak_memory_bytes",
"versions"}``. Times are monotonic, since the first forward call: ``token_nanos[i]`` is when token i's value was on
the host, so ``token_nanos[0]`` is the prefill and the M - 1 steps after it are the decode. ``load_nanos`` is null
unless this request loaded the model. A request that cannot be served gets ``{"id", "error"}`` and the worker goes on.

mlx-lm submits one step more than it needs; the worker waits for it to end after the last time is taken, so that it
does not run into the next request.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import mlx.core as mx


class Worker:
    """Serves requests; holds at most one model."""

    def __init__(self, versions: dict[str, str]) -> None:
        """Remember the versions that every reply states."""
        self.versions = versions
        self.path: Path | None = None
        self.model: Any = None

    def load(self, path: Path) -> int | None:
        """Load the checkpoint unless it is the one held; return the time it took, in nanoseconds."""
        from mlx_lm.utils import load_model

        if self.path == path:
            return None
        self.model, self.path = None, None
        gc.collect()
        mx.clear_cache()
        started = time.monotonic_ns()
        self.model, _ = load_model(path, strict=True)
        self.path = path
        return time.monotonic_ns() - started

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one request and return its reply."""
        from mlx_lm.generate import generate_step

        ids, count = request["prompt_ids"], request["max_tokens"]
        if not ids or count < 1:
            raise ValueError("prompt_ids and max_tokens have to be at least one")
        load_nanos = self.load(Path(request["model"]).resolve())
        prompt = mx.array(ids, dtype=mx.uint32)
        mx.eval(prompt)
        mx.clear_cache()
        mx.reset_peak_memory()
        tokens: list[int] = []
        token_nanos: list[int] = []
        steps = generate_step(
            prompt,
            self.model,
            max_tokens=count,
            prefill_step_size=request.get("prefill_step_size", 2048),
        )
        started = time.monotonic_ns()
        for token, _ in steps:
            token_nanos.append(time.monotonic_ns() - started)
            tokens.append(int(token))
        peak = mx.get_peak_memory()
        mx.synchronize()
        return {
            "id": request.get("id"),
            "prompt_tokens": len(ids),
            "tokens": tokens,
            "prefill_nanos": token_nanos[0],
            "token_nanos": token_nanos,
            "load_nanos": load_nanos,
            "peak_memory_bytes": peak,
            "versions": self.versions,
        }


def main() -> int:
    """Handle the command line and serve until standard input ends."""
    parser = argparse.ArgumentParser(description="mlx-lm worker: JSON lines in, JSON lines out")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="default: the one that MLX takes by itself")
    arguments = parser.parse_args()
    default = mx.default_device()
    import shared  # sets the oracle's CPU device: mlx-lm makes its stream on the device that is set when it is imported

    mx.set_default_device(getattr(mx, arguments.device) if arguments.device else default)
    worker = Worker(shared.versions())
    out = sys.stdout
    sys.stdout = sys.stderr  # replies alone go to standard output, whatever a library prints
    for line in sys.stdin:
        if not line.strip():
            continue
        identity = None
        try:
            request = json.loads(line)
            identity = request.get("id")
            reply = worker.serve(request)
        except Exception as fault:  # one bad request must not end the worker
            reply = {"id": identity, "error": f"{type(fault).__name__}: {fault}"}
        print(json.dumps(reply), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
