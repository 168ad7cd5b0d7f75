"""Numbers for the truth about a rule: exact fractions, and intervals that enclose the rest."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from egraph_fusion.ir.tensors import DType

DIGITS = 130
"""Decimal digits that real numbers are computed with; a verdict needs 100 of them."""
LARGEST_EXPONENT = 4000
"""Magnitudes (log2) above which exp is not attempted: the result would not fit into memory."""


class Special(Enum):
    """What is not a number: outside an operator's domain, or not decided at this precision."""

    UNDEFINED = "undefined"
    UNKNOWN = "unknown"


UNDEFINED, UNKNOWN = Special.UNDEFINED, Special.UNKNOWN


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lo` to `hi` (mpmath numbers)."""

    lo: Any
    hi: Any


Value = Fraction | Interval | bool | Special
Real = Fraction | Interval


@dataclass(frozen=True, slots=True)
class Rounding:
    """The unit roundoff, the smallest positive number and the largest number of a dtype."""

    unit: Fraction
    tiny: Fraction
    largest: Fraction
    digits: int

    @staticmethod
    def of(dtype: DType) -> Rounding:
        """Return the rounding of a floating-point dtype."""
        digits, smallest, exponent = {
            DType.FLOAT16: (11, -24, 16),
            DType.BFLOAT16: (8, -133, 128),
            DType.FLOAT32: (24, -149, 128),
            DType.FLOAT64: (53, -1074, 1024),
        }[dtype]
        unit = Fraction(1, 2**digits)
        return Rounding(unit, Fraction(2) ** smallest, (1 - unit) * 2**exponent, digits)

    def holds(self, x: Fraction) -> bool:
        """Whether `x` is one of the dtype's numbers (whatever the largest)."""
        if x.denominator & (x.denominator - 1) or x.denominator * self.tiny > 1:
            return False
        n = abs(x.numerator)
        return (n >> ((n & -n).bit_length() - 1)).bit_length() <= self.digits if n else True

    def nearest(self, x: Fraction) -> Fraction | None:
        """Return the dtype's number nearest to `x`, of two the even one; None if that overflows."""
        if not x:
            return x
        exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
        if abs(x) < Fraction(2) ** exponent:
            exponent -= 1
        grain = max(Fraction(2) ** (exponent + 1 - self.digits), self.tiny)
        near = round(x / grain) * grain
        return near if abs(near) <= self.largest else None


class Enclosures:
    """Interval arithmetic: results enclose the true value, and with `rounding` every float one.

    Without `rounding`, arithmetic on fractions is exact and everything else is enclosed to
    `digits` decimal digits.  With it, every operation widens its result by its rounding and
    underflow error, so that whatever the dtype's arithmetic can give lies inside.
    """

    def __init__(self, digits: int = DIGITS, rounding: Rounding | None = None) -> None:
        self.digits = digits
        self.rounding = rounding

    @cached_property
    def mp(self) -> Any:
        """The arbitrary-precision context."""
        context: Any = importlib.import_module("mpmath").mp.clone()
        context.dps = self.digits if self.rounding is None else 50
        return context

    @cached_property
    def _slack(self) -> Any:
        return self.mp.ldexp(1, 6 - self.mp.prec)

    @cached_property
    def _unit(self) -> Any:
        return self.mpf(self.rounding.unit) if self.rounding else self.mp.zero

    @cached_property
    def _tiny(self) -> Any:
        return self.mpf(self.rounding.tiny) if self.rounding else self.mp.zero

    def mpf(self, x: Fraction) -> Any:
        """Return the mpmath number nearest to a fraction."""
        return self.mp.mpf(x.numerator) / x.denominator

    def fraction(self, x: Any, dtype: Rounding) -> Fraction:
        """Return an mpmath number as a fraction; one that `dtype` is far from may come nearer."""
        small, large = self.mpf(dtype.tiny / 4), self.mpf(dtype.largest * 2)
        if abs(x) <= small:
            return Fraction(0)
        negative, mantissa, exponent, _ = max(-large, min(large, x))._mpf_
        size = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        return -size if negative else size

    def interval(self, x: Real) -> Interval:
        """Return an interval around a value."""
        if isinstance(x, Interval):
            return x
        near = self.mpf(x)
        return self._grown(near, near)

    def settled(self, x: Fraction) -> Real:
        """Return an exact result as it is, or with its rounding error if it has to be rounded."""
        if self.rounding is None or self.rounding.holds(x):
            return x
        return self.widened(self.interval(x), 1)

    def widened(self, x: Interval, ulps: int) -> Interval:
        """Return `x` with `ulps` unit roundoffs added on both sides."""
        if self.rounding is None:
            return self._grown(x.lo, x.hi)
        error = max(abs(x.lo), abs(x.hi)) * self._unit * ulps + self._tiny
        return Interval(x.lo - error, x.hi + error)

    def _grown(self, lo: Any, hi: Any) -> Interval:
        return Interval(lo - abs(lo) * self._slack, hi + abs(hi) * self._slack)

    def sum(self, terms: Sequence[Real]) -> Real:
        """Return the sum, enclosing every order of summation."""
        if all(isinstance(t, Fraction) for t in terms):
            exact = [t for t in terms if isinstance(t, Fraction)]
            if self.rounding is None or self._sums_exactly(exact):
                return sum(exact, Fraction(0))
        parts = [self.interval(t) for t in terms]
        lo, hi = self.mp.fsum(p.lo for p in parts), self.mp.fsum(p.hi for p in parts)
        size = self.mp.fsum(max(abs(p.lo), abs(p.hi)) for p in parts)
        error = size * (self._unit * len(parts) * 2 + self._slack) + self._tiny * len(parts)
        return Interval(lo - error, hi + error)

    def _sums_exactly(self, terms: Sequence[Fraction]) -> bool:
        """Whether no order of summation rounds: a common grain, and a sum that it can count."""
        assert self.rounding is not None
        grain = max((t.denominator for t in terms), default=1)
        if not all(self.rounding.holds(t) for t in terms):
            return False
        return bool(sum(abs(t) for t in terms) * grain < 2**self.rounding.digits)

    def monotone(self, f: Callable[[Any], Any], x: Real, ulps: int, falls: bool = False) -> Value:
        """Return the enclosure of a monotone function of mpmath numbers."""
        i = self.interval(x)
        if max(abs(i.lo), abs(i.hi)) > self.mp.ldexp(1, LARGEST_EXPONENT):
            return UNKNOWN
        lo, hi = f(i.lo), f(i.hi)
        return self.widened(self._grown(*((hi, lo) if falls else (lo, hi))), ulps)

    def product(self, x: Interval, y: Interval) -> Interval:
        """Return the enclosure of products."""
        ends = [p * q for p in (x.lo, x.hi) for q in (y.lo, y.hi)]
        return self.widened(self._grown(min(ends), max(ends)), 1)

    def quotient(self, x: Interval, y: Interval) -> Value:
        """Return the enclosure of quotients; unknown if the divisor may be 0."""
        if y.lo <= 0 <= y.hi:
            return UNKNOWN
        ends = [p / q for p in (x.lo, x.hi) for q in (y.lo, y.hi)]
        return self.widened(self._grown(min(ends), max(ends)), 1)

    def compare(self, x: Value, y: Value) -> bool | None:
        """Return whether two values are equal; None if that is not decided.

        Values that are not both exact are equal if their enclosures meet and are narrower than
        1e-100 of their size.
        """
        if UNKNOWN in (x, y):
            return None
        if isinstance(x, bool | Special | Fraction) and isinstance(y, bool | Special | Fraction):
            same: bool = type(x) is type(y) and x == y
            return same
        if isinstance(x, bool | Special) or isinstance(y, bool | Special):
            return False
        i, j = self.interval(x), self.interval(y)
        if i.hi < j.lo or j.hi < i.lo:
            return False
        width = max(i.hi, j.hi) - min(i.lo, j.lo)
        size = max(abs(i.lo), abs(i.hi), abs(j.lo), abs(j.hi), self.mp.mpf("1e-400"))
        return True if bool(width <= size * self.mp.mpf("1e-100")) else None

    def below(self, x: Real, y: Real) -> bool | Special:
        """Return whether x < y; unknown if the enclosures overlap."""
        if isinstance(x, Fraction) and isinstance(y, Fraction):
            return x < y
        i, j = self.interval(x), self.interval(y)
        if i.hi < j.lo:
            return True
        return False if i.lo >= j.hi else UNKNOWN

    def width(self, x: Value) -> float:
        """Return how far the ends of an enclosure are apart, rounded up; infinite if unknown."""
        if isinstance(x, Interval):
            return float(x.hi - x.lo) * (1 + 1e-9) + 5e-324
        return math.inf if isinstance(x, Special) else 0.0


def from_array(values: np.ndarray[Any, Any]) -> Any:
    """Return numbers and truth values as an object array; what is not finite is unknown."""
    out: Any = np.empty(values.size, dtype=object)
    for i, v in enumerate(values.reshape(-1).tolist()):
        out[i] = _value(v)
    return out.reshape(values.shape)


def _value(v: float) -> Value:
    if isinstance(v, bool):
        return v
    return Fraction(v) if math.isfinite(v) else UNKNOWN
