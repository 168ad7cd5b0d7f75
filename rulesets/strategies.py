"""Hypothesis strategies for rules: shapes, arrays, terms, and whole environments of a rule."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from egraph_fusion.arguments import checked
from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import Number, Pattern, Tensor
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.term_dtypes import leaf_dtypes
from egraph_fusion.rulesets.verify_numbers import values_near
from egraph_fusion.rulesets.verify_search import settings_of
from egraph_fusion.rulesets.verify_settings import Setting, dtypes_of, setting_in
from egraph_fusion.rulesets.verify_values import built, elements_of, satisfying

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


@checked(RuleError, least={"max_rank": 0, "max_size": 0})
def shapes(max_rank: int = 4, max_size: int = 3) -> SearchStrategy[tuple[int, ...]]:
    """Return shapes of rank 0 to `max_rank`, sizes 0 and 1 among them."""
    max_rank, max_size = int(max_rank), int(max_size)  # hypothesis takes no integers of numpy
    return st.lists(st.integers(0, max_size), max_size=max_rank).map(tuple)


@checked(RuleError)
def arrays(
    dtype: DType | str, shape: Sequence[int], kind: str | None = None
) -> SearchStrategy[Array]:
    """Return arrays of a dtype and shape.

    `kind` is plain (small numbers), smooth, rough (of many digits and magnitudes, so that rounding
    and the order of a sum show), ties (halves and integers, give or take an ulp), extreme (tiny,
    subnormal and huge), special (NaN and infinities among others), infinite or signs (zeros and
    ones of both signs); None: any of them.  Integer arrays hold small numbers and the dtype's
    limits, rough ones any.  Raises RuleError for a dtype that is not drawn, an unknown kind, and
    an extent below 0.
    """
    found = _drawn_dtype(dtype)
    if any(d < 0 for d in shape):
        raise RuleError(f"arrays: shape is {tuple(shape)}; expected extents of 0 or more")
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
    size = math.prod(shape)
    return st.lists(element, min_size=size, max_size=size).map(partial(built, found, shape))


def elements(dtype: DType | str, kind: str = "plain") -> SearchStrategy[Any]:
    """Return single elements of a dtype, as Python numbers; kinds and errors as for `arrays`."""
    found = _drawn_dtype(dtype)
    if kind not in UNBOUNDED_KINDS:
        raise RuleError(f"no kind of values is called {kind!r}: {sorted({*UNBOUNDED_KINDS})}")
    among = elements_of(found, kind)
    if among.values:
        return st.sampled_from(among.values)
    return st.integers(among.low, among.high).map(among.of)


@checked(RuleError, least={"max_leaves": 1})
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


@checked(RuleError, least={"seed": 0})
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


def kinds_of(rule: Rule, setting: Setting) -> tuple[str, ...]:
    """Return the kinds of values that a rule is tried on in a setting."""
    kinds = UNBOUNDED_KINDS if rule.level == "exact" else KINDS
    return (*kinds, *WRITTEN * bool(setting.numbers), *CONVERTED * setting.converts)


def drawable(settings: Sequence[Setting]) -> Sequence[Setting]:
    """Return the settings whose elements can be drawn one by one."""
    return [s for s in settings if not s.vast]


def environments_in(rule: Rule, settings: Sequence[Setting]) -> SearchStrategy[Environment]:
    """Return one of `settings`, one of the rule's dtypes, and values that satisfy the guards."""

    @st.composite
    def drawn(draw: DrawFn) -> Environment:
        setting = draw(st.sampled_from(settings))
        dtype = draw(st.sampled_from(dtypes_of(rule)))
        setting = setting_in(rule, setting, dtype) or setting
        kind = draw(st.sampled_from(kinds_of(rule, setting)))
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
    return drawn.map(lambda a: satisfying(a, rule, p, setting.dtype_of))


def _written(setting: Setting, dtype: DType) -> SearchStrategy[Any]:
    plain = elements(dtype)
    near = () if dtype is DType.BOOL else values_near(setting.numbers, dtype)
    first = near[: len(setting.numbers)]  # the numbers themselves, if the dtype holds them
    return st.one_of(*map(st.sampled_from, (first, near)), plain) if near else plain
