"""One worker process as seen from here: started, asked, heard, and ended with its children."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from egraph_fusion.convert.executors.tasks import TEMPORARY, Failure, Outcome, Task

START_SECONDS = 120.0
"""How long a worker may take to start: it imports much, and the machine may be busy."""
TASKS_PER_WORKER = 64
"""After so many tasks a worker is replaced, so that what libraries leak stays bounded."""
WORN_OUT = 1 << 30
"""Bytes held between tasks above which a worker is replaced."""


class WorkerProcess:
    """A process in a session of its own, so that it can be ended with all that it has started."""

    def __init__(self, function: str) -> None:
        """Start it; it loads `function` and then says that it is ready."""
        # What it and its compilers leave in the middle of their work goes when it does.
        self._temporary = tempfile.mkdtemp(prefix=TEMPORARY)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "egraph_fusion.convert.executors.worker", function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TMPDIR": self._temporary,
            },
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout.fileno()
        os.set_blocking(self.output, False)
        self.ready = False
        self.served = 0
        self.task: Task | None = None
        self.facts: dict[str, Any] = {}
        self.stage = ""
        self.peak = 0
        self.started = time.monotonic()
        self.deadline = self.started + START_SECONDS
        self._rest = b""

    @property
    def group(self) -> int:
        """The process group of it and its children."""
        return self.process.pid

    def ask(self, task: Task) -> None:
        """Send a task; the outcome comes through `messages`."""
        self.task, self.facts, self.stage, self.peak = task, {}, "", 0
        self.started = time.monotonic()
        self.deadline = self.started + task.limits.seconds
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # then its output ends, which says more
            self.process.stdin.write(json.dumps(task.to_dict()).encode() + b"\n")
            self.process.stdin.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what has come since the last call; raise EOFError once the process has ended."""
        ended = False
        while True:
            try:
                part = os.read(self.output, 1 << 16)
            except BlockingIOError:
                break
            if not part:
                ended = True
                break
            self._rest += part
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            yield json.loads(line)
        if ended:
            raise EOFError

    def outcome(
        self, failure: Failure = Failure.NONE, message: str = "", reply: Any = None
    ) -> Outcome:
        """Return the outcome of the task at hand, which is then done."""
        assert self.task is not None
        name, self.task = self.task.name, None
        self.served += 1
        seconds = time.monotonic() - self.started
        return Outcome(name, reply, failure, message, self.stage, seconds, self.facts, self.peak)

    def death(self) -> str:
        """Say how the process ended."""
        code = self.process.wait()
        if code >= 0:
            return f"its worker process ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"its worker process was ended by {name}"

    def complaint(self) -> str:
        """Return the last line that it wrote before it was ready."""
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def worn(self, held: int) -> bool:
        """Whether to replace it before the next task."""
        return self.served >= TASKS_PER_WORKER or held > WORN_OUT

    def close(self) -> None:
        """End the process and its children at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self._complaints):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        shutil.rmtree(self._temporary, ignore_errors=True)
