"""What an exported model declares: its inputs, its outputs and the types of values between."""

from __future__ import annotations

from collections.abc import Collection

import onnx

from egraph_fusion.frontend.types import ELEMENT_CODES, write_type
from egraph_fusion.ir.dims import Poly, symbols
from egraph_fusion.ir.graph import Constant, Graph
from egraph_fusion.ir.tensors import TensorType


def declare_inputs(model: onnx.ModelProto, graph: Graph, initializers: dict[str, Constant]) -> None:
    """Declare the inputs as they came; before IR version 4 every initializer is one, too."""
    old = {i.name: i for i in model.graph.input}
    wanted = list(graph.inputs)
    if model.ir_version < 4:
        listed = [v for v in old if v in initializers]
        rest = [v for v in initializers if v not in old]
        order = [v for v in old if v in graph.inputs or v in listed]
        wanted = [*order, *(v for v in graph.inputs if v not in old), *rest]
    kept = [old[v] if v in old else _info(v, _type(v, graph, initializers)) for v in wanted]
    copies = [_copy(info) for info in kept]
    del model.graph.input[:]
    model.graph.input.extend(copies)


def _type(value: str, graph: Graph, initializers: dict[str, Constant]) -> TensorType:
    return initializers[value].type if value in initializers else graph.types[value]


def _copy(info: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(info)
    return copy


def _info(value: str, kind: TensorType) -> onnx.ValueInfoProto:
    """Return a declaration; a dimension that is one symbol keeps its name."""
    info = onnx.ValueInfoProto(name=value)
    info.type.CopyFrom(write_type(kind))
    for entry, dim in zip(info.type.tensor_type.shape.dim, kind.shape or (), strict=True):
        if isinstance(dim, Poly) and str(dim) in symbols(dim):
            entry.dim_param = str(dim)
    return info


def reconcile(model: onnx.ModelProto, graph: Graph) -> None:
    """Declare the graph's outputs, and correct declared shapes that inference has proved wrong."""
    old = {o.name: o for o in model.graph.output}
    outputs = [_copy(old[v]) if v in old else _info(v, graph.types[v]) for v in graph.outputs]
    values = _produced(graph)
    between = [_copy(i) for i in model.graph.value_info if i.name in values]
    for info in [*outputs, *between]:
        _correct(info, graph.types[info.name])
    del model.graph.output[:]
    del model.graph.value_info[:]
    model.graph.output.extend(outputs)
    model.graph.value_info.extend(between)


def _produced(graph: Graph) -> Collection[str]:
    made = {v for n in graph.nodes for v in n.outputs if v}
    return made - set(graph.outputs) - set(graph.inputs)


def _correct(info: onnx.ValueInfoProto, kind: TensorType) -> None:
    if kind.dtype not in ELEMENT_CODES or info.type.WhichOneof("value") not in (
        None,
        "tensor_type",
    ):
        return
    tensor = info.type.tensor_type
    tensor.elem_type = ELEMENT_CODES[kind.dtype]
    if kind.shape is None or not tensor.HasField("shape"):
        return
    if len(tensor.shape.dim) != len(kind.shape):
        info.type.CopyFrom(_info(info.name, kind).type)
        return
    for entry, dim in zip(tensor.shape.dim, kind.shape, strict=True):
        if isinstance(dim, int) and entry.HasField("dim_value") and entry.dim_value != dim:
            entry.dim_value = dim
