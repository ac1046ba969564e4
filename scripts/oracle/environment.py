"""Make the oracle's Python environment in the project's cache folder; called by ``scripts/oracle_env.sh``.

Standard library only: it runs before anything is installed. The environment's folder is named after the
digest of ``requirements.txt`` and of the interpreter, so a changed pin makes a new one and an old one stays
usable. A lock file keeps two runs apart; a marker written last tells a finished environment from a torn one.

Standard output carries one line, the interpreter's path (with ``--check``: ``ready PATH`` or ``absent PATH``).
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FAULT = 4
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
MARKER = "mlxcel-oracle-complete"
PROBE = "import mlx.core, mlx_lm, mlx_lm.generate, tokenizers; print(mlx.core.__version__, mlx_lm.__version__)"
NETWORK_SIGNS = (
    "connection broken",
    "newconnectionerror",
    "max retries exceeded",
    "failed to establish",
    "timed out",
    "proxyerror",
    "from versions: none",
)


class EnvironmentFault(Exception):
    """The environment cannot be made; the text names the thing, the rule and the remedy."""


def cache_folder() -> Path:
    """Return the project's cache folder: ``MLXCEL_CACHE_DIR``, or ``mlxcel`` in the user's cache folder."""
    if named := os.environ.get("MLXCEL_CACHE_DIR"):
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "mlxcel"


def environment_folder() -> Path:
    """Return the folder of the environment that ``requirements.txt`` and this interpreter ask for."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes())
    digest.update(f"{sys.implementation.cache_tag} {sys.platform} {platform.machine()} {sys.base_prefix}".encode())
    return cache_folder() / f"oracle-env-{digest.hexdigest()[:16]}"


def interpreter(folder: Path) -> Path:
    """Return the path of the environment's interpreter."""
    return folder / "bin" / "python"


def is_ready(folder: Path) -> bool:
    """Say whether the environment was finished and its interpreter can still be run."""
    return (folder / MARKER).is_file() and os.access(interpreter(folder), os.X_OK)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the system frees it even when the holder is killed."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run that holds {path}", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def pip_for(folder: Path) -> list[str]:
    """Return the command that runs pip on the environment: the host's pip, or one that ``ensurepip`` unpacks.

    Debian splits ``ensurepip`` off into another package, while pip itself is a prerequisite: the host's comes first.
    """
    probe = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"pip (\d+)\.(\d+)", probe.stdout)
    if found and (int(found[1]), int(found[2])) >= (22, 3):
        return [sys.executable, "-m", "pip", "--python", str(interpreter(folder))]
    if importlib.util.find_spec("ensurepip") is not None:
        unpack = [str(interpreter(folder)), "-m", "ensurepip", "--default-pip"]
        done = subprocess.run(unpack, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return [str(interpreter(folder)), "-m", "pip"]
    host = f"pip {found[1]}.{found[2]}, older than 22.3" if found else "no pip"
    raise EnvironmentFault(
        f"{sys.executable} has {host} and no usable ensurepip, one of which is needed to install the oracle; "
        "install pip for it (Debian and Ubuntu: apt-get install python3-pip or python3-venv)"
    )


def explain(output: str) -> str:
    """Turn pip's complaint into one sentence with the remedy."""
    lowered = output.lower()
    if "do not match the hashes" in lowered:
        lines = output[lowered.index("do not match the hashes") :].splitlines()[1:]
        detail = " ".join(line.strip() for line in lines if re.search(r"==|Expected|Got", line))
        return (
            f"a downloaded package does not have the SHA-256 that {REQUIREMENTS} pins ({detail}); "
            "do not use it: try again, and if it stays so find out who changed the package"
        )
    if any(sign in lowered for sign in NETWORK_SIGNS):
        return (
            f"pip cannot reach a package index that has what {REQUIREMENTS} names; "
            "connect the network or point pip at a mirror, then run it again"
        )
    if "no matching distribution" in lowered or "hashes are required" in lowered:
        return (
            f"pip finds no wheel for Python {platform.python_version()} on {sys.platform} {platform.machine()} "
            f"among those {REQUIREMENTS} pins; "
            "use CPython 3.11 to 3.14 on Linux x86-64 or aarch64 (glibc 2.35 or newer) or on macOS arm64"
        )
    if "no space left" in lowered:
        return f"the disk of {cache_folder()} is full; free about 400 MB or set MLXCEL_CACHE_DIR to another one"
    return f"pip could not install what {REQUIREMENTS} names"


def install(folder: Path) -> None:
    """Make the environment and install the pinned packages into it."""
    try:
        import venv  # some distributions package it apart from the interpreter
    except ImportError as fault:
        raise EnvironmentFault(
            f"{sys.executable} has no venv module; install it (Debian and Ubuntu: apt-get install python3-venv)"
        ) from fault
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    command = [*pip_for(folder), "install", "--no-input", "--disable-pip-version-check", "--no-warn-script-location"]
    command += ["--only-binary=:all:", "--no-deps", "--require-hashes", "--requirement", str(REQUIREMENTS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise EnvironmentFault(f"{explain(done.stdout)}\n--- the end of pip's output:\n{tail}")
    probe = subprocess.run([str(interpreter(folder)), "-c", PROBE], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise EnvironmentFault(f"the packages were installed in {folder} but do not import:\n{probe.stderr.strip()}")
    (folder / MARKER).write_text(probe.stdout)


def ensure(folder: Path) -> None:
    """Make the environment unless it is there."""
    if is_ready(folder):
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(folder.name + ".lock")):
            if is_ready(folder):
                return
            if folder.exists():
                shutil.rmtree(folder)
            print(f"making the oracle's Python environment in {folder}", file=sys.stderr)
            try:
                install(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    except OSError as fault:
        raise EnvironmentFault(
            f"cannot write {fault.filename or folder}: {fault.strerror}; "
            "set MLXCEL_CACHE_DIR to a folder that can be written"
        ) from fault


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(
        prog="oracle_env.sh", description="make the oracle's Python environment, print its interpreter"
    )
    parser.add_argument(
        "--check", action="store_true", help="only say whether it is there: exit 0 when it is, 1 when it is not"
    )
    arguments = parser.parse_args()
    folder = environment_folder()
    if arguments.check:
        ready = is_ready(folder)
        print("ready" if ready else "absent", interpreter(folder))
        return 0 if ready else 1
    try:
        ensure(folder)
    except EnvironmentFault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return FAULT
    print(interpreter(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
