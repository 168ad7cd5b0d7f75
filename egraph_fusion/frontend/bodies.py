"""The graphs that If, Loop and Scan hold, each as a model of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from egraph_fusion.frontend.exporter import Exporter, inline_tensor
from egraph_fusion.frontend.importer import load
from egraph_fusion.frontend.scopes import captures, subgraphs
from egraph_fusion.frontend.types import ELEMENT_CODES, ELEMENT_TYPES
from egraph_fusion.frontend.writers import CannotWriteError
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType, TensorType

CONTROL = ("If", "Loop", "Scan")
OLDEST_SCAN = 9
"""Scan had a batch axis before this opset."""
_WITHOUT_STEPS = ("Constant", *CONTROL)
_TENSOR_ATTRIBUTE = "g"


@dataclass(frozen=True, slots=True)
class Body:
    """One subgraph as a model.

    `model` is a serialized ONNX model: its inputs are `formals`, the subgraph's own, whose ranks
    `ranks` gives (-1: not declared), then `captures`, which are values of the outer graph.
    `results` gives dtype and declared shape of each output; sizes that are not declared are 0.
    `left` names operators inside, at any depth, that have no declaration.
    """

    name: str
    model: bytes
    formals: tuple[str, ...]
    ranks: tuple[int, ...]
    captures: tuple[str, ...]
    results: tuple[TensorType, ...]
    left: tuple[str, ...]


def bodies_of(graph: Graph, node: Node) -> tuple[Body, ...] | None:
    """Return the bodies of an If, Loop or Scan, the branch for true first.

    None for other nodes, and where a value that crosses into a body is no tensor.
    """
    if node.op not in CONTROL or not node.payload or not _crosses(graph, node):
        return None
    if node.op == "Scan" and graph.opset < OLDEST_SCAN:
        return None
    exporter = Exporter(graph.replace(nodes=(node,), outputs=()), None, inline_tensor)
    try:
        proto = exporter.node(node)
    except CannotWriteError:
        return None
    held = {a.name: a.g for a in proto.attribute if a.type == onnx.AttributeProto.GRAPH}
    wanted = ("then_branch", "else_branch") if node.op == "If" else ("body",)
    formals = _formal_types(graph, node)
    if any(name not in held or len(held[name].input) != len(formals) for name in wanted):
        return None
    return tuple(_body(graph, name, held[name], formals) for name in wanted)


def load_body(model: bytes) -> Graph:
    """Return the graph of a body's model; ModelError as `load`."""
    return load(onnx.ModelProto.FromString(model))


def _crosses(graph: Graph, node: Node) -> bool:
    return all(graph.types[v].dtype in ELEMENT_CODES for v in (*node.reads, *node.outputs) if v)


def _formal_types(graph: Graph, node: Node) -> list[DType]:
    operands = [graph.types[v].dtype for v in node.inputs if v]
    match node.op:
        case "If":
            return []
        case "Loop":
            return [DType.INT64, DType.BOOL, *(graph.types[v].dtype for v in node.inputs[2:])]
        case _:
            return operands


def _body(graph: Graph, name: str, held: onnx.GraphProto, formals: Sequence[DType]) -> Body:
    header = onnx.ModelProto.FromString(graph.header)
    alone = onnx.NodeProto(attribute=[helper.make_attribute(_TENSOR_ATTRIBUTE, held)])
    outer = captures(alone)
    names = [i.name for i in held.input]
    kinds = [*formals, *(graph.types[v].dtype for v in outer)]
    body = onnx.GraphProto()
    body.CopyFrom(held)
    del body.input[:]
    # Only element types: a declared shape is a claim, and may change from turn to turn.
    body.input.extend(
        helper.make_tensor_value_info(v, ELEMENT_CODES[k], None)
        for v, k in zip([*names, *outer], kinds, strict=True)
    )
    model = helper.make_model(
        body,
        opset_imports=list(header.opset_import) or [helper.make_opsetid("", graph.opset)],
        functions=list(header.functions),
    )
    model.ir_version = header.ir_version or model.ir_version
    return Body(
        name,
        model.SerializeToString(deterministic=True),
        tuple(names),
        tuple(_rank(i) for i in held.input),
        outer,
        tuple(_declared(o) for o in held.output),
        tuple(dict.fromkeys(_undeclared(held))),
    )


def _rank(info: onnx.ValueInfoProto) -> int:
    tensor = info.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else -1


def _declared(info: onnx.ValueInfoProto) -> TensorType:
    tensor = info.type.tensor_type
    dims = tuple(max(0, d.dim_value) for d in tensor.shape.dim)
    return TensorType(ELEMENT_TYPES.get(tensor.elem_type, DType.FLOAT32), dims)


def _undeclared(held: onnx.GraphProto) -> Iterator[str]:
    for n in held.node:
        plain = n.domain in ("", "ai.onnx")
        if not plain or (n.op_type not in OPERATORS and n.op_type not in _WITHOUT_STEPS):
            yield n.op_type
        for inner in subgraphs(n):
            yield from _undeclared(inner)
