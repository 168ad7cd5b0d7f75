"""Expressions of concrete tensors: what graph they are, and every error named."""

from __future__ import annotations

import math
from collections.abc import Callable

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
    assert close(value(ef.constant("c", [1.0, 2.0]), {}), [1.0, 2.0])
