"""The worker process as seen from here: one per process, started on demand, replaced if dead."""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from egraph_fusion.errors import OptimizeError

MEMORY_LIMIT = 4 << 30
"""Bytes of address space the worker may use (its libraries map about 1 GiB)."""


class WorkerStoppedError(OptimizeError):
    """The worker was stopped: `reason` is "time", "memory" or "crash"."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the reason."""
        super().__init__(message)
        self.reason = reason


class Worker:
    """A running worker process."""

    def __init__(self, memory: int | None = None) -> None:
        """Start the process; `memory` is its limit in bytes, MEMORY_LIMIT unless given."""
        self.owner = os.getpid()
        self.memory = memory or MEMORY_LIMIT
        self.process = subprocess.Popen(
            [sys.executable, "-m", "egraph_fusion.egraph.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "RAYON_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.ask({"memory": self.memory}, time.monotonic() + 60)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def ask(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Send a request and return the reply.

        Raises WorkerStoppedError if there is none by `deadline` (monotonic seconds) or the process
        ends, OptimizeError if egglog refuses the program.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            line = self._line(deadline)
        except BrokenPipeError:
            line = b""
        except BaseException:
            # An interrupt, say: the answer on its way would be taken for the next request's.
            self.close()
            raise
        if not line:
            raise self._ended(self.process.wait())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            if reply["panic"]:
                self.close()
            raise OptimizeError(f"the e-graph engine refused a program: {reply['error']}")
        return reply

    def _ended(self, code: int) -> WorkerStoppedError:
        """Say why the process ended: it aborts itself where it meets the memory limit."""
        self.close()
        if code == -signal.SIGABRT:
            limit = f"{self.memory / 2**30:.1f} GiB"
            return WorkerStoppedError("memory", f"the e-graph needs more than the worker's {limit}")
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return WorkerStoppedError("crash", f"the e-graph worker was ended {how}")

    def _line(self, deadline: float) -> bytes:
        assert self.process.stdout is not None
        handle = self.process.stdout.fileno()
        parts: list[bytes] = []
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while not parts or not parts[-1].endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.close()
                    raise WorkerStoppedError("time", "the e-graph worker did not answer in time")
                part = os.read(handle, 1 << 20)
                if not part:
                    return b""
                parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """End the process, unless it belongs to the process that this one was forked from."""
        if self.owner == os.getpid() and self.alive:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


_RUNNING: list[Worker] = []

EXCLUSIVE = threading.Lock()
"""Held during a saturation: threads of one process take turns at the worker."""


def worker() -> Worker:
    """Return the process's worker, started or restarted if need be."""
    if _RUNNING and (_RUNNING[0].owner != os.getpid() or not _RUNNING[0].alive):
        _RUNNING.pop().close()
    if not _RUNNING:
        _RUNNING.append(Worker())
    return _RUNNING[0]


@atexit.register
def stop() -> None:
    """End the worker, if there is one."""
    while _RUNNING:
        _RUNNING.pop().close()
