"""Groups of nodes written as model-local functions."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.scopes import captures, shell_of
from egraph_fusion.ir.graph import Graph, Node, topological

DOMAIN = "egraph_fusion.blocks"
FIRST_IR_VERSION = 8  # the first with model-local functions


def as_functions(model: onnx.ModelProto, graph: Graph, groups: Sequence[Sequence[Node]]) -> None:
    """Replace each group of two or more nodes in the exported `model` by a call of a function.

    `model` is the export of `graph`.  Raises ModelError if a group holds a foreign node or is not
    convex (its call would have to stand both before and after another node).
    """
    at = {id(n): i for i, n in enumerate(graph.nodes)}
    protos = list(model.graph.node)
    member: dict[int, int] = {}
    for number, group in enumerate(groups):
        for node in group if len(group) > 1 else ():
            if id(node) not in at:
                raise ModelError(f"node {node.label()} of a group is not in the graph")
            member[at[id(node)]] = number
    outside = {v for i, p in enumerate(protos) if i not in member for v in _reads(p)}
    outside.update(o.name for o in model.graph.output)
    calls: dict[int, onnx.NodeProto] = {}
    for number in sorted(set(member.values())):
        body = [protos[i] for i in sorted(member) if member[i] == number]
        others = {
            v for i, p in enumerate(protos) if member.get(i, number) != number for v in _reads(p)
        }
        calls[number] = _extract(model, body, number, outside | others)
    rest = [p for i, p in enumerate(protos) if i not in member]
    _reorder(model, [*rest, *calls.values()])
    if calls and DOMAIN not in {e.domain for e in model.opset_import}:
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
        model.ir_version = max(model.ir_version, FIRST_IR_VERSION)


def _reads(proto: onnx.NodeProto) -> list[str]:
    return [v for v in (*proto.input, *captures(proto)) if v]


def _extract(
    model: onnx.ModelProto, body: Sequence[onnx.NodeProto], number: int, needed: set[str]
) -> onnx.NodeProto:
    """Move a group into a function; return its call."""
    made = [v for p in body for v in p.output if v]
    inputs = list(dict.fromkeys(v for p in body for v in _reads(p) if v not in made))
    outputs = [v for v in made if v in needed]
    name = f"block_{number}"
    function = onnx.FunctionProto(name=name, domain=DOMAIN, input=inputs, output=outputs)
    function.node.extend(body)
    function.opset_import.extend(e for e in model.opset_import if e.domain != DOMAIN)
    model.functions.append(function)
    return onnx.NodeProto(op_type=name, domain=DOMAIN, name=name, input=inputs, output=outputs)


def _reorder(model: onnx.ModelProto, protos: Sequence[onnx.NodeProto]) -> None:
    shells = [shell_of(p) for p in protos]
    place = {id(shell): i for i, shell in enumerate(shells)}
    available = {i.name for i in model.graph.input} | {i.name for i in model.graph.initializer}
    order = [place[id(shell)] for shell in topological(shells, available)]
    copies: list[onnx.NodeProto] = []
    for i in order:
        copy = onnx.NodeProto()
        copy.CopyFrom(protos[i])
        copies.append(copy)
    del model.graph.node[:]
    model.graph.node.extend(copies)
