"""Values where rules go wrong, by dtype, and what guards on elements demand of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.guards import Form
from egraph_fusion.rulesets.guards_operands import inside_range_of
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import Rule

PLAIN = (1.0, 0.0, 2.0, -1.0, 0.5, 3.0, -2.0, -0.5, 1.5, -0.0, -3.0, 0.25, 2.5, -1.5)
"""The floating-point numbers of the plain kind."""


def pool(dtype: DType, kind: str) -> list[float]:
    """Return values where floating-point arithmetic has edges.

    `kind` is ties, extreme, special, infinite or signs, as for `strategies.arrays`.
    """
    info = _float_facts(dtype)
    if kind == "ties":
        halves = [n / 2 for n in range(-7, 8)]
        near = [h * (1 + s * info.eps) for h in halves if h for s in (-0.5, 1)]
        return [*halves, *near]
    edges = [info.tiny, info.smallest, info.eps, info.largest, math.sqrt(info.largest)]
    return {
        "extreme": [1.0, *edges, *(-e for e in edges), 0.0, -0.0, 3.0, -1.5],
        "special": [1.0, math.inf, -math.inf, math.nan, 0.0, -0.0, -1.0, info.largest],
        "infinite": [1.0, math.inf, -math.inf, 0.0],
        "signs": [1.0, 0.0, -0.0, -1.0],
    }[kind]


@dataclass(frozen=True, slots=True)
class Elements:
    """What elements of one kind are chosen from: `values`, or what `of` makes of integers."""

    values: Sequence[float] = ()
    low: int = 0
    high: int = 0
    of: Callable[[int], float] = int

    def drawn(self, rng: Random) -> float:
        """Return one of them."""
        return rng.choice(self.values) if self.values else self.of(rng.randint(self.low, self.high))


def elements_of(dtype: DType, kind: str) -> Elements:
    """Return what elements of a dtype are chosen from; kinds as for `strategies.arrays`."""
    if dtype is DType.BOOL:
        return Elements((False, True))
    if dtype.is_integer:
        return _integers(dtype, kind)
    if kind == "plain":
        return Elements(PLAIN)
    if kind == "smooth":
        return Elements(low=-(2**12), high=2**12, of=_smooth)
    if kind == "rough":
        return Elements(low=-(2**57), high=2**57, of=_rough)
    return Elements(pool(dtype, kind))


def _smooth(n: int) -> float:
    return n / 2**10


def _rough(n: int) -> float:
    """Return a number of as many digits as float64 holds, of magnitude 2^-12 to 2^4 mostly."""
    return (n >> 4) * 2.0 ** (n % 16 - 64)


def _integers(dtype: DType, kind: str) -> Elements:
    limits = np.iinfo(dtype.numpy)
    low, high = int(limits.min), int(limits.max)
    if kind == "plain":
        return Elements([n for n in (1, 0, 2, -1, 3, -2, 5, 7, -3) if n >= low])
    if kind == "smooth":
        return Elements(low=max(low, -40), high=40)
    if kind == "rough":
        return Elements(low=low, high=high)
    small = [n for n in (1, 0, -1, 2) if n >= low]
    return Elements([*small, low, high, low + 1, high - 1, high // 2 + 1])


def built(dtype: DType, shape: Sequence[int], items: Sequence[float]) -> Array:
    """Return an array of Python numbers."""
    with np.errstate(all="ignore"):
        wide = np.asarray(items, dtype=np.float64 if dtype.is_float else None)
        return wide.astype(dtype.numpy).reshape(tuple(shape))


@dataclass(frozen=True, slots=True)
class _FloatFacts:
    eps: float
    tiny: float
    smallest: float
    largest: float


def _float_facts(dtype: DType) -> _FloatFacts:
    if dtype is DType.BFLOAT16:
        return _FloatFacts(2.0**-7, 2.0**-126, 2.0**-133, float(2 - 2.0**-7) * 2.0**127)
    info: Any = np.finfo(dtype.numpy)
    return _FloatFacts(
        float(info.eps), float(info.tiny), float(info.smallest_subnormal), float(info.max)
    )


def satisfying(a: Array, rule: Rule, p: Pattern, dtype_of: Callable[[Pattern], DType]) -> Array:
    """Return the elements of operand `p` changed as little as the rule's guards on them demand."""
    found = [g for g in rule.when if g.kind.form is Form.VALUE and g.args[0] == p]
    one = np.asarray(1, dtype=a.dtype)
    a = _satisfying(a, {g.name for g in found}, one)
    for t in (g.patterns[1] for g in found if g.name == "in_range_of"):
        a = np.where(inside_range_of(dtype_of(t), a), a, one)
    return a


def _satisfying(a: Array, guards: Set[str], one: Array) -> Array:
    if a.dtype.kind == "b":
        return np.ones_like(a) if {"positive", "nonzero"} & guards else a
    if "finite" in guards and a.dtype.kind not in "biu":
        a = np.where(np.isfinite(a), a, one)
    if "integer" in guards and a.dtype.kind not in "iu":
        a = np.rint(a)
    if "nonneg" in guards or "positive" in guards:
        a = np.where(a >= 0, a, np.where(a < 0, -a, one))
    if "positive" in guards or "nonzero" in guards:
        a = np.where(a == 0, one, a)
    if "uniform" in guards and a.size:
        a = np.full(a.shape, a.reshape(-1)[0])
    return a
