"""Saving a graph as an ONNX file: atomically, with external data where protobuf ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.exporter import Exporter, inline_tensor
from egraph_fusion.frontend.functions import as_functions
from egraph_fusion.frontend.types import ELEMENT_CODES
from egraph_fusion.ir.graph import Constant, Graph, Node
from egraph_fusion.output_files import output_path, write_file

EXTERNAL_ABOVE = 1_900_000_000  # bytes of weights: protobuf ends at 2 GiB, nodes need room
SMALLEST_EXTERNAL = 1024
_ALIGNMENT = 64


def save(
    graph: Graph,
    path: str | Path,
    functions: Sequence[Sequence[Node]] | None = None,
    opset: int | None = None,
) -> None:
    """Write the graph as an ONNX file; an older file is replaced only once all is written.

    Weights of 1.9 GB and more go into `<name>.data` beside it.  `functions` are groups of nodes to
    write as model-local functions.  Raises ModelError if the graph cannot be expressed or the file
    cannot be written.
    """
    target = output_path(path, ModelError)
    constants = {c.id: c for c in (*graph.constants.values(), *graph.defaults.values())}
    if sum(c.array.nbytes for c in constants.values()) < EXTERNAL_ABOVE:
        exporter = Exporter(graph, opset, inline_tensor)
        data = _serialized(exporter, graph, functions)
        write_file(target, lambda file: file.write(data), ModelError)
        return
    _save_with_data_file(graph, target, functions, opset)


def _serialized(
    exporter: Exporter, graph: Graph, functions: Sequence[Sequence[Node]] | None
) -> bytes:
    model = exporter.model()
    if functions:
        as_functions(model, graph, functions)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _save_with_data_file(
    graph: Graph,
    target: Path,
    functions: Sequence[Sequence[Node]] | None,
    opset: int | None,
) -> None:
    store = DataFile(f"{target.name}.data")
    data = _serialized(Exporter(graph, opset, store.tensor), graph, functions)
    write_file(target.with_name(store.location), store.write, ModelError)
    write_file(target, lambda file: file.write(data), ModelError)


class DataFile:
    """An external data file: hands out places first, writes the bytes afterwards."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.end = 0
        self.placed: dict[str, tuple[int, Constant]] = {}

    def tensor(self, name: str, constant: Constant) -> onnx.TensorProto:
        """Return a tensor that points into the file; small and odd ones stay inline."""
        array = constant.array
        if array.nbytes < SMALLEST_EXTERNAL or array.dtype == object:
            return inline_tensor(name, constant)
        if constant.type.dtype not in ELEMENT_CODES:
            return inline_tensor(name, constant)
        if constant.id not in self.placed:
            start = -(-self.end // _ALIGNMENT) * _ALIGNMENT
            self.placed[constant.id] = (start, constant)
            self.end = start + array.nbytes
        tensor = onnx.TensorProto(name=name, dims=array.shape)
        tensor.data_type = ELEMENT_CODES[constant.type.dtype]
        tensor.data_location = onnx.TensorProto.EXTERNAL
        offset = self.placed[constant.id][0]
        for key, value in (("location", self.location), ("offset", offset)):
            tensor.external_data.add(key=key, value=str(value))
        tensor.external_data.add(key="length", value=str(array.nbytes))
        return tensor

    def write(self, file: BinaryIO) -> None:
        """Write all bytes in the order of their places."""
        for start, constant in self.placed.values():
            file.write(bytes(start - file.tell()))
            file.write(np.ascontiguousarray(constant.array).reshape(-1).view(np.uint8).data)
