"""`batch`: many models converted unattended, each in isolation, stopped and resumed at will."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from egraph_fusion.convert.batch.archives import ArchiveError
from egraph_fusion.convert.batch.ending import Ending
from egraph_fusion.convert.batch.file_states import all_still
from egraph_fusion.convert.batch.index_page import PAGE, write_index
from egraph_fusion.convert.batch.ledger import Entry, Ledger
from egraph_fusion.convert.batch.options import BatchError, Options, limits_of
from egraph_fusion.convert.batch.results import BatchResult, Progress, Status
from egraph_fusion.convert.batch.sources import Item, collect
from egraph_fusion.convert.batch.unpacking import Unpacked
from egraph_fusion.convert.executors.choosing import executor_for
from egraph_fusion.convert.executors.local import LocalProcesses
from egraph_fusion.convert.executors.tasks import Executor, Failure, Limits, Outcome, Task

CONVERT = "egraph_fusion.convert.batch.one_model:convert"
WORK = ".egraph-fusion-work"
LOGS = "logs"


def batch(
    sources: str | Path | Iterable[str | Path],
    out: str | Path,
    jobs: int | None = None,
    cluster: str | None = None,
    resume: bool = True,
    check: bool = True,
    *,
    target: str = "onnx",
    tolerance: float = 1e-3,
    seeds: Sequence[int] = (0, 1, 2),
    timeout: float = 600.0,
    memory: int | str | None = None,
    fallback: str | None = None,
    latency: bool = False,
    opset: int | None = None,
    numerics: str = "finite",
    rules: str | Path | None = None,
    without: Sequence[str] = (),
    verify: bool = True,
    extractor: str = "auto",
    cost: str = "flops",
    time_limit: float = 60.0,
    node_limit: int = 100_000,
    iter_limit: int = 12,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    retry_failed: bool = False,
    rehash: bool = False,
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[BatchResult]:
    """Convert models into `out` and yield one result each, as they come.

    `sources`: model files, folders, globs, zip and tar archives.  `target`: "onnx" (an optimised
    model), "onnx-functions" (its fused blocks as model-local functions) or "c" (a compiled `.efz`).
    Each model runs in a process of its own, `jobs` at a time (None: one per core), or on the Dask
    cluster at the address `cluster` ("local": one started here); at most `timeout` seconds and
    `memory` (bytes, or "4G"; None: its share of the machine).  With `check`, original and result
    run on inputs of `seeds`; a difference beyond `tolerance` (of an output's spread) is a failure.
    `fallback="copy"` copies originals that fail; `latency` compiles original and result and times
    them in turns (models at work beside them disturb that: one job is best).  With `resume`, what
    an earlier run into `out` has done is not done again unless the model's content, an option that
    matters or the version has changed; `retry_failed` tries refused models again, `rehash` reads
    all files instead of trusting the file system's clocks.  The other options are those of
    `optimize` and `save`; `input_shapes` fix shapes of those models that have inputs of these
    names.

    `progress` is called as models move on.  Setting `cancel`, or closing the iterator, ends what is
    in work and yields the rest as SKIPPED; a later run goes on from there.

    Raises BatchError before anything is done if an option is impossible, a source is missing, two
    models would have the same output, or an output would replace a source.
    """
    options = Options(
        target=target,
        check=check,
        tolerance=tolerance,
        seeds=tuple(seeds),
        opset=opset,
        numerics=numerics,
        rules=None if rules is None else str(rules),
        without=tuple(without),
        verify=verify,
        extractor=extractor,
        cost=cost,
        time_limit=time_limit,
        node_limit=node_limit,
        iter_limit=iter_limit,
        input_shapes=dict(input_shapes or {}),
        fallback=fallback,
        latency=latency,
    )
    if jobs is not None and jobs < 1:
        raise BatchError(f"jobs is {jobs}; expected a number from 1")
    limits = limits_of(timeout, memory, LocalProcesses(jobs).slots)
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    items = collect(given, Path(out), target)
    run = _Run(Path(out).absolute(), items, options, limits, progress, cancel)
    return run.results(
        lambda: executor_for(cluster, jobs), resume=resume, retry=retry_failed, rehash=rehash
    )


class _Run:
    """One batch under way."""

    def __init__(
        self,
        out: Path,
        items: Sequence[Item],
        options: Options,
        limits: Limits,
        progress: Callable[[Progress], None] | None,
        cancel: threading.Event | None,
    ) -> None:
        self.out = out
        self.items = items
        self.options = options
        self.key = options.key()
        self.limits = limits
        self.progress = progress
        self.cancel = cancel or threading.Event()
        self.counts: dict[str, int] = {}
        self.stages: dict[str, str] = {}
        self.started = time.monotonic()
        self.work_started = self.started
        self.worked = 0

    def results(
        self, make_executor: Callable[[], Executor], *, resume: bool, retry: bool, rehash: bool
    ) -> Iterator[BatchResult]:
        """Yield the result of each model."""
        ledger = Ledger(self.out)
        work = self.out / WORK
        try:
            shutil.rmtree(work, ignore_errors=True)  # left by a run that was killed
            entries = ledger.entries()
            todo: list[Item] = []
            for item in self.items:
                usable = resume and not self.cancel.is_set()
                known = entries.get(item.output) if usable else None
                result = self._known(item, known, ledger, retry, rehash) if known else None
                if result is None:
                    todo.append(item)
                else:
                    yield self._counted(result)
            if todo:
                ending = Ending(self.out, self.key, self.options.fallback, ledger, entries)
                yield from self._work(todo, work, ending, make_executor)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if self.worked or not (self.out / PAGE).exists():
                found = sorted((p, e.result) for p, e in ledger.entries().items())
                write_index(self.out, found)
            ledger.close()

    def _known(
        self, item: Item, entry: Entry, ledger: Ledger, retry: bool, rehash: bool
    ) -> BatchResult | None:
        """Return the earlier result of an item if it still is one."""
        if entry.key != self.key or entry.member != item.member or item.fault:
            return None
        bad = entry.result.status in (Status.FAILED, Status.COPIED)
        if bad and (retry or entry.result.failure != Failure.REFUSED):
            return None
        if not entry.inputs or entry.inputs[0].path != item.file:
            return None
        inputs = all_still(entry.inputs, rehash=rehash)
        outputs = None if inputs is None else all_still(entry.outputs, rehash=rehash)
        if inputs is None or outputs is None:
            return None
        if (*inputs, *outputs) != (*entry.inputs, *entry.outputs):
            ledger.refresh([replace(entry, inputs=tuple(inputs), outputs=tuple(outputs))])
        status = entry.result.status if bad else Status.UNCHANGED
        return replace(entry.result, source=item.source, status=status, resumed=True)

    def _work(
        self,
        todo: Sequence[Item],
        work: Path,
        ending: Ending,
        make_executor: Callable[[], Executor],
    ) -> Iterator[BatchResult]:
        """Convert what has not been done."""
        self.work_started = time.monotonic()
        unpacked = Unpacked(work / "unpacked")
        tasks: dict[str, tuple[Item, Task]] = {}
        for number, item in enumerate(todo):
            try:
                tasks[item.output] = (
                    item,
                    self._task(item, work / "staged" / str(number), unpacked),
                )
            except (ArchiveError, BatchError, OSError) as error:
                yield self._counted(ending.unreadable(item, error))
        if not tasks:
            return
        executor = make_executor()
        try:
            executor.require_folder(work)
            for event in executor.run([t for _, t in tasks.values()], self.cancel):
                item, task = tasks[event.task]
                if isinstance(event, Outcome):
                    self.stages.pop(item.source, None)
                    self.worked += 1
                    yield self._counted(ending.of(item, task, event, unpacked))
                else:
                    self.stages[item.source] = event.stage
                    self._show(None)
        finally:
            executor.close()

    def _task(self, item: Item, folder: Path, unpacked: Unpacked) -> Task:
        if item.fault:
            raise ArchiveError(item.fault)
        file = unpacked.file_of(item)
        log = self.out / LOGS / f"{item.output}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        folder.mkdir(parents=True)
        request = {
            "file": str(file),
            "folder": str(folder),
            "name": Path(item.output).name,
            "options": self.options.to_request(),
        }
        return Task(item.output, CONVERT, request, self.limits, str(log))

    def _counted(self, result: BatchResult) -> BatchResult:
        self.counts[result.status] = self.counts.get(result.status, 0) + 1
        self._show(result)
        return result

    def _show(self, result: BatchResult | None) -> None:
        if self.progress is None:
            return
        now = time.monotonic()
        left = len(self.items) - sum(self.counts.values())
        eta = (now - self.work_started) / self.worked * left if self.worked else None
        self.progress(
            Progress(
                len(self.items),
                dict(self.counts),
                dict(self.stages),
                now - self.started,
                eta,
                result,
            )
        )
