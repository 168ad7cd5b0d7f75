"""Parts of a graph: a few nodes around some values, what they read standing as inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from egraph_fusion.egraph.facts import participates
from egraph_fusion.egraph.ranges import Facts, graph_facts
from egraph_fusion.ir.graph import Graph, Node

SMALL = 24
"""Nodes of a graph that is looked at as a whole from the start."""


def regions(
    graph: Graph, roots: Iterable[str], assumed: Mapping[str, Facts]
) -> Iterator[tuple[Graph, Mapping[str, Facts]]]:
    """Yield larger and larger parts of a graph that compute `roots`, the whole graph last.

    Each comes with what is known of its inputs.
    """
    wanted = tuple(dict.fromkeys(roots))
    if len(graph.nodes) > SMALL and wanted:
        facts = graph_facts(graph, assumed)
        size = 0
        for depth in (1, 2, 3, 4, 6, 8, 12, 16):
            part = _around(graph, wanted, depth)
            if len(part.nodes) == size:
                break
            size = len(part.nodes)
            yield part, {v: facts[v] for v in part.inputs}
    yield graph, assumed


def _around(graph: Graph, roots: tuple[str, ...], depth: int) -> Graph:
    """Return the nodes that are at most `depth` steps above the roots."""
    chosen: dict[str, Node] = {}
    frontier = list(roots)
    for _ in range(depth):
        above = [graph.producers[v] for v in frontier if v in graph.producers and v not in chosen]
        above = [n for n in above if participates(graph, n)]
        for n in above:
            chosen |= {o: n for o in n.outputs if o}
        frontier = [v for n in above for v in n.reads]
    kept = {id(n) for n in chosen.values()}
    nodes = tuple(n for n in graph.nodes if id(n) in kept)
    read = dict.fromkeys([*(v for n in nodes for v in n.reads), *roots])
    constants = {v: graph.constants[v] for v in read if v in graph.constants}
    inputs = tuple(v for v in read if v not in chosen and v not in constants)
    values = {*inputs, *constants, *chosen}
    return Graph(
        graph.name,
        inputs,
        roots,
        nodes,
        MappingProxyType({v: graph.types[v] for v in values}),
        MappingProxyType(constants),
        opset=graph.opset,
    )
