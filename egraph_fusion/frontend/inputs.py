"""Seeded inputs that a model accepts: what checks, benchmarks and the demo feed it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.dims import Dim, substitute
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.index_ranges import INDEX_CARRIERS

# Edge in pixels of the patches of an example image.
PATCH = 32
MOST_ELEMENTS = 2**28
"""Of an input that is made up: a gigabyte of float32, and eight times as much while it is made."""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class _Use:
    """A node as far as indices matter; `axis` is a Gather's."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axis: int


def example_inputs(
    model: onnx.ModelProto | Graph, seed: int = 0, dims: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Seeded inputs for every input without a default, by name.

    Floats are standard normal (four-dimensional ones: coloured patches under noise); integers that
    index a constant table are in its range, others are 0/1 masks whose last eighth is 0; booleans
    are fair coins.  `dims` gives symbolic dimensions their sizes (else 1).  A model and its graph
    get the same arrays.  Raises ModelError for an input that is no tensor of known rank, or whose
    dtype is none of these, or that has more than `MOST_ELEMENTS` elements.
    """
    sizes = dims or {}
    if isinstance(model, Graph):
        tables, uses = _graph_tables(model), list(_graph_uses(model))
        wanted = [
            (v, *_graph_kind(model, v, sizes)) for v in model.inputs if v not in model.defaults
        ]
    else:
        tables, uses = _model_tables(model.graph), list(_model_uses(model.graph))
        open_inputs = [v for v in model.graph.input if v.name not in tables]
        wanted = [(v.name, *_model_kind(v, sizes)) for v in open_inputs]
    return {
        name: _input(name, dtype, shape, _table_rows(name, tables, uses), f"{seed}/{name}")
        for name, dtype, shape in wanted
    }


def words(key: str, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return `count` random 64-bit words, the same for the same key on every machine."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.asarray(np.random.PCG64(seed).random_raw(count), np.uint64)


def normal(key: str, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Nearly normal, mean 0, variance 1: the scaled sum of four 16-bit integers (Irwin-Hall)."""
    quarters = words(key, count).astype("<u8").view("<u2").reshape(count, 4)
    total = quarters.sum(axis=1, dtype=np.int64)
    values: np.ndarray[Any, np.dtype[np.float64]] = (total - 2 * 65535).astype(np.float64)
    return values / math.sqrt((65536**2 - 1) / 3)


def _graph_kind(
    graph: Graph, name: str, sizes: Mapping[str, int]
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    kind = graph.types[name]
    if kind.shape is None:
        raise ModelError(f"input {name!r}: expected a tensor of known rank")
    return kind.dtype.numpy, tuple(_known(d, sizes) for d in kind.shape)


def _known(dim: Dim, sizes: Mapping[str, int]) -> int:
    found = substitute(dim, sizes)
    return found if isinstance(found, int) else 1


def _model_kind(
    value: onnx.ValueInfoProto, sizes: Mapping[str, int]
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        raise ModelError(f"input {value.name!r}: expected a tensor of known rank")
    shape = tuple(
        d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param, 1)
        for d in tensor.shape.dim
    )
    return helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape


def _graph_tables(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {v: c.array.shape for v, c in (*graph.constants.items(), *graph.defaults.items())}


def _model_tables(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def _graph_uses(graph: Graph) -> Iterator[_Use]:
    for n in graph.nodes:
        axis = n.attrs.get("axis", 0)
        yield _Use(n.op, n.inputs, n.outputs, axis if isinstance(axis, int) else 0)


def _model_uses(graph: onnx.GraphProto) -> Iterator[_Use]:
    for n in graph.node:
        axis = next((a.i for a in n.attribute if a.name == "axis"), 0)
        yield _Use(n.op_type, tuple(n.input), tuple(n.output), axis)


def _table_rows(
    name: str, tables: Mapping[str, tuple[int, ...]], uses: Iterable[_Use]
) -> int | None:
    """Rows of the smallest constant table that `name` indexes, None if it indexes none."""
    names, rows = {name}, list[int]()
    for use in uses:
        if use.op in INDEX_CARRIERS and use.inputs[0] in names:
            names.update(use.outputs)
        if use.op == "Gather" and use.inputs[1] in names and use.inputs[0] in tables:
            rows.append(tables[use.inputs[0]][use.axis])
    return min(rows, default=None)


def _input(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], rows: int | None, key: str
) -> Array:
    count = math.prod(shape)
    if any(d < 0 for d in shape):
        raise ModelError(f"input {name!r}: shape {list(shape)} has a negative size")
    if count > MOST_ELEMENTS:
        raise ModelError(
            f"input {name!r}: shape {list(shape)} has more than {MOST_ELEMENTS} elements"
        )
    if dtype.kind in "iu":
        return _integers(key, shape, rows).astype(dtype)
    if dtype.kind == "b":
        return (words(key, count) >> np.uint64(63)).astype(np.bool_).reshape(shape)
    if dtype.kind not in "fV":
        told = "text" if dtype.kind in "OSU" else dtype
        raise ModelError(f"input {name!r}: values of dtype {told} cannot be made up")
    noise = normal(key, count).reshape(shape)
    return (_image(noise, key) if len(shape) == 4 else noise).astype(dtype)


def _image(noise: Array, key: str) -> Array:
    """Patches of one colour each under noise: white noise alone averages out in any deep net."""
    *lead, height, width = noise.shape
    rows, columns = -(-height // PATCH), -(-width // PATCH)
    colours = normal(f"{key}/patches", math.prod((*lead, rows, columns)))
    patches = colours.reshape(*lead, rows, columns).repeat(PATCH, -2).repeat(PATCH, -1)
    return patches[..., :height, :width] * 0.8 + noise * 0.6


def _integers(key: str, shape: tuple[int, ...], rows: int | None) -> Array:
    if rows is not None:
        indices = words(key, math.prod(shape)) % np.uint64(rows)
        return indices.astype(np.int64).reshape(shape)
    length = shape[-1] if shape else 1
    mask = np.arange(length) < length - length // 8
    return np.broadcast_to(mask, shape or (1,)).astype(np.int64).reshape(shape)
