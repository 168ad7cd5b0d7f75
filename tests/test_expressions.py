"""Expressions of concrete tensors: what graph they are, and every error named."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from expression_values import close, reference, value

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.experiment.expressions import graph_of, shown
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.pattern import Pattern

A = ef.tensor("a", (4, 6), lo=0.0)
B = ef.tensor("b", (4, 6))
ROW = ef.tensor("row", (6,))
INTS = ef.tensor("i", (4,), "int64")
EXPRESSIONS = [
    A + B * 2.0,
    ops.sqrt(A) * ops.sqrt(A + 1.0),
    1.0 - ROW / (A + 3.0),
    ops.reduce_sum(A * B, axes=(-1,), keepdims=False),
    A @ ops.transpose(B, perm=(1, 0)),
    ops.concat(A, B, axis=0),
    ops.split(A, axis=0, split=(1, 3))[1],
    ops.max(A, B, ROW),
    A @ ef.constant("w", np.arange(12.0, dtype=np.float32).reshape(6, 2)),
    ops.relu(-B) ** 2.0,
]


@pytest.mark.parametrize("p", EXPRESSIONS, ids=str)
def test_the_graph_of_an_expression_computes_it(p: Pattern) -> None:
    made = graph_of([p])
    rng = np.random.default_rng(0)
    feeds = {v: rng.random(t.static_shape or ()) + 0.1 for v, t in made.graph.types.items()}
    feeds = {v: feeds[v] for v in made.graph.inputs}
    wanted = value(p, feeds)
    (found,) = reference(made.graph, feeds)
    assert found.shape == wanted.shape == made.graph.types[made.values[0]].static_shape
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_shared_parts_are_one_node_whoever_shares_them() -> None:
    once = ops.exp(A)
    made = graph_of([once * once, ops.exp(A) + B])
    assert [n.op for n in made.graph.nodes].count("Exp") == 1


def test_an_expression_that_doubles_sixty_times_is_sixty_nodes() -> None:
    p: Pattern = B
    for _ in range(60):
        p = p + p
    assert len(graph_of([p]).graph.nodes) == 60
    assert len(shown(p)) <= 160


def test_a_deep_expression_needs_no_stack() -> None:
    p: Pattern = B
    for _ in range(3000):
        p = ops.tanh(p)
    assert len(graph_of([p]).graph.nodes) == 3000


def test_bounds_are_claims_on_inputs() -> None:
    made = graph_of([ops.sqrt(ef.tensor("x", (2,), lo=0.5, hi=4))])
    facts = made.assumed["x"]
    assert facts.interval == (0.5, 4.0)
    assert facts.nonzero


def test_dimensions_may_have_names() -> None:
    x = ef.tensor("x", ("n", 6))
    made = graph_of([x + ROW])
    assert str(made.graph.types[made.values[0]]) == "float32[n,6]"


def test_numbers_take_the_dtype_of_their_neighbours() -> None:
    made = graph_of([INTS * 3.0, ops.where(ops.greater(A, 0.0), A, 1.0)])
    kinds = {str(c.type) for c in made.graph.constants.values()}
    assert kinds == {"int64[]", "float32[]"}


def test_a_name_that_the_builder_would_make_up_is_the_callers() -> None:
    made = graph_of([ops.exp(ef.tensor("exp_1", (2,))) + ef.tensor("add_2", (2,))])
    made.graph.check()
    assert made.graph.inputs == ("exp_1", "add_2")


REFUSED: list[tuple[Callable[[], Pattern], str]] = [
    (lambda: A @ B, r"a @ b.*MatMul"),
    (lambda: A + ef.tensor("c", (5, 6)), r"a \+ c.*float32\[4,6\].*float32\[5,6\]"),
    (lambda: A + INTS, "share one dtype"),
    (lambda: INTS * 2.5, "2.5 is no int64"),
    (lambda: ops.reduce_sum(A, axes=(2,)), "axis 2 is outside"),
    (lambda: ops.reduce_sum(A, axis=(1,)), "no attribute 'axis'"),
    (lambda: A + rulesets.tensors("x")[0], r"x is a variable of patterns.*tensor\("),
    (lambda: ops.transpose(A, perm=rulesets.attrs("p")[0]), "p is a variable"),
    (lambda: A * ef.tensor("a", (4, 6)), "two tensors are called 'a'"),
    (lambda: ops.split(A, axis=0, split=(1, 3))[2], "has 2 outputs, none number 2"),
    (lambda: ops.sqrt(A, B), "takes 1 to 1 operands"),
    (lambda: rulesets.many("xs"), "variable of patterns"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_does_not_fit_is_named(make: Callable[[], Pattern], message: str) -> None:
    with pytest.raises(ef.ModelError, match=message):
        graph_of([make()])


BAD_LEAVES = [
    (("", (2,)), "a tensor's name"),
    ((" a", (2,)), "a tensor's name"),
    (("a\nb", (2,)), "a tensor's name"),
    ((7, (2,)), "a tensor's name"),
    (("a", 8), "a shape is a tuple"),
    (("a", "88"), "a shape is a tuple"),
    (("a", (-1,)), "a dimension is a size or a name, got -1"),
    (("a", (2.0,)), "a dimension is a size or a name"),
    (("a", ("n+",)), "dimension 'n\\+'"),
    (("a", (2,), "float31"), "no dtype is called 'float31'.*bfloat16"),
    (("a", (2,), "string"), "no dtype is called 'string'"),
    (("a", (2,), "float32", 2.0, 1.0), "lo=2.0 must be at most hi=1.0"),
    (("a", (2,), "float32", math.nan), "lo=nan"),
    (("a", (2,), "bool", 0), "takes neither lo nor hi"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_LEAVES)
def test_a_leaf_that_cannot_be_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ef.ModelError, match=message):
        ef.tensor(*arguments)  # type: ignore[arg-type]  # what a caller may get wrong


def test_constants_hold_numbers() -> None:
    with pytest.raises(ef.ModelError, match="expected numbers"):
        ef.constant("c", ["a"])
    with pytest.raises(ef.ModelError, match="constant 'c'"):
        ef.constant("c", [[1.0], [1.0, 2.0]])
    with pytest.raises(ef.ModelError, match="a tensor's name"):
        ef.constant("", 1.0)
    assert close(value(ef.constant("c", [1.0, 2.0]), {}), [1.0, 2.0])


DTYPES_OF: list[tuple[object, str]] = [
    (0.5, "float32"), ([[0.5] * 4] * 3, "float32"), ([1, 0.1], "float32"), ([], "float32"),
    (3, "int64"), ((-1, 2**62), "int64"), ([True, 2], "int64"), ([True], "bool"),
    ([1j], "complex128"), (np.arange(3.0), "float64"), (np.arange(3, dtype=np.int8), "int8"),
    ([np.float64(0.5)], "float64"), (np.float16(0.5), "float16"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "dtype"), DTYPES_OF, ids=repr)
def test_numbers_are_as_in_tensors_and_arrays_as_they_are(given: Any, dtype: str) -> None:
    leaf = ef.constant("c", given)
    assert leaf.type.dtype.value == dtype
    assert leaf.type.shape == np.shape(given)
    assert leaf.value is not None
    assert np.array_equal(leaf.value.array, np.asarray(given, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "uint64"])
def test_a_constant_of_a_dtype_holds_what_it_was_given(dtype: str) -> None:
    for given in ([1, 2, 100], [1.0, 2.0, 100.0], np.array([1, 2, 100]), np.array([1.0, 2, 100])):
        leaf = ef.constant("c", given, dtype)
        assert leaf.type.dtype.value == dtype
        assert leaf.value is not None
        assert leaf.value.array.tolist() == [1, 2, 100]


HELD_BY_NONE: list[tuple[object, str | None, str]] = [
    (2**63, None, "int64 does not hold 9223372036854775808"),
    ([-1, 2**63], None, "int64 does not hold 9223372036854775808"),
    ([2**24 + 1, 0.5], None, "float32 does not hold 16777217"),
    (2**24 + 1, "float32", "float32 does not hold 16777217"),
    (257, "bfloat16", "bfloat16 does not hold 257"),
    (np.array([2**53 + 1]), "float64", "float64 does not hold 9007199254740993"),
    (2**2000, "float64", "float64 does not hold 1148"),
    (1.5, "int32", "int32 does not hold 1.5"),
    (np.array([0.0, np.nan]), "int32", "int32 does not hold nan"),
    (np.inf, "int64", "int64 does not hold inf"),
    (300, "uint8", "uint8 does not hold 300"),
    (np.array([-1]), "uint8", "uint8 does not hold -1"),
    (2, "bool", "bool does not hold 2"),
    (1e300, None, r"float32 does not hold 1e\+300"),
    (np.array([70000.0]), "float16", "float16 does not hold 70000.0"),
    (1j, "float32", "float32 does not hold 1j"),
    (1.0, "float33", "no dtype is called 'float33'; there are"),
]


@pytest.mark.parametrize(("given", "dtype", "message"), HELD_BY_NONE, ids=repr)
def test_a_dtype_that_does_not_hold_a_constant_is_refused(
    given: object, dtype: str | None, message: str
) -> None:
    with pytest.raises(ef.ModelError, match=f"constant 'c': {message}"):
        ef.constant("c", given, dtype)  # NaN and infinity stay in every float dtype:
    assert ef.constant("c", [np.nan, -np.inf], "float16").type.dtype.value == "float16"


def test_a_list_and_a_tensor_without_a_dtype_fit_together() -> None:
    product = ef.tensor("a", (8, 16)) @ ef.constant("w", [[0.5] * 4] * 16)
    assert ef.explore(product).extract().flops == 2 * 8 * 16 * 4
