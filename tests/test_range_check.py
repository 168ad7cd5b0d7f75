"""No rule makes what overflows or vanishes from known constants: graphs where one easily would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx_models import runtime

import egraph_fusion as ef
from egraph_fusion.egraph.range_check import is_calm, range_of
from egraph_fusion.frontend import export
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType

F32, F16 = np.dtype(np.float32), np.dtype(np.float16)
TOLERANCE: dict[Any, float] = {F32: 1e-5, F16: 1e-2}
LOWEST = float(np.finfo(np.float32).min)


@dataclass
class Term:
    """A value of a graph under construction."""

    b: GraphBuilder
    name: str
    dtype: np.dtype[np.generic]

    def op(self, kind: str, *others: Term | float | list[float]) -> Term:
        """Return an operator applied to this term and others."""
        names = [self.name, *(self.known(o).name for o in others)]
        return Term(self.b, self.b.op(kind, *names), self.dtype)

    def known(self, value: Term | float | list[float]) -> Term:
        """Return a number as a constant of this term's dtype."""
        if isinstance(value, Term):
            return value
        return Term(self.b, self.b.const(np.array(value, self.dtype)), self.dtype)

    def clip(self, low: float, high: float) -> Term:
        """Return this term within bounds."""
        return self.op("Clip", low, high)

    def reduced(self, kind: str) -> Term:
        """Return this term reduced along its axis."""
        return Term(self.b, self.b.op(kind, self.name, axes=(0,), keepdims=1), self.dtype)


Build = Callable[[Term], Term]


def _scaled(x: Term, factor: float, times: int) -> Term:
    for _ in range(times):
        x = x.op("Mul", factor)
    return x


TABLE: dict[str, tuple[Build, np.dtype[np.generic], list[float]]] = {
    "two huge factors": (lambda x: _scaled(x, 1e30, 2), F32, [1e-25, 1e-30]),
    "two tiny factors": (lambda x: _scaled(x, 1e-30, 2), F32, [1e30, 1e35]),
    "many factors": (lambda x: _scaled(x, 4e9, 6), F32, [1e-25, 1e-30]),
    "many half factors": (lambda x: _scaled(x, 16.0, 6), F16, [1e-5, 1e-4]),
    "two tiny divisors": (lambda x: x.op("Div", 1e-30).op("Div", 1e-30), F32, [1e-25, 1e-30]),
    "subnormal divisor": (lambda x: x.op("Div", 1e-40), F32, [1e-25, 1e-30]),
    "divisor and huge factor": (lambda x: x.op("Div", 1e-25).op("Mul", 1e25), F32, [1e-25, 1e-30]),
    "half sum of constants": (lambda x: x.op("Add", 6e4).op("Add", 1e4), F16, [-3e4, -2e4]),
    "half sums past each other": (lambda x: x.op("Add", 6e4).op("Sub", 5e4), F16, [5e3, 2e2]),
    "half sum of small parts": (
        lambda x: x.clip(0, 100).op("Mul", 1e-3).reduced("ReduceSum"),
        F16,
        [90.0] * 3000,
    ),
    "half sum of quotients": (
        lambda x: x.clip(0, 100).op("Div", 1e3).reduced("ReduceSum"),
        F16,
        [90.0] * 3000,
    ),
    "half product of matrices": (
        lambda x: x.clip(0, 100).op("Mul", 0.01).op("MatMul", [30.0] * 600),
        F16,
        [90.0] * 600,
    ),
    "product of roots": (
        lambda x: x.clip(0, 1e4).op("Sqrt").reduced("ReduceProd"),
        F32,
        [9e3] * 12,
    ),
    "product of reciprocals": (
        lambda x: x.clip(1e-4, 1e-3).op("Reciprocal").reduced("ReduceProd"),
        F32,
        [1e-3] * 11,
    ),
    "sum of logarithms": (
        lambda x: x.clip(1e-3, 1).op("Log").reduced("ReduceSum"),
        F32,
        [0.1] * 200,
    ),
    "logarithms of tiny values": (
        lambda x: x.clip(1e-35, 1).op("Log").op("Add", x.op("Abs").clip(1e-35, 1).op("Log")),
        F32,
        [1e-30, 1e-33],
    ),
    "quotient of roots": (
        lambda x: x.op("Abs").op("Sqrt").op("Div", x.clip(1e-30, 1e-29).op("Sqrt")),
        F32,
        [1e12, 1e13],
    ),
    "quotient of quotients": (
        lambda x: x.op("Div", x.clip(1e-30, 1e-29)).op("Div", x.clip(1e-30, 1e-29)),
        F32,
        [1e-30, 1e-29],
    ),
    "reciprocals": (
        lambda x: (
            x.clip(1e-30, 1e-20).op("Reciprocal").op("Mul", x.clip(1e20, 1e30).op("Reciprocal"))
        ),
        F32,
        [1e-25, 1e25],
    ),
    "exponentials": (
        lambda x: x.op("Add", 80.0).op("Exp").op("Mul", x.op("Sub", 80.0).op("Exp")),
        F32,
        [1.0, 5.0],
    ),
    "mask twice": (lambda x: x.op("Add", LOWEST).op("Add", LOWEST), F32, [3e38, 1.0]),
    "mask past a scale": (lambda x: x.op("Mul", 0.5).op("Add", LOWEST), F32, [-1.0, 1.0]),
    "infinite mask": (
        lambda x: x.op("Mul", 2.0).op("Add", x.known([-np.inf, 0.0]).op("Mul", 2.0)),
        F32,
        [1.0, 2.0],
    ),
    "own multiple of the lowest": (lambda x: x.op("Add", x.op("Mul", LOWEST)), F32, [1.0, -1.0]),
}


