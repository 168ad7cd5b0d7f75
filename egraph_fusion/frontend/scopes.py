"""Names in nested graphs: what a subgraph captures, what it mentions, and renaming of captures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.graph import Node


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node holds as attributes, in order."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield `nodes` and those of their subgraphs, at any depth."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def captures(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the outer values that the node's subgraphs read, each once, in order of first use.

    A name that a subgraph defines itself (input, initializer, earlier node) shadows the outer one.
    """
    found: dict[str, None] = {}
    for graph in subgraphs(node):
        found.update(dict.fromkeys(_free(graph)))
    return tuple(found)


def _own_names(graph: onnx.GraphProto) -> set[str]:
    own = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    return own | {s.values.name for s in graph.sparse_initializer}


def _free(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield names that the graph reads before it defines them."""
    defined = _own_names(graph)
    for node in graph.node:
        yield from (v for v in node.input if v and v not in defined)
        yield from (v for v in captures(node) if v not in defined)
        defined.update(node.output)
    yield from (o.name for o in graph.output if o.name not in defined)


def shell_of(node: onnx.NodeProto, name: str = "") -> Node:
    """Return a node that only says what is read and made, for sorting."""
    return Node(
        node.op_type,
        tuple(node.input),
        tuple(node.output),
        name=name or node.name,
        captures=captures(node),
    )


def mentioned(node: onnx.NodeProto) -> Iterator[str]:
    """Yield every value name inside the node's subgraphs, at any depth."""
    for graph in subgraphs(node):
        yield from _own_names(graph)
        yield from (o.name for o in graph.output)
        for inner in graph.node:
            yield from inner.input
            yield from inner.output
            yield from mentioned(inner)


def rename_captures(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename captured outer values in the node's subgraphs, in place.

    ModelError if a new name is already a name inside a subgraph, where it would mean another value.
    """
    changed = {old: new for old, new in names.items() if old != new}
    if not changed:
        return
    clash = set(changed.values()) & set(mentioned(node))
    if clash:
        raise ModelError(f"cannot rename a captured value to {min(clash)!r}: a subgraph uses it")
    for graph in subgraphs(node):
        _rename_free(graph, changed)


def _rename_free(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    own = _own_names(graph)
    live = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        for i, value in enumerate(node.input):
            node.input[i] = live.get(value, value)
        for inner in subgraphs(node):
            _rename_free(inner, live)
        for value in node.output:
            live.pop(value, None)
    for output in graph.output:
        output.name = live.get(output.name, output.name)
