"""The fingerprint of a graph: equal for graphs that every later stage treats alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from egraph_fusion.ir.graph import Constant, Graph, Node


def fingerprint(graph: Graph) -> str:
    """Return a SHA-256 over all of `graph`: names, types, nodes, and the content of constants."""
    hasher = hashlib.sha256()
    for part in _parts(graph):
        data = part if isinstance(part, bytes) else repr(part).encode()
        hasher.update(b"%d:" % len(data))
        hasher.update(data)
    return hasher.hexdigest()


def _parts(graph: Graph) -> Iterator[object]:
    yield (graph.name, graph.opset, graph.inputs, graph.outputs)
    yield [(v, str(t)) for v, t in graph.types.items()]
    yield _ids(graph.constants)
    yield _ids(graph.defaults)
    yield graph.header
    for n in graph.nodes:
        yield from _node(n)


def _node(n: Node) -> Iterator[object]:
    yield (n.op, n.inputs, n.outputs, n.name, n.opaque, n.captures, n.reason, n.rules)
    yield sorted(n.attrs.items())
    yield sorted((place, c.id) for place, c in n.absorbed.items())
    yield n.payload


def _ids(constants: Mapping[str, Constant]) -> list[tuple[str, str]]:
    return [(v, c.id) for v, c in constants.items()]
