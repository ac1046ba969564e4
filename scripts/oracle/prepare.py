"""Prepare all that the parity tests compare with: the tiny checkpoints and the oracle's logits for each.

``prepare.py`` puts them into the project's cache, in a folder named after the digest of these scripts and of the
pins, so that they are made once; ``prepare.py OUT`` puts them into OUT. What is there already is kept: a run that
was cut short goes on where it stopped. Standard output carries the folder's path and nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from mlx_lm.utils import load_model

import environment
import logits
import shared
import tiny_checkpoints
from tiny_variants import VARIANTS


def prepare(out: Path) -> None:
    """Make whatever is missing in ``out``; ``manifest.json`` is written last."""
    manifest = out / "manifest.json"
    expected = {
        "sources": shared.sources_digest(),
        "checkpoints": [tiny_checkpoints.describe(variant) for variant in VARIANTS],
    }
    if manifest.is_file() and json.loads(manifest.read_text()).get("sources") == expected["sources"]:
        return
    state = out / "sources"
    if out.is_dir() and (not state.is_file() or state.read_text() != expected["sources"]) and any(out.iterdir()):
        raise ValueError(f"{out} holds something else, or what other scripts made; name an empty folder or remove it")
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    (out / "logits").mkdir(exist_ok=True)
    state.write_text(expected["sources"])
    for variant in VARIANTS:
        started = time.monotonic()
        folder, file = out / "checkpoints" / variant.name, out / "logits" / f"{variant.name}.safetensors"
        if not folder.is_dir():
            tiny_checkpoints.make(variant, folder)
        if not file.is_file():
            model, config = load_model(folder, strict=True)
            shared.save_tensors(file, *logits.record(model, config, list(variant.prompt_lengths)))
            print(f"oracle: {variant.name}: {time.monotonic() - started:.1f} s", file=sys.stderr)
    shared.write_json(manifest, {**expected, "versions": shared.versions()})


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="make the tiny checkpoints and the oracle's logits")
    parser.add_argument("out", type=Path, nargs="?", help="folder to fill (default: one in the project's cache)")
    arguments = parser.parse_args()
    out = arguments.out or environment.cache_folder() / f"oracle-data-{shared.sources_digest()}"
    try:
        with shared.locked(out):
            prepare(out)
    except (ValueError, OSError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return shared.FAULT
    print(out.absolute())
    return 0


if __name__ == "__main__":
    sys.exit(main())
