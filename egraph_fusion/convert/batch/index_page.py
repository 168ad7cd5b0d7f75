"""`index.html`: one page on all models that batches have left in a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote
from xml.etree.ElementTree import Element

from egraph_fusion.convert.batch.results import BatchResult, Status, counted
from egraph_fusion.output_files import write_text
from egraph_fusion.pages.charts import bars, short
from egraph_fusion.pages.document import Child, document, element, facts, fragment_of, section
from egraph_fusion.pages.table import Cell, table

PAGE = "index.html"
DETAILS = ".egraph-fusion-details"
FIGURES = ("flops", "ops", "blocks", "bytes")
_NAMES = {"flops": "FLOPs", "ops": "nodes", "blocks": "blocks", "bytes": "bytes"}


def details_path(out: Path, place: str) -> Path:
    """Return where the fragment on the model whose output is `place` is kept."""
    return out / DETAILS / f"{place}.xml"


def keep_details(out: Path, place: str, fragment: str | None) -> None:
    """Keep the fragment on a model for the page, or forget it."""
    path = details_path(out, place)
    if fragment is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, fragment)


def write_index(out: Path, results: Sequence[tuple[str, BatchResult]]) -> Path:
    """Write the page on `results` (each with the path of its output below `out`)."""
    path = out / PAGE
    write_text(path, document("Converted models", *_body(out, results)))
    return path


def _body(out: Path, results: Sequence[tuple[str, BatchResult]]) -> Iterator[Element]:
    counts = counted([r for _, r in results])
    rows: list[tuple[str, Child]] = [("models", len(results)), *counts.items()]
    yield facts([*rows, *(_saved(results, what) for what in FIGURES)])
    yield section("Models", _table(results))
    hits = _summed(results, "rule_hits")
    if hits:
        yield section("Rule hits", bars(hits), _rules(hits, _summed(results, "rule_uses")))
    yield section("Details", *_details(out, results))


def _saved(results: Sequence[tuple[str, BatchResult]], what: str) -> tuple[str, Child]:
    pairs = [(r.before(what), r.after(what)) for _, r in results if r.ok]
    known = [(b, a) for b, a in pairs if b is not None and a is not None]
    before, after = (sum(side) for side in zip(*known, strict=True)) if known else (0, 0)
    return _NAMES[what], f"{(after - before) / before:+.1%}" if before else "unchanged"


def _table(results: Sequence[tuple[str, BatchResult]]) -> Element:
    timed = any(r.before("seconds") for _, r in results)
    figures = [*map(_NAMES.__getitem__, FIGURES), *(["latency"] if timed else [])]
    columns = ["model", "status", *figures, "rule hits", "seconds", "difference", "reason"]
    return table(columns, [_row(i, *r, timed) for i, r in enumerate(results)], filterable=True)


def _row(number: int, place: str, result: BatchResult, timed: bool) -> list[Child | Cell]:
    good = result.status in (Status.OK, Status.UNCHANGED)
    status = element("span", result.status, class_="ok" if good else "failed")
    link = element("a", place, href=f"#model-{number}")
    row: list[Child | Cell] = [Cell(link, place), Cell(status, result.status)]
    row += [_pair(result.before(w), result.after(w), short) for w in FIGURES]
    if timed:
        row.append(_pair(result.before("seconds"), result.after("seconds"), _milliseconds))
    hits = sum(result.report.get("rule_hits", {}).values())
    return [*row, hits, result.seconds, result.report.get("worst_difference"), result.reason]


def _pair(before: float | None, after: float | None, shown: Callable[[float], str]) -> Cell:
    """Return a cell that shows both figures and is sorted by the second."""
    if before is None or after is None:
        return Cell(None)
    said = shown(after) if before == after else f"{shown(before)} → {shown(after)}"
    return Cell(said, after)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _summed(results: Sequence[tuple[str, BatchResult]], what: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, result in results:
        found.update(result.report.get(what, {}))
    return +found


def _rules(hits: Counter[str], uses: Counter[str]) -> Element:
    rows = [[rule, count, uses[rule]] for rule, count in hits.most_common()]
    return table(["rule", "hits", "uses in results"], rows, filterable=True)


def _details(out: Path, results: Sequence[tuple[str, BatchResult]]) -> Iterator[Element]:
    for number, (place, result) in enumerate(results):
        body: list[Child] = [element("p", "Source: ", element("code", result.source))]
        if result.output is not None:
            link = quote(os.path.relpath(result.output, out))
            body.append(element("p", "Output: ", element("a", place, href=link)))
        body += [element("p", text, class_="failed") for text in [result.reason] if text]
        body += [element("p", note, class_="soft") for note in result.report.get("notes", ())]
        body += _kept(out, place)
        summary = element("summary", element("strong", place), f" {result.status}")
        yield element("details", summary, *body, id=f"model-{number}")


def _kept(out: Path, place: str) -> list[Element]:
    try:
        return [fragment_of(details_path(out, place).read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return []
