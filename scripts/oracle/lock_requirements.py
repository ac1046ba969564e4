"""Write requirements.txt: every package of the oracle's environment, pinned and hashed.

Run it by hand when a pin below changes; nothing else runs it. It asks pip to resolve the direct pins
once for each supported interpreter and platform, collects the SHA-256 of every wheel that pip would
install there, and writes pip's ``--require-hashes`` form. The resolved versions must agree everywhere.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# mlx is named as well as its back ends: mlx-lm asks for it on macOS only.
DIRECT = ("mlx==0.32.2", "mlx-lm==0.32.2", "transformers==5.24.0", "tokenizers==0.23.3", "numpy==2.4.6")
BACKENDS = {"linux": "mlx-cpu==0.32.2", "darwin": "mlx-metal==0.32.2"}
PLATFORMS = {
    "linux-x86_64": ("linux", [f"manylinux_2_{n}_x86_64" for n in (35, 34, 31, 28, 27, 17)] + ["manylinux2014_x86_64"]),
    "linux-aarch64": (
        "linux",
        [f"manylinux_2_{n}_aarch64" for n in (35, 34, 31, 28, 27, 17)] + ["manylinux2014_aarch64"],
    ),
    "macos-arm64": (
        "darwin",
        [f"macosx_{n}_0_{arch}" for n in (15, 14, 13, 12, 11) for arch in ("arm64", "universal2")],
    ),
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

# The resolution runs on this machine, so environment markers are this machine's: name what Linux needs.
Resolved = dict[str, tuple[str, str]]


def resolve(python: str, tags: list[str], pins: list[str]) -> Resolved:
    """Map each package that pip would install to its version and wheel hash."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    for tag in tags:
        command += ["--platform", tag]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command += ["--target", str(Path(scratch) / "target"), "--report", str(report), *pins]
        subprocess.run(command, check=True, stdout=sys.stderr)
        items = json.loads(report.read_text())["install"]
    return {
        item["metadata"]["name"].lower().replace("_", "-"): (
            item["metadata"]["version"],
            item["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for item in items
    }


def main() -> int:
    """Resolve on every platform and write the file beside this script."""
    versions: dict[str, str] = {}
    hashes: dict[str, set[str]] = {}
    systems: dict[str, set[str]] = {}
    for name, (system, tags) in PLATFORMS.items():
        for python in PYTHONS:
            pins = [*(f"{n}=={v}" for n, v in versions.items() if not n.startswith("mlx")), *DIRECT, BACKENDS[system]]
            print(f"{name} python {python}", file=sys.stderr)
            for package, (version, digest) in resolve(python, tags, sorted(set(pins))).items():
                if versions.setdefault(package, version) != version:
                    print(f"error: {package} is {version} on {name}, {versions[package]} elsewhere", file=sys.stderr)
                    return 1
                hashes.setdefault(package, set()).add(digest)
                systems.setdefault(package, set()).add(system)
    lines = [
        "# The oracle's environment, written by lock_requirements.py: mlx-lm on MLX's CPU build, nothing newer.",
        "# Hashes: CPython " + ", ".join(PYTHONS) + " on " + ", ".join(PLATFORMS) + ".",
    ]
    for package in sorted(versions):
        (system, *others) = sorted(systems[package])
        marker = "" if others else f' ; sys_platform == "{system}"'
        lines.append(f"{package}=={versions[package]}{marker} \\")
        lines.append(" \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(hashes[package])))
    target = Path(__file__).with_name("requirements.txt")
    target.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
