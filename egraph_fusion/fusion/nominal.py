"""Planning where sizes of inputs are symbols: at nominal ones, since kernels need numbers.

By the time a model is compiled its inputs have sizes; what is then still a symbol comes out of the
data, and only the operators that deal with that can run.
"""

from __future__ import annotations

from egraph_fusion.errors import REFUSALS
from egraph_fusion.fusion.plan import Plan, make_block
from egraph_fusion.ir.dims import NOMINAL, Dim, substitute, symbols
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops import declared
from egraph_fusion.ir.tensors import TensorType


def at_nominal_sizes(graph: Graph) -> Graph:
    """Return `graph` with the symbols of its inputs taken as `dims.NOMINAL`.

    Itself if there are none, or if they can't all have that size: one may stand for a size that
    another operand fixes.
    """
    dims = (d for v in graph.inputs for d in graph.types[v].shape or ())
    sizes: dict[str, Dim] = dict.fromkeys(sorted({s for d in dims for s in symbols(d)}), NOMINAL)
    if not sizes:
        return graph
    sized = graph.replace(types={v: _fixed(t, sizes) for v, t in graph.types.items()})
    return sized if all(_fits(sized, n) for n in sized.nodes) else graph


def for_symbols(plan: Plan, graph: Graph) -> Plan:
    """Return the plan of `at_nominal_sizes(graph)` as one of `graph`.

    What lies where in memory is left open: that depends on the sizes.
    """
    blocks = tuple(make_block(graph, b.nodes) for b in plan.blocks)
    return Plan(graph, blocks, plan.planner, plan.reasons)


def _fits(graph: Graph, n: Node) -> bool:
    """Whether the node's operator accepts its operands."""
    operator = declared(n)
    if operator is None:
        return True
    try:
        operator.infer(graph.in_types(n), n.attrs)
    except REFUSALS:
        return False
    return True


def _fixed(kind: TensorType, sizes: dict[str, Dim]) -> TensorType:
    if kind.shape is None or kind.static_shape is not None:
        return kind
    return TensorType(kind.dtype, tuple(substitute(d, sizes) for d in kind.shape))
