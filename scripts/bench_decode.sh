#!/usr/bin/env bash
# The command lines of the older decode sweep, run by `mlxcel-bench sweep`. Each flag is passed on, stands for what the
# sweep always does (said on standard error), or is refused where leaving it out would measure something else.
#
# Usage: scripts/bench_decode.sh MODEL_DIR|all [flags]; --help lists them. MLXCEL_BENCH names the program; otherwise the one
# beside this checkout's release build, then the one on the path, is taken.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/bench_decode.sh MODEL_DIR|all [flags]

passed on: --vlm --image PATH --max-tokens N (128) --prompt-tokens N (512) --no-ignore-eos --timeout N (300)
           --jit-preheat-timeout N (added to --timeout on CUDA hosts) --output PATH --suffix TAG --cooldown N
           --big-cooldown N --big-threshold-gb N --no-cooldown --no-dedup
no effect: --prompt TEXT (the prompt is synthetic) --no-chat-template (a synthetic prompt has none)
           --warmup-tokens N (each warm-up has the measured shape) --no-pre-warm --pre-warm-settle N
           --temperature 0 --top-p 1
refused:   --prompt-tokens '' (a prompt of text), --temperature and --top-p with other values

--no-cooldown takes back the waits named before it; one named after it counts. A file of --output that is there stays, and
the new one is named with _2; characters of its name that result files cannot have become _.
TEXT
}

fail() {
    echo "error: $1" >&2
    exit 64
}

note() {
    echo "note: $1" >&2
}

whole() {
    [[ $2 =~ ^[0-9]+$ ]] || fail "$1 takes a whole number, not '$2'"
}

target=
arguments=()
output=
suffix=
cooldown=
big_cooldown=
no_cooldown=
timeout=300
preheat=600
while [ $# -gt 0 ]; do
    flag=$1
    value=
    case $flag in
    --*=*)
        value=${flag#*=}
        flag=${flag%%=*}
        shift
        set -- "$flag" "$value" "$@"
        ;;
    esac
    case $1 in
    --image | --prompt | --max-tokens | --warmup-tokens | --prompt-tokens | --timeout | --jit-preheat-timeout | --output | \
        --suffix | --cooldown | --big-cooldown | --big-threshold-gb | --pre-warm-settle | --temperature | --top-p)
        [ $# -ge 2 ] || fail "$1 needs a value"
        flag=$1
        value=$2
        shift 2
        ;;
    *)
        flag=$1
        shift
        ;;
    esac
    case $flag in
    --help | -h)
        usage
        exit 0
        ;;
    --vlm | --no-ignore-eos | --no-dedup) arguments+=("$flag") ;;
    --no-cooldown) cooldown= big_cooldown= no_cooldown=1 ;;
    --cooldown) whole "$flag" "$value" && cooldown=$value ;;
    --big-cooldown) whole "$flag" "$value" && big_cooldown=$value ;;
    --image) arguments+=(--image "$value") ;;
    --max-tokens | --big-threshold-gb)
        whole "$flag" "$value"
        arguments+=("$flag" "$value")
        ;;
    --prompt-tokens)
        [ -n "$value" ] || fail "--prompt-tokens '' asks for a prompt of text; this sweep measures synthetic prompts of an exact length"
        whole "$flag" "$value"
        arguments+=(--prompt-tokens "$value")
        ;;
    --timeout) whole "$flag" "$value" && timeout=$value ;;
    --jit-preheat-timeout) whole "$flag" "$value" && preheat=$value ;;
    --output) output=$value ;;
    --suffix) suffix=$value ;;
    --prompt) note "--prompt has no effect: the prompt is synthetic, of an exact number of tokens" ;;
    --no-chat-template) note "--no-chat-template has no effect: a synthetic prompt has none" ;;
    --warmup-tokens) note "--warmup-tokens has no effect: each checkpoint is warmed up at the measured shape" ;;
    --no-pre-warm | --pre-warm-settle) note "$flag has no effect: each checkpoint has a process and a warm-up of its own" ;;
    --temperature)
        [[ $value =~ ^0*(\.0*)?$ ]] || fail "--temperature $value: the sweep measures greedy decoding only"
        ;;
    --top-p)
        [[ $value =~ ^1(\.0*)?$ ]] || fail "--top-p $value: the sweep measures greedy decoding only"
        ;;
    --*) fail "unknown flag $flag; --help lists the known ones" ;;
    *) target=$flag ;; # the last one counts
    esac
done
[ -n "$target" ] || {
    usage >&2
    fail "a model folder, or the word all, is needed"
}

if command -v nvidia-smi >/dev/null 2>&1; then
    timeout=$((timeout + preheat))
fi
[ -z "$cooldown" ] || arguments+=(--cooldown "$cooldown")
[ -z "$big_cooldown" ] || arguments+=(--big-cooldown "$big_cooldown")
# No wait is what the sweep does anyway; said all the same, where it is what was asked for last.
[ -z "$no_cooldown" ] || [ -n "$cooldown$big_cooldown" ] || arguments+=(--no-cooldown)
arguments+=(--timeout "$timeout")
if [ -n "$output" ]; then
    name=$(basename -- "$output")
    name=${name%.csv}
    allowed=${name//[^A-Za-z0-9._+-]/_}
    [ "$allowed" = "$name" ] || note "--output: the file is named $allowed.csv, since names of result files have no other characters"
    [ ! -e "$output" ] || note "--output: $output is there and stays; the new file is named with a number behind"
    arguments+=(--out "$(dirname -- "$output")" --name "$allowed")
elif [ -n "$suffix" ]; then
    arguments+=(--suffix "$suffix")
fi

here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
program=${MLXCEL_BENCH:-}
if [ -z "$program" ]; then
    program=$here/target/release/mlxcel-bench
    [ -x "$program" ] || program=$(command -v mlxcel-bench) || {
        echo "error: there is no mlxcel-bench: build it (cargo build --release -p mlxcel-bench) or name it in MLXCEL_BENCH" >&2
        exit 1
    }
fi
exec "$program" sweep "$target" "${arguments[@]}"
