"""Saturation: what must be proven, what must not, budgets, and the worker's life."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from egraph_fusion.egraph.saturate import Limits, Saturation, saturate
from egraph_fusion.egraph.session import Worker, WorkerStoppedError, worker
from egraph_fusion.errors import OptimizeError
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets import default_rules, tensors
from egraph_fusion.rulesets.rule import rule

Term = Callable[[GraphBuilder, str, str, str], str]
F32 = DType.FLOAT32


def _pair(start: Term, goal: Term, shape: tuple[int, ...] = (3, 3), dtype: DType = F32) -> Graph:
    """Return a graph over x, y, z with outputs start and goal."""
    b = GraphBuilder("pair", opset=21)
    x, y, z = (b.add_input(n, TensorType(dtype, shape)) for n in "xyz")
    b.output(start(b, x, y, z))
    b.output(goal(b, x, y, z))
    return b.build()


def _equal(graph: Graph, numerics: str = "finite") -> bool:
    result = saturate(graph, default_rules(), numerics)
    return _same_class(result)


def _same_class(result: Saturation) -> bool:
    state, values = result.states[-1], result.loaded.values
    start, goal = result.loaded.graph.outputs
    return state.of_value[values[start]] == state.of_value[values[goal]]


def _c(b: GraphBuilder, value: float) -> str:
    return b.const(np.array(value, np.float32))


PROVEN: dict[str, tuple[Term, Term]] = {
    "factor": (
        lambda b, x, y, z: b.op("Add", b.op("Mul", x, z), b.op("Mul", z, y)),
        lambda b, x, y, z: b.op("Mul", b.op("Add", y, x), z),
    ),
    "regroup": (
        lambda b, x, y, z: b.op("Add", b.op("Add", x, y), z),
        lambda b, x, y, z: b.op("Add", y, b.op("Add", z, x)),
    ),
    "sqrt of own square": (
        lambda b, x, y, z: b.op("Sqrt", b.op("Mul", x, x)),
        lambda b, x, y, z: b.op("Abs", x),
    ),
    "recip of exp": (
        lambda b, x, y, z: b.op("Reciprocal", b.op("Exp", b.op("Neg", x))),
        lambda b, x, y, z: b.op("Exp", x),
    ),
    "nested sums": (
        lambda b, x, y, z: b.op(
            "ReduceSum", b.op("ReduceSum", x, axes=(0,), keepdims=0), axes=(0,), keepdims=0
        ),
        lambda b, x, y, z: b.op("ReduceSum", x, axes=(0, 1), keepdims=0),
    ),
    "relu past transposition": (
        lambda b, x, y, z: b.op("Relu", b.op("Transpose", x, perm=(1, 0))),
        lambda b, x, y, z: b.op("Transpose", b.op("Relu", x), perm=(1, 0)),
    ),
    "product of transposed": (
        lambda b, x, y, z: b.op("Transpose", b.op("MatMul", x, y), perm=(1, 0)),
        lambda b, x, y, z: b.op(
            "MatMul", b.op("Transpose", y, perm=(1, 0)), b.op("Transpose", x, perm=(1, 0))
        ),
    ),
    "chained products": (
        lambda b, x, y, z: b.op("MatMul", b.op("MatMul", x, y), z),
        lambda b, x, y, z: b.op("MatMul", x, b.op("MatMul", y, z)),
    ),
    "shared left factor": (
        lambda b, x, y, z: b.op("Sub", b.op("MatMul", x, y), b.op("MatMul", x, z)),
        lambda b, x, y, z: b.op("MatMul", x, b.op("Sub", y, z)),
    ),
    "product of exponentials": (
        lambda b, x, y, z: b.op("ReduceProd", b.op("Exp", x), axes=(1,), keepdims=0),
        lambda b, x, y, z: b.op("Exp", b.op("ReduceSum", x, axes=(1,), keepdims=0)),
    ),
    "maximum of an increasing function": (
        lambda b, x, y, z: b.op("ReduceMax", b.op("Sigmoid", x), axes=(1,), keepdims=1),
        lambda b, x, y, z: b.op("Sigmoid", b.op("ReduceMax", x, axes=(1,), keepdims=1)),
    ),
    "double negation": (
        lambda b, x, y, z: b.op("Neg", b.op("Sub", b.op("Neg", b.op("Neg", x)), y)),
        lambda b, x, y, z: b.op("Sub", y, x),
    ),
    "reshape chain": (
        lambda b, x, y, z: b.op("Reshape", b.op("Reshape", x, shape=(9,)), shape=(3, 3)),
        lambda b, x, y, z: x,
    ),
    "square as a power": (
        lambda b, x, y, z: b.op("Pow", x, _c(b, 2.0)),
        lambda b, x, y, z: b.op("Mul", x, x),
    ),
    "root of a square as a power": (
        lambda b, x, y, z: b.op("Pow", b.op("Mul", x, x), _c(b, 0.5)),
        lambda b, x, y, z: b.op("Abs", x),
    ),
}

UNPROVEN: dict[str, tuple[Term, Term]] = {
    "sum is product": (
        lambda b, x, y, z: b.op("Add", x, y),
        lambda b, x, y, z: b.op("Mul", x, y),
    ),
    "difference commutes": (
        lambda b, x, y, z: b.op("Sub", x, y),
        lambda b, x, y, z: b.op("Sub", y, x),
    ),
    "matrix product commutes": (
        lambda b, x, y, z: b.op("MatMul", x, y),
        lambda b, x, y, z: b.op("MatMul", y, x),
    ),
    "product of roots without a sign": (
        lambda b, x, y, z: b.op("Mul", b.op("Sqrt", x), b.op("Sqrt", y)),
        lambda b, x, y, z: b.op("Sqrt", b.op("Mul", x, y)),
    ),
    "cancelled quotient that may divide by zero": (
        lambda b, x, y, z: b.op("Mul", b.op("Div", x, y), y),
        lambda b, x, y, z: x,
    ),
    "paper's misprint": (
        lambda b, x, y, z: b.op("Add", b.op("Mul", x, z), b.op("Mul", x, y)),
        lambda b, x, y, z: b.op("Mul", b.op("Add", x, y), z),
    ),
    "maximum of a function that is not monotone": (
        lambda b, x, y, z: b.op("ReduceMax", b.op("Cos", x), axes=(1,), keepdims=1),
        lambda b, x, y, z: b.op("Cos", b.op("ReduceMax", x, axes=(1,), keepdims=1)),
    ),
    "zero and negative zero": (
        lambda b, x, y, z: b.op("Div", x, _c(b, 0.0)),
        lambda b, x, y, z: b.op("Div", x, _c(b, -0.0)),
    ),
    "a multiple of the largest float": (
        lambda b, x, y, z: b.op("Add", x, b.op("Mul", x, _c(b, -3.4e38))),
        lambda b, x, y, z: b.op("Mul", x, b.op("Add", _c(b, -3.4e38), _c(b, 1.0))),
    ),
}


@pytest.mark.parametrize("name", PROVEN)
def test_goal_is_proven(name: str) -> None:
    assert _equal(_pair(*PROVEN[name]))


@pytest.mark.parametrize("name", UNPROVEN)
def test_goal_is_not_proven(name: str) -> None:
    assert not _equal(_pair(*UNPROVEN[name]))


@pytest.mark.parametrize(
    "name", ["product of roots without a sign", "cancelled quotient that may divide by zero"]
)
def test_level_real_assumes_what_cannot_be_proven(name: str) -> None:
    assert _equal(_pair(*UNPROVEN[name]), "real")


def test_level_exact_does_not_regroup() -> None:
    assert not _equal(_pair(*PROVEN["regroup"]), "exact")


def test_integers_are_not_rewritten_by_float_rules() -> None:
    halves = _pair(
        lambda b, x, y, z: b.op("Div", b.op("Div", x, y), z),
        lambda b, x, y, z: b.op("Div", x, b.op("Mul", y, z)),
        dtype=DType.INT32,
    )
    assert not _equal(halves)


def _chain(n: int) -> Graph:
    b = GraphBuilder("chain", opset=21)
    total = b.add_input("x0", TensorType(F32, (2,)))
    for i in range(1, n):
        total = b.op("Add", total, b.add_input(f"x{i}", TensorType(F32, (2,))))
    b.output(total)
    return b.build()


def test_shared_sums_are_not_regrouped() -> None:
    b = GraphBuilder("residual", opset=21)
    x = b.add_input("x", TensorType(F32, (2, 2)))
    for _ in range(24):
        x = b.op("Add", x, b.op("Relu", x))
    b.output(x)
    result = saturate(b.build(), default_rules())
    assert result.stop_reason == "saturated"
    assert result.states[-1].n_nodes < 500


def test_node_limit_stops_growth() -> None:
    result = saturate(_chain(12), default_rules(), limits=Limits(nodes=300))
    assert result.stop_reason == "nodes"
    assert result.states


def test_iteration_limit_stops() -> None:
    result = saturate(_chain(12), default_rules(), limits=Limits(iterations=2))
    assert result.stop_reason == "iterations"


def test_saturation_is_deterministic() -> None:
    states = [saturate(_chain(6), default_rules()).states[-1] for _ in range(2)]
    assert states[0] == states[1]


def test_worker_is_reused() -> None:
    saturate(_chain(3), default_rules())
    before = worker().process.pid
    saturate(_chain(4), default_rules())
    assert worker().process.pid == before


def test_worker_that_died_is_replaced() -> None:
    saturate(_chain(3), default_rules())
    worker().process.kill()
    worker().process.wait()
    assert saturate(_chain(3), default_rules()).stop_reason == "saturated"


def test_worker_out_of_memory_says_so() -> None:
    small = Worker(memory=900 << 20)
    try:
        with pytest.raises((WorkerStoppedError, OptimizeError)):
            small.ask({"run": "(sort T)\n" + "(sort U)" * 2_000_000}, time.monotonic() + 60)
    finally:
        small.close()


def test_refused_program_is_an_error_with_the_engines_words() -> None:
    with pytest.raises(OptimizeError, match="refused"):
        worker().ask({"new": True, "run": "(no-such-command)"}, time.monotonic() + 10)


def test_unsound_rule_with_another_shape_is_not_applied() -> None:
    (a,) = tensors("a")
    graph = _pair(
        lambda b, x, y, z: b.op("ReduceSum", x, axes=(0,), keepdims=1),
        lambda b, x, y, z: x,
    )
    from egraph_fusion.rulesets import ops

    wrong = rule("wrong", ops.reduce_sum(a, axes=(0,)), a)
    assert not _same_class(saturate(graph, [wrong]))
