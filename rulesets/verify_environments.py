"""Environments that are made rather than drawn: what random examples may leave out."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import Number, Pattern
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verify_numbers import values_near, values_near_zero
from egraph_fusion.rulesets.verify_settings import Setting, dtypes_of, setting_in
from egraph_fusion.rulesets.verify_terms import failure
from egraph_fusion.rulesets.verify_values import pool, satisfying

EMPTY, FILLS = 4, (1, 0, -1)
"""Settings with an empty group that are tried in any case, and what their other operands hold."""
WIDE = (DType.FLOAT32, DType.FLOAT64, DType.INT64, DType.UINT64)
"""Dtypes that hold most values near the numbers of a rule."""
FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)
"""Dtypes with subnormal numbers."""
ROUNDED = (DType.FLOAT32, DType.FLOAT64)
"""Dtypes whose sums are rounded as they are made."""
USUAL = (-8, 4)
"""The exponents of numbers of many digits."""
CONVERTED, MAGNITUDES = 4, ((-24, -14), USUAL, (10, 40))
"""Settings with a conversion that are tried with numbers that a narrower dtype does not hold, and
the exponents of these: they are subnormal in float16, usual, and hardly integers of 32 bits."""
SMALL = 3
"""The largest element of operands that are tried for their shapes."""
REMIXES = 4
"""Arrays that are tried after each example that is compared bit for bit."""


def filled(rule: Rule, s: Setting, fill: int = 1) -> Environment:
    """Return an environment whose operands hold one number, as far as guards let them."""
    values: dict[Pattern, Array] = {}
    for (p, shape), t in zip(s.shapes.items(), s.left.types, strict=False):
        value = getattr(p, "value", 0 if p in s.index_limits else fill)
        with np.errstate(all="ignore"):  # a dtype may not hold a number of the rule
            values[p] = np.full(shape, value).astype(t.dtype.numpy)
    return _changed(Environment(rule, s, values), lambda v: v)


def evaluable(rule: Rule, s: Setting) -> bool:
    """Whether the left side has a value for the operands that show how the right one is refused."""
    return not failure(s.left, filled(rule, s).arrays)


def certain(rule: Rule, found: Sequence[Setting], seed: int) -> Iterator[Environment]:
    """Yield an environment or a few for each setting that was looked for since it is rare.

    What is wrong with an empty group is a matter of zeros elsewhere, with a vector or a size that
    the rule names one of places, and with a long sum or a conversion one of rounding.  All values
    near the numbers that the rule names are among these, too.
    """
    rng = np.random.default_rng(seed)
    for s in [s for s in found if s.hollow][:EMPTY]:
        yield from (filled(rule, s, fill) for fill in FILLS)
    for s in (s for s in found if s.multiplies_vectors or s.long):
        yield _changed(filled(rule, s), lambda v: _small(v, rng))
    for s in [s for s in found if s.converts and s.left.type.size][:CONVERTED]:
        for d in _in_dtypes(rule, s, dtypes_of(rule)):
            for sizes in MAGNITUDES:
                yield _changed(filled(rule, d), partial(_rough, rng=rng, exponents=sizes))
            yield _changed(filled(rule, d), lambda v: _extreme(v, rng))
    yield from _spoken(rule, found, rng)
    for s in (s for s in found if s.deep and rule.level == "exact"):
        for d in _in_dtypes(rule, s, ROUNDED):
            yield _changed(filled(rule, d), lambda v: _rough(v, rng))


def placed(rule: Rule, found: Sequence[Setting], seed: int) -> Iterator[Environment]:
    """Yield an environment for each setting with an unusual rank, or windows of unlike operands.

    What is wrong there is a matter of places.
    """
    rng = np.random.default_rng(seed)
    for s in (s for s in found if s.mixes_windows or s.tall):
        yield _changed(filled(rule, s), lambda v: _small(v, rng))


def _spoken(
    rule: Rule, found: Sequence[Setting], rng: np.random.Generator
) -> Iterator[Environment]:
    """Yield environments where each operand takes each value near the numbers of the rule.

    Claims about bits are tried near zero as well, where products are rounded to few of them.
    """
    usual = [s for s in found if s.numbers and _fewest(s) and not s.vast]
    if not usual:
        return
    most = max(usual, key=_fewest)
    for s in _in_dtypes(rule, most, WIDE):
        yield from _each_value(rule, s, partial(values_near, s.numbers), rng)
    for s in _in_dtypes(rule, most, FLOATS if rule.level == "exact" else ()):
        yield from _each_value(rule, s, partial(values_near_zero, s.numbers), rng)


def _each_value(
    rule: Rule,
    s: Setting,
    values: Callable[[DType], Sequence[float]],
    rng: np.random.Generator,
) -> Iterator[Environment]:
    """Yield environments in which each operand takes each of the values for its dtype."""
    e, count = filled(rule, s), 0
    orders: dict[Pattern, Array] = {}
    for p, v in operands_of(e).items():
        near = values(DType.of(v.dtype)) if v.dtype.kind != "b" else (0, 1)
        orders[p] = rng.permutation(np.asarray(near, dtype=v.dtype))
        count = max(count, -(-len(near) // v.size))
    for n in range(count):
        parts = {p: np.roll(order, -n * e.arrays[p].size) for p, order in orders.items()}
        yield with_operands(e, {p: np.resize(q, e.arrays[p].shape) for p, q in parts.items()})


def _fewest(s: Setting) -> int:
    """Return how many elements each operand has at the least."""
    operands = (d for p, d in s.shapes.items() if not isinstance(p, Number))
    return min(map(math.prod, operands), default=0)


def _small(v: Array, rng: np.random.Generator) -> Array:
    low = 0 if v.dtype.kind in "ub" else -SMALL
    return rng.integers(low, SMALL, v.shape, endpoint=True).astype(v.dtype)


def _in_dtypes(rule: Rule, s: Setting, among: Container[DType]) -> Iterator[Setting]:
    """Yield a setting for each of these dtypes that the rule is tried in."""
    for dtype in dtypes_of(rule):
        found = setting_in(rule, s, dtype) if dtype in among else None
        if found is not None:
            yield found


def remixed(e: Environment, number: int) -> Environment:
    """Return `e` with elements that are few and special, or (one time in four) that are rough.

    Special are infinities, signed zeros and limits, and of rough ones the order of a sum shows.
    Bitwise trials cost little, so that each drawn environment is followed by some of these.
    """
    rng = np.random.default_rng([number, *(v.size for v in e.arrays.values())])
    if number % REMIXES == 0:
        return _changed(e, lambda v: _rough(v, rng))
    return _changed(e, lambda v: _special(v, e.setting.numbers, rng))


def _changed(e: Environment, change: Callable[[Array], Array]) -> Environment:
    """Return `e` with operands changed that are neither numbers of the rule nor indices."""
    return with_operands(e, {p: change(v) for p, v in operands_of(e).items()})


def operands_of(e: Environment) -> Mapping[Pattern, Array]:
    """Return the operands that are neither numbers of the rule nor indices."""
    limits = e.setting.index_limits
    return {p: v for p, v in e.arrays.items() if not isinstance(p, Number) and p not in limits}


def with_operands(e: Environment, values: Mapping[Pattern, Array]) -> Environment:
    """Return `e` with other operands, as far as guards on their elements let them."""
    found = {p: satisfying(v, e.rule, p, e.setting.dtype_of) for p, v in values.items()}
    return replace(e, arrays={**e.arrays, **found})


def _rough(v: Array, rng: np.random.Generator, exponents: tuple[int, int] = USUAL) -> Array:
    if v.dtype.kind == "b":
        return rng.integers(0, 2, v.shape).astype(bool)
    if v.dtype.kind in "iu":
        limits = np.iinfo(v.dtype)
        return rng.integers(limits.min, limits.max, v.shape, v.dtype, endpoint=True)
    scale = 2.0 ** rng.integers(*exponents, v.shape)
    with np.errstate(over="ignore"):
        return (rng.standard_normal(v.shape) * scale).astype(v.dtype)


def _extreme(v: Array, rng: np.random.Generator) -> Array:
    dtype = DType.of(v.dtype)
    if not dtype.is_float:
        return _rough(v, rng)
    found: Array = rng.choice(np.asarray(pool(dtype, "extreme"), dtype=v.dtype), v.shape)
    return found


def _special(v: Array, numbers: tuple[float, ...], rng: np.random.Generator) -> Array:
    dtype = DType.of(v.dtype)
    items: list[float] = [0, 1]
    if dtype.is_float:
        items = pool(dtype, "special")
    elif dtype.is_integer:
        limits = np.iinfo(v.dtype)
        items = [0, 1, 2, int(limits.min), int(limits.max), int(limits.max) - 1]
    if dtype is not DType.BOOL:
        items += values_near(numbers, dtype)
    few: Array = rng.choice(np.asarray(items, dtype=v.dtype), 4)
    found: Array = rng.choice(few, v.shape)
    return np.asarray(found, dtype=v.dtype)
