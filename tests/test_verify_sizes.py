"""Verification at empty groups, and at the sizes that a rule speaks of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egraph_fusion import rulesets
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.exact_functions import RealFunctions
from egraph_fusion.rulesets.exact_groups import objects
from egraph_fusion.rulesets.exact_operators import apply_exactly
from egraph_fusion.rulesets.pattern import Apply, Pattern
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_search import settings_of
from egraph_fusion.rulesets.verify_sizes import written_sizes

a, b = rulesets.tensors("a b")
p = rulesets.attrs("p")[0]
largest, total, mean, smallest = ops.reduce_max, ops.reduce_sum, ops.reduce_mean, ops.reduce_min


def _cut(start: int, end: int) -> Apply:
    return ops.slice(a, starts=(start,), ends=(end,), axes=(0,), steps=(1,))


def _first(reduce: Callable[..., Apply], x: Pattern) -> Apply:
    return reduce(x, axes=(0,), keepdims=1)


def _some(reduce: Callable[..., Apply], x: Pattern, keep: int = 1) -> Apply:
    return reduce(x, axes=p, keepdims=keep)


MATRICES = [guards.rank_is(a, 2), guards.rank_is(b, 2)]
COLUMNS = total(a, axes=(-2,), keepdims=0)
HOLLOW = {
    "largest": rule("r", _some(largest, a) * 0.0, _some(total, a) * 0.0),
    "largest, dropped": rule("r", _some(largest, a, 0) * 0.0, _some(total, a, 0) * 0.0),
    "the right side": rule("r", _some(total, a) * 0.0, _some(largest, a) * 0.0),
    "smallest": rule(
        "r", _some(smallest, a) - _some(smallest, a) + b * 0.0, _some(total, a * 0.0) + b * 0.0
    ),
    "magnitudes": rule("r", _some(largest, ops.abs(a)) * 0.0, _some(ops.reduce_l1, a) * 0.0),
    "mean": rule("r", _some(mean, a) * 0.0, _some(total, a) * 0.0),
    "first axis": rule("r", _first(largest, a) * 0.0, _first(total, a) * 0.0),
    "products": rule(
        "r", (a @ b) * 0.0, (a @ b) * 0.0 + largest(COLUMNS, axes=(-1,), keepdims=0), MATRICES
    ),
}


@pytest.mark.parametrize("name", HOLLOW)
@pytest.mark.parametrize("seed", [0, 1])
def test_empty_groups_refute(name: str, seed: int) -> None:
    found = verify(HOLLOW[name], seed=seed, max_examples=30, check_guards=False)
    assert found.counterexample is not None, str(found)


@pytest.mark.parametrize("reduce", [largest, total, mean], ids=["max", "sum", "mean"])
def test_rules_that_reduce_have_settings_with_empty_groups(reduce: Callable[..., Apply]) -> None:
    found = settings_of(rule("r", _some(reduce, a) + b, b + _some(reduce, a)))
    hollow = [s for s in found if s.hollow]
    assert len(hollow) >= 8
    assert all(0 in s.shapes[a] and s.left.type.size for s in hollow)


def test_rules_that_do_not_reduce_have_none() -> None:
    assert not any(s.hollow for s in settings_of(rule("r", a + b, b + a)))


def test_products_of_nothing_are_sums_of_nothing() -> None:
    left, right = objects([], (2, 0)), objects([], (0, 3))
    found = apply_exactly(RealFunctions(), "MatMul", [left, right], {})[0]
    assert found.tolist() == [[0, 0, 0]] * 2
    nothing = apply_exactly(RealFunctions(), "MatMul", [objects([], (0, 2)), right[:, :0]], {})
    assert nothing[0].shape == (0, 0)


SIZED = {
    "up to 4": rule("r", _first(total, _cut(0, 4)), _first(total, a)),
    "up to 100": rule("r", _first(total, _cut(0, 100)), _first(total, a)),
    "all of 8": rule("r", _cut(0, 8), a, level="exact", dtypes="any"),
    "from the end": rule("r", _cut(-8, 100), a, level="exact", dtypes="any"),
    "parts": rule("r", ops.split(a, axis=0, split=(3, 5))[1], _cut(4, 8)),
    "windows": rule(
        "r",
        ops.max_pool(a, kernel_shape=(4,), strides=(4,)),
        ops.max_pool(a, kernel_shape=(4,), strides=(3,)),
    ),
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_that_are_written_refute(name: str) -> None:
    found = verify(SIZED[name], shrink=False, check_guards=False)
    assert found.counterexample is not None, str(found)


VAST = {
    "first 200": rule("r", _cut(0, 200), a),
    "first 1000": rule("r", _cut(0, 1000), a, level="exact", dtypes="any"),
    "all but 999": rule("r", _cut(999, 2**31 - 1), a * 0.0, level="exact"),
    "from the end": rule("r", _cut(-1500, 2**31 - 1), a),
    "parts": rule("r", ops.split(a, axis=0, split=(300, 500))[1], _cut(299, 799)),
    "both sides": rule("r", _cut(0, 700), _cut(0, 800)),
    "a sum": rule("r", _first(total, _cut(0, 150)), _first(total, a)),
}


@pytest.mark.parametrize("name", VAST)
@pytest.mark.parametrize("seed", [0, 1])
def test_vast_sizes_that_are_written_refute(name: str, seed: int) -> None:
    found = verify(VAST[name], seed=seed, max_examples=20, check_guards=False)
    assert found.counterexample is not None, str(found)


def test_right_rules_of_vast_sizes_stand() -> None:
    parts = rule("r", ops.split(a, axis=0, split=(300, 500))[0], _cut(0, 300))
    cut = rule("r", _cut(0, 200) + 1.0, ops.slice(a + 1.0, starts=(0,), ends=(200,), axes=(0,)))
    for r in (parts, cut):
        found = verify(r, max_examples=20)
        assert found.ok, str(found)
        assert not found.checked.unreached


def test_sizes_that_are_not_reached_leave_a_rule_undecided() -> None:
    found = verify(rule("r", _cut(0, 50_000), a), max_examples=20)
    assert (found.ok, found.status) == (False, "undecided")
    assert found.checked.unreached == (50_000,)
    assert "sizes of 50000 were not tried" in str(found)


RIGHT: dict[str, Rule] = {
    "parts": rule("r", ops.split(a, axis=0, split=(3, 5))[0], _cut(0, 3)),
    "means": rule("r", _some(mean, a * 2.0), _some(mean, a) * 2.0),
    "relu of magnitudes": rule(
        "r", _some(largest, ops.abs(a)), ops.relu(_some(largest, ops.abs(a)))
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_stand(name: str) -> None:
    found = verify(RIGHT[name], max_examples=80, check_guards=False)
    assert found.ok, str(found)


def test_sizes_at_and_beside_those_written_are_drawn() -> None:
    assert written_sizes(rule("r", _cut(0, 12), a)) == (11, 12, 13, 14, 24)
    sizes = {d for s in settings_of(rule("r", _cut(0, 12), a)) for d in s.shapes[a]}
    assert {11, 12, 13, 14} <= sizes


@pytest.mark.parametrize(
    "r",
    [
        rule("r", _some(total, a), _some(total, a)),
        rule("r", _cut(0, 2**31 - 1), a),
        rule("r", ops.transpose(a, perm=(0, 1, 5)), a, [guards.rank_at_least(a, 6)]),
    ],
    ids=["no sizes", "without an end", "axes and ranks"],
)
def test_other_integers_are_no_sizes(r: Rule) -> None:
    assert written_sizes(r) == ()
