"""What is asked of the choice of an operator's attributes: operands, and what is given already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from egraph_fusion.ir.graph import AttrValue

Sizes = tuple[int, ...]
Chosen = dict[str, AttrValue]


@dataclass(frozen=True, slots=True)
class Asked:
    """An application whose attributes are open, but for those that are `given`."""

    rng: Random
    shapes: Sequence[Sizes]
    given: Mapping[str, Any]

    @property
    def x(self) -> Sizes:
        """The shape of the first operand."""
        return self.shapes[0] if self.shapes else ()

    def whole(self, name: str, drawn: Callable[[], int]) -> int:
        """Return an integer that is given, or drawn."""
        found = self.given.get(name)
        return found if isinstance(found, int) else drawn()

    def wholes(self, name: str, drawn: Callable[[], Sequence[int]]) -> Sizes:
        """Return integers that are given, or drawn."""
        found: object = self.given.get(name)
        return cast("Sizes", found) if isinstance(found, tuple) else tuple(drawn())

    def often(self, part: float) -> bool:
        """Return yes in this part of all cases."""
        return self.rng.random() < part


Rule = Callable[[Asked], Chosen]
