"""Tables that a reader can sort by any column and filter by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from egraph_fusion.pages.document import Child, element


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, and the value that it is sorted by."""

    shown: Child
    value: str | float | None = None


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], filterable: bool = False
) -> Element:
    """Return a table; numbers are grouped by thousands, stand right and sort by value."""
    head = element("tr", *(element("th", c, scope="col", aria_sort="none") for c in columns))
    body = element("tbody", *(element("tr", *map(_cell, row)) for row in rows))
    found = element("table", element("thead", head), body, class_="sortable")
    if not filterable:
        return element("div", found, class_="wide")
    box = element(
        "input", type="search", class_="filter", placeholder="Filter rows", aria_label="Filter rows"
    )
    return element(
        "div", box, element("output", f"{len(rows)} rows"), found, class_="wide filterable"
    )


def _cell(content: Any) -> Element:
    cell = content if isinstance(content, Cell) else Cell(content)
    shown, value = cell.shown, cell.value
    if value is None and isinstance(shown, int | float) and not isinstance(shown, bool):
        value = shown
    if isinstance(shown, int) and not isinstance(shown, bool):
        shown = f"{shown:,}"
    elif isinstance(shown, float):
        shown = f"{shown:,.3g}" if abs(shown) < 1000 else f"{shown:,.0f}"
    found = element("td", "" if shown is None else shown)
    if value is not None:
        found.set("data-value", repr(value) if isinstance(value, float) else str(value))
    if isinstance(value, int | float):
        found.set("class", "number")
    return found
