"""Axes counted from the back: in [-rank, rank) as ONNX says, and what they are at each rank."""

from __future__ import annotations

from typing import Any

import pytest

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.errors import ModelError
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import TypeRuleError
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.verification import verify

(a,) = rulesets.tensors("a")
RANK = 3
WITH_AXES = [
    (o.name, t.name, t.kind)
    for o in OPERATORS.values()
    for t in o.attrs
    if t.name in ("axis", "axes") and t.axis_of == "operand" and o.name != "Split"
]


@pytest.mark.parametrize(("op", "name", "kind"), WITH_AXES)
def test_no_operator_takes_an_axis_outside_the_rank(op: str, name: str, kind: str) -> None:
    operator = OPERATORS[op]
    x = TensorType(DType.FLOAT32, (1,) * RANK)
    types = [x, *[TensorType(DType.INT64, x.shape)] * (operator.arity[0] - 1)]
    cut: dict[str, Any] = {"starts": (0,), "ends": (1,), "steps": (1,)} if op == "Slice" else {}
    for axis in (*range(-3 * RANK, -RANK), *range(RANK, 3 * RANK)):
        value = (axis,) if kind == "ints" else axis
        with pytest.raises(TypeRuleError, match="axis"):
            normalized(operator, types, {name: value, **cut})


@pytest.mark.parametrize("axis", [-5, -2, 1])
def test_an_expression_is_refused_outside_the_rank(axis: int) -> None:
    x = ef.tensor("x", (3,))
    with pytest.raises(ModelError, match=f"axis {axis} is outside"):
        ef.explore(ops.reduce_sum(x, axes=(axis,), keepdims=1))


def test_a_left_side_out_of_rank_is_no_claim() -> None:
    inner = ops.reduce_sum(a, axes=(-1,), keepdims=1)
    r = rule("r", ops.reduce_sum(inner, axes=(-2,)), ops.reduce_sum(a, axes=(-2, -1), keepdims=1))
    assert verify(r, 60, check_guards=False).ok


def test_an_inserted_axis_counts_from_the_back_of_the_result() -> None:
    r = rule("r", ops.unsqueeze(ops.exp(a), axes=(-1,)), ops.exp(ops.unsqueeze(a, axes=(-1,))))
    x = ef.tensor("x", (3, 4))
    for axis, equal in ((0, False), (1, False), (2, True)):
        left = ops.unsqueeze(ops.exp(x), axes=(axis,))
        found = ef.explore(left, rules=[r])
        assert found.equal(left, ops.exp(ops.unsqueeze(x, axes=(axis,)))) is equal


def test_axes_of_new_terms_count_from_the_back() -> None:
    top = ops.reduce_max(a, axes=(-1,), keepdims=1)
    r = rule("r", ops.exp(top), ops.reduce_max(ops.exp(a), axes=(-1,), keepdims=1))
    x = ef.tensor("x", (3, 4))
    left = ops.exp(ops.reduce_max(x, axes=(1,)))
    found = ef.explore(left, rules=[r])
    assert found.equal(left, ops.reduce_max(ops.exp(x), axes=(1,)))
    assert not found.equal(left, ops.reduce_max(ops.exp(x), axes=(0,)))
