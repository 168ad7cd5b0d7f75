"""Planning where sizes are symbols: at nominal ones, since kernels are planned for numbers."""

from __future__ import annotations

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.fusion.plan import Plan, make_block
from egraph_fusion.ir.dims import nominal
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops import declared
from egraph_fusion.ir.tensors import TensorType


def at_nominal_sizes(graph: Graph) -> Graph:
    """Return `graph` with symbols in types taken as `dims.NOMINAL`.

    Itself if there are none, or if they can't all have that size: one that comes out of the data
    may stand for a size that another operand fixes.
    """
    fixed = {v: _fixed(t) for v, t in graph.types.items()}
    if fixed == dict(graph.types):
        return graph
    sized = graph.replace(types=fixed)
    return sized if all(_fits(sized, n) for n in sized.nodes) else graph


def _fits(graph: Graph, n: Node) -> bool:
    """Whether the node's operator accepts its operands."""
    operator = declared(n)
    if operator is None:
        return True
    try:
        operator.infer(graph.in_types(n), n.attrs)
    except (EgraphFusionError, IndexError, ValueError, TypeError, KeyError):
        return False
    return True


def for_symbols(plan: Plan, graph: Graph) -> Plan:
    """Return the plan of `at_nominal_sizes(graph)` as one of `graph`.

    What lies where in memory is left open: that depends on the sizes.
    """
    blocks = tuple(make_block(graph, b.nodes) for b in plan.blocks)
    return Plan(graph, blocks, plan.planner, plan.reasons)


def _fixed(kind: TensorType) -> TensorType:
    if kind.shape is None or kind.static_shape is not None:
        return kind
    return TensorType(kind.dtype, tuple(map(nominal, kind.shape)))
