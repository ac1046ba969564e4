"""mlx-lm as a worker of a sweep: speaks the harness's worker protocol, one JSON object a line.

It runs mlx-lm's own generator on the token ids that it is given and stamps every token as the generator hands it out:
times are monotonic, from the call that starts the generator. The token ids that the other runtime suppressed are
suppressed here by a logits processor; where no end-of-sequence token is known at all, the request is refused, since
the run could end early without anybody being able to tell why.
"""

import contextlib
import datetime
import hashlib
import importlib
import json
import os
import struct
import sys
import time
from pathlib import Path

import mlx.core as mx

PROTOCOL = 1

# How the texts begin with which allocators refuse: MLX's on the processor and on Metal; calls of CUDA by their names.
ALLOCATORS = ("[malloc", "[metal::malloc", "[metal_malloc", "std::bad_alloc")
CUDA = ("cudaMalloc", "cuMem", "[cuda")


class Refusal(Exception):
    """A request that cannot be served, with the kind that the protocol gives it."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def library():
    """The MLX library that this process has loaded, where the system tells."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    paths = (Path(line.split(maxsplit=5)[5].strip()) for line in maps.read_text().splitlines() if "/" in line)
    return next((path for path in paths if path.name.startswith("libmlx.")), None)


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def hello():
    """Who speaks: everything is asked of this interpreter."""
    import mlx_lm
    import transformers

    cpu = mx.default_device() == mx.Device(mx.cpu)
    found = library()
    versions = {
        "mlx_lm": mlx_lm.__version__,
        "mlx": mx.__version__,
        "transformers": transformers.__version__,
        "python": sys.version.split()[0],
    }
    runtime = {
        "version": f"mlx-lm-{mlx_lm.__version__}",
        "backend": "cpu" if cpu else ("metal" if mx.metal.is_available() else "cuda"),
        "executable_sha256": sha256(os.path.realpath(sys.executable)),
        "mlx_version": mx.__version__,
        "mlx_revision": f"v{mx.__version__}",
        "mlx_library": None if found is None else str(found),
        "mlx_library_sha256": None if found is None else sha256(found),
        "mlx_rs_version": None,
        "mlx_c_version": None,
        "report": versions,
    }
    return {"event": "hello", "protocol": PROTOCOL, "pid": os.getpid(), "stamp": None, "runtime": runtime}


