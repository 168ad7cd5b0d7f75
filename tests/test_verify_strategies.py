"""The public strategies: what they draw has the shapes, dtypes and guards that were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egraph_fusion import rulesets
from egraph_fusion.errors import RuleError
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets import guards, ops, strategies
from egraph_fusion.rulesets.pattern import Apply, tensor_names
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verify_check import tried
from egraph_fusion.rulesets.verify_running import CHECKS
from egraph_fusion.rulesets.verify_search import settings_of
from egraph_fusion.rulesets.verify_terms import Step

a, b, c = rulesets.tensors("a b c")
axes = rulesets.attrs("axes")[0]
DTYPES = [d for d in DType if d.is_float or d.is_integer or d is DType.BOOL]
CALM = settings(max_examples=30, suppress_health_check=CHECKS, deadline=None)
GUARDED = rulesets.rule(
    "r",
    ops.reduce_max(a * b, axes=axes) / c,
    ops.reduce_max(a * b, axes=axes) / c,
    [guards.nonneg(b), guards.nonzero(c), guards.size_one_along(b, a, axes)],
)


@CALM
@given(strategies.shapes(max_rank=3, max_size=2))
def test_shapes_are_bounded(shape: tuple[int, ...]) -> None:
    assert len(shape) <= 3
    assert all(0 <= d <= 2 for d in shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.value)
@CALM
@given(data=st.data())
def test_arrays_have_their_dtype_and_shape(dtype: DType, data: st.DataObject) -> None:
    found = data.draw(strategies.arrays(dtype, (2, 3)))
    assert found.dtype == dtype.numpy
    assert found.shape == (2, 3)


@CALM
@given(strategies.arrays("float32", (4,), "extreme"))
def test_extreme_values_are_finite(
    found: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> None:
    assert np.isfinite(found).all()


def test_special_values_hold_nan_and_negative_zero() -> None:
    seen: list[float] = []

    @settings(max_examples=60, database=None, suppress_health_check=CHECKS)
    @given(strategies.arrays("float32", (8,), "special"))
    def draw(found: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
        seen.extend(found.tolist())

    draw()
    assert any(np.isnan(seen))
    assert any(v == 0 and np.signbit(v) for v in seen)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_unknown_kinds_are_refused(dtype: str) -> None:
    with pytest.raises(RuleError, match="no kind of values is called 'odd'"):
        strategies.arrays(dtype, (1,), "odd")


@CALM
@given(strategies.terms([a, b], unary=[ops.exp], binary=[ops.max]))
def test_terms_are_over_their_leaves(term: Apply) -> None:
    assert set(tensor_names(term)) <= {"a", "b"}


@CALM
@given(strategies.environments(GUARDED))
def test_environments_satisfy_the_guards(e: Environment) -> None:
    assert (e.tensors["b"] >= 0).all()
    assert (e.tensors["c"] != 0).all()
    shapes = [e.tensors[n].shape for n in "ba"]
    assert guards.GUARDS["size_one_along"].test(*shapes, e.setting.attributes["axes"])


@CALM
@given(strategies.environments(rulesets.find("mul-over-add")))
def test_environments_can_be_tried(e: Environment) -> None:
    assert tried(e).problem is None


def test_environments_hold_scalars_and_empty_tensors() -> None:
    shapes: set[tuple[int, ...]] = set()

    @settings(max_examples=100, database=None, suppress_health_check=CHECKS)
    @given(strategies.environments(rulesets.rule("r", a + b, b + a)))
    def draw(e: Environment) -> None:
        shapes.update(v.shape for v in e.tensors.values())

    draw()
    assert () in shapes
    assert any(0 in s for s in shapes)
    assert any(len(s) == 4 for s in shapes)


def test_the_rest_of_the_attributes_is_one_value_wherever_a_rule_names_it() -> None:
    (x, w, v), (first, second, rest) = rulesets.tensors("x w v"), rulesets.attrs("first second p")
    left = ops.conv(x, w, pads=first, attrs=rest) + ops.conv(x, v, pads=second, attrs=rest)
    seen: set[bool] = set()
    for found in settings_of(rulesets.rule("r", left, left)):
        one, other, _ = [s.attrs for s in found.left.steps if isinstance(s, Step)]
        names = set(one) - {"pads"}
        assert {n: one[n] for n in names} == {n: other[n] for n in names}
        seen.add(one["pads"] == other["pads"])
    assert seen == {True, False}


def test_a_rule_without_environments_is_refused() -> None:
    never = rulesets.rule("r", a + b, b + a, [guards.rank_at_least(a, 9)])
    with pytest.raises(RuleError, match="no operands satisfy"):
        strategies.environments(never)


@pytest.mark.parametrize("kind", ["smooth", "rough", "signs"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", np.float64, DType.BOOL])
def test_elements_take_dtypes_by_name(dtype: Any, kind: str) -> None:
    found = strategies.elements(dtype, kind)
    named = DType.named(dtype)
    assert named is not None

    @CALM
    @given(found)
    def held(x: float) -> None:
        assert np.asarray(x).astype(named.numpy).dtype == named.numpy

    held()


@pytest.mark.parametrize("dtype", ["float31", "complex64", "string", "", None, 4, ["float32"]])
def test_other_dtypes_are_refused(dtype: object) -> None:
    wrong: Any = dtype
    wanted = "elements are drawn of dtype bool, int8|dtype is .*expected DType or str"
    with pytest.raises(RuleError, match=wanted):
        strategies.elements(wrong)
    with pytest.raises(RuleError, match=wanted):
        strategies.arrays(wrong, (2,))
