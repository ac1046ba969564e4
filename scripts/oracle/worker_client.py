"""The parent's side of a worker: start it, ask it, end it. Standard library only.

The protocol is the benchmark harness's (``harness/src/worker/protocol.rs``); ``bench.py`` speaks it too.
"""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROTOCOL = 1
Event = dict[str, Any]


class WorkerFault(Exception):
    """A worker that failed, fell silent or said something that is no event."""


class Client:
    """A running worker; leaving the ``with`` block ends it whatever happened."""

    def __init__(self, name: str, command: list[str], timeout_s: float) -> None:
        """Start the worker and hear its hello."""
        self.name = name
        self.timeout_s = timeout_s
        self.timed_out = False
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as fault:
            raise WorkerFault(f"{name}: cannot start {command[0]}: {fault.strerror}") from fault
        self.hello = self._await("hello")
        if self.hello["protocol"] != PROTOCOL:
            self.end()
            raise WorkerFault(
                f"{name}: speaks protocol {self.hello['protocol']}, not {PROTOCOL}; build both from one tree"
            )

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker."""
        self.end()

    def end(self) -> None:
        """Kill the process unless it has ended, and reap it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _kill_late(self) -> None:
        self.timed_out = True
        self.process.kill()

    def _await(self, wanted: str) -> Event:
        """Return the next event of the kind wanted; progress on the way there is passed over."""
        watchdog = threading.Timer(self.timeout_s, self._kill_late)
        watchdog.start()
        try:
            while line := self.process.stdout.readline() if self.process.stdout else "":
                try:
                    event = json.loads(line)
                    kind = event["event"]
                except (ValueError, KeyError, TypeError) as fault:
                    raise WorkerFault(f"{self.name}: wrote a line that is no event: {line.strip()!r}") from fault
                if kind == wanted:
                    return event
                if kind == "failed":
                    raise WorkerFault(f"{self.name}: {event['message']}")
                if kind != "loading":
                    raise WorkerFault(f"{self.name}: answered with {kind}, expected {wanted}")
        finally:
            watchdog.cancel()
        status = self.process.wait()
        why = f"gave no answer within {self.timeout_s:.0f} s" if self.timed_out else f"ended with status {status}"
        raise WorkerFault(f"{self.name}: {why} while `{wanted}` was awaited")

    def _ask(self, request: Event, wanted: str) -> Event:
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as fault:
            raise WorkerFault(f"{self.name}: ended with status {self.process.wait()}") from fault
        return self._await(wanted)

    def load(self, checkpoint: Path) -> Event:
        """Have the checkpoint loaded."""
        return self._ask({"request": "load", "path": str(checkpoint)}, "loaded")

    def generate(self, rep: int, ids: list[int], max_tokens: int) -> Event:
        """Have ``max_tokens`` tokens generated after the prompt ``ids``; repetition 0 is a warm-up."""
        request = {
            "request": "generate",
            "rep": rep,
            "prompt": {"tokens": ids},
            "max_tokens": max_tokens,
            "prefill_chunk": 2048,
            "suppress_eos": True,
        }
        event = self._ask(request, "generated")
        count = len(event["sample"]["token_nanos"])
        if count != max_tokens or len(event["tokens"]) != max_tokens:
            raise WorkerFault(f"{self.name}: generated {count} tokens where exactly {max_tokens} were asked for")
        return event

    def finish(self) -> None:
        """Tell the worker to end."""
        self._ask({"request": "finish"}, "done")
        self.process.wait()

    def mapped_libraries(self) -> list[str]:
        """Return the names of the MLX and BLAS libraries in the worker's memory, where the system tells."""
        maps = Path(f"/proc/{self.process.pid}/maps")
        if not maps.exists():
            return []
        names = {Path(line.split(maxsplit=5)[5].strip()).name for line in maps.read_text().splitlines() if "/" in line}
        return sorted(name for name in names if any(part in name.lower() for part in ("mlx", "blas", "lapack")))
