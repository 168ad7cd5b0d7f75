"""Smaller counterexamples: elements are turned to 1, then small settings hold what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, product

import numpy as np

from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verify_environments import filled, operands_of, with_operands
from egraph_fusion.rulesets.verify_settings import Setting, setting_in

TRIALS, COMBINATIONS = 200, 40
"""Environments that are tried with fewer elements, and for each setting that is smaller."""

Fails = Callable[[Environment], bool]


def shrunk(e: Environment, smaller: Sequence[Setting], fails: Fails) -> Environment:
    """Return an environment that fails as `e` does: simpler, in one of `smaller` if that can be."""
    simple = _simplified(e, fails)
    return next(filter(None, (_within(simple, s, fails) for s in smaller)), simple)


def _simplified(e: Environment, fails: Fails) -> Environment:
    """Return `e` with runs of elements turned to 1, long ones first, as long as it fails."""
    tried = 0
    for p in operands_of(e):
        size = e.arrays[p].size
        run = size
        while run and tried < TRIALS:
            for start in range(0, size, run):
                other = _with_ones(e, p, slice(start, start + run))
                if np.array_equal(other.arrays[p], e.arrays[p]):
                    continue
                tried += 1
                e = other if fails(other) else e
            run //= 2
    return e


def _with_ones(e: Environment, p: Pattern, where: slice) -> Environment:
    values = e.arrays[p].copy()
    values.reshape(-1)[where] = np.asarray(1).astype(values.dtype)
    return with_operands(e, {p: values})


def _within(e: Environment, s: Setting, fails: Fails) -> Environment | None:
    """Return a failing environment of a setting whose operands each hold one element of `e`'s."""
    there = setting_in(e.rule, s, e.setting.dtype)
    if there is None:
        return None
    small = filled(e.rule, there)
    operands = operands_of(small)
    values = [np.unique(e.arrays[p]) for p in operands]
    for some in islice(product(*values), COMBINATIONS):
        pairs = zip(operands.items(), some, strict=True)
        other = with_operands(small, {p: np.full_like(v, value) for (p, v), value in pairs})
        if fails(other):
            return other
    return None
