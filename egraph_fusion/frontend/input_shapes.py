"""Fixing the symbolic shapes of a model's inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import onnx

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.exporter import export
from egraph_fusion.frontend.importer import load
from egraph_fusion.ir.graph import Graph


def fix_input_shapes(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return `graph` read again with the given input shapes; a named dim is fixed everywhere.

    A name that stands for two sizes in one input's shape is a wrong claim and names nothing.
    Raises ModelError for a name that is no input, or dims that contradict the declared ones.
    """
    model = export(graph)
    inputs = {v.name: v for v in model.graph.input}
    graph_values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    for name in shapes:
        if name not in inputs:
            raise ModelError(f"no input is called {name!r}; the inputs are {sorted(inputs)}")
    _forget(graph_values, {d for v, dims in shapes.items() for d in _misnamed(inputs[v], dims)})
    values: dict[str, int] = {}
    for name, dims in shapes.items():
        _fix(inputs[name], dims, values)
    _substitute(graph_values, values)
    return load(model)


def _misnamed(info: onnx.ValueInfoProto, dims: tuple[int, ...]) -> Iterator[str]:
    """Yield the dimension names that have two sizes in one shape."""
    sizes: dict[str, int] = {}
    for d, size in zip(info.type.tensor_type.shape.dim, dims, strict=False):
        if d.dim_param and sizes.setdefault(d.dim_param, size) != size:
            yield d.dim_param


def _forget(infos: Iterable[onnx.ValueInfoProto], names: Collection[str]) -> None:
    for info in infos:
        for d in info.type.tensor_type.shape.dim:
            if d.dim_param in names:
                d.Clear()


def _fix(info: onnx.ValueInfoProto, dims: tuple[int, ...], values: dict[str, int]) -> None:
    shape = info.type.tensor_type.shape
    declared = [d.dim_param or d.dim_value or "?" for d in shape.dim]
    has_shape = info.type.tensor_type.HasField("shape")
    if any(not 0 <= d < 2**63 for d in dims) or (has_shape and len(dims) != len(shape.dim)):
        raise ModelError(f"input {info.name!r} has shape {declared}, which cannot be {list(dims)}")
    if not has_shape:
        shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in dims)
    for d, size in zip(shape.dim, dims, strict=True):
        # Exporters write negative sizes for unknown ones.
        fixed = d.HasField("dim_value") and 0 <= d.dim_value != size
        if fixed or values.get(d.dim_param, size) != size:
            raise ModelError(
                f"input {info.name!r} has shape {declared}, which cannot be {list(dims)}"
            )
        if d.dim_param:
            values[d.dim_param] = size
        d.dim_value = size


def _substitute(infos: Iterable[onnx.ValueInfoProto], values: Mapping[str, int]) -> None:
    for info in infos:
        for d in info.type.tensor_type.shape.dim:
            if d.dim_param in values:
                d.dim_value = values[d.dim_param]
