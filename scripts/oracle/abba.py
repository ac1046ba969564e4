"""Compare the speed of our worker with mlx-lm's on one checkpoint, in turn A B B A, and print the ratios.

    abba.py CHECKPOINT --ours "target/release/mlxcel-bench worker" --out RESULT.json

A is ours, B is mlx-lm (``bench.py``, run by this interpreter). Both processes hold the loaded model; one runs while
the other waits. Each shape is warmed up once on either side, then measured in blocks of A B B A, so that a drift of
the machine's speed falls on both alike. A block's ratio is its B time over its A time: above 1, ours is faster.
Printed are the median over the blocks and their smallest and largest.

Whether a side repeats its own tokens is told too: by the digest of each sample's tokens, and the first token that
differs from the warm-up's. ``--cores`` pins both sides to the same cores. What may make repetitions differ is kept with
each sample where the system tells: time that the host took from this machine, involuntary switches of the process, the
GPU's clocks after each block.

Both sides have to run the same MLX library file and backend; otherwise the comparison is refused (``--allow`` marks
it instead). Every sample is stored, token times included, with what both sides say of themselves.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import shlex
import statistics
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from worker_client import Client, Event, WorkerFault

FAULT = 4
REFUSED = 2
INTERRUPTED = 130
ORDER = "ABBA"
# Prompt tokens : generated tokens : blocks.
SHAPES = ("8:64:5", "512:64:3", "2048:32:2")
FIRST_ORDINARY_ID = 300
# Settings of both sides: they inherit them alike.
SETTINGS = ("MLX_", "MLXCEL_", "CUDA_", "NVIDIA_", "OMP_")
# Where the decode loop's time goes on the host: building the graph, handing it over, all else but waiting.
LOOP_PARTS = ("build_nanos", "submit_nanos", "host_nanos")


def parse_shape(text: str) -> tuple[int, int, int]:
    """Return prompt tokens, generated tokens and blocks."""
    try:
        prompt, generated, blocks = (int(part) for part in text.split(":"))
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{text!r} is not PROMPT:GENERATED:BLOCKS") from fault
    if prompt < 1 or generated < 2 or blocks < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a prompt of 1, 2 generated tokens and 1 block are the least")
    return prompt, generated, blocks


def prompt_ids(count: int, vocab_size: int) -> list[int]:
    """Return the prompt: ids drawn from a fixed seed, clear of the special tokens that come first."""
    first = FIRST_ORDINARY_ID if vocab_size > 2 * FIRST_ORDINARY_ID else vocab_size // 4
    return np.random.Generator(np.random.PCG64(count)).integers(first, vocab_size, count).tolist()


def prefill_and_decode(event: Event) -> tuple[float, float]:
    """Return a generation's prefill time and the time of the steps after it, in nanoseconds."""
    nanos = event["sample"]["token_nanos"]
    return float(nanos[0]), float(nanos[-1] - nanos[0])


def spread(values: list[float]) -> dict[str, float]:
    """Return the median and the extremes."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def first_difference(ours: list[int], theirs: list[int]) -> int | None:
    """Return the index of the first token that differs."""
    return next((index for index, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), None)


def tokens_sha256(tokens: list[int]) -> str:
    """Return the digest of token ids as 32-bit little-endian integers."""
    return hashlib.sha256(struct.pack(f"<{len(tokens)}I", *tokens)).hexdigest()


def repetition(tokens: list[list[int]]) -> dict[str, Any]:
    """Return whether all generations of a side chose the same tokens, and where the first differs from the warm-up's."""
    differences = [first_difference(tokens[0], other) for other in tokens[1:]]
    return {
        "generations": len(tokens),
        "distinct": len({tokens_sha256(one) for one in tokens}),
        "first_different_token": min((index for index in differences if index is not None), default=None),
    }


