"""The numbers that a rule speaks of, and the values near them: where such a rule goes wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise, permutations

import numpy as np

from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import Number
from egraph_fusion.rulesets.verify_terms import Literal, Program

FEW = 4
"""So many numbers are combined with each other, too."""


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