class Worker:
    def __init__(self):
        self.model = None
        self.tokenizer = None

    def load(self, path):
        import mlx_lm
        from mlx.utils import tree_flatten

        if self.model is not None:
            raise Refusal("bad_input", "a checkpoint is loaded already; a worker loads one")
        mx.reset_peak_memory()
        started = time.monotonic_ns()
        try:
            self.model, self.tokenizer = mlx_lm.load(path)
        except (OSError, ValueError, KeyError) as fault:
            raise Refusal("bad_input", f"{path}: {fault}") from fault
        mx.eval(self.model.parameters())
        nanos = time.monotonic_ns() - started
        config = json.loads((Path(path) / "config.json").read_text())
        return {
            "event": "loaded",
            "load_nanos": nanos,
            "model_type": config.get("model_type", "unknown"),
            "parameters": None,
            "weight_bytes": sum(value.nbytes for _, value in tree_flatten(self.model.parameters())),
            "bits_per_weight": None,
            "context_length": config.get("max_position_embeddings"),
            "synthetic": False,
            "kv_mode": "unquantized",
            "kernels": "mlx",
            "active_memory_bytes": mx.get_active_memory(),
            "peak_memory_bytes": mx.get_peak_memory(),
            "summary": None,
        }

    def suppressed(self, request):
        """The token ids that must not be chosen: those of the other runtime and this tokenizer's own."""
        if not request["suppress_eos"]:
            return []
        own = getattr(self.tokenizer, "eos_token_ids", None) or []
        ids = sorted({*own, *request.get("suppress", [])})
        if not ids:
            raise Refusal("not_comparable", "no end-of-sequence token is known, so none can be suppressed")
        return ids

    def generate(self, request):
        # The package has a function of the same name as the module.
        generation = importlib.import_module("mlx_lm.generate")

        if self.model is None:
            raise Refusal("bad_input", "no checkpoint is loaded")
        ids = request["prompt"].get("tokens")
        if not ids:
            raise Refusal("bad_input", "this worker needs the prompt's token ids")
        suppressed = self.suppressed(request)
        prompt = mx.array(ids, dtype=mx.uint32)
        forbidden = mx.array(suppressed, dtype=mx.uint32) if suppressed else None

        def suppress(_, logits):
            logits[:, forbidden] = -float("inf")
            return logits

        mx.eval(prompt)
        mx.synchronize()
        mx.reset_peak_memory()
        tokens, nanos, finish = [], [], "length"
        wired = getattr(generation, "wired_limit", None)
        around = wired(self.model, [generation.generation_stream]) if wired else contextlib.nullcontext()
        started_at = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
        with around:
            started = time.monotonic_ns()
            steps = generation.generate_step(
                prompt,
                self.model,
                max_tokens=request["max_tokens"],
                logits_processors=None if forbidden is None else [suppress],
                prefill_step_size=request["prefill_chunk"],
            )
            for token, _ in steps:
                token = int(token)
                nanos.append(time.monotonic_ns() - started)
                tokens.append(token)
                if not request["suppress_eos"] and token in (self.tokenizer.eos_token_ids or []):
                    finish = "eos"
                    break
        if len(tokens) < request["max_tokens"] and finish == "length":
            finish = "stopped"
        sample = {
            "rep": request["rep"],
            "prompt_tokens": len(ids),
            "token_nanos": nanos,
            "host_nanos": None,
            "peak_memory_bytes": mx.get_peak_memory(),
            "started_at": started_at,
            "finish": finish,
        }
        digest = hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()
        event = {"event": "generated", "sample": sample, "tokens": tokens, "prompt_sha256": digest}
        # The generator was given no cache of prompts, so it made an empty one and read the whole prompt.
        event["cached_prompt_tokens"] = 0
        if request.get("tell_tokens"):
            event["suppressed"] = suppressed
        return event


def is_refusal_of_allocator(fault):
    """Whether an allocator refused: by the type of what was raised, and by the beginning of what MLX throws."""
    if isinstance(fault, MemoryError):
        return True
    text = str(fault)
    cuda = text.startswith(CUDA) and "out of memory" in text
    metal = text.startswith("[METAL]") and "kIOGPUCommandBufferCallbackErrorOutOfMemory" in text
    return isinstance(fault, RuntimeError) and (text.startswith(ALLOCATORS) or cuda or metal)


STAGES = {"load": "load", "finish": "finish"}


def answer(worker, line):
    stage = "start"
    try:
        request = json.loads(line)
        name = request["request"]
        if name == "generate":
            stage = "bench" if request["rep"] else "warmup"
            return worker.generate(request)
        stage = STAGES.get(name, "start")
        if name == "load":
            return worker.load(request["path"])
        if name == "finish":
            return {"event": "done"}
        raise Refusal("bad_input", f"unknown request {name!r}; known are load, generate, finish")
    except Refusal as fault:
        return {"event": "failed", "stage": stage, "kind": fault.kind, "message": str(fault)}
    except Exception as fault:  # whatever mlx-lm may raise is a row of its own
        kind = "out_of_memory" if is_refusal_of_allocator(fault) else "other"
        return {"event": "failed", "stage": stage, "kind": kind, "message": f"{type(fault).__name__}: {fault}"}


def main():
    if len(sys.argv) > 1:
        # Before mlx-lm is imported: it makes its stream then.
        mx.set_default_device(mx.Device(getattr(mx, sys.argv[1])))
    out, sys.stdout = sys.stdout, sys.stderr  # events alone go to standard output, whatever a library prints
    print(json.dumps(hello()), file=out, flush=True)
    worker = Worker()
    for line in sys.stdin:
        event = answer(worker, line)
        print(json.dumps(event), file=out, flush=True)
        if event["event"] in ("done", "failed"):
            return 0 if event["event"] == "done" else 1
    return 1


sys.exit(main())
