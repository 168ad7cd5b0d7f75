"""Hypothesis strategies for rules: shapes, arrays, terms, and whole environments of a rule."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import Number, Pattern, Tensor
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.term_dtypes import leaf_dtypes
from egraph_fusion.rulesets.verify_numbers import values_near
from egraph_fusion.rulesets.verify_search import settings_of
from egraph_fusion.rulesets.verify_settings import Setting, dtypes_of, setting_in
from egraph_fusion.rulesets.verify_values import guards_on, pool, satisfying

PLAIN = (1.0, 0.0, 2.0, -1.0, 0.5, 3.0, -2.0, -0.5, 1.5, -0.0, -3.0, 0.25, 2.5, -1.5)
KINDS = ("plain", "plain", "smooth", "smooth", "ties", "extreme")
"""Kinds of values; plain ones are few, so that equal elements and zeros are common."""
UNBOUNDED_KINDS = (
    *("plain", "smooth", "rough", "ties", "extreme", "special", "infinite", "signs", "signs"),
)
"""Those for claims about every value: NaN, infinities and signed zeros are common in them."""
WRITTEN = ("written", "written", "written", "written")
"""Values at and near the numbers that a rule speaks of."""
CONVERTED = ("rough",)
"""Values that a narrower dtype does not hold."""


@dataclass(frozen=True)
class Environment:
    """What a rule is tried on: a setting, and an array for each of its tensors and numbers."""

    rule: Rule
    setting: Setting
    arrays: Mapping[Pattern, Array]

    @property
    def tensors(self) -> dict[str, Array]:
        """The operands by name."""
        return {p.name: v for p, v in self.arrays.items() if isinstance(p, Tensor)}


def shapes(max_rank: int = 4, max_size: int = 3) -> SearchStrategy[tuple[int, ...]]:
    """Return shapes of rank 0 to `max_rank`, sizes 0 and 1 among them."""
    return st.lists(st.integers(0, max_size), max_size=max_rank).map(tuple)


def arrays(
    dtype: DType | str, shape: Sequence[int], kind: str | None = None
) -> SearchStrategy[Array]:
    """Return arrays of a dtype and shape.

    `kind` is plain (small numbers), smooth, rough (of many digits and magnitudes, so that rounding
    and the order of a sum show), ties (halves and integers, give or take an ulp), extreme (tiny,
    subnormal and huge), special (NaN and infinities among others), infinite or signs (zeros and
    ones of both signs); None: any of them.  Integer arrays hold small numbers and the dtype's
    limits, rough ones any.  Raises RuleError for a dtype that is not drawn and an unknown kind.
    """
    found = _drawn_dtype(dtype)
    if kind is None:
        return st.sampled_from(UNBOUNDED_KINDS).flatmap(lambda k: arrays(found, shape, k))
    return _arrays_of(found, shape, elements(found, kind))


def _drawn_dtype(dtype: object) -> DType:
    found = DType.named(dtype)
    if found is None or not (found.is_float or found.is_integer or found is DType.BOOL):
        drawn = ", ".join(d.value for d in DType if d.is_float or d.is_integer)
        raise RuleError(f"elements are drawn of dtype bool, {drawn}; got {dtype!r}")
    return found


def _arrays_of(
    found: DType, shape: Sequence[int], element: SearchStrategy[Any]
) -> SearchStrategy[Array]:
    size, target = math.prod(shape), found.numpy

    def build(items: list[float]) -> Array:
        with np.errstate(all="ignore"):
            return (
                np.asarray(items, dtype=np.float64 if found.is_float else None)
                .astype(target)
                .reshape(tuple(shape))
            )

    return st.lists(element, min_size=size, max_size=size).map(build)


def elements(dtype: DType | str, kind: str = "plain") -> SearchStrategy[Any]:
    """Return single elements of a dtype, as Python numbers; kinds and errors as for `arrays`."""
    found = _drawn_dtype(dtype)
    if kind not in UNBOUNDED_KINDS:
        raise RuleError(f"no kind of values is called {kind!r}: {sorted({*UNBOUNDED_KINDS})}")
    if found is DType.BOOL:
        return st.booleans()
    if found.is_integer:
        return _integers(found, kind)
    if kind == "plain":
        return st.sampled_from(PLAIN)
    if kind == "smooth":
        return st.integers(-(2**12), 2**12).map(lambda n: n / 2**10)
    if kind == "rough":
        return st.integers(-(2**57), 2**57).map(_rough)
    return st.sampled_from(pool(found, kind))


def _rough(n: int) -> float:
    """Return a number of as many digits as float64 holds, of magnitude 2^-12 to 2^4 mostly."""
    return (n >> 4) * 2.0 ** (n % 16 - 64)


def _integers(dtype: DType, kind: str) -> SearchStrategy[int]:
    limits = np.iinfo(dtype.numpy)
    low, high = int(limits.min), int(limits.max)
    if kind == "plain":
        return st.sampled_from([n for n in (1, 0, 2, -1, 3, -2, 5, 7, -3) if n >= low])
    if kind == "smooth":
        return st.integers(max(low, -40), 40)
    if kind == "rough":
        return st.integers(low, high)
    small = [n for n in (1, 0, -1, 2) if n >= low]
    return st.sampled_from([*small, low, high, low + 1, high - 1, high // 2 + 1])


def terms(
    leaves: Sequence[Pattern],
    unary: Sequence[Callable[..., Pattern]] = (),
    binary: Sequence[Callable[..., Pattern]] = (),
    max_leaves: int = 6,
) -> SearchStrategy[Pattern]:
    """Return terms over `leaves`, grown by the given operator functions (`rulesets.ops.exp`, ...).

    Without any, terms grow by + - and *.
    """
    pairs: Sequence[Callable[..., Pattern]] = binary
    if not binary and not unary:
        pairs = (operator.add, operator.sub, operator.mul)

    def grown(inner: SearchStrategy[Pattern]) -> SearchStrategy[Pattern]:
        options = [st.builds(f, inner, inner) for f in pairs]
        return st.one_of([*options, *(st.builds(f, inner) for f in unary)])

    return st.recursive(st.sampled_from(list(leaves)), grown, max_leaves=max_leaves)


def environments(rule: Rule, seed: int = 0) -> SearchStrategy[Environment]:
    """Return what `rule` can be tried on: shapes, attributes and values that satisfy its guards.

    `seed` chooses the shapes and attributes; raises RuleError if no operands satisfy the rule.
    """
    cases = [(r, drawable(settings_of(r, seed))) for d in rule.directions() for r in d.instances()]
    usable = [(r, found) for r, found in cases if found]
    if not usable:
        raise RuleError(f"rule {rule.name!r}: no operands satisfy its left side and guards")

    @st.composite
    def drawn(draw: DrawFn) -> Environment:
        instance, found = draw(st.sampled_from(usable))
        return draw(environments_in(instance, found))

    return drawn()


def drawable(settings: Sequence[Setting]) -> Sequence[Setting]:
    """Return the settings whose elements can be drawn one by one."""
    return [s for s in settings if not s.vast]


def environments_in(rule: Rule, settings: Sequence[Setting]) -> SearchStrategy[Environment]:
    """Return one of `settings`, one of the rule's dtypes, and values that satisfy the guards."""
    kinds = UNBOUNDED_KINDS if rule.level == "exact" else KINDS

    @st.composite
    def drawn(draw: DrawFn) -> Environment:
        setting = draw(st.sampled_from(settings))
        dtype = draw(st.sampled_from(dtypes_of(rule)))
        setting = setting_in(rule, setting, dtype) or setting
        spoken = (*WRITTEN * bool(setting.numbers), *CONVERTED * setting.converts)
        kind = draw(st.sampled_from((*kinds, *spoken)))
        dtypes = leaf_dtypes(rule.lhs, setting.dtype)
        values = {p: draw(_leaf(rule, setting, p, dtypes[p], kind)) for p in setting.shapes}
        return Environment(rule, setting, values)

    return drawn()


