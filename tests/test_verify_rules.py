"""Verification: right rules stand, wrong ones fall with a small counterexample that runs."""

from __future__ import annotations

import contextlib
import io
import random

import numpy as np
import pytest

from egraph_fusion import rulesets
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_result import Counterexample, Verification

a, b, c, x, w = rulesets.tensors("a b c x w")
axes, perm, p, keep = rulesets.attrs("axes perm p keep")
total, conv = ops.reduce_sum, ops.conv
cut = ops.slice(a, attrs=p)
EACH = pytest.mark.parametrize("r", rulesets.default_rules(), ids=lambda r: r.name)


@EACH
def test_every_rule_stands(r: Rule) -> None:
    found = verify(r, max_examples=8, check_guards=False)
    assert found.ok, str(found)


WRONG = {
    "operator": rule("r", a * b, a + b),
    "sign": rule("r", a - b, b - a),
    "domain of a root": rule("r", ops.sqrt(a) * ops.sqrt(b), ops.sqrt(a * b)),
    "domain of a quotient": rule("r", a / a, a * 0.0 + 1.0),
    "exp of log at 0": rule("r", ops.exp(ops.log(a)), a, [guards.nonneg(a)]),
    "ties of round": rule("r", ops.round(a + 0.5), ops.floor(a + 0.5)),
    "ties of arg_max": rule("r", ops.arg_max(a), ops.arg_max(a, select_last_index=1)),
    "a reversed axis": rule("r", cut, a, [guards.same_shape(cut, a)], level="exact"),
    "floor": rule("r", ops.floor(a * 0.5), ops.floor(a) * 0.5),
    "where": rule("r", ops.where(ops.less(a, b), a, b), a),
    "comparison": rule("r", ops.less(a, b), ops.less_or_equal(a, b)),
    "cast": rule("r", ops.cast(ops.cast(a, to="int64"), to="float32"), ops.floor(a)),
    "shape of a constant": rule("r", a * 0.0, 0.0),
    "broadcasting": rule("r", (a + b) - b, a),
    "rank of a sum": rule(
        "r", total(a + b, axes=axes), total(a, axes=axes) + total(b, axes=axes)
    ),
    "dropped axes": rule(
        "r",
        total(a * b, axes=axes, keepdims=keep),
        total(a, axes=axes, keepdims=keep) * b,
        [guards.size_one_along(b, a, axes)],
    ),
    "mean of unequal": rule("r", ops.reduce_mean(a, axes=axes), ops.reduce_sum(a, axes=axes)),
    "transposition": rule("r", ops.transpose(a @ b, perm=perm), ops.transpose(a, perm=perm) @ b),
    "vector by matrix": rule(
        "r",
        total(a @ b, axes=(-2,), keepdims=1),
        total(a, axes=(-2,), keepdims=1) @ b,
        [guards.rank_at_least(b, 2)],
    ),
    "matrix by vector": rule(
        "r", (a * c) @ b, (a @ b) * c, [guards.one_element(c), guards.rank_at_least(a, 2)]
    ),
    "padding": rule("r", conv(x + c, w, attrs=p), conv(x, w, attrs=p) + conv(c, w, attrs=p)),
    "exact sums": rule("r", (a + b) + c, a + (b + c), level="exact"),
    "exact zero": rule("r", a + 0.0, a, level="exact"),
    "exact infinities": rule("r", (a + b) - a, b, [guards.broadcasts_into(a, b)], level="exact"),
    "integer division": rule("r", (a + b) / 2.0, a / 2.0 + b / 2.0, dtypes="int"),
    "integer limits": rule("r", ops.max(-a, -b), -ops.min(a, b), dtypes="int"),
    "small gelu error": rule("r", ops.gelu(a, approximate="tanh"), ops.gelu(a)),
    "small constant": rule("r", a * 1.0000001, a),
    "in a schema": rule("r", (f := rulesets.operators("f", "unary"))(-a), f(a)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_fall(name: str) -> None:
    assert verify(WRONG[name], shrink=False, check_guards=False).counterexample is not None


RIGHT = {
    "decimal numbers": rule("r", a * 0.1, a / 10.0),
    "irrational": rule("r", ops.sqrt(a * a + 1.0) * ops.sqrt(a * a + 1.0), a * a + 1.0),
    "sigmoid": rule("r", ops.sigmoid(-a), 1.0 - ops.sigmoid(a)),
    "gelu": rule("r", ops.gelu(-a), ops.gelu(a) - a),
    "both undefined": rule("r", a ** 0.5, ops.sqrt(a)),
    "unselected": rule("r", ops.where(c, ops.sqrt(a), ops.sqrt(b)), ops.sqrt(ops.where(c, a, b))),
    "arg_max": rule("r", ops.arg_max(-a, axis=0), ops.arg_min(a, axis=0)),
    "cumulative sum": rule("r", ops.cum_sum(-a, axis=0), -ops.cum_sum(a, axis=0)),
    "softmax": rule("r", ops.softmax(a, axis=-1), ops.exp(ops.log_softmax(a, axis=-1))),
    "two outputs": rule("r", -ops.split(a, attrs=p)[1], ops.split(-a, attrs=p)[1]),
    "wrapping integers": rule("r", a * 2.0 + b * 2.0, (a + b) * 2.0, dtypes="int"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_stand(name: str) -> None:
    found = verify(RIGHT[name], max_examples=60, check_guards=False)
    assert found.ok, str(found)


def _refuted(r: Rule, seed: int = 0) -> Counterexample:
    found = verify(r, seed=seed, check_guards=False).counterexample
    assert found is not None
    return found


def test_counterexamples_are_shrunk() -> None:
    found = _refuted(WRONG["domain of a root"])
    assert found.shapes == {"a": (), "b": ()}
    assert sorted(float(v) for v in found.arrays.values()) == [-1.0, 0.0]


@pytest.mark.parametrize("name", ["sign", "floor", "rank of a sum", "padding", "exact zero"])
def test_counterexamples_run_as_python(name: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), np.errstate(all="ignore"):
        exec(str(_refuted(WRONG[name])), {})
    assert printed.getvalue().strip()


def test_snippets_show_different_sides() -> None:
    space: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(str(_refuted(WRONG["sign"])), space)
    assert not np.array_equal(np.asarray(space["left"]), np.asarray(space["right"]))


def test_the_same_seed_gives_the_same_counterexample() -> None:
    random.seed(5)
    first = str(_refuted(WRONG["mean of unequal"], seed=3))
    random.seed(6)
    assert str(_refuted(WRONG["mean of unequal"], seed=3)) == first


def test_a_time_limit_stops_the_search() -> None:
    found = verify(rule("r", a + b, b + a), max_examples=10**6, time_limit=0.5, check_guards=False)
    assert found.checked.timed_out
    assert found.counterexample is None


def test_a_rule_that_no_operands_satisfy_is_not_ok() -> None:
    never = rule("r", a + b, b + a, [guards.rank_at_least(a, 9)])
    found = verify(never)
    assert not found.ok
    assert found.counterexample is None
    assert "no operands" in found.note


def test_unneeded_guards_are_reported() -> None:
    loose = rule("r", a + b, b + a, [guards.nonneg(a), guards.same_shape(a, b)])
    assert verify(loose, max_examples=30).unneeded_guards == ("nonneg(a)", "same_shape(a, b)")


@pytest.mark.parametrize(
    "r",
    [
        rule("r", ops.sqrt(a * a), a, [guards.nonneg(a)]),
        rule("r", (a + b) - b, a, [guards.broadcasts_into(b, a)]),
        rule("r", (a / b) * b, a, [guards.nonzero(b), guards.broadcasts_into(b, a)]),
        rule(
            "r",
            ops.concat(a @ c, b @ c, axis=-2),
            ops.concat(a, b, axis=-2) @ c,
            [guards.same_batch(a, b), guards.rank_at_least(c, 2)],
        ),
    ],
    ids=str,
)
def test_needed_guards_are_not_reported(r: Rule) -> None:
    assert verify(r, max_examples=30).unneeded_guards == ()


def test_what_was_checked_is_said() -> None:
    checked = verify(rule("r", a * b, b * a), max_examples=30, check_guards=False).checked
    assert checked.examples == 30
    assert checked.settings > 20


@pytest.mark.parametrize("level", ["finite", "real"])
def test_infinities_are_no_part_of_the_claim(level: str) -> None:
    r = rule("r", a - a, a * 0.0, level=level)  # type: ignore[arg-type]
    assert verify(r, max_examples=40).ok


def test_a_bool_rule_is_tried_on_truth_values() -> None:
    r = rule("r", ops.and_(a, b), ops.or_(a, b), dtypes="bool", level="exact")
    found = _refuted(r)
    assert {v.dtype for v in found.arrays.values()} == {np.dtype(bool)}


def test_public_name() -> None:
    found: Verification = rulesets.verify(rule("r", a + b, b + a), max_examples=10)
    assert found.ok
    assert str(found).startswith("r: ok")
