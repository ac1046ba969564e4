#!/usr/bin/env bash
# Measures synthetic Llama-3.2-1B and Llama-3.1-8B checkpoints, and compares their speed with mlx-lm's, on a machine with
# an NVIDIA GPU that needs neither Rust nor a network: only a checkout of the commit the binaries were built from, the
# binaries, MLX for CUDA, and Python with the CUDA 13 libraries (the packages nvidia-cublas, nvidia-cudnn-cu13 and so on).
#
#   scripts/gpu_sweep.sh OUT [options]
#
# OUT gets rows/ (result sets of the sweep), abba/ (comparisons of speed), logits/ (of results) and facts.txt. Steps that OUT has already are not done
# again, so that a run that ended early goes on where it stopped. Figures are host times and rates as the harness and
# scripts/oracle/abba.py give them.
#
# Exit codes: 0 everything is there, 1 a step failed, 3 the time was up before the last step, 4 something is missing, 64 usage.
set -uo pipefail
# The time is bounded: nothing waits for a quiet host, and the rows say so. The watch over it stays on.
export WAIT_FOR_QUIET="${WAIT_FOR_QUIET:-0}"
shopt -s extglob

usage() {
  cat <<'USAGE'
usage: scripts/gpu_sweep.sh OUT [options]
  --bin DIR       folder of mlxcel and mlxcel-bench [target/release]
  --mlx DIR       folder of MLX: lib/libmlx.so and include/ [BIN/mlx-cuda]
  --python PATH   Python that finds the CUDA libraries, and mlx and mlx-lm if it has them [python3]
  --work DIR      folder for the checkpoints (22 GB) and compiled kernels [TMPDIR/mlxcel-gpu-sweep]
  --budget-s N    stop within so many seconds [540]
  --cores LIST    cores that the comparisons run on, such as 2,4,6,8 [all]
  --blocks N      blocks of a comparison at 8 and 512 tokens; three quarters of it at 4,096 [8]
  --rehearse      tiny checkpoints and few tokens, on the CPU too: tries the script, measures nothing
USAGE
}

fail() { # CODE MESSAGE
  echo "error: $2" >&2
  exit "$1"
}

started=$SECONDS
out='' bin=target/release mlx='' python=python3 work=${TMPDIR:-/tmp}/mlxcel-gpu-sweep budget=540 rehearse=false cores='' blocks=8
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --rehearse) rehearse=true ;;
    --bin | --mlx | --python | --work | --budget-s | --cores | --blocks)
      [ $# -gt 1 ] || fail 64 "$1 needs a value; see --help"
      case $1 in
        --bin) bin=$2 ;; --mlx) mlx=$2 ;; --python) python=$2 ;; --work) work=$2 ;; --budget-s) budget=$2 ;;
        --cores) cores=$2 ;; --blocks) blocks=$2 ;;
      esac
      shift
      ;;
    -*) fail 64 "unknown option $1; see --help" ;;
    *) [ -z "$out" ] || fail 64 "one output folder is enough; see --help" && out=$1 ;;
  esac
  shift
done
[ -n "$out" ] || fail 64 "name a folder for the results; see --help"
[[ $budget =~ ^[0-9]{1,6}$ ]] || fail 64 "--budget-s is '$budget'; it must be a whole number of seconds"
[[ $blocks =~ ^[1-9][0-9]{0,2}$ ]] || fail 64 "--blocks is '$blocks'; it must be a whole number from 1 to 999"

mkdir -p "$out" "$work" || fail 4 "cannot make $out or $work; name others"
out=$(realpath "$out") work=$(realpath "$work") bin=$(realpath -m "$bin") mlx=$(realpath -m "${mlx:-$bin/mlx-cuda}")
# The rows name the sources they come from: the sweep looks for them around the current folder.
cd "$(dirname "$0")/.." || fail 4 "the checkout cannot be entered"
for program in mlxcel mlxcel-bench; do
  [ -x "$bin/$program" ] || fail 4 "$bin has no $program; build with --features cuda, or name the folder with --bin"
done

# Where the CUDA libraries and headers are.
libraries=$mlx/lib
while IFS= read -r folder; do
  [ -n "$folder" ] || continue # an empty element would be the current folder
  libraries+=:$folder
  [ -f "$(dirname "$folder")/include/cuda_runtime.h" ] && packaged=$(dirname "$folder")
done < <("$python" - <<'PYTHON'
import glob, site, sys
folders = {*site.getsitepackages(), *(path for path in sys.path if path.endswith("site-packages"))}
print(*sorted(found for folder in folders for found in glob.glob(f"{folder}/nvidia/*/lib")), sep="\n")
PYTHON
)
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# MLX compiles kernels at run time, against CUDA's headers. A toolkit has all of them.
if [ -z "${CUDA_HOME:-}${CUDA_PATH:-}" ]; then
  compiler=$(command -v nvcc) || compiler=
  for toolkit in /usr/local/cuda ${compiler:+"$(dirname "$(dirname "$(realpath "$compiler")")")"} ${packaged:+"$packaged"}; do
    [ ! -f "$toolkit/include/cuda_runtime.h" ] || { export CUDA_HOME=$toolkit && break; }
  done
fi
export MLX_PTX_CACHE_DIR=$work/kernels
mkdir -p "$MLX_PTX_CACHE_DIR"

