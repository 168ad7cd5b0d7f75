"""Which values associativity may look through: those with one consumer, in chains kept short."""

from __future__ import annotations

from collections.abc import Mapping

from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops import Law, declared

LONGEST = 7
"""Operands of the longest chain that is regrouped whole."""
SHORTEST = 3
LEAST_NODES = 2500
"""E-nodes that regrouping the chains of a graph may make together, and NODES for each node."""
NODES = 3


def open_values(graph: Graph) -> list[str]:
    """Return the values that are read once, less those where long chains are cut.

    All ways to sum n operands are 3^n e-nodes.  A chain of one operator is therefore regrouped in
    pieces, which have up to LONGEST operands, fewer where all pieces would be too many e-nodes.
    """
    once = _read_once(graph)
    allowed = LEAST_NODES + NODES * len(graph.nodes)
    cut: set[str] = set()
    for longest in range(LONGEST, SHORTEST - 1, -1):
        cut, sizes = _pieces(graph, once, longest)
        if sum(3**n for n in sizes) <= allowed:
            break
    return [v for v in once if v not in cut]


def _read_once(graph: Graph) -> dict[str, Node]:
    """Return the values of nodes that one node reads once, each with its reader."""
    uses: dict[str, int] = dict.fromkeys(graph.outputs, 2)
    reader: dict[str, Node] = {}
    for n in graph.nodes:
        for v in n.reads:
            uses[v] = uses.get(v, 0) + 1
            reader[v] = n
    return {o: reader[o] for n in graph.nodes for o in n.outputs if o and uses.get(o) == 1}


def _pieces(
    graph: Graph, once: Mapping[str, Node], longest: int
) -> tuple[set[str], tuple[int, ...]]:
    """Return the values at which chains are cut, and the number of operands of every piece."""
    cut: set[str] = set()
    inside: set[str] = set()  # values within a piece, which are no piece of their own
    operands: dict[str, int] = {}
    for n in graph.nodes:
        operator = declared(n)
        if operator is None or Law.ASSOCIATIVE not in operator.laws:
            continue
        open_ones = [v for v in n.inputs if v in operands and v in once and once[v].op == n.op]
        joined = sorted((v for v in open_ones if v not in cut), key=lambda v: operands[v])
        total = len(n.inputs) + sum(operands[v] - 1 for v in joined)
        while joined and total > longest:
            largest = joined.pop()
            cut.add(largest)
            total -= operands[largest] - 1
        inside.update(joined)
        operands[n.outputs[0]] = total
    return cut, tuple(n for v, n in operands.items() if v not in inside)
