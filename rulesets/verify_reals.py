"""Sides of a rule over the reals, for programs that show a difference which no dtype holds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.exact_functions import RealFunctions
from egraph_fusion.rulesets.exact_groups import objects
from egraph_fusion.rulesets.exact_numbers import DIGITS, Special
from egraph_fusion.rulesets.exact_operators import apply_exactly, round_exactly

ACCURACIES = (DIGITS, 5 * DIGITS)
"""Digits for the first and, where that leaves two values undecided, the second attempt."""
REALS = {digits: RealFunctions(digits) for digits in ACCURACIES}
FINEST = REALS[ACCURACIES[-1]]
SHOWN = (30, 120)
"""Digits that tell two values apart, and if they do not, these."""


def reals(items: Sequence[str | float | bool], shape: Sequence[int]) -> Any:
    """Return exact values: fractions from texts, what numbers mean from numbers."""
    return objects([_real(item) for item in items], shape)


def _real(item: str | float | bool) -> Any:
    if isinstance(item, bool):
        return item
    return Fraction(item) if isinstance(item, str) else FINEST.const(item)


def apply_over_reals(op: str, *operands: Any, output: int = 0, **attrs: AttrValue) -> Any:
    """Apply a declared operator to exact values; all attributes are given."""
    return apply_exactly(FINEST, op, operands, attrs)[output]


def rounded(to: str, x: Any) -> Any:
    """Round exact values to a floating-point dtype."""
    return round_exactly(FINEST, x, DType(to))


def texts(left: Any, right: Any) -> tuple[list[str], list[str]]:
    """Return the elements of both sides as decimals, to as many digits as tell them apart."""
    pairs = [shown_apart(x, y) for x, y in zip(left.reshape(-1), right.reshape(-1), strict=True)]
    return [x for x, _ in pairs], [y for _, y in pairs]


def shown_apart(x: Any, y: Any) -> tuple[str, str]:
    """Return two exact values as texts that differ if the values do."""
    digits = next((d for d in SHOWN if _rounded(x, d) != _rounded(y, d)), SHOWN[-1])
    return _shown(x, digits), _shown(y, digits)


def _shown(x: Any, digits: int) -> str:
    """Return an exact value as text, a short fraction as it is."""
    text = str(x)
    return text if isinstance(x, Fraction) and len(text) <= digits else _rounded(x, digits)


def _rounded(x: Any, digits: int) -> str:
    """Return an exact value as a decimal."""
    if isinstance(x, Special):
        return x.value
    if isinstance(x, bool):
        return str(x)
    number = FINEST.mpf(x) if isinstance(x, Fraction) else (x.lo + x.hi) / 2
    return str(FINEST.mp.nstr(number, digits))


def source_of(values: Any) -> str:
    """Return the source of exact values."""
    items = (repr(v) if isinstance(v, bool) else repr(str(v)) for v in values.reshape(-1))
    return f"reals([{', '.join(items)}], {values.shape})"
