"""Tensors of a model file as read-only arrays: inline, sparse or in external data files."""

from __future__ import annotations

import mmap
import os
import sys
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.graph import Array

_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
_PACKED_BITS: dict[int, int] = {
    TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.UINT2: 2,
    TensorProto.INT2: 2,
}
_PER_COMPLEX = {TensorProto.COMPLEX64, TensorProto.COMPLEX128}


def read_tensor(tensor: TensorProto, folder: Path | None) -> Array:
    """Return the array of a TensorProto, read-only.

    External data is looked up below `folder` (None: there is none) and memory-mapped.  Raises
    ModelError for an unknown dtype, a size that does not fit the data, or a file that is missing,
    too short or outside the folder.
    """
    where = f"tensor {tensor.name!r}"
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_type == 0:
        raise ModelError(f"{where} has element type {tensor.data_type}, which ONNX does not know")
    if any(d < 0 for d in tensor.dims):
        raise ModelError(f"{where} has the impossible shape {list(tensor.dims)}")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _read_external(tensor, where, folder)
    if tensor.data_type == TensorProto.STRING:
        return _read_strings(tensor, where)
    if tensor.HasField("raw_data"):
        return _read_raw(tensor, where)
    found = max(len(getattr(tensor, field)) for field in _TYPED_FIELDS)
    _check_length(tensor, where, _typed_length(tensor), found, "entries")
    array = np.asarray(numpy_helper.to_array(tensor))
    array.flags.writeable = False
    return array


def _read_raw(tensor: TensorProto, where: str) -> Array:
    raw = tensor.raw_data
    _check_length(tensor, where, _byte_size(tensor), len(raw), "bytes")
    if tensor.data_type in _PACKED_BITS or sys.byteorder != "little":
        return np.asarray(numpy_helper.to_array(tensor))
    return np.frombuffer(raw, _dtype(tensor)).reshape(tuple(tensor.dims))


def _check_length(tensor: TensorProto, where: str, expected: int, found: int, unit: str) -> None:
    if expected and not found:
        raise ModelError(
            f"{where} of shape {list(tensor.dims)} holds no data; a skeleton's weights have to be "
            "filled in first (egraph_fusion.frontend.example_models.materialize)"
        )
    if expected != found:
        shape = list(tensor.dims)
        raise ModelError(f"{where} of shape {shape} needs {expected} {unit}, but holds {found}")


def _packed_size(tensor: TensorProto) -> int | None:
    bits = _PACKED_BITS.get(tensor.data_type)
    count: int = prod(tensor.dims)
    return None if bits is None else -(-count * bits // 8)


def _typed_length(tensor: TensorProto) -> int:
    packed = _packed_size(tensor)
    count: int = prod(tensor.dims)
    if packed is not None:
        return packed
    return 2 * count if tensor.data_type in _PER_COMPLEX else count


def _byte_size(tensor: TensorProto) -> int:
    packed = _packed_size(tensor)
    dense: int = prod(tensor.dims) * _dtype(tensor).itemsize
    return dense if packed is None else packed


def _dtype(tensor: TensorProto) -> np.dtype[Any]:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))


def _read_strings(tensor: TensorProto, where: str) -> Array:
    if len(tensor.string_data) != prod(tensor.dims):
        raise ModelError(
            f"{where} of shape {list(tensor.dims)} holds {len(tensor.string_data)} strings"
        )
    texts = [s.decode("utf-8", "surrogateescape") for s in tensor.string_data]
    array = np.array(texts, dtype=object).reshape(tuple(tensor.dims))
    array.flags.writeable = False
    return array


def _read_external(tensor: TensorProto, where: str, folder: Path | None) -> Array:
    if folder is None:
        raise ModelError(f"{where} lies in an external file, but the model has no folder")
    entries = {e.key: e.value for e in tensor.external_data}
    path = contained(folder, entries.get("location", ""), where)
    size = _byte_size(tensor)
    offset, length = _number(entries, "offset", 0, where), _number(entries, "length", size, where)
    available = path.stat().st_size
    if length != size or offset + size > available:
        raise ModelError(
            f"{where} of shape {list(tensor.dims)} needs {size} bytes at offset {offset} of "
            f"{path.name}, which has {available} (declared length {length})"
        )
    if size == 0:
        return np.empty(tuple(tensor.dims), _dtype(tensor))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if tensor.data_type in _PACKED_BITS:
        inline = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        inline.raw_data = mapped[offset : offset + size]
        return np.asarray(numpy_helper.to_array(inline))
    flat = np.frombuffer(mapped, _dtype(tensor), prod(tensor.dims), offset)
    return flat.reshape(tuple(tensor.dims))


def contained(folder: Path, location: str, where: str) -> Path:
    """Return the external file `location` below `folder`.

    ModelError if it is missing, absolute, climbs out by `..` or leaves the folder through a link.
    """
    relative = PurePosixPath(location)
    if not location or "\0" in location or relative.is_absolute() or ".." in relative.parts:
        raise ModelError(
            f"{where} names the external file {location!r}; "
            "expected a path inside the model's folder"
        )
    path = folder / relative
    inside = os.path.realpath(folder)
    if os.path.commonpath([inside, os.path.realpath(path)]) != inside:
        raise ModelError(f"{where}: external file {location!r} leads out of the model's folder")
    if path.is_dir():
        raise ModelError(
            f"{where} names the external file {location!r}, but {path} is a directory; "
            "expected a file with the tensor's data"
        )
    if not path.is_file():
        raise ModelError(f"{where} needs the external file {path}, which does not exist")
    return path


def _number(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise ModelError(f"{where}: {key} of the external data is {text!r}; expected a number")
    return int(text)


def read_sparse(sparse: onnx.SparseTensorProto, folder: Path | None) -> Array:
    """Return the dense array of a sparse tensor (indices linear, or one row per element)."""
    where = f"sparse tensor {sparse.values.name!r}"
    values, indices = read_tensor(sparse.values, folder), read_tensor(sparse.indices, folder)
    dims = tuple(sparse.dims)
    if any(d < 0 for d in dims) or prod(dims) > 2**31:
        raise ModelError(f"{where} has the impossible or too large shape {list(dims)}")
    positions = indices.reshape(len(values), -1) if indices.ndim == 2 else indices
    try:
        dense = np.zeros(dims, values.dtype)
    except MemoryError as error:
        raise ModelError(f"{where} of shape {list(dims)}: {error}") from error
    try:
        if positions.ndim == 2:
            dense[tuple(positions.T)] = values
        else:
            dense.reshape(-1)[positions] = values
    except (IndexError, ValueError) as error:
        raise ModelError(f"{where}: an index lies outside the shape {list(dims)}") from error
    dense.flags.writeable = False
    return dense
