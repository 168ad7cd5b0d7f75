"""What the nodes of a graph compute of constants alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from egraph_fusion.errors import REFUSALS
from egraph_fusion.ir.graph import Array, Graph, Node
from egraph_fusion.ir.ops import declared
from egraph_fusion.ir.tensors import DType, TensorType

SMALL = 4096
"""Elements of the largest tensor that is computed before saturation, to know its values."""
ROUNDS_ITSELF = ("Cast", "QuantizeLinear", "DequantizeLinear", "Shape", "Size", "BitShift")


def as_operand(op: str, value: Array, dtype: DType, stepwise: bool) -> Array:
    """Return a constant as an operator reads it: in float64, unless each step is to be rounded."""
    if not dtype.is_float:
        return value
    with np.errstate(over="ignore"):
        return value.astype(dtype.numpy if stepwise or op in ROUNDS_ITSELF else np.float64)


def small_constants(graph: Graph, stepwise: bool) -> Mapping[str, Array]:
    """Return small tensors that nodes compute of constants, each rounded to its dtype."""
    known = {v: c.array for v, c in graph.constants.items() if c.array.size <= SMALL}
    given = set(known)
    for n in graph.nodes:
        if n.reads and known.keys() >= set(n.reads):
            known |= _computed(graph, n, known, stepwise)
    with np.errstate(over="ignore"):
        return {v: known[v].astype(graph.types[v].dtype.numpy) for v in known if v not in given}


def _computed(
    graph: Graph, n: Node, known: Mapping[str, Array], stepwise: bool
) -> Mapping[str, Array]:
    operator = declared(n)
    if operator is None or not all(_is_small(graph.types[o]) for o in n.outputs if o):
        return {}
    operands = [
        as_operand(n.op, known[v], graph.types[v].dtype, stepwise) if v else None for v in n.inputs
    ]
    try:
        with np.errstate(all="ignore"):
            values = operator.evaluate(operands, n.attrs)
    except (*REFUSALS, MemoryError):
        return {}
    return {o: v for o, v in zip(n.outputs, values, strict=False) if o}


def _is_small(kind: TensorType) -> bool:
    return isinstance(kind.size, int) and kind.size <= SMALL
