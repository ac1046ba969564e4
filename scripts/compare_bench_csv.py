#!/usr/bin/env python3
"""The command lines of the older comparison tool, handed to `mlxcel-bench compare`.

Every flag means what it meant; what was a silent pass there (two hosts, a dirty or a missing commit, another MLX, a row
that stands twice, no pair at all) is a refusal here, exit code 2. The program is looked for in MLXCEL_BENCH, in the
checkout's target folder, and on PATH.
"""

import os
import shutil
import sys
from pathlib import Path


def program() -> str | None:
    named = os.environ.get("MLXCEL_BENCH")
    if named:
        return named
    target = Path(__file__).resolve().parent.parent / "target"
    for profile in ("release", "debug"):
        built = target / profile / "mlxcel-bench"
        if os.access(built, os.X_OK):
            return str(built)
    return shutil.which("mlxcel-bench")


def main() -> int:
    found = program()
    if found is None:
        print(
            "compare_bench_csv.py: no mlxcel-bench; build it with `cargo build --release -p mlxcel-bench`, or name it in"
            " MLXCEL_BENCH",
            file=sys.stderr,
        )
        return 4
    given = sys.argv[1:]
    if "--reference" in given:
        # Another program has another commit anyway; here the two flags are one choice.
        given = [argument for argument in given if argument != "--allow-commit-change"]
    arguments = [found, "compare", *given]
    catalog = Path("docs/model-catalog.tsv")
    if not any(argument.split("=")[0] == "--catalog" for argument in arguments) and catalog.is_file():
        arguments += ["--catalog", str(catalog)]
    try:
        os.execv(found, arguments)
    except OSError as error:
        print(f"compare_bench_csv.py: cannot run {found}: {error.strerror}", file=sys.stderr)
        return 4


if __name__ == "__main__":
    sys.exit(main())
