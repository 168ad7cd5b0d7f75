"""What real numbers the float64s mean that rules, attributes and operators' definitions hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

LONG = 15
"""Digits from which on a number is a computed one, not one that is written as a decimal."""
DENOMINATOR, ROOT = 10**6, 1000
"""The largest denominators of fractions, and of fractions whose roots are known."""
PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459")


@dataclass(frozen=True, slots=True)
class Root:
    """The square root of a fraction, or of one over pi, with a sign."""

    sign: int
    of: Fraction
    over_pi: bool


@lru_cache(maxsize=4096)
def meant(value: float) -> Fraction | Root:
    """Return the number that a finite float64 means.

    That is the decimal fraction that it is written as (0.1 is a tenth).  One of many digits is the
    fraction of small numbers (1 / 6), or the root of one (also over pi, as in Gelu), that it is the
    float64 nearest to, if there is one.
    """
    written = Fraction(repr(value))
    if len(Decimal(repr(value)).normalize().as_tuple().digits) < LONG:
        return written
    near = Fraction(value).limit_denominator(DENOMINATOR)
    return near if float(near) == value else _root(value) or written


def _root(value: float) -> Root | None:
    ulp, sign = Fraction(math.ulp(value)), -1 if value < 0 else 1
    for factor in (Fraction(1), PI):
        low, high = ((Fraction(abs(value)) + side) ** 2 * factor for side in (-ulp, ulp))
        square = ((low + high) / 2).limit_denominator(ROOT)
        if low < square < high and (factor == PI or not _is_square(square)):
            return Root(sign, square, factor == PI)
    return None


def _is_square(x: Fraction) -> bool:
    return all(math.isqrt(n) ** 2 == n for n in (x.numerator, x.denominator))
