"""FLOPs, bytes and operators of a graph, counted the same before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egraph_fusion.egraph.pricing import VIEWS, bytes_of
from egraph_fusion.ir.dims import nominal
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops import Kind, declared
from egraph_fusion.ir.ops.tracing import node_flops


@dataclass(frozen=True, slots=True)
class Totals:
    """What one run of a graph computes and writes; work on constants counts nothing."""

    contraction_flops: int
    other_flops: int
    nbytes: int
    ops: int

    @property
    def flops(self) -> int:
        """All FLOPs."""
        return self.contraction_flops + self.other_flops


def totals(graph: Graph) -> Totals:
    """Count a graph: symbolic dimensions as `dims.NOMINAL`, opaque nodes as no FLOPs."""
    constant = set(graph.constants)
    contraction = other = nbytes = 0
    for n in graph.nodes:
        if n.reads and all(v in constant for v in n.reads) and declared(n):
            constant.update(o for o in n.outputs if o)
            continue
        flops = _flops(graph, n, [v in constant for v in n.inputs])
        operator = declared(n)
        if operator is not None and operator.kind is Kind.CONTRACTION:
            contraction += flops
        else:
            other += flops
        if n.op not in VIEWS:
            nbytes += sum(map(bytes_of, graph.out_types(n)))
    return Totals(contraction, other, nbytes, len(graph.nodes))


def _flops(graph: Graph, n: Node, known: Sequence[bool]) -> int:
    operator = declared(n)
    ins = graph.in_types(n)
    outs = graph.out_types(n)
    if operator is None or any(t is not None and t.shape is None for t in (*ins, *outs)):
        return 0
    return nominal(node_flops(operator, ins, outs, n.attrs, known))
