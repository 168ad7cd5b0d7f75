"""Environments in turn: hypothesis prefers what it has tried, here every setting has its turn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import Number, Pattern
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.strategies import Environment, kinds_of
from egraph_fusion.rulesets.term_dtypes import leaf_dtypes
from egraph_fusion.rulesets.verify_numbers import values_near
from egraph_fusion.rulesets.verify_settings import Setting, dtypes_of, setting_in
from egraph_fusion.rulesets.verify_values import Elements, built, elements_of, satisfying


def turns_of(settings: Sequence[Setting], examples: int) -> int:
    """Return how many of the examples are made in turn: half, or more to show all settings."""
    return min(max(examples // 2, len(settings)), 3 * examples // 4)


def in_turn(
    rule: Rule, settings: Sequence[Setting], count: int, seed: int
) -> Iterator[Environment]:
    """Yield `count` environments: each setting once, in some order, then each in another dtype."""
    rng = Random(f"{seed} turns")
    order, dtypes = rng.sample(settings, len(settings)), dtypes_of(rule)
    for n in range(count):
        again, place = divmod(n, len(order))
        setting = order[place]
        dtype = dtypes[(place + again) % len(dtypes)]
        yield _environment(rule, setting_in(rule, setting, dtype) or setting, rng)


def _environment(rule: Rule, setting: Setting, rng: Random) -> Environment:
    kind = rng.choice(kinds_of(rule, setting))
    dtypes = leaf_dtypes(rule.lhs, setting.dtype)
    return Environment(
        rule, setting, {p: _leaf(rule, setting, p, dtypes[p], kind, rng) for p in setting.shapes}
    )


def _leaf(rule: Rule, setting: Setting, p: Pattern, dtype: DType, kind: str, rng: Random) -> Array:
    shape = setting.shapes[p]
    size = math.prod(shape)
    if isinstance(p, Number):
        with np.errstate(all="ignore"):  # a dtype may not hold the number
            return np.full(shape, p.value).astype(dtype.numpy)
    if p in setting.index_limits:
        limit = setting.index_limits[p]
        return built(
            DType.INT64, shape, [rng.randrange(-limit, limit) for _ in range(size)]
        ).astype(dtype.numpy)
    among = _elements(setting, dtype, kind, rng)
    values = built(dtype, shape, [rng.choice(among).drawn(rng) for _ in range(size)])
    return satisfying(values, rule, p, setting.dtype_of)


def _elements(setting: Setting, dtype: DType, kind: str, rng: Random) -> Sequence[Elements]:
    if kind != "written":
        return [elements_of(dtype, kind)]
    plain = elements_of(dtype, "plain")
    near = () if dtype is DType.BOOL else values_near(setting.numbers, dtype)
    if not near or rng.random() < 1 / 3:
        return [plain]
    return [Elements(near[: len(setting.numbers)]), Elements(near), plain]
