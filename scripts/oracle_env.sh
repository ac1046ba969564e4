#!/bin/sh
# Makes the local Python environment of the oracle (mlx-lm, pinned and hash-checked) and prints the path of its
# interpreter, alone, on standard output. `--check` only says whether it is there. See oracle/environment.py.
#
# MLXCEL_PYTHON names the interpreter to build it from; otherwise the first suitable one on the path is taken.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

suitable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

if [ -n "${MLXCEL_PYTHON:-}" ]; then
    if ! suitable "$MLXCEL_PYTHON"; then
        echo "error: MLXCEL_PYTHON=$MLXCEL_PYTHON is not a Python from 3.11 to 3.14 that runs; name another or unset it" >&2
        exit 4
    fi
    exec "$MLXCEL_PYTHON" "$here/oracle/environment.py" "$@"
fi

for python in python3 python3.14 python3.13 python3.12 python3.11; do
    if suitable "$python"; then
        exec "$python" "$here/oracle/environment.py" "$@"
    fi
done

if found=$(python3 --version 2>/dev/null); then
    echo "error: the oracle (mlx-lm) needs Python 3.11 to 3.14 and python3 is $found; install one of them or name it in MLXCEL_PYTHON" >&2
else
    echo "error: no python3 on the path: the oracle (mlx-lm) needs Python 3.11 to 3.14 with pip; install it or name one in MLXCEL_PYTHON" >&2
fi
exit 4
