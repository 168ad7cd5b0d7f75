"""Small ONNX models for tests, and graphs read by the registry's numpy meanings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.ops import OPERATORS

Array = NDArray[Any]


def info(name: str, shape: Sequence[int | str | None] | None, code: int = TensorProto.FLOAT) -> Any:
    """Declare a value."""
    return helper.make_tensor_value_info(name, code, shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str | onnx.ValueInfoProto],
    constants: Mapping[str, Array] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    **extra: Any,
) -> onnx.ModelProto:
    """Return a model; outputs given by name alone are float tensors of unknown shape."""
    declared = [info(o, None) if isinstance(o, str) else o for o in outputs]
    weights = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, declared, weights)
    domains = sorted({n.domain for n in nodes if n.domain})
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **extra)


def runtime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Run a model in onnxruntime without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [np.asarray(a) for a in session.run(None, dict(feeds))]


def state_ranks(model: onnx.ModelProto, outputs: Sequence[Array]) -> None:
    """Declare the outputs' ranks, which onnx.checker demands, in place."""
    for declared, array in zip(model.graph.output, outputs, strict=True):
        shape = declared.type.tensor_type.shape
        shape.SetInParent()
        for axis in range(len(shape.dim), np.ndim(array)):
            shape.dim.add(dim_param=f"{declared.name}_{axis}")


def without_payloads(graph: Graph) -> Graph:
    """Return the graph as if every declared node were new, so that export rewrites it."""
    nodes = (n if n.opaque else replace(n, payload=b"", absorbed={}) for n in graph.nodes)
    return graph.replace(nodes=tuple(nodes))


def meaning(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Evaluate a graph of declared nodes; results must have the types that the graph states."""
    values: dict[str, Array] = {v: c.array for v, c in graph.constants.items()}
    values.update({v: c.array for v, c in graph.defaults.items()})
    values.update(feeds)
    for node in graph.nodes:
        operands = [values[v] if v else None for v in node.inputs]
        for value, array in zip(
            node.outputs, OPERATORS[node.op].evaluate(operands, node.attrs), strict=False
        ):
            if value:
                _check_type(graph, value, array)
                values[value] = array
    return [np.asarray(values[v]) for v in graph.outputs]


def _check_type(graph: Graph, value: str, array: Array) -> None:
    kind = graph.types[value]
    assert kind.dtype.numpy == array.dtype, f"{value} is stated as {kind}, computed {array.dtype}"
    if kind.shape is None:
        return
    known = [(d, e) for d, e in zip(kind.shape, array.shape, strict=True) if isinstance(d, int)]
    assert all(d == e for d, e in known), f"{value} is stated as {kind}, has shape {array.shape}"
