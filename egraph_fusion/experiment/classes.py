"""The classes of an e-graph as a reader sees them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from egraph_fusion.experiment.printing import Printer
from egraph_fusion.experiment.view import View
from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import TensorType


@dataclass(frozen=True)
class EClass:
    """Equal terms: `terms` has each e-node as text, those of the graph itself first.

    `interval` bounds the elements; `names` are the values of the graph that are in the class.
    """

    id: int
    type: TensorType
    interval: Interval
    constant: bool
    names: tuple[str, ...]
    terms: tuple[str, ...]

    @property
    def bounds(self) -> str:
        """The interval as text, empty if nothing is known."""
        low, high = self.interval
        return "" if (low, high) == (-math.inf, math.inf) else f"[{low:g}, {high:g}]"

    def __str__(self) -> str:
        """Print on one line."""
        known = f" in {self.bounds}" if self.bounds else ""
        return f"%{self.id}: {self.type}{known} = {' | '.join(self.terms)}"


def listed(view: View, printer: Printer) -> tuple[EClass, ...]:
    """Return the classes of tensors in order."""
    found: list[EClass] = []
    for c, members in sorted(view.state.classes.items()):
        kind = view.type_of(c)
        shown = sorted(
            (n for n in members if n.constructor != "Absent"), key=lambda n: n.made_by >= 0
        )
        if kind is None or not shown:
            continue
        terms = tuple(dict.fromkeys(printer.node(n) for n in shown))
        found.append(
            EClass(
                c,
                kind,
                view.interval(c),
                view.holds("constant", c),
                view.names.get(c, ()),
                terms,
            )
        )
    return tuple(found)
