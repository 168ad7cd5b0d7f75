"""Guards on elements and on the graph: what they ask of classes, as egglog atoms and in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import TensorType
from egraph_fusion.rulesets.guards_operands import range_of_integers


class Known(Protocol):
    """What is known of classes of equal terms."""

    def type_of(self, eclass: int) -> TensorType | None:
        """Return the type of a class of tensors, if it is known."""
        ...

    def interval(self, eclass: int) -> Interval:
        """Return the bounds of the elements."""
        ...

    def splat(self, eclass: int) -> int | None:
        """Return the interned number that all elements are, if that is known."""
        ...

    def holds(self, fact: str, eclass: int) -> bool:
        """Whether a fact is known of a class."""
        ...


@dataclass(frozen=True, slots=True)
class ValueForm:
    """One guard: `atoms` on operands {0}, {1}, and `holds` of what is known of their classes.

    `otherwise` says what is the case where it does not hold; if it says nothing, bounds do.
    """

    atoms: str
    holds: Callable[..., bool]
    otherwise: str = ""


def _fact(name: str, otherwise: str = "") -> ValueForm:
    def holds(known: Known, x: int) -> bool:
        return known.holds(name, x)

    return ValueForm(f"({name} {{0}})", holds, otherwise)


def _at_least_zero(known: Known, x: int) -> bool:
    return known.interval(x)[0] >= 0


def _above_zero(known: Known, x: int) -> bool:
    return known.interval(x)[0] > 0


def _bounded(known: Known, x: int) -> bool:
    low, high = known.interval(x)
    return low > -math.inf and high < math.inf


def _within_integers(known: Known, x: int, t: int) -> bool:
    (low, high), kind = known.interval(x), known.type_of(t)
    integers = None if kind is None else range_of_integers(kind.dtype)
    return integers is not None and integers[0] <= low and high < integers[1]


def _one_number(known: Known, x: int) -> bool:
    return known.splat(x) is not None


_LO, _HI = "(= {0}_lo (lo {0}))", "(= {0}_hi (hi {0}))"
VALUE_FORMS: Mapping[str, ValueForm] = {
    "nonneg": ValueForm(f"{_LO} (>= {{0}}_lo 0.0)", _at_least_zero),
    "positive": ValueForm(f"{_LO} (> {{0}}_lo 0.0)", _above_zero),
    "nonzero": _fact("nonzero"),
    "finite": ValueForm(f"{_LO} {_HI} (> {{0}}_lo -inf) (< {{0}}_hi inf)", _bounded),
    "integer": _fact("integer", "may hold fractions, as far as is known"),
    "in_range_of": ValueForm(
        f"{_LO} {_HI} (= {{1}}_t (ty {{1}})) (= {{1}}_d (ty-dtype {{1}}_t))"
        " (>= {0}_lo (first-integer {1}_d)) (< {0}_hi (end-of-integers {1}_d))",
        _within_integers,
    ),
    "uniform": ValueForm("(= {0}_splat (splat {0}))", _one_number),
    "constant": _fact("constant", "depends on an input"),
    "varying": _fact("varies", "is computed from constants alone"),
    "one_consumer": _fact("open", "is read by several nodes, or is an output or an input"),
}
"""Every guard that looks at the elements of tensors, or at how they are computed or used."""
