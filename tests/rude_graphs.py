"""Graphs that make a careless e-graph explode: long chains, shared operands, wide fans."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType

F32 = DType.FLOAT32
Build = Callable[[GraphBuilder], None]


def _input(b: GraphBuilder, name: str, *shape: int) -> str:
    return b.add_input(name, TensorType(F32, shape or (4, 8)))


def _scalar(b: GraphBuilder, value: float) -> str:
    return b.const(np.array(value, np.float32))


def _matrix(b: GraphBuilder, seed: int) -> str:
    return b.const(np.random.default_rng(seed).normal(size=(8, 8)).astype(np.float32))


def chain(op: str, n: int = 100) -> Build:
    """A chain of `op` over n operands."""

    def build(b: GraphBuilder) -> None:
        v = _input(b, "x")
        for i in range(n):
            v = b.op(op, v, _input(b, f"y{i}"))
        b.output(v)

    return build


def concatenations(b: GraphBuilder) -> None:
    """A tensor that grows by one operand a hundred times."""
    v = _input(b, "x")
    for i in range(100):
        v = b.op("Concat", v, _input(b, f"y{i}"), axis=0)
    b.output(v)


def own(op: str, n: int = 100) -> Build:
    """A chain in which each node reads the former twice."""

    def build(b: GraphBuilder) -> None:
        v = _input(b, "x", 8, 8)
        for _ in range(n):
            v = b.op(op, v, v)
        b.output(v)

    return build


def again(op: str, n: int = 100) -> Build:
    """The same operand, n times."""

    def build(b: GraphBuilder) -> None:
        x = v = _input(b, "x")
        for _ in range(n):
            v = b.op(op, v, x)
        b.output(v)

    return build


def balanced_sum(b: GraphBuilder) -> None:
    """128 operands, added in a tree."""
    values = [_input(b, f"x{i}") for i in range(128)]
    while len(values) > 1:
        values = [b.op("Add", *values[i : i + 2]) for i in range(0, len(values), 2)]
    b.output(values[0])


def residual(b: GraphBuilder) -> None:
    """A hundred times x + f(x)."""
    x = _input(b, "x", 8, 8)
    for i in range(100):
        x = b.op("Add", x, b.op("Relu", b.op("MatMul", x, _matrix(b, i))))
    b.output(x)


def ladder(b: GraphBuilder) -> None:
    """Two values that read each other at each rung."""
    x, y = _input(b, "x"), _input(b, "y")
    for _ in range(100):
        x, y = b.op("Add", x, y), b.op("Mul", x, y)
    b.output(x)
    b.output(y)


def tower(b: GraphBuilder) -> None:
    """Unary operators with movements between them."""
    v = _input(b, "x")
    for i in range(120):
        v = b.op(("Relu", "Sigmoid", "Tanh", "Abs", "Exp", "Neg")[i % 6], v)
        if i % 4 == 1:
            v = b.op("Transpose", v, perm=(1, 0))
        if i % 4 == 3:
            v = b.op("Reshape", v, shape=(4, 8))
    b.output(v)


def extrema(b: GraphBuilder) -> None:
    """Minimum and maximum in turn."""
    v = _input(b, "x")
    for i in range(150):
        v = b.op(("Min", "Max")[i % 2], v, _input(b, f"y{i}"))
    b.output(v)


def scalars(*ops: str) -> Build:
    """300 scalars, one after the other."""

    def build(b: GraphBuilder) -> None:
        v = _input(b, "x")
        for i in range(300):
            v = b.op(ops[i % len(ops)], v, _scalar(b, 1 + i / 300))
        b.output(v)

    return build


def multiples(b: GraphBuilder) -> None:
    """The sum of 300 multiples of one tensor."""
    x = _input(b, "x")
    v = b.op("Mul", x, _scalar(b, 0.5))
    for i in range(300):
        v = b.op("Add", v, b.op("Mul", x, _scalar(b, 1 + i / 300)))
    b.output(v)


def powers(b: GraphBuilder) -> None:
    """The sum of the powers of x."""
    x = v = total = _input(b, "x")
    for _ in range(60):
        v = b.op("Mul", v, x)
        total = b.op("Add", total, v)
    b.output(total)


def fan(b: GraphBuilder) -> None:
    """One tensor that 300 nodes read."""
    x = _input(b, "x")
    for i in range(300):
        b.output(b.op("Add", x, _input(b, f"y{i}")))


def shared_factor(b: GraphBuilder) -> None:
    """The sum of 100 products with one factor."""
    x = _input(b, "x", 8, 8)
    total = b.op("MatMul", x, _input(b, "w", 8, 8))
    for i in range(100):
        total = b.op("Add", total, b.op("MatMul", x, _input(b, f"w{i}", 8, 8)))
    b.output(total)


def exponentials(b: GraphBuilder) -> None:
    """The product of 100 exponentials."""
    total = b.op("Exp", _input(b, "x"))
    for i in range(100):
        total = b.op("Mul", total, b.op("Exp", _input(b, f"y{i}")))
    b.output(total)


RUDE: dict[str, Build] = {
    "doubled sums": own("Add"),
    "squares": own("Mul"),
    "matrix squares": own("MatMul", 40),
    "long sum": chain("Add", 200),
    "long product": chain("Mul", 200),
    "quotients": chain("Div"),
    "maxima": chain("Max", 150),
    "concatenations": concatenations,
    "one operand, added": again("Add"),
    "one operand, multiplied": again("Mul"),
    "balanced sum": balanced_sum,
    "residual": residual,
    "ladder": ladder,
    "tower": tower,
    "extrema": extrema,
    "sum of scalars": scalars("Add"),
    "sums and products of scalars": scalars("Add", "Mul"),
    "multiples": multiples,
    "powers": powers,
    "fan": fan,
    "shared factor": shared_factor,
    "exponentials": exponentials,
}


def rude(name: str) -> Graph:
    """Return one of the graphs."""
    b = GraphBuilder(name, opset=21)
    RUDE[name](b)
    return b.build()
