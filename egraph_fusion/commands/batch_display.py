"""What a batch shows: bars and stages on a terminal, plain lines elsewhere, a table at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from egraph_fusion import terminal

if TYPE_CHECKING:
    from egraph_fusion.convert.batch.results import BatchResult, Progress

LONGEST_TABLE = 40
"""Rows above which there is no table: the manifest has them all."""
LONGEST_REASON = 300


@contextmanager
def shown(*, quiet: bool) -> Generator[Callable[[Progress], None] | None]:
    """Give what shows the progress on standard error: live on a terminal, else a line a result."""
    console = Console(stderr=True, markup=False, highlight=False)
    if quiet:
        yield None
    elif console.is_terminal:
        with Live(console=console, transient=True, refresh_per_second=4) as live:
            yield lambda progress: live.update(live_view(progress))
    else:
        yield lambda progress: _line(console, progress)


def _line(console: Console, progress: Progress) -> None:
    result = progress.result
    if result is None or result.status == "skipped":
        return
    head = f"[{progress.done}/{progress.total}] {result.status}"
    seconds = f" ({result.seconds:.1f} s)" if result.seconds and not result.resumed else ""
    console.print(f"{head} {_told(result, seconds)}", soft_wrap=True)


def _told(result: BatchResult, seconds: str = "") -> str:
    """Return a model's name and what became of it; the reason need not name the model again."""
    reason = result.reason.removeprefix(result.source).lstrip(" :")
    plain = terminal.printable(reason)
    short = plain if len(plain) <= LONGEST_REASON else plain[: LONGEST_REASON - 1] + "…"
    return f"{terminal.printable(result.source)}{seconds}{f': {short}' if short else ''}"


def live_view(progress: Progress) -> RenderableType:
    """Return a bar with the counts, and the stages of the models in work."""
    counts = ", ".join(f"{n} {status}" for status, n in progress.counts.items())
    left = "" if progress.eta is None else f"about {_duration(progress.eta)} left"
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=progress.total, completed=progress.done, width=30)
    head.add_row(bar, f"{progress.done}/{progress.total}", counts, left)
    work = [Text(f"  {s}: {terminal.printable(m)}") for m, s in progress.working.items()]
    return Group(head, *work)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary(results: Sequence[BatchResult], folder: Path) -> RenderableType:
    """Return the table of the models (of few), why some have no result, and the counts."""
    columns = ("model", "status", "FLOPs", "nodes", "blocks", "difference", "s")
    counts: dict[str, int] = {}
    for result in results:
        counts[result.status] = counts.get(result.status, 0) + 1
    totals = ", ".join(f"{n} {status}" for status, n in counts.items())
    many = f"{len(results)} model{'s' * (len(results) != 1)}"
    place = f"{many}: {totals}; results are in {folder / 'manifest.jsonl'}"
    parts: list[RenderableType] = [
        f"{r.status} {_told(r)}" for r in results if r.status in ("failed", "copied")
    ]
    if len(results) <= LONGEST_TABLE:
        names = _short_names([r.source for r in results])
        rows = [_row(n, r) for n, r in zip(names, results, strict=True)]
        parts.insert(0, terminal.table("batch", columns, rows))
    return Group(*parts, place)


def _short_names(sources: Sequence[str]) -> list[str]:
    """Return sources without the folders that all of them share."""
    folders = [os.path.dirname(os.path.abspath(s)) for s in sources]
    shared = os.path.commonpath(folders) if folders else ""
    return [os.path.relpath(os.path.abspath(s), shared) for s in sources]


def _row(name: str, result: BatchResult) -> tuple[object, ...]:
    difference = result.report.get("worst_difference")
    return (
        terminal.printable(name),
        str(result.status),
        _change(result, "flops"),
        _change(result, "ops"),
        _change(result, "blocks"),
        "-" if difference is None else f"{difference:.1e}",
        f"{result.seconds:.1f}",
    )


def _change(result: BatchResult, what: str) -> str:
    before, after = result.before(what), result.after(what)
    if before is None or after is None:
        return "-"
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"
