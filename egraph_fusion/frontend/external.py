"""Data that a model keeps in other files: which these are, and the model with all inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.files import decode_model, read_model
from egraph_fusion.frontend.scopes import subgraphs
from egraph_fusion.frontend.weights import contained, read_tensor

# How the entry is keyed that says where external data lies: a file without it has none.
_MARK = b"location"


def external_files(data: bytes, folder: Path, name: str) -> list[Path]:
    """Return the files below `folder` that the serialized model `data` refers to, sorted.

    References that are broken or lead elsewhere are left out: whoever reads the model complains.
    Raises ModelError, naming `name`, if the bytes are no model.
    """
    if _MARK not in data:
        return []
    found: set[Path] = set()
    for tensor in external_tensors(decode_model(data, name)):
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        try:
            found.add(contained(folder, location, name))
        except (ModelError, OSError, ValueError):
            continue
    return sorted(found)


def external_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor of a model, at any depth, whose data lies in another file."""
    graphs = [model.graph]
    for training in model.training_info:
        graphs += [training.algorithm, training.initialization]
    found = [t for g in graphs for t in _of_graph(g)]
    for function in model.functions:
        found += _of_nodes(function.node)
    return (t for t in found if t.data_location == TensorProto.EXTERNAL)


def _of_graph(graph: onnx.GraphProto) -> list[TensorProto]:
    found = list(graph.initializer)
    for sparse in graph.sparse_initializer:
        found += [sparse.values, sparse.indices]
    return found + _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> list[TensorProto]:
    found: list[TensorProto] = []
    for node in nodes:
        for attribute in node.attribute:
            found += [attribute.t, *attribute.tensors]
        for graph in subgraphs(node):
            found += _of_graph(graph)
    return found


def whole_model(path: Path) -> onnx.ModelProto:
    """Return the model at `path` with all data inside; ModelError as `load` for what is broken."""
    model = read_model(path)
    for tensor in external_tensors(model):
        array = read_tensor(tensor, path.resolve().parent)
        inside = numpy_helper.from_array(array, tensor.name)
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = inside.raw_data
    return model


def work_nodes(model: onnx.ModelProto) -> int:
    """Return how many nodes of the main graph compute something: all but constants."""
    return sum(n.op_type != "Constant" for n in model.graph.node)
