"""The classes of an e-graph as a reader sees them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from egraph_fusion.experiment.expressions import shown
from egraph_fusion.experiment.printing import Printer
from egraph_fusion.experiment.view import View
from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import TensorType
from egraph_fusion.rulesets.pattern import Pattern


@dataclass(frozen=True)
class EClass:
    """Equal terms: `expressions` has one for each e-node, those of the graph itself first.

    The operands of each are the smallest terms of their classes; `terms` has them as text.
    `interval` bounds the elements; `names` are the values of the graph that are in the class.
    """

    id: int
    type: TensorType
    interval: Interval
    constant: bool
    names: tuple[str, ...]
    expressions: tuple[Pattern, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """The expressions as text, inner parts left out where it would grow long."""
        return tuple(dict.fromkeys(map(shown, self.expressions)))

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
        if kind is None:
            continue
        ordered = sorted(members, key=lambda n: n.made_by >= 0)
        expressions = tuple(map(printer.node, ordered))
        known = (
            kind,
            view.interval(c),
            view.holds("constant", c),
            tuple(v for v in view.names.get(c, ()) if v in printer.kept),
        )
        found.append(EClass(c, *known, expressions))
    return tuple(found)
