"""What the oracle's scripts share: the device, the versions, the digest of the scripts, torn-proof files.

Importing this module puts MLX on its CPU backend: the oracle is the CPU build everywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

mx.set_default_device(mx.cpu)

HERE = Path(__file__).parent
FAULT = 4
# What the stored logits depend on; drivers and the speed scripts are not among them.
SOURCES = ("requirements.txt", "shared.py", "tiny_tokenizer.py", "tiny_variants.py", "tiny_checkpoints.py", "logits.py")


def versions() -> dict[str, str]:
    """Return the versions that the oracle's figures come from."""
    import mlx_lm
    import numpy
    import tokenizers
    import transformers

    return {
        "mlx": mx.__version__,
        "mlx_lm": mlx_lm.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": str(mx.default_device()),
    }


def sources_digest(names: tuple[str, ...] = SOURCES) -> str:
    """Return the digest of the scripts (and pins) named, of this machine's kind and of this Python."""
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {sys.implementation.cache_tag}".encode())
    for name in names:
        digest.update(f"\0{name}\0".encode())
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop what a library prints on standard output, which is for data."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock beside ``folder``; the system frees it even when the holder is killed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give a scratch folder that becomes ``target`` when the block ends well and vanishes when it does not."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
        if target.exists():
            shutil.rmtree(target)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_json(target: Path, value: Any) -> None:
    """Write a JSON file in one step."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    scratch.write_text(json.dumps(value, indent=2) + "\n")
    scratch.replace(target)


def save_tensors(target: Path, tensors: dict[str, mx.array], metadata: dict[str, str]) -> None:
    """Write a safetensors file in one step."""
    scratch = target.with_name(f".{os.getpid()}.{target.name}")  # MLX insists on the suffix
    mx.save_safetensors(str(scratch), tensors, metadata=metadata)
    scratch.replace(target)
