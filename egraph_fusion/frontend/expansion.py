"""Operators without a declaration replaced by the function bodies that ONNX gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
import onnx.inliner
from onnx import helper

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend.exporter import inline_tensor
from egraph_fusion.frontend.importer import load
from egraph_fusion.frontend.inference import schema_of
from egraph_fusion.frontend.skeleton import default_domain
from egraph_fusion.frontend.types import write_type
from egraph_fusion.ir.graph import Array, Constant, Graph, Node
from egraph_fusion.ir.tensors import DType, TensorType

_MAX_CONSTANT = 4096  # elements: bigger constants decide no shapes, and need not be copied
_MAX_DEPTH = 4


def expand(graph: Graph, values: Mapping[str, Array] | None = None) -> Graph:
    """Return `graph` with opaque nodes replaced by their ONNX function bodies where these help.

    A body is taken if every node in it has a declaration; operands must have static shapes.
    `values` are those of inputs that the graph was fixed to.  For compiling only: an exported model
    keeps its nodes as they came.
    """
    return _expanded(graph, values or {}, _MAX_DEPTH)


def _expanded(graph: Graph, values: Mapping[str, Array], depth: int) -> Graph:
    if not any(n.opaque for n in graph.nodes) or not depth:
        return graph
    nodes: list[Node] = []
    types, constants = dict(graph.types), dict(graph.constants)
    for n in graph.nodes:
        body = _body(graph, n, values, depth) if n.opaque else None
        if body is None:
            nodes.append(n)
            continue
        names = _names(body, n, types)
        nodes += [_renamed(inner, names) for inner in body.nodes]
        types.update({names[v]: t for v, t in body.types.items() if names[v] not in types})
        types.update({names[v]: body.types[v] for v in body.outputs})
        constants.update({names[v]: c for v, c in body.constants.items()})
    if len(nodes) == len(graph.nodes):
        return graph
    return graph.replace(nodes=tuple(nodes), types=types, constants=constants)


def _body(graph: Graph, n: Node, values: Mapping[str, Array], depth: int) -> Graph | None:
    """Return the body of `n` as a graph over its operands, None if there is none that helps."""
    header = onnx.ModelProto.FromString(graph.header)
    proto = onnx.NodeProto.FromString(n.payload)
    versions = {default_domain(e.domain): e.version for e in header.opset_import}
    schema = schema_of(proto.op_type, default_domain(proto.domain), versions.get(proto.domain, 0))
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    if n.captures or not all(_is_known(graph.types[v]) for v in n.reads):
        return None
    del proto.input[:], proto.output[:]
    proto.input.extend(n.inputs)
    proto.output.extend(n.outputs)
    try:
        model = onnx.inliner.inline_selected_functions(
            _alone(graph, proto, header), [(proto.domain, proto.op_type)], False, True
        )
        if [p.op_type for p in model.graph.node] == [proto.op_type]:
            return None
        known = {v: a for v, a in values.items() if v in n.inputs}
        body = _expanded(load(model, known), known, depth - 1)
    except (EgraphFusionError, RuntimeError, ValueError, TypeError):
        return None
    return None if any(inner.opaque for inner in body.nodes) else body


def _is_known(kind: TensorType) -> bool:
    return kind.static_shape is not None and kind.dtype not in (DType.OTHER, DType.STRING)


def _alone(graph: Graph, proto: onnx.NodeProto, header: onnx.ModelProto) -> onnx.ModelProto:
    operands = list(dict.fromkeys(v for v in proto.input if v))
    held = {v: c for v in operands if (c := _small(graph, v)) is not None}
    inputs = [
        helper.make_value_info(v, write_type(graph.types[v])) for v in operands if v not in held
    ]
    outputs = [helper.make_empty_tensor_value_info(v) for v in proto.output if v]
    tensors = [inline_tensor(v, c) for v, c in held.items()]
    body = helper.make_graph([proto], "body", inputs, outputs, tensors)
    model = helper.make_model(body, opset_imports=list(header.opset_import))
    model.ir_version = header.ir_version or model.ir_version
    return model


def _small(graph: Graph, value: str) -> Constant | None:
    constant = graph.constants.get(value)
    return constant if constant is not None and constant.array.size <= _MAX_CONSTANT else None


def _names(body: Graph, n: Node, taken: Mapping[str, TensorType]) -> dict[str, str]:
    """Return what each value of a body is called outside: operands and results as they are."""
    kept = {*n.inputs, *n.outputs}
    names: dict[str, str] = {v: v for v in body.types if v in kept}
    used = set(taken)
    for v in body.types:
        if v not in kept:
            names[v] = _fresh(f"{n.outputs[0] or n.op}_{v}", used)
            used.add(names[v])
    return names


def _fresh(hint: str, used: set[str]) -> str:
    name, count = hint, 1
    while name in used:
        name, count = f"{hint}_{count}", count + 1
    return name


def _renamed(n: Node, names: Mapping[str, str]) -> Node:
    def now(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(names.get(v, v) for v in values)

    return Node(
        n.op,
        now(n.inputs),
        now(n.outputs),
        n.attrs,
        now([n.name])[0],
        payload=n.payload,
        absorbed=n.absorbed,
    )
