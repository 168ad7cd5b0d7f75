"""Operators without a declaration replaced by the function bodies that ONNX gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx.inliner
from onnx import helper
from onnx.defs import SchemaError
from onnx.parser import ParseError

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend.exporter import inline_tensor
from egraph_fusion.frontend.functions import FIRST_IR_VERSION
from egraph_fusion.frontend.importer import load
from egraph_fusion.frontend.inference import schema_of
from egraph_fusion.frontend.own_bodies import own_body
from egraph_fusion.frontend.skeleton import default_domain
from egraph_fusion.frontend.types import write_type
from egraph_fusion.ir.graph import Array, Constant, Graph, Node
from egraph_fusion.ir.tensors import DType, TensorType

_MAX_CONSTANT = 4096  # elements: bigger constants decide no shapes, and need not be copied
_MAX_DEPTH = 4
_DOMAIN = "egraph_fusion.bodies"


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
    if n.captures or not n.payload or not all(_is_known(graph.types[v]) for v in n.reads):
        return None
    header = onnx.ModelProto.FromString(graph.header)
    proto = onnx.NodeProto.FromString(n.payload)
    del proto.input[:], proto.output[:]
    proto.input.extend(n.inputs)
    proto.output.extend(n.outputs)
    try:
        kinds = [graph.types[v] if v else None for v in n.inputs]
        function = own_body(proto, kinds) or _function(graph, proto, header)
        if function is None:
            return None
        model = onnx.inliner.inline_local_functions(_calling(graph, proto, header, function))
        known = {v: a for v, a in values.items() if v in n.inputs}
        body = _expanded(load(model, known), known, depth - 1)
    except (EgraphFusionError, RuntimeError, ValueError, TypeError, SchemaError, ParseError):
        return None
    return None if any(inner.opaque for inner in body.nodes) else body


def _function(
    graph: Graph, proto: onnx.NodeProto, header: onnx.ModelProto
) -> onnx.FunctionProto | None:
    """Return the function that ONNX gives for `proto`, whose attributes' defaults are filled in.

    It may be written in an older opset than the model's.
    """
    domain = default_domain(proto.domain)
    opset = {default_domain(e.domain): e.version for e in header.opset_import}.get(domain, 0)
    # ONNX's type stubs do not know what its schemas tell of functions.
    schema: Any = schema_of(proto.op_type, domain, opset)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    given = {a.name for a in proto.attribute}
    optional = [a for name, a in schema.attributes.items() if name not in given and not a.required]
    proto.attribute.extend(a.default_value for a in optional if a.default_value.name)
    if schema.has_function:
        version = max(v for v in schema.function_opset_versions if v <= opset)
        data = schema.get_function_with_opset_version(version)
    else:
        version = max(v for v in schema.context_dependent_function_opset_versions if v <= opset)
        kinds = [write_type(graph.types[v]) if v else onnx.TypeProto() for v in proto.input]
        data = schema.get_context_dependent_function_with_opset_version(
            version, proto.SerializeToString(), [k.SerializeToString() for k in kinds]
        )
    function = onnx.FunctionProto.FromString(data)
    return function if function.node else None


def _is_known(kind: TensorType) -> bool:
    return kind.static_shape is not None and kind.dtype not in (DType.OTHER, DType.STRING)


def _calling(
    graph: Graph, proto: onnx.NodeProto, header: onnx.ModelProto, function: onnx.FunctionProto
) -> onnx.ModelProto:
    """Return a model that calls `function` as `proto` calls its operator."""
    operands = list(dict.fromkeys(v for v in proto.input if v))
    held = {v: c for v in operands if (c := _small(graph, v)) is not None}
    inputs = [
        helper.make_value_info(v, write_type(graph.types[v])) for v in operands if v not in held
    ]
    outputs = [helper.make_empty_tensor_value_info(v) for v in proto.output if v]
    tensors = [inline_tensor(v, c) for v, c in held.items()]
    proto.domain = function.domain = _DOMAIN
    function.name = proto.op_type
    body = helper.make_graph([proto], "body", inputs, outputs, tensors)
    versions = {e.domain: e.version for e in (*header.opset_import, *function.opset_import)}
    imports = [helper.make_opsetid(d, v) for d, v in {**versions, _DOMAIN: 1}.items()]
    del function.opset_import[:]
    function.opset_import.extend(imports)
    model = helper.make_model(body, opset_imports=imports, functions=[function])
    model.ir_version = max(header.ir_version, FIRST_IR_VERSION)
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
    """Return a node of a body; its ONNX form, of the body's opset, is not the graph's."""

    def now(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(names.get(v, v) for v in values)

    return Node(n.op, now(n.inputs), now(n.outputs), n.attrs, now([n.name])[0])
