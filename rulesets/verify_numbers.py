"""The numbers that a rule speaks of, and the values near them: where such a rule goes wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, permutations

import numpy as np

from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.exact_numbers import Rounding
from egraph_fusion.rulesets.pattern import Number
from egraph_fusion.rulesets.verify_terms import Literal, Program

FEW = 4
"""So many numbers are combined with each other, too."""
MULTIPLES = 32
"""Multiples of the smallest number of a dtype that are tried, and of its quotients by numbers."""


def numbers_in(*sides: Program | None) -> tuple[float, ...]:
    """Return the numbers of both sides, attributes among them, each once and in order of size."""
    found = {n for side in sides if side is not None for n in _numbers(side)}
    return tuple(sorted(n for n in found if math.isfinite(n)))


def _numbers(side: Program) -> Iterator[float]:
    yield from (float(p.value) for p in side.leaves if isinstance(p, Number))
    for s in side.steps:
        if isinstance(s, Literal):
            yield float(s.value)
        else:
            yield from (v for v in s.attrs.values() if isinstance(v, float))


@lru_cache(maxsize=1024)
def values_near(numbers: tuple[float, ...], dtype: DType) -> tuple[float, ...]:
    """Return the values of a dtype at, beside and between numbers, and what these give together."""
    around = [*numbers, *(m for n in numbers for m in (n - 1, n + 1, -n, n / 2, 2 * n))]
    around += [(p + q) / 2 for p, q in pairwise(numbers)]
    around += [] if len(numbers) > FEW else [*_combined(numbers)]
    with np.errstate(all="ignore"):
        near = [m for n in numbers for m in _beside(n, dtype)]
        held = [_held(n, dtype) for n in around]
    return tuple(dict.fromkeys(n for n in (*held, *near) if n is not None))


@lru_cache(maxsize=1024)
def values_near_zero(numbers: tuple[float, ...], dtype: DType) -> tuple[float, ...]:
    """Return values that numbers bring to where a floating-point dtype has few bits left.

    They are multiples of the smallest one, and what such multiples are made of.  For other dtypes
    they are those near the numbers.
    """
    if not dtype.is_float:
        return values_near(numbers, dtype)
    factors = {abs(n) for n in numbers if n}
    factors |= {p * q for p in factors for q in factors} if len(factors) <= FEW else set()
    smallest = Rounding.of(dtype).tiny
    sizes = [Fraction(1), *(Fraction(f) for f in sorted(factors) if 0 < f < math.inf)]
    near = (_held_exactly(k * smallest / f, dtype) for f in sizes for k in range(1, MULTIPLES + 1))
    return tuple(dict.fromkeys(n for n in near if n))


def _held_exactly(n: Fraction, dtype: DType) -> float | None:
    """Return the value of a dtype nearest to `n`, if there is one; float64 may not hold `n`."""
    found = Rounding.of(dtype).nearest(n)
    return None if found is None else float(found)


def _combined(numbers: Iterable[float]) -> Iterator[float]:
    for p, q in permutations(numbers, 2):
        yield from (p + q, p - q, p * q)
        if q:
            yield p / q


def _beside(n: float, dtype: DType) -> list[float | None]:
    """Return the values of a floating-point dtype next to that nearest to `n`."""
    if not dtype.is_float:
        return []
    at = np.asarray(n).astype(dtype.numpy)
    ends = (np.asarray(s * math.inf).astype(dtype.numpy) for s in (-1, 1))
    return [_held(float(np.nextafter(at, end)), dtype) for end in ends]


def _held(n: float, dtype: DType) -> float | None:
    """Return the finite value of a dtype nearest to `n`, if there is one."""
    if not math.isfinite(n):
        return None
    if dtype.is_float:
        rounded = float(np.asarray(n).astype(dtype.numpy))
        return rounded if math.isfinite(rounded) else None
    limits = np.iinfo(dtype.numpy)
    return math.floor(n) if limits.min <= n <= limits.max else None
