"""Random small graphs of elementwise, reducing, moving and contracting operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType, broadcast

UNARY = ("Neg", "Abs", "Relu", "Exp", "Sigmoid", "Tanh", "Sqrt", "Sin")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
SHAPES = ((2, 3), (1, 3), (3,), (2, 1), ())


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random small graphs of elementwise, reducing, moving and contracting operators."""
    b = GraphBuilder("random", opset=18)
    values = [b.add_input(f"x{i}", TensorType(DType.FLOAT32, SHAPES[i])) for i in range(3)]
    values.append(b.const(np.array(1.0, np.float32)))
    values.append(b.const(np.array([[0.5, 1, 2], [3, 0.25, 1.5]], np.float32)))
    for _ in range(draw(st.integers(2, 9))):
        values.append(_step(draw, b, values))
    for v in values[-2:]:
        if v not in b.constants and v not in b.outputs:
            b.output(v)
    if not b.outputs:
        b.output(b.op("Neg", values[0]))
    return b.build()


def _step(draw: st.DrawFn, b: GraphBuilder, values: list[str]) -> str:
    def pick(options: Sequence[str]) -> str:
        return draw(st.sampled_from(options))

    x, y = pick(values[-5:]), pick(values)
    rank = len(b.type_of(x).shape or ())
    match pick(("unary", "binary", "binary", "reduce", "transpose", "reshape", "matmul")):
        case "unary":
            return b.op(pick(UNARY), x)
        case "reduce" if rank:
            op = pick(("ReduceSum", "ReduceMean", "ReduceMax"))
            return b.op(op, x, axes=(rank - 1,), keepdims=int(pick("01")))
        case "transpose" if rank == 2:
            return b.op("Transpose", x, perm=(1, 0))
        case "reshape":
            return b.op("Reshape", x, shape=(-1,))
        case "matmul" if rank == 2:
            return b.op("MatMul", x, b.op("Transpose", x, perm=(1, 0)))
        case _:
            shapes = [b.type_of(v).shape or () for v in (x, y)]
            fits = broadcast(*shapes) is not None
            return b.op(pick(BINARY), x, y) if fits else b.op("Abs", x)