def graph(build: Build, dtype: np.dtype[np.generic], size: int) -> Graph:
    b = GraphBuilder("g", opset=18)
    x = Term(b, b.add_input("x", TensorType(DType.of(dtype), (size,))), dtype)
    b.output(build(x).name)
    return b.build()


def _run(g: Graph, x: NDArray[np.generic]) -> NDArray[np.float64]:
    (found,) = runtime(export(g), {"x": x})
    return np.asarray(found, np.float64)


@pytest.mark.parametrize("name", TABLE)
def test_results_stay_what_they_were_in_the_models_own_dtype(name: str) -> None:
    build, dtype, values = TABLE[name]
    g = graph(build, dtype, len(values))
    optimized = ef.optimize(g)
    x = np.array(values, dtype)
    before, after = _run(g, x), _run(optimized.graph, x)
    np.testing.assert_allclose(after, before, rtol=TOLERANCE[dtype])
    assert optimized.report.notes == []


IN_RANGE: dict[str, tuple[Build, np.dtype[np.generic], int]] = {
    "factors": (lambda x: _scaled(x, 4.0, 2), F32, 1),
    "half factors": (lambda x: _scaled(x, 4.0, 2), F16, 1),
    "half factors beyond the calm": (lambda x: _scaled(x, 15.0, 3), F16, 1),
    "half factors that end at the range": (lambda x: _scaled(x, 16.0, 6), F16, 3),
    "a divisor": (lambda x: x.op("Div", 4.0).op("Mul", 8.0), F32, 1),
    "summed parts": (lambda x: x.clip(0, 9).op("Mul", 0.5).reduced("ReduceSum"), F16, 3),
    "sums": (lambda x: x.op("Add", 6e2).op("Add", 1e2), F32, 1),
}


@pytest.mark.parametrize("name", IN_RANGE)
def test_what_fits_is_rewritten(name: str) -> None:
    build, dtype, nodes = IN_RANGE[name]
    assert ef.optimize(graph(build, dtype, 64)).report.ops_after <= nodes


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64])
@pytest.mark.parametrize("end", ["largest", "smallest"])
def test_no_product_of_three_calm_values_leaves_the_range(dtype: DType, end: str) -> None:
    whole = range_of(dtype)
    edge = getattr(whole.calm, end)
    inside, beyond = (edge, edge * 1.01) if end == "largest" else (edge, edge / 1.01)
    product = (1 - 1e-9 if end == "largest" else 1 + 1e-9) * inside * inside * inside
    assert whole.holds((product, product))
    assert is_calm((inside, inside), dtype)
    assert not is_calm((beyond, beyond), dtype)


def test_an_unknown_end_does_not_count() -> None:
    assert is_calm((-np.inf, np.inf), DType.FLOAT16)
    assert is_calm((0.0, np.inf), DType.FLOAT16)
    assert not is_calm((1e-5, np.inf), DType.FLOAT16)
    assert not is_calm((-np.inf, 1e3), DType.FLOAT16)


def test_the_experiment_says_why_a_rule_does_not_fire() -> None:
    x = ef.tensor("x", (4,), "float32")
    found = ef.explore(x / 1e-30 / 1e-30)
    assert "what the rule makes overflows or vanishes" in str(found.why_not("div-div"))


def test_a_known_overflow_stays_one() -> None:
    g = graph(lambda x: x.op("Add", LOWEST).op("Add", LOWEST), F32, 2)
    x = np.array([1.0, 2.0], np.float32)
    assert np.isneginf(_run(ef.optimize(g).graph, x)).all()


def test_what_overflows_when_folded_is_left_to_run_time_and_the_rest_still_improves() -> None:
    def build(x: Term) -> Term:
        wild = x.known([1000.0, 1.0]).op("Exp")
        return x.op("Mul", x).op("Add", x.op("Mul", wild)).op("Mul", 2.0).op("Mul", 3.0)

    g = graph(build, F32, 2)
    done = ef.optimize(g)
    assert done.report.notes == []
    assert done.report.flops_after < done.report.flops_before
    x = np.array([1.0, 2.0], np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(_run(done.graph, x), _run(g, x), rtol=1e-6)