def _leaf(
    rule: Rule, setting: Setting, p: Pattern, dtype: DType, kind: str
) -> SearchStrategy[Array]:
    shape = setting.shapes[p]
    if isinstance(p, Number):
        with np.errstate(all="ignore"):  # a dtype may not hold the number
            return st.just(np.full(shape, p.value).astype(dtype.numpy))
    if p in setting.index_limits:
        limit, size = setting.index_limits[p], math.prod(shape)
        inside = st.integers(-limit, limit - 1) if limit else st.nothing()
        return st.lists(inside, min_size=size, max_size=size).map(
            lambda items: np.asarray(items, dtype=np.int64).reshape(shape).astype(dtype.numpy)
        )
    if kind == "written":
        near = _arrays_of(dtype, shape, _written(setting, dtype))
        drawn = st.one_of(near, near, arrays(dtype, shape, "plain"))
    else:
        drawn = arrays(dtype, shape, kind)
    return drawn.map(lambda a: satisfying(a, guards_on(rule, p)))


def _written(setting: Setting, dtype: DType) -> SearchStrategy[Any]:
    plain = elements(dtype)
    near = () if dtype is DType.BOOL else values_near(setting.numbers, dtype)
    first = near[: len(setting.numbers)]  # the numbers themselves, if the dtype holds them
    return st.one_of(*map(st.sampled_from, (first, near)), plain) if near else plain
