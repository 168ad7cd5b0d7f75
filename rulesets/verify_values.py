"""Values where rules go wrong, by dtype, and what guards on elements demand of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.guards import Form
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import Rule


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


def guards_on(rule: Rule, p: Pattern) -> list[str]:
    """Return the names of the guards on the elements of an operand."""
    return [g.name for g in rule.when if g.kind.form is Form.VALUE and g.args == (p,)]


def satisfying(a: Array, guards: Sequence[str]) -> Array:
    """Return `a` changed as little as guards on its elements demand."""
    one = np.asarray(1, dtype=a.dtype)
    if a.dtype.kind == "b":
        return np.ones_like(a) if {"positive", "nonzero"} & {*guards} else a
    if "finite" in guards and a.dtype.kind not in "biu":
        a = np.where(np.isfinite(a), a, one)
    if "nonneg" in guards or "positive" in guards:
        a = np.where(a >= 0, a, np.where(a < 0, -a, one))
    if "positive" in guards or "nonzero" in guards:
        a = np.where(a == 0, one, a)
    if "uniform" in guards and a.size:
        a = np.full(a.shape, a.reshape(-1)[0])
    return a
