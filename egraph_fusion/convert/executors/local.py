"""Tasks in processes of this machine: each serves one at a time and is watched while it does."""

from __future__ import annotations

import os
import queue
import selectors
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from egraph_fusion.convert.executors.memory import held_by_groups
from egraph_fusion.convert.executors.process import WorkerProcess
from egraph_fusion.convert.executors.tasks import ATTEMPTS, Failure, Outcome, Stage, Task
from egraph_fusion.errors import EgraphFusionError

POLL_SECONDS = 0.1
MEMORY_SECONDS = 0.25
"""How often memory is looked at; what a process allocates meanwhile is bounded by its limit."""
STARTS = 3
"""Workers that may fail to start, one after the other, before all is given up."""
Event = Stage | Outcome
Put = Callable[[Event], None]


class WorkersFailedError(EgraphFusionError):
    """No worker process can be started, or a cluster has lost its workers."""


class LocalProcesses:
    """Up to `jobs` worker processes (as many as there are cores if None), kept between runs."""

    def __init__(self, jobs: int | None = None) -> None:
        """Start nothing yet."""
        self._slots = jobs or os.cpu_count() or 1
        self._workers: list[WorkerProcess] = []

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        return self._slots

    def require_folder(self, folder: Path) -> None:
        """Nothing to ask for: the workers see what we see."""

    def run(self, tasks: Sequence[Task], stop: threading.Event) -> Iterator[Event]:
        """Yield stages and outcomes, as `Executor.run`.

        A thread drives the workers, so that limits hold however slowly the caller reads.  Raises
        WorkersFailedError if no worker can be started.
        """
        events: queue.Queue[Event | BaseException | None] = queue.Queue()
        left = threading.Event()

        def drive() -> None:
            try:
                _Drive(self._workers, self._slots, tasks, events.put).until(
                    lambda: stop.is_set() or left.is_set()
                )
                events.put(None)
            except BaseException as error:  # raised where the caller waits
                events.put(error)

        thread = threading.Thread(target=drive, name="egraph-fusion-workers")
        thread.start()
        try:
            while (event := events.get()) is not None:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            left.set()
            thread.join()

    def close(self) -> None:
        """End all workers."""
        while self._workers:
            self._workers.pop().close()


class _Drive:
    """One run: hands tasks to workers, listens to them, and holds them to their limits."""

    def __init__(
        self, workers: list[WorkerProcess], slots: int, tasks: Sequence[Task], put: Put
    ) -> None:
        self.workers = workers
        self.slots = slots
        self.waiting = deque(tasks)
        self.put = put
        self.deaths: Counter[str] = Counter()
        self.failed_starts = 0
        self.held: dict[int, int] = {}
        self.looked = 0.0

    def until(self, stopped: Callable[[], bool]) -> None:
        """Run all tasks, or cancel what is left once `stopped` says so."""
        while self.waiting or self._busy():
            if stopped():
                self._cancel()
                return
            self._hand_out()
            self._listen()
            self._enforce()

    def _busy(self) -> list[WorkerProcess]:
        return [w for w in self.workers if w.task is not None]

    def _hand_out(self) -> None:
        for worker in list(self.workers):
            if not self.waiting:
                return
            if not worker.ready or worker.task is not None:
                continue
            if worker.worn(self.held.get(worker.group, 0)):
                self._end(worker)
                continue
            worker.ask(self.waiting.popleft())
        starting = sum(not w.ready for w in self.workers)
        for _ in range(min(self.slots - len(self.workers), len(self.waiting) - starting)):
            self.workers.append(WorkerProcess(self.waiting[0].function))

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                selector.register(worker.output, selectors.EVENT_READ, worker)
            ready = [key.data for key, _ in selector.select(POLL_SECONDS)]
        for worker in ready:
            try:
                for message in worker.messages():
                    self._take(worker, message)
            except EOFError:
                self._lost(worker)

    def _take(self, worker: WorkerProcess, message: dict[str, Any]) -> None:
        match message:
            case {"ready": True}:
                worker.ready, self.failed_starts = True, 0
            case {"stage": str(stage)}:
                worker.stage = stage
                worker.facts |= message["facts"]
                if worker.task is not None:
                    self.put(Stage(worker.task.name, stage))
            case {"reply": reply}:
                self.put(worker.outcome(reply=reply))
            case {"failure": str(failure), "message": str(text)}:
                self.put(worker.outcome(Failure(failure), text))
                if failure != Failure.REFUSED:
                    self._end(worker)  # who knows what state it is in
            case _:
                raise AssertionError(f"a worker sent {message!r}")

    def _lost(self, worker: WorkerProcess) -> None:
        """A worker has ended by itself: its task gets another, but not for ever."""
        task, death = worker.task, worker.death()
        if not worker.ready:
            self._failed_to_start(worker, death)
        elif task is not None:
            self.deaths[task.name] += 1
            if self.deaths[task.name] < ATTEMPTS:
                self.waiting.appendleft(task)
            else:
                self.put(worker.outcome(Failure.CRASH, f"{death}, {ATTEMPTS} times in a row"))
        self._end(worker)

    def _failed_to_start(self, worker: WorkerProcess, how: str) -> None:
        self.failed_starts += 1
        if self.failed_starts >= STARTS:
            raise WorkersFailedError(
                f"worker processes cannot be started ({how}): {worker.complaint()}"
            )

    def _enforce(self) -> None:
        now = time.monotonic()
        if now - self.looked >= MEMORY_SECONDS:
            self.looked = now
            self.held = held_by_groups([w.group for w in self.workers])
        for worker in list(self.workers):
            if worker.task is None:
                if not worker.ready and now > worker.deadline:
                    self._failed_to_start(worker, "they do not get ready")
                    self._end(worker)
                continue
            worker.peak = max(worker.peak, self.held.get(worker.group, 0))
            limits = worker.task.limits
            if now > worker.deadline:
                text = f"took longer than {limits.seconds:g} s (--timeout)"
                self._break_off(worker, Failure.TIME, text)
            elif worker.peak > limits.memory:
                text = f"needed more than {limits.memory / 2**20:,.0f} MiB (--memory)"
                self._break_off(worker, Failure.MEMORY, text)

    def _break_off(self, worker: WorkerProcess, failure: Failure, message: str) -> None:
        self.put(worker.outcome(failure, message))
        self._end(worker)

    def _end(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        worker.close()

    def _cancel(self) -> None:
        for worker in self._busy():
            self._break_off(worker, Failure.CANCELLED, "cancelled")
        for task in self.waiting:
            self.put(Outcome(task.name, failure=Failure.CANCELLED, message="cancelled"))
