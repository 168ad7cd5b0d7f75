"""Random models of integers and booleans: every result is exact, so none may differ.

`python tests/random_integers.py FIRST LAST` runs those seeds through the whole pipeline.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from random_models import MOVEMENT, Maker, Step, report_wrong

import egraph_fusion as ef
from egraph_fusion.frontend import export
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType, broadcast

Array = NDArray[Any]
DTYPES = (DType.INT64, DType.INT32, DType.INT8, DType.UINT8, DType.BOOL)
ARITHMETIC = ("Add", "Sub", "Mul", "Max", "Min")
BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
LOGIC = ("And", "Or", "Xor")
COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
REDUCTIONS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
WIDE = (DType.INT64, DType.INT32)
"""What onnx.reference reduces without changing the type."""


class IntegerMaker(Maker):
    """Makes one model of integers."""

    def inputs(self) -> list[str]:
        """Add two or three inputs, each of some dtype."""
        kinds = [TensorType(self.pick(DTYPES[:4]), self.shape()) for _ in range(self.pick((2, 3)))]
        return [self.b.add_input(f"x{i}", kind) for i, kind in enumerate(kinds)]

    def dtype(self, v: str) -> DType:
        """Return the dtype of a value."""
        return self.b.type_of(v).dtype

    def constant(self, v: str, shape: tuple[int, ...]) -> str:
        """Return a constant of the value's dtype: small numbers, or the dtype's limits."""
        kind = self.dtype(v).numpy
        if self.dtype(v) is DType.BOOL:
            return self.b.const(self.rng.integers(0, 2, shape).astype(kind))
        limits = np.iinfo(kind)
        if self.rng.random() < 0.2:
            return self.b.const(np.full(shape, self.pick((limits.min, limits.max)), kind))
        low = 0 if limits.min == 0 else -3
        return self.b.const(self.rng.integers(low, 5, shape).astype(kind))

    def partner(self, v: str) -> str:
        """Return a value or constant that goes with `v`."""
        found = [
            w
            for w in self.values
            if self.dtype(w) is self.dtype(v)
            and broadcast(self.extents(w), self.extents(v)) is not None
        ]
        shape = self.extents(v)[int(self.rng.integers(len(self.extents(v)) + 1)) :]
        return self.pick(found) if self.rng.random() < 0.5 else self.constant(v, shape)


def _binary(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    pair = [x, m.partner(x)]
    if m.rng.random() < 0.4:
        pair.reverse()
    if m.dtype(x) is DType.BOOL:
        return m.b.op(m.pick(LOGIC), *pair)
    return m.b.op(m.pick((*ARITHMETIC, *BITS)), *pair)


def _compared(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    if m.dtype(x) is DType.BOOL:
        return m.b.op("Not", x)
    return m.b.op(m.pick(COMPARISONS), x, m.partner(x))


def _unary(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    if m.dtype(x) is DType.BOOL:
        return m.b.op("Not", x)
    signed = m.dtype(x) is not DType.UINT8
    return m.b.op(m.pick(("Neg", "Abs", "BitwiseNot") if signed else ("Abs", "BitwiseNot")), x)


def _quotient(m: Maker, x: str) -> str | None:
    """Divide by a constant that is not 0: what dividing by 0 gives is nobody's promise."""
    assert isinstance(m, IntegerMaker)
    if m.dtype(x) not in WIDE:
        return None
    divisor = m.b.const(np.asarray(m.pick((2, 3, -3, 7)), m.dtype(x).numpy))
    return m.b.op("Mod", x, divisor)


def _shift(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    if m.dtype(x) is not DType.UINT8:
        return None
    amount = m.b.const(np.asarray(int(m.rng.integers(8)), np.uint8))
    return m.b.op("BitShift", x, amount, direction=m.pick(("LEFT", "RIGHT")))


def _where(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    shape = m.extents(x)
    conditions = [
        v for v in m.values if m.dtype(v) is DType.BOOL and broadcast(m.extents(v), shape) == shape
    ]
    return m.b.op("Where", m.pick(conditions), x, m.partner(x)) if conditions else None


def _cast(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    to = m.pick(DTYPES)
    return m.b.op("Cast", x, to=to.value)


def _reduce(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    rank = len(m.extents(x))
    if not rank or m.dtype(x) not in WIDE:
        return None
    axes = tuple(sorted({m.axis(x) % rank for _ in range(int(m.rng.integers(1, 3)))}))
    return m.b.op(m.pick(REDUCTIONS), x, axes=axes, keepdims=int(m.rng.integers(2)))


def _found(m: Maker, x: str) -> str | None:
    assert isinstance(m, IntegerMaker)
    if not m.extents(x) or m.dtype(x) is DType.BOOL:
        return None
    return m.b.op(m.pick(("ArgMax", "ArgMin")), x, axis=m.axis(x), keepdims=int(m.rng.integers(2)))


STEPS: tuple[Step, ...] = (
    _binary, _binary, _binary, _compared, _unary, _quotient, _shift, _where, _cast, _reduce, _found,
    *MOVEMENT,
)  # fmt: skip


def random_model(seed: int) -> Graph:
    """Return the graph of a seed: 4 to 25 steps."""
    maker = IntegerMaker(seed)
    return maker.build(int(maker.rng.integers(4, 26)), STEPS)


def complaints(graph: Graph, seed: int) -> list[str]:
    """Return what differs from onnx.reference in the compiled and in the rewritten model."""
    feeds = _inputs(graph, seed)
    expected = ReferenceEvaluator(export(graph)).run(None, feeds)
    results = {
        "compiled": ef.compile(graph, threads=2).run(None, feeds),
        "compiled as it is": ef.compile(graph, threads=2, optimize=False).run(None, feeds),
        "rewritten": ReferenceEvaluator(export(ef.optimize(graph).graph)).run(None, feeds),
    }
    return [
        f"{what}, output {i} ({graph.outputs[i]}): {np.asarray(own)!r} instead of {right!r}"
        for what, outputs in results.items()
        for i, (right, own) in enumerate(zip(expected, outputs, strict=True))
        if not _same(np.asarray(own), np.asarray(right))
    ]


def _same(own: Array, right: Array) -> bool:
    return own.dtype == right.dtype and np.array_equal(own, right)


def _inputs(graph: Graph, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for v in graph.inputs:
        kind = graph.types[v].dtype.numpy
        limits = np.iinfo(kind)
        low, high = (limits.min, limits.max) if rng.random() < 0.3 else (max(limits.min, -4), 9)
        shape = graph.types[v].static_shape
        found[v] = rng.integers(low, high, shape, endpoint=True, dtype=kind)
    return found


if __name__ == "__main__":
    sys.exit(bool(report_wrong(random_model, complaints, *map(int, sys.argv[1:3]))))
