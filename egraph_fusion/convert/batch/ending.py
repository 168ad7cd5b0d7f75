"""How one model of a batch ends: published, copied or failed; recorded either way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from egraph_fusion.convert.batch.file_states import FileState
from egraph_fusion.convert.batch.index_page import keep_details
from egraph_fusion.convert.batch.ledger import Entry, Ledger
from egraph_fusion.convert.batch.options import BatchError
from egraph_fusion.convert.batch.publishing import copy_original, publish
from egraph_fusion.convert.batch.results import BatchResult, Status
from egraph_fusion.convert.batch.sources import SUFFIX, Item
from egraph_fusion.convert.batch.unpacking import Unpacked
from egraph_fusion.convert.executors.tasks import Failure, Outcome, Task

UNREADABLE = "unreadable"
UNWRITABLE = "unwritable"


class Ending:
    """Turns outcomes into results, in the output folder and in the ledger."""

    def __init__(
        self,
        out: Path,
        key: str,
        fallback: str | None,
        ledger: Ledger,
        entries: dict[str, Entry],
    ) -> None:
        """Know where to write and what was there before."""
        self.out = out
        self.key = key
        self.fallback = fallback
        self.ledger = ledger
        self.entries = entries

    def unreadable(self, item: Item, error: Exception) -> BatchResult:
        """Return the failed result of what cannot even be given to a worker."""
        reason = f"{item.source}: {getattr(error, 'strerror', None) or error}"
        result = BatchResult(item.source, Status.FAILED, reason=reason, failure=UNREADABLE)
        self._record(Entry(item.output, self.key, result, item.member))
        return result

    def of(self, item: Item, task: Task, outcome: Outcome, unpacked: Unpacked) -> BatchResult:
        """Return the result of an outcome; what was staged is published or gone afterwards."""
        try:
            if outcome.failure is Failure.CANCELLED:
                return BatchResult(
                    item.source, Status.SKIPPED, reason="cancelled", stage=outcome.stage
                )
            return self._ended(item, task, outcome, unpacked)
        finally:
            shutil.rmtree(task.request["folder"], ignore_errors=True)

    def _ended(self, item: Item, task: Task, outcome: Outcome, unpacked: Unpacked) -> BatchResult:
        inputs = _states(outcome.facts.get("inputs", ()))
        failure, reason = str(outcome.failure), outcome.message
        report: Mapping[str, Any] = {}
        outputs: list[FileState] = []
        status = Status.FAILED
        if outcome.reply is not None:
            report = outcome.reply["report"]
            try:
                outputs = publish(_states(outcome.reply["outputs"]), item.output, self.out)
                status = Status.OK
            except BatchError as error:
                failure, reason = UNWRITABLE, str(error)
        if status is Status.FAILED:
            reason = reason.replace(task.request["file"], item.source)
            _append(task.log, f"failed at stage {outcome.stage or 'start'!r}: {reason}\n")
            if self.fallback == "copy":
                outputs, reason = self._copied(task, inputs, item, reason)
                status = Status.COPIED if outputs else Status.FAILED
        result = BatchResult(
            item.source,
            status,
            output=_named(outputs),
            reason=reason,
            failure=failure,
            stage=outcome.stage,
            seconds=round(outcome.seconds, 3),
            report=report,
            log=_kept(task.log),
            peak_memory=outcome.peak_memory,
        )
        shown = outcome.reply["details"] if outcome.reply and status is Status.OK else None
        keep_details(self.out, item.output, shown)
        if item.member:
            inputs = [unpacked.state_of(item.file)]
        entry = Entry(item.output, self.key, result, item.member, tuple(inputs), tuple(outputs))
        self._record(entry)
        return result

    def _copied(
        self, task: Task, inputs: Sequence[FileState], item: Item, reason: str
    ) -> tuple[list[FileState], str]:
        """Copy the original; return the copies' states and the reason, longer if that fails."""
        file = Path(task.request["file"])
        own = file.resolve()
        others = [p for p in (Path(s.path).resolve() for s in inputs) if p != own]
        stem, suffix = os.path.splitext(item.output)
        place = f"{stem}{SUFFIX}" if suffix == ".efz" else item.output
        try:
            return copy_original(file, others, place, self.out), reason
        except BatchError as error:
            return [], f"{reason}; {error}"

    def _record(self, entry: Entry) -> None:
        """Enter a result, and remove what an earlier one left that is no part of it."""
        old = self.entries.get(entry.place)
        self.entries[entry.place] = entry
        self.ledger.add(entry)
        if old is None:
            return
        wanted = {s.path for e in self.entries.values() for s in e.outputs}
        for state in old.outputs:
            # What somebody has changed since is not ours to remove.
            if state.path not in wanted and state.still() is not None:
                Path(state.path).unlink(missing_ok=True)


def _states(found: Sequence[Mapping[str, Any]]) -> list[FileState]:
    return [FileState(**s) for s in found]


def _named(outputs: Sequence[FileState]) -> str | None:
    """The model comes last, after its data files."""
    return outputs[-1].path if outputs else None


def _append(log: str, text: str) -> None:
    with open(log, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def _kept(log: str) -> str | None:
    """Return the log's path, None (and remove it) if nothing was printed."""
    path = Path(log)
    if path.exists() and not path.stat().st_size:
        path.unlink()
    return log if path.exists() else None
