"""Record the oracle's logits and greedy ids for a real checkpoint: ``record_real.py CHECKPOINT [--raw TEXT]...``.

The results go into the project's cache, in a folder named after the digest of the checkpoint's files, of the request
and of these scripts, so that each is computed once: ``logits.safetensors`` as ``logits.py`` describes it (64 greedy
steps after 33 tokens), and ``greedy.json``, a list with one object a prompt: ``prompt``, ``chat``, ``prompt_ids`` and
what ``greedy.py`` finds. Standard output carries the folder's path.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from mlx_lm.utils import load

import environment
import greedy
import logits
import shared

SOURCES = (*shared.SOURCES, "greedy.py", "record_real.py")
DECODES = {33: (64, 0)}
STEPS = 64


def checkpoint_digest(folder: Path) -> str:
    """Return the digest of what a checkpoint folder holds."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        with path.open("rb") as handle:
            digest.update(f"{path.name} {hashlib.file_digest(handle, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def record(checkpoint: Path, out: Path, lengths: list[int], prompts: list[tuple[str, bool]]) -> None:
    """Fill ``out``, which appears only when it is complete."""
    with shared.quiet():
        model, tokenizer, config = load(str(checkpoint), return_config=True)
    with shared.new_folder(out) as scratch:
        shared.save_tensors(scratch / "logits.safetensors", *logits.record(model, config, lengths, DECODES))
        found = []
        for text, chat in prompts:
            ids = greedy.prompt_ids(tokenizer, text, chat)
            found.append({"prompt": text, "chat": chat, "prompt_ids": ids, **greedy.run(model, ids, STEPS)})
        shared.write_json(scratch / "greedy.json", found)


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="record the oracle's results for a real checkpoint")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 7, 33], help="prompt lengths in tokens")
    parser.add_argument("--raw", action="append", default=[], metavar="TEXT", help="greedy ids after this text")
    parser.add_argument("--chat", action="append", default=[], metavar="TEXT", help="greedy ids after this chat turn")
    arguments = parser.parse_args()
    prompts = [(text, False) for text in arguments.raw] + [(text, True) for text in arguments.chat]
    try:
        request = json.dumps([checkpoint_digest(arguments.checkpoint), arguments.lengths, prompts, STEPS])
        digest = hashlib.sha256((shared.sources_digest(SOURCES) + request).encode()).hexdigest()[:16]
        out = environment.cache_folder() / f"oracle-real-{digest}"
        with shared.locked(out):
            if not out.is_dir():
                print(f"oracle: mlx-lm runs {arguments.checkpoint.name}", file=sys.stderr)
                record(arguments.checkpoint, out, arguments.lengths, prompts)
    except (ValueError, OSError, KeyError) as fault:
        print(f"error: {arguments.checkpoint}: {fault}", file=sys.stderr)
        return shared.FAULT
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
