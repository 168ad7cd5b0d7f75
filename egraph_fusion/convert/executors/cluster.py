"""Tasks on a Dask cluster: every Dask worker runs them in isolated processes, as we would here."""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from egraph_fusion.convert.executors.local import Event, LocalProcesses, WorkersFailedError
from egraph_fusion.convert.executors.tasks import ATTEMPTS, Failure, Outcome, Stage, Task
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.version import __version__

POLL_SECONDS = 0.2
PATIENCE = 60.0
"""Seconds without any worker after which a cluster counts as lost."""
SETTLING = 1.0
"""Seconds after which all that a dead worker had said has come to us."""
MOST_LOSSES = 20
"""Times that Dask may give up a task that took down, as far as we heard, fewer than ATTEMPTS."""
# A Ctrl-C reaches all processes of a terminal; this one alone decides what it means.
_IGNORE_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
BEGUN, ENDED = "", "."

_DECIDING = ("egglog", "highspy", "numpy", "onnx")

# On a Dask worker: the processes of each of its threads, and what ends their runs.
_HERE = threading.local()
_STOPS: dict[str, threading.Event] = {}


class DaskCluster:
    """The workers of a Dask cluster: at `address`, or of one started here for "local"."""

    def __init__(self, address: str, jobs: int | None = None) -> None:
        """Connect; `jobs` is the number of processes of a local cluster.

        Raises EgraphFusionError if distributed is not installed, nobody answers, there are no
        workers, or one runs another version of this package.
        """
        dask = _distributed()
        self._cluster: Any = None
        if address == "local":
            self._cluster = _local_cluster(dask, LocalProcesses(jobs).slots)
        try:
            self._client: Any = dask.Client(self._cluster or address, timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise EgraphFusionError(f"no Dask scheduler answers at {address!r}: {error}") from error
        try:
            self._expect_workers(address)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        return str(self._client.scheduler.address)

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        return max(1, sum(int(n) for n in self._client.nthreads().values()))

    def wait(self, workers: int) -> None:
        """Wait until there are so many workers: one that died may be on its way back."""
        self._client.wait_for_workers(workers, timeout=PATIENCE)

    def require_folder(self, folder: Path) -> None:
        """Raise EgraphFusionError unless every worker sees `folder`."""
        seen = self._client.run(_sees, str(folder))
        blind = [address for address, found in seen.items() if not found]
        if blind:
            raise EgraphFusionError(
                f"the worker at {blind[0]} does not see {folder}: all machines of a cluster need "
                "the same files under the same names (a shared file system)"
            )

    def run(self, tasks: Sequence[Task], stop: threading.Event) -> Iterator[Event]:
        """Yield stages and outcomes, as `Executor.run`.

        Raises WorkersFailedError if the scheduler, or every worker, is gone.
        """
        run = f"egraph-fusion-{uuid.uuid4().hex}"
        yield from _Run(self._client, run, tasks).events(stop)

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def _expect_workers(self, address: str) -> None:
        try:
            self.wait(1)
        except TimeoutError as error:
            raise EgraphFusionError(f"the Dask cluster at {address!r} has no workers") from error
        ours = versions()
        for worker, theirs in self._client.run(versions).items():
            if theirs != ours:
                raise EgraphFusionError(
                    f"the worker at {worker} has {theirs}, this process {ours}: results would "
                    "depend on who computes them; install the same versions everywhere"
                )


class _Run:
    """The tasks of one run on the cluster."""

    def __init__(self, client: Any, name: str, tasks: Sequence[Task]) -> None:
        self.client = client
        self.name = name
        self.tasks = {t.name: t for t in tasks}
        self.seen: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.futures: dict[str, Any] = {}
        self.open: Counter[str] = Counter()  # how often a task was begun and not ended
        self.losses: Counter[str] = Counter()
        self.lost: dict[str, float] = {}
        self.checked = time.monotonic()
        self.workers_seen = self.checked

    def events(self, stop: threading.Event) -> Iterator[Event]:
        """Yield what happens until every task has its outcome."""
        self.client.subscribe_topic(self.name, self._heard)
        try:
            for name in self.tasks:
                self._submit(name)
            while self.futures:
                if stop.is_set():
                    yield from self._cancelled()
                    return
                yield from self._next()
                self._expect_cluster()
        finally:
            self._abandon()
            self.client.unsubscribe_topic(self.name)

    def _submit(self, name: str) -> None:
        future = self.client.submit(
            perform,
            self.tasks[name].to_dict(),
            self.name,
            key=f"{self.name}-{self.losses[name]}-{name}",
            pure=False,
            retries=0,
        )
        self.futures[name] = future
        future.add_done_callback(partial(self._ended, name))

    def _heard(self, event: tuple[float, Any]) -> None:
        self.seen.put(("stage", event[1]))

    def _ended(self, name: str, _future: Any) -> None:
        self.seen.put(("done", name))

    def _next(self) -> Iterator[Event]:
        yield from self._judge()
        try:
            kind, what = self.seen.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return
        if kind == "done":
            yield from self._done(what)
        elif what["task"] in self.futures:
            yield from self._told(what["task"], what["stage"])

    def _told(self, name: str, stage: str) -> Iterator[Event]:
        """A worker says that it has begun or ended a task, or how far it is."""
        if stage not in (BEGUN, ENDED):
            yield Stage(name, stage)
            return
        self.open[name] += 1 if stage == BEGUN else -1
        if self.open[name] > ATTEMPTS:
            self.futures.pop(name).cancel()
            yield _killer(name)

    def _done(self, name: str) -> Iterator[Outcome]:
        future = self.futures.get(name)
        if future is None or name in self.lost:
            return
        try:
            outcome = Outcome.of(future.result(timeout=PATIENCE))
        except Exception as error:  # Dask's own errors have no common base
            if future.status == "error" and type(error).__name__ != "KilledWorker":
                text = " ".join(f"{type(error).__name__}: {error}".split())
                outcome = Outcome(name, failure=Failure.BUG, message=f"the cluster failed: {text}")
            else:
                # Its worker has died under it or with its result.  What is on its way to us about
                # how often it was begun decides, so wait for that.
                self.lost[name] = time.monotonic() + SETTLING
                return
        del self.futures[name]
        yield outcome

    def _judge(self) -> Iterator[Outcome]:
        """Give tasks that Dask gave up another try, unless they took down ATTEMPTS workers.

        Dask blames all that a dead worker had before it, begun or not.
        """
        now = time.monotonic()
        for name in [n for n, due in self.lost.items() if due < now]:
            del self.lost[name]
            if name not in self.futures:
                continue
            self.losses[name] += 1
            if self.open[name] >= ATTEMPTS or self.losses[name] >= MOST_LOSSES:
                del self.futures[name]
                yield _killer(name)
            else:
                self._submit(name)

    def _cancelled(self) -> Iterator[Outcome]:
        names = list(self.futures)
        self._abandon()
        for name in names:
            yield Outcome(name, failure=Failure.CANCELLED, message="cancelled")

    def _abandon(self) -> None:
        """Let go of what is left, and end it on the workers."""
        if not self.futures:
            return
        self.client.cancel(list(self.futures.values()))
        self.futures.clear()
        if self.client.status == "running":
            self.client.run(stop_run, self.name)

    def _expect_cluster(self) -> None:
        now = time.monotonic()
        if now - self.checked < PATIENCE / 10:
            return
        self.checked = now
        if self.client.status != "running" or self.client.nthreads():
            self.workers_seen = now
        if self.client.status not in ("running", "connecting") or (
            now - self.workers_seen > PATIENCE
        ):
            raise WorkersFailedError("the Dask cluster has lost its scheduler or all its workers")


def _killer(name: str) -> Outcome:
    text = f"the cluster workers that ran it were lost, {ATTEMPTS} times in a row"
    return Outcome(name, failure=Failure.CRASH, message=text)


def perform(task: Mapping[str, Any], run: str) -> dict[str, Any]:
    """On a Dask worker: run a task in a process of its own and return its outcome as a dict."""
    worker: Any = _distributed().get_worker()
    # Told before anything is done, and not on the way still when the task takes its worker down.
    sync = import_module("distributed.utils").sync
    begun = {"task": task["name"], "stage": BEGUN}
    sync(worker.loop, worker.scheduler.log_event, topic=run, msg=begun)
    stop = _STOPS.setdefault(run, threading.Event())
    if not hasattr(_HERE, "processes"):
        _HERE.processes = LocalProcesses(1)
    for event in _HERE.processes.run([Task.of(task)], stop):
        if isinstance(event, Outcome):
            worker.log_event(run, {"task": event.task, "stage": ENDED})
            return event.to_dict()
        worker.log_event(run, {"task": event.task, "stage": event.stage})
    raise AssertionError("a run ended without an outcome")


def stop_run(run: str) -> None:
    """On a Dask worker: end what it runs of `run`."""
    _STOPS.setdefault(run, threading.Event()).set()


def _sees(folder: str) -> bool:
    return Path(folder).is_dir()


def versions() -> str:
    """Return the versions that decide what comes out."""
    others = ", ".join(f"{name} {version(name)}" for name in _DECIDING)
    return f"egraph_fusion {__version__}, {others}"


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise EgraphFusionError(
            "--cluster needs distributed: pip install 'egraph-fusion[cluster]'"
        ) from error


def _local_cluster(dask: Any, processes: int) -> Any:
    # Who is tried again is decided by `_judge`: Dask also counts deaths before a task was begun.
    with import_module("dask").config.set({"distributed.scheduler.allowed-failures": 0}):
        return dask.LocalCluster(
            n_workers=processes,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            preload=[_IGNORE_INTERRUPTS],
            silence_logs=logging.CRITICAL,  # what went wrong is in the outcomes
        )
