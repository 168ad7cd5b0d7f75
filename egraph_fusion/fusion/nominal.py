"""Planning where sizes are symbols: at nominal ones, since kernels are planned for numbers."""

from __future__ import annotations

from egraph_fusion.fusion.plan import Plan, make_block
from egraph_fusion.ir.dims import nominal
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import TensorType


def at_nominal_sizes(graph: Graph) -> Graph:
    """Return `graph` with symbols in types taken as `dims.NOMINAL`; itself if there are none."""
    fixed = {v: _fixed(t) for v, t in graph.types.items()}
    return graph if fixed == dict(graph.types) else graph.replace(types=fixed)


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