missing=$(ldd "$bin/mlxcel-bench" | sed -n 's/^[[:space:]]*\([^ ]*\) => not found$/\1/p' | sort -u)
if [ -n "$missing" ]; then
  for library in $missing; do
    case $library in
      libcuda.*) from='the NVIDIA driver' ;;
      libcublas*) from='the Python package nvidia-cublas' ;;
      libcudnn*) from='the Python package nvidia-cudnn-cu13' ;;
      libnccl*) from='the Python package nvidia-nccl-cu13' ;;
      libcufft*) from='the Python package nvidia-cufft' ;;
      libnvrtc*) from='the Python package nvidia-cuda-nvrtc' ;;
      libmlx* | lib*-*.so*) from='the wheel mlx-cuda-13 (--mlx names its folder mlx)' ;;
      *) from='a package of the system' ;;
    esac
    echo "missing: $library, of $from" >&2
  done
  fail 4 "libraries that the binaries need are not on the library path ($LD_LIBRARY_PATH)"
fi

if $rehearse; then
  models=(rehearsal-1B-4bit rehearsal-8B-dense) shapes=(24 4) tokens=4 reps=1
  comparisons=(--shape 24:4:1 --shape 4:4:1) logits=(--length 24 --length 4 --steps 3 --runs 2)
else
  models=(Llama-3.2-1B-4bit Llama-3.1-8B-4bit Llama-3.1-8B-bf16) shapes=(512 4096 8) tokens=128 reps=3
  comparisons=(--shape "512:128:$blocks" --shape "4096:128:$(((3 * blocks + 3) / 4))" --shape "8:128:$blocks")
  logits=(--length 8 --length 512 --length 4096)
fi
[ -z "$cores" ] || comparisons+=(--cores "$cores")

left=() failed=()

# Does a step unless its result is there or the time is up.
step() { # NAME RESULT COMMAND...
  local name=$1 result=$2 begun=$SECONDS code=0
  shift 2
  compgen -G "$result" >/dev/null && return
  remaining=$((budget - (SECONDS - started) - 10))
  if [ "$remaining" -lt 10 ]; then
    left+=("$name")
    return
  fi
  echo "== $name, $remaining s left" >&2
  "$@" || code=$?
  echo "== $name ended with exit code $code after $((SECONDS - begun)) s" >&2
  case $code in
    0) ;;
    124 | 130 | 137) left+=("$name") ;;
    *) failed+=("$name") ;;
  esac
}

# Runs a command for as long as there is time.
bounded() {
  timeout --signal=INT --kill-after=10 "$remaining" "$@"
}

facts() {
  {
    date -u +%FT%TZ
    bounded "$bin/mlxcel" version && lscpu && { nvidia-smi || $rehearse; }
  } >"$out/facts.partial.txt" 2>&1
  local code=$?
  cat "$out/facts.partial.txt" >&2
  [ $code -ne 0 ] || mv "$out/facts.partial.txt" "$out/facts.txt"
  return $code
}

make() { # MODEL
  local config=scripts/configs/llama-3.1-8b.json form=(--dtype bf16)
  case $1 in *1B*) config=scripts/configs/llama-3.2-1b.json ;; esac
  case $1 in *4bit) form+=(--q-bits 4 --q-group-size 64) ;; esac
  if $rehearse; then
    "$python" - "$config" >"$work/config.json" <<'PYTHON' || return
import json, sys
small = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, vocab_size=512, bos_token_id=0, eos_token_id=1, torch_dtype="float32")
print(json.dumps({**json.load(open(sys.argv[1])), **small}))
PYTHON
    config=$work/config.json form[1]=f32
  fi
  bounded "$bin/mlxcel" convert --synthetic "$config" --seed 1 "${form[@]}" --output "$work/models/$1"
}

rows() { # PROMPT_TOKENS
  mkdir -p "$out/rows"
  bounded "$bin/mlxcel-bench" sweep all --models "$work/models" --no-dedup --prompt-tokens "$1" \
    --max-tokens "$tokens" --reps "$reps" --suffix "p$1" --out "$out/rows"
}

compare() { # MODEL
  bounded "$python" scripts/oracle/abba.py "$work/models/$1" --ours "$bin/mlxcel-bench worker" \
    "${comparisons[@]}" --timeout-s "$budget" --out "$out/abba/$1.json"
}

agree() { # MODEL
  bounded "$python" scripts/oracle/device_logits.py "$work/models/$1" --ours "$bin/mlxcel" "${logits[@]}" \
    --out "$out/logits/$1.json"
}

mkdir -p "$out/abba" "$out/logits" "$work/models"
step facts "$out/facts.txt" facts
if [ ${#failed[@]} -gt 0 ]; then
  fail 4 "the runtime or the GPU does not answer; what they said is above"
fi
for model in "${models[@]}"; do step "make $model" "$work/models/$model" make "$model"; done
first=true
for shape in "${shapes[@]}"; do
  # A sweep of fewer checkpoints would be another result set than the one that was asked for.
  if [ "$(ls "$work/models" | grep -cv partial)" -eq ${#models[@]} ]; then
    step "rows p$shape" "$out/rows/*_p$shape?(_[0-9]).csv" rows "$shape"
  else
    left+=("rows p$shape")
  fi
  if $first; then
    # The comparisons hold every shape; they come before the rows of the other ones.
    for model in "${models[@]}"; do step "logits $model" "$out/logits/$model.json" agree "$model"; done
    for model in "${models[@]}"; do step "compare $model" "$out/abba/$model.json" compare "$model"; done
  fi
  first=false
done

if [ ${#failed[@]} -gt 0 ]; then
  fail 1 "failed: $(printf '%s; ' "${failed[@]}")left: ${#left[@]}"
elif [ ${#left[@]} -gt 0 ]; then
  fail 3 "the time was up; run it again for: $(printf '%s; ' "${left[@]}")"
fi
echo "$out"
