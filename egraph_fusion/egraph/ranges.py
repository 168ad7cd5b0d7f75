"""What is known of values before saturation: intervals, constness, and constants' own facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from egraph_fusion.egraph.computed import small_constants
from egraph_fusion.egraph.demand import bounds_of
from egraph_fusion.ir.graph import Array, Attrs, Graph, Node
from egraph_fusion.ir.ops import Law, Operator, declared
from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.guards import GUARDS

UNBOUNDED: Interval = (-math.inf, math.inf)
TAME_RANGE = 1e4
"""An activation that is known to stay within this is tame whatever it was computed from."""
SAMPLE = 1024
"""So many elements of a constant tell mostly that it holds fractions."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds of every element of a value.

    `tame`: no constant that it was computed from is so large or so small that one more
    operation might overflow.  `integer`: none has a fraction.  `splat` is the one value of all
    elements, if there is one.
    """

    interval: Interval = UNBOUNDED
    constant: bool = False
    tame: bool = True
    nonzero: bool = False
    integer: bool = False
    splat: float | None = None


ABSENT = Facts(constant=True, integer=True)
UNKNOWN = Facts()


def graph_facts(
    graph: Graph, assumed: Mapping[str, Facts] | None = None, stepwise: bool = False
) -> Mapping[str, Facts]:
    """Return the facts of every value of a graph, found in one pass in order.

    `assumed` says what is claimed of inputs; nothing is known of others.  Small constants are
    computed, `stepwise` or rounded once, to see whether they are one number everywhere.
    """
    claims = assumed or {}
    found = {v: _typed(claims.get(v, UNKNOWN), graph.types[v]) for v in graph.inputs}
    found |= {v: constant_facts(c.array) for v, c in graph.constants.items()}
    found[""] = ABSENT
    for n in graph.nodes:
        facts = _node_facts(graph, n, [found[v] for v in n.inputs])
        found |= {o: _typed(facts, graph.types[o]) for o in n.outputs if o}
    for v, array in small_constants(graph, stepwise).items():
        found[v] = replace(found[v], splat=constant_facts(array).splat)
    return found


def _typed(facts: Facts, kind: TensorType) -> Facts:
    """Return facts with what the type adds to them."""
    return replace(facts, integer=True) if kind.dtype.is_whole else facts


def constant_facts(array: Array) -> Facts:
    """Return the facts of a tensor of known elements."""
    dtype = DType.of(array.dtype)
    if not array.size or not (dtype.is_float or dtype.is_integer):
        return Facts(constant=True, integer=dtype.is_whole)
    wide = array.astype(np.float32) if array.dtype.itemsize == 2 and dtype.is_float else array
    low, high = float(wide.min()), float(wide.max())
    first = float(wide.reshape(-1)[0])
    exact = low == high and math.isfinite(low) and not (low == 0 and _negative_zero(wide))
    if math.isnan(low) or math.isnan(high):
        return Facts(constant=True, tame=False)
    return Facts(
        interval=(low, high),
        constant=True,
        tame=not dtype.is_float or max(abs(low), abs(high)) <= tame_limit(dtype),
        nonzero=low > 0 or high < 0 or bool(wide.all()),
        integer=all(map(GUARDS["integer"].test, (wide.reshape(-1)[:SAMPLE], wide))),
        splat=first if exact else None,
    )


def tame_limit(dtype: DType) -> float:
    """Return the magnitude whose fourth power still fits the dtype (16 for float16)."""
    largest = 65504.0 if dtype is DType.FLOAT16 else 3.4e38
    return math.sqrt(math.sqrt(largest))


def _negative_zero(array: Array) -> bool:
    return DType.of(array.dtype).is_float and bool(np.signbit(array).any())


def _node_facts(graph: Graph, n: Node, operands: list[Facts]) -> Facts:
    operator = declared(n)
    if operator is None or not operands:
        return UNKNOWN
    interval = UNBOUNDED
    floats = all(t.dtype.is_float for t in graph.out_types(n))
    if operator.interval is not None and floats:
        interval = bounds_of(operator.interval, [f.interval for f in operands], n.attrs)
    if n.op == "Mul" and n.inputs[0] == n.inputs[1] and floats:
        interval = (max(0.0, interval[0]), interval[1])
    bounded = interval[0] >= -TAME_RANGE and interval[1] <= TAME_RANGE
    return Facts(
        interval=interval,
        constant=all(f.constant for f in operands),
        tame=bounded or all(f.tame for f in operands),
        integer=_integers(operator, n.attrs, operands),
    )


def _integers(operator: Operator, attrs: Attrs, operands: Sequence[Facts]) -> bool:
    if Law.INTEGER in operator.laws:
        return True
    factors = (attrs.get(name) for name in operator.factors)
    whole = all(isinstance(v, float) and v.is_integer() for v in factors)
    return operator.preserves_integers and whole and all(f.integer for f in operands)
