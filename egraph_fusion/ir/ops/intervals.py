"""Interval arithmetic: what each elementwise function makes of the bounds of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from egraph_fusion.ir.graph import Attrs
from egraph_fusion.ir.ops.operator import Interval, IntervalRule

BOUNDLESS: Interval = (-math.inf, math.inf)


def unit(_x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of a sigmoid."""
    return (0.0, 1.0)


def minus_one_to_one(_x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of a sine or hyperbolic tangent."""
    return (-1.0, 1.0)


def nonnegative(_x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of a function that is never negative."""
    return (0.0, math.inf)


def _rounded(lo: float, hi: float) -> Interval:
    """Widen outwards by half a unit in the last place of the coarsest dtype, bfloat16."""
    if math.isnan(lo) or math.isnan(hi):
        return BOUNDLESS
    return (_widened(lo, -1.0), _widened(hi, 1.0))


def _widened(bound: float, direction: float) -> float:
    return bound + direction * abs(bound) * 2.0**-8 if math.isfinite(bound) else bound


def corners(function: Callable[[float, float], float]) -> IntervalRule:
    """Return the rule of a function whose extremes lie at the operands' bounds."""

    def interval(x: Sequence[Interval], _a: Attrs) -> Interval:
        values = [function(p, q) for p in x[0] for q in x[1]]
        return BOUNDLESS if any(map(math.isnan, values)) else _rounded(min(values), max(values))

    return interval


def steps(function: Callable[[float], float]) -> IntervalRule:
    """Return the rule of a function that rounds to integers, which rounding only keeps in order."""

    def interval(x: Sequence[Interval], _a: Attrs) -> Interval:
        ((lo, hi),) = x
        return (float(function(lo)), float(function(hi)))

    return interval


def quotient_interval(x: Sequence[Interval], a: Attrs) -> Interval:
    """Bounds of a quotient; unbounded where the divisor may be 0."""
    lo, hi = x[1]
    return BOUNDLESS if lo <= 0 <= hi else _QUOTIENT(x, a)


def reciprocal_interval(x: Sequence[Interval], a: Attrs) -> Interval:
    """Bounds of 1/x; unbounded where x may be 0."""
    return quotient_interval([(1.0, 1.0), x[0]], a)


def monotone(function: Callable[[float], float]) -> IntervalRule:
    """Return the rule of an increasing function."""

    def interval(x: Sequence[Interval], _a: Attrs) -> Interval:
        return _rounded(function(x[0][0]), function(x[0][1]))

    return interval


def _divided(p: float, q: float) -> float:
    overflows = abs(q) < 1 and abs(p) > abs(q) * 1e308
    return math.copysign(math.inf, p) * math.copysign(1.0, q) if overflows else p / q


_QUOTIENT = corners(_divided)


def real_exp(x: float) -> float:
    """Return e to the power x, infinite where it overflows."""
    return math.exp(x) if x < 709 else math.inf


def real_sqrt(x: float) -> float:
    """Return the square root, 0 below 0."""
    return math.sqrt(x) if x > 0 else 0.0


def real_log(x: float) -> float:
    """Return the logarithm, minus infinity from 0 down."""
    return (math.log(x) if x < math.inf else math.inf) if x > 0 else -math.inf


def abs_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of |x|."""
    lo, hi = x[0]
    return (max(0.0, lo, -hi), max(abs(lo), abs(hi)))


def neg_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of -x."""
    return (-x[0][1], -x[0][0])


def max_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of the maximum of the operands."""
    return (max(lo for lo, _ in x), max(hi for _, hi in x))


def min_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of the minimum of the operands."""
    return (min(lo for lo, _ in x), min(hi for _, hi in x))


def relu_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of max(x, 0)."""
    return (max(0.0, x[0][0]), max(0.0, x[0][1]))


def where_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of a choice between operands 1 and 2."""
    return (min(x[1][0], x[2][0]), max(x[1][1], x[2][1]))


def pow_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of x to the power y."""
    (lo, hi), (p, q) = x
    if p == q and p == 2:
        return (0.0, _widened(max(lo * lo, hi * hi), 1.0))
    return (0.0, math.inf) if lo >= 0 else BOUNDLESS


def clip_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of x clipped to operands 1 and 2, of which the upper wins."""
    lo, hi = x[0]
    low, high = (x[1] if len(x) > 1 else BOUNDLESS), (x[2] if len(x) > 2 else BOUNDLESS)
    return (min(max(lo, low[0]), high[1]), min(max(hi, low[1]), high[1]))


def same_interval(x: Sequence[Interval], _a: Attrs) -> Interval:
    """Bounds of the first operand."""
    return x[0]
