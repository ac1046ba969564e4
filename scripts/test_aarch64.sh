#!/usr/bin/env bash
# The tests of the kernels as 64-bit Arm runs them, on another machine: cross-compiled, under QEMU's emulation of one
# processor. Of a plain one (Armv8-A) and of one with every extension, since what runs is chosen at run time.
#
# Usage: scripts/test_aarch64.sh [arguments of cargo test]; without any: --package mlxcel-kernels
#
# Needs, and says what is missing (exit status 2):
#   - a C compiler for it, as linker:    aarch64-linux-gnu-gcc (Debian: gcc-aarch64-linux-gnu)
#   - the emulator:                      qemu-aarch64 (Debian: qemu-user)
#   - Rust's standard library for it:    `rustup target add aarch64-unknown-linux-gnu`; or, on a Debian with that
#     architecture added, rustc-web and libstd-rust-web-dev:arm64, named with AARCH64_RUSTC=/usr/bin/rustc.
#
# AARCH64_CPUS names the processors to emulate (default "cortex-a53 max"), AARCH64_SYSROOT the folder that has `lib` with
# the C library (default /usr/aarch64-linux-gnu). No time that an emulated test takes means anything.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
rustc=${AARCH64_RUSTC:-rustc}
sysroot=${AARCH64_SYSROOT:-/usr/aarch64-linux-gnu}
missing=0

lacks() {
    echo "error: $1" >&2
    missing=1
}

for program in cargo aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$program" >/dev/null || lacks "there is no $program on the path; this script's head names its package"
done
[[ -d $sysroot/lib ]] || lacks "there is no $sysroot/lib for the emulator; AARCH64_SYSROOT names the folder that has it"
if ! libraries=$("$rustc" --print target-libdir --target "$target" 2>/dev/null); then
    lacks "$rustc is no Rust compiler for $target; AARCH64_RUSTC names one"
elif ! compgen -G "$libraries/libstd-*.rlib" >/dev/null; then
    lacks "$rustc has no standard library for $target in $libraries; rustup target add $target installs it, or AARCH64_RUSTC names a compiler that has it"
fi
((missing == 0)) || exit 2

export RUSTC=$rustc
if [[ -n ${AARCH64_RUSTC:-} ]]; then
    # Examples in documentation are compiled by the program beside it.
    export RUSTDOC=${RUSTDOC:-$(dirname "$rustc")/rustdoc}
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# A folder of its own: another compiler's host programs would push those of everyday builds out.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/aarch64

(($# > 0)) || set -- --package mlxcel-kernels
for cpu in ${AARCH64_CPUS:-cortex-a53 max}; do
    echo "as $cpu:" >&2
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $cpu -L $sysroot" \
        cargo test --locked --target "$target" "$@"
done
