"""One leaf for each dtype of a number: 1 beside floats and 1 beside indices are two operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import Apply, AttrTerm, Number, Output, Pattern, walk
from egraph_fusion.rulesets.term_dtypes import Source, foreign_parts, number_source

if TYPE_CHECKING:
    from egraph_fusion.rulesets.rule import Rule


@dataclass(frozen=True, slots=True)
class PlacedNumber(Number):
    """A number of a left side that stands with another dtype at an earlier place, too."""

    place: int

    def __str__(self) -> str:
        """Print the value."""
        return repr(self.value)


def numbers_apart(r: Rule) -> Rule:
    """Return the rule with leaves of their own for numbers that have several dtypes."""
    lhs = _Places(dict(foreign_parts(r.lhs))).apart(r.lhs, None)
    if lhs == r.lhs:
        return r
    placed = {as_written(q): q for q in reversed([*walk(lhs)])}
    when = tuple(replace(g, args=tuple(_placed(a, placed) for a in g.args)) for g in r.when)
    return replace(r, lhs=lhs, when=when)


def _placed(a: Pattern | AttrTerm, placed: Mapping[Pattern, Pattern]) -> Pattern | AttrTerm:
    return placed.get(a, a) if isinstance(a, Pattern) else a


@lru_cache(maxsize=1024)
def as_written(p: Pattern) -> Pattern:
    """Return a part of a left side as guards and right sides write it."""
    match p:
        case PlacedNumber(value):
            return Number(value)
        case Output(of, index):
            return Output(as_written(of), index)
        case Apply():
            return replace(p, args=tuple(map(as_written, p.args)))
        case _:
            return p


@dataclass
class _Places:
    """The dtypes that each number has had so far; None is the rule's."""

    foreign: dict[Pattern, DType]
    dtypes: dict[Number, list[DType | None]] = field(
        default_factory=dict[Number, "list[DType | None]"]
    )

    def apart(self, p: Pattern, above: Source) -> Pattern:
        """Return a part of the left side with placed numbers."""
        if isinstance(p, Output):
            return replace(p, of=self.apart(p.of, above))
        if isinstance(p, Apply):
            return replace(p, args=tuple(self._operand(p, i, above) for i in range(len(p.args))))
        return p

    def _operand(self, p: Apply, i: int, above: Source) -> Pattern:
        a, source = p.args[i], number_source(p, i, above, ())
        if not isinstance(a, Number):
            return self.apart(a, source)
        dtype = source if isinstance(source, DType | None) else self.foreign.get(source)
        dtypes = self.dtypes.setdefault(a, [])
        if dtype not in dtypes:
            dtypes.append(dtype)
        place = dtypes.index(dtype)
        return PlacedNumber(a.value, place) if place else a