def stolen_ms() -> float | None:
    """Return the time that the host has taken from this machine's cores, all of them together."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    fields = stat.read_text().splitlines()[0].split()
    return 1e3 * int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else None


def involuntary_switches(process_id: int) -> int | None:
    """Return how often threads of a process had to give up a core."""
    counts = []
    for status in Path(f"/proc/{process_id}/task").glob("*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:  # the thread has ended
            continue
        counts += [int(line.split()[1]) for line in lines if line.startswith("nonvoluntary_ctxt_switches:")]
    return sum(counts) if counts else None


def gpu_state() -> dict[str, str] | None:
    """Return clocks, power and temperature of the first NVIDIA GPU."""
    fields = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "clocks_throttle_reasons.active")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader", "--id=0"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(zip(fields, (value.strip() for value in found.split(",")), strict=False))


def parse_cores(text: str) -> set[int]:
    """Return the cores of a list such as `2,3`."""
    try:
        cores = {int(core) for core in text.split(",")}
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of core numbers such as 2,3") from fault
    if hasattr(os, "sched_getaffinity") and not cores <= os.sched_getaffinity(0):
        allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        raise argparse.ArgumentTypeError(f"{text!r} names cores that this process may not use; it may use {allowed}")
    return cores


def compare(ours: Client, theirs: Client, shape: tuple[int, int, int], vocab_size: int) -> dict[str, Any]:
    """Measure one shape."""
    prompt_tokens, max_tokens, blocks = shape
    ids = prompt_ids(prompt_tokens, vocab_size)
    sides = {"A": ours, "B": theirs}
    warm = {side: client.generate(0, ids, max_tokens) for side, client in sides.items()}
    if warm["A"]["prompt_sha256"] != warm["B"]["prompt_sha256"]:
        raise WorkerFault("the two sides ran different prompts")
    tokens = {side: [event["tokens"]] for side, event in warm.items()}
    samples: list[Event] = []
    gpu_states: list[dict[str, str] | None] = []
    prefill_ratios, decode_ratios = [], []
    for block in range(1, blocks + 1):
        sums = {"A": [0.0, 0.0], "B": [0.0, 0.0]}
        for side in ORDER:
            process_id = sides[side].process.pid
            stolen, switches = stolen_ms(), involuntary_switches(process_id)
            event = sides[side].generate(block, ids, max_tokens)
            conditions = {
                "stolen_ms": since(stolen_ms(), stolen),
                "involuntary_switches": since(involuntary_switches(process_id), switches),
                "first_token_unlike_warm_up": first_difference(warm[side]["tokens"], event["tokens"]),
                "tokens_sha256": tokens_sha256(event["tokens"]),
            }
            tokens[side].append(event["tokens"])
            parts = {part: event.get(part) for part in LOOP_PARTS if part not in event["sample"]}
            samples.append({"side": side, "block": block, **event["sample"], **parts, **conditions})
            for index, value in enumerate(prefill_and_decode(event)):
                sums[side][index] += value
            print(f"{prompt_tokens:>6} block {block}/{blocks} {side}", file=sys.stderr)
        gpu_states.append(gpu_state())
        prefill_ratios.append(sums["B"][0] / sums["A"][0])
        decode_ratios.append(sums["B"][1] / sums["A"][1])
    result: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "generated_tokens": max_tokens,
        "blocks": blocks,
        "prefill_ratio": spread(prefill_ratios),
        "decode_ratio": spread(decode_ratios),
        "prefill_ratios": prefill_ratios,
        "decode_ratios": decode_ratios,
        "first_different_token": first_difference(warm["A"]["tokens"], warm["B"]["tokens"]),
        "ours_repeats": repetition(tokens["A"]),
        "theirs_repeats": repetition(tokens["B"]),
        "gpu_after_blocks": gpu_states,
    }
    for side, name in (("A", "ours"), ("B", "theirs")):
        own = [sample for sample in samples if sample["side"] == side]
        times = [prefill_and_decode({"sample": sample}) for sample in own]
        result[f"{name}_prefill_ms"] = spread([prefill / 1e6 for prefill, _ in times])
        result[f"{name}_decode_ms_per_step"] = spread([decode / 1e6 / (max_tokens - 1) for _, decode in times])
        for part in LOOP_PARTS:
            known = [sample[part] for sample in own if sample[part] is not None]
            result[f"{name}_{part.removesuffix('_nanos')}_us_per_step"] = (
                spread([nanos / 1e3 / (max_tokens - 1) for nanos in known]) if known else None
            )
    result["samples"] = samples
    return result


def since(now: float | None, before: float | None) -> float | None:
    """Return how much a count has grown."""
    return None if now is None or before is None else now - before


def differences(ours: Event, theirs: Event) -> list[str]:
    """Return what keeps the two sides from being compared."""
    found = []
    for field in ("backend", "mlx_version", "mlx_library_sha256"):
        a, b = ours["runtime"][field], theirs["runtime"][field]
        if a is None or b is None:
            found.append(f"{field} is not known on both sides (ours {a}, theirs {b})")
        elif a != b:
            found.append(f"{field}: ours {a}, theirs {b}")
    return found


def machine() -> dict[str, Any]:
    """Return what is known of the machine; what is not is null."""
    model = None
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = (line for line in cpuinfo.read_text().splitlines() if line.startswith("model name"))
        model = next((line.partition(":")[2].strip() for line in lines), None)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_average_before": list(os.getloadavg()),
        "os": platform.platform(),
        "preloaded": os.environ.get("LD_PRELOAD"),
        "cores_used": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "governor": governor.read_text().strip() if governor.exists() else None,
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS)},
    }


def abbreviated(value: Any) -> Any:
    """Return the value with the checkout as `.` and the home folder as `~`: a result is published."""
    if isinstance(value, dict):
        return {key: abbreviated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [abbreviated(item) for item in value]
    if isinstance(value, str):
        return value.replace(str(Path.cwd()), ".").replace(str(Path.home()), "~")
    return value


def table(results: list[dict[str, Any]]) -> str:
    """Return the ratios as text."""

    def cell(value: dict[str, float]) -> str:
        return f"{value['median']:.2f}x ({value['min']:.2f} to {value['max']:.2f})"

    def loop(result: dict[str, Any], name: str) -> str:
        parts = [result[f"{name}_{part.removesuffix('_nanos')}_us_per_step"] for part in LOOP_PARTS]
        return "/".join("?" if part is None else format(part["median"], ".0f") for part in parts)

    lines = [
        f"{'prompt':>6}  {'prefill, ours/mlx-lm':<26}{'decode, ours/mlx-lm':<26}ours ms/step  theirs  "
        f"{'build/submit/other us/step':>26}  theirs"
    ]
    for result in results:
        ours, theirs = (result[f"{name}_decode_ms_per_step"]["median"] for name in ("ours", "theirs"))
        lines.append(
            f"{result['prompt_tokens']:>6}  {cell(result['prefill_ratio']):<26}{cell(result['decode_ratio']):<26}"
            f"{ours:>12.2f}{theirs:>8.2f}  {loop(result, 'ours'):>26}  {loop(result, 'theirs')}"
        )
    return "\n".join(lines)


def main() -> int:
    """Handle the command line."""
    parser = argparse.ArgumentParser(description="A B B A speed comparison with mlx-lm")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--ours", default="target/release/mlxcel-bench worker", help="command of our worker")
    parser.add_argument("--shape", type=parse_shape, action="append", metavar="PROMPT:GENERATED:BLOCKS")
    parser.add_argument("--device", choices=("cpu", "gpu"), help="device of mlx-lm's side")
    parser.add_argument("--timeout-s", type=float, default=1800.0, help="longest time for one answer")
    parser.add_argument("--cores", type=parse_cores, metavar="LIST", help="cores that both sides run on, such as 2,3")
    parser.add_argument("--allow", action="store_true", help="measure in spite of differences, and mark the result")
    parser.add_argument("--out", type=Path, help="file for the result, which must not exist")
    arguments = parser.parse_args()
    if arguments.out is not None and arguments.out.exists():
        print(f"error: {arguments.out} exists and results are never overwritten; name another file", file=sys.stderr)
        return REFUSED
    shapes = arguments.shape or [parse_shape(shape) for shape in SHAPES]
    theirs_command = [sys.executable, str(Path(__file__).with_name("bench.py"))]
    if arguments.device:
        theirs_command += ["--device", arguments.device]
    if arguments.cores:
        os.sched_setaffinity(0, arguments.cores)  # what is started from here on inherits it
    before = machine()
    partial = None if arguments.out is None else arguments.out.with_name(arguments.out.name + ".partial")
    try:
        with (
            Client("ours", shlex.split(arguments.ours), arguments.timeout_s) as ours,
            Client("mlx-lm", theirs_command, arguments.timeout_s) as theirs,
        ):
            unlike = differences(ours.hello, theirs.hello)
            if unlike and not arguments.allow:
                reasons = "\n  ".join(unlike)
                print(
                    f"error: the two sides cannot be compared (--allow marks it instead):\n  {reasons}", file=sys.stderr
                )
                return REFUSED
            loaded = {"ours": ours.load(arguments.checkpoint), "theirs": theirs.load(arguments.checkpoint)}
            vocab_size = loaded["theirs"]["summary"]["vocab_size"]
            results: list[dict[str, Any]] = []
            for shape in shapes:
                results.append(compare(ours, theirs, shape, vocab_size))
                print(table(results[-1:]), file=sys.stderr)
                # A comparison takes long; what is measured is kept, whatever becomes of the rest.
                keep(partial, {"results": results})
            libraries = {"ours": ours.mapped_libraries(), "theirs": theirs.mapped_libraries()}
            ours.finish()
            theirs.finish()
    except WorkerFault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return FAULT
    except KeyboardInterrupt:
        kept = f"; finished shapes are in {partial}" if partial is not None and partial.exists() else ""
        print(f"interrupted{kept}", file=sys.stderr)
        return INTERRUPTED
    record = {
        "schema_version": 1,
        "kind": "abba",
        "finished_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "arguments": sys.argv[1:],
        "checkpoint": str(arguments.checkpoint),
        "machine": before,
        "differences": unlike,
        "ours": ours.hello,
        "theirs": theirs.hello,
        "loaded": loaded,
        "libraries": libraries,
        "results": results,
    }
    print(table(results))
    if arguments.out is not None:
        with arguments.out.open("x") as handle:
            json.dump(abbreviated(record), handle, indent=1)
            handle.write("\n")
    if partial is not None:
        partial.unlink(missing_ok=True)
    return 0


def keep(path: Path | None, unfinished: dict[str, Any]) -> None:
    """Write what there is so far, marked as unfinished."""
    if path is not None:
        path.write_text(json.dumps({"schema_version": 1, "kind": "abba", "complete": False, **unfinished}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
