"""ONNX types and dimension names, read as the IR's types and symbols and written back."""

from __future__ import annotations

import re

import onnx
from onnx import TensorProto

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.dims import Dim, Poly, symbol
from egraph_fusion.ir.tensors import DType, TensorType

ELEMENT_TYPES: dict[int, DType] = {
    TensorProto.BOOL: DType.BOOL,
    TensorProto.INT8: DType.INT8,
    TensorProto.INT16: DType.INT16,
    TensorProto.INT32: DType.INT32,
    TensorProto.INT64: DType.INT64,
    TensorProto.UINT8: DType.UINT8,
    TensorProto.UINT16: DType.UINT16,
    TensorProto.UINT32: DType.UINT32,
    TensorProto.UINT64: DType.UINT64,
    TensorProto.FLOAT16: DType.FLOAT16,
    TensorProto.BFLOAT16: DType.BFLOAT16,
    TensorProto.FLOAT: DType.FLOAT32,
    TensorProto.DOUBLE: DType.FLOAT64,
    TensorProto.COMPLEX64: DType.COMPLEX64,
    TensorProto.COMPLEX128: DType.COMPLEX128,
    TensorProto.STRING: DType.STRING,
}
ELEMENT_CODES: dict[DType, int] = {dtype: code for code, dtype in ELEMENT_TYPES.items()}
_KNOWN_CODES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}

UNKNOWN = TensorType(DType.OTHER, None)


class DimNames:
    """The dimension names of one model: ONNX's `dim_param` on one side, IR symbols on the other.

    A name that is not an identifier gets a readable identifier of its own, so that a printed
    dimension can be parsed back; the header keeps the original for export.
    """

    def __init__(self) -> None:
        self._symbols: dict[str, Poly] = {}
        self._taken: set[str] = set()
        self._sent: dict[str, Dim] = {}

    def named(self, param: str) -> Dim:
        """Return the symbol for the dimension that the model calls `param`."""
        if param not in self._symbols:
            self._symbols[param] = self.fresh(param)
        return self._symbols[param]

    def fresh(self, hint: str) -> Poly:
        """Return a symbol that no other dimension has, named after `hint`."""
        base = re.sub(r"\W", "_", hint, flags=re.ASCII) or "d"
        base = base if not base[0].isdigit() else f"d{base}"
        name, count = base, 1
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return symbol(name)

    def send(self, dim: Dim) -> str:
        """Return a `dim_param` under which `receive` finds `dim` again."""
        key = f"dim:{dim}"
        self._sent[key] = dim
        return key

    def receive(self, param: str, hint: str) -> Dim:
        """Return the dimension sent as `param`, else a fresh one."""
        return self._sent[param] if param in self._sent else self.fresh(hint)


def element_type(code: int, where: str) -> DType:
    """Return the element type with ONNX's number `code`; ModelError if ONNX has none such."""
    if code not in _KNOWN_CODES:
        raise ModelError(f"{where} has element type {code}, which is no ONNX element type")
    return ELEMENT_TYPES.get(code, DType.OTHER)


def read_input(info: onnx.ValueInfoProto, names: DimNames) -> TensorType:
    """Return the type of a graph input, whose declared shape callers must honour.

    Unnamed dimensions get fresh symbols, and so do sizes of -1, which exporters write for unknown.
    Raises ModelError for a missing type, an unknown element type or another negative size.
    """
    where = f"input {info.name!r}"
    kind = info.type.WhichOneof("value")
    if kind is None:
        raise ModelError(f"{where} has no type; a graph input must declare one")
    if kind != "tensor_type":
        return UNKNOWN
    tensor = info.type.tensor_type
    dtype = element_type(tensor.elem_type, where)
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    dims = tuple(
        _read_dim(d, f"{where}, axis {i}", f"{info.name}_{i}", names)
        for i, d in enumerate(tensor.shape.dim)
    )
    return TensorType(dtype, dims)


def _read_dim(dim: onnx.TensorShapeProto.Dimension, where: str, hint: str, names: DimNames) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value != -1:
        if dim.dim_value < 0:
            raise ModelError(
                f"{where} has size {dim.dim_value}; sizes are not negative "
                "(name the dimension, or leave it out, if it is unknown)"
            )
        return dim.dim_value
    return names.named(dim.dim_param) if dim.dim_param else names.fresh(hint)


def read_inferred(proto: onnx.TypeProto, value: str, names: DimNames) -> TensorType:
    """Return an inferred type; what inference left open becomes fresh symbols."""
    if proto.WhichOneof("value") != "tensor_type":
        return UNKNOWN
    tensor = proto.tensor_type
    dtype = ELEMENT_TYPES.get(tensor.elem_type, DType.OTHER)
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    dims: list[Dim] = []
    for i, dim in enumerate(tensor.shape.dim):
        known = dim.HasField("dim_value") and dim.dim_value >= 0
        hint = f"{value}_{i}"
        dims.append(dim.dim_value if known else names.receive(dim.dim_param, hint))
    return TensorType(dtype, tuple(dims))


def write_type(kind: TensorType, names: DimNames | None = None) -> onnx.TypeProto:
    """Return the ONNX type; symbolic dims are sent through `names`, or left open without it."""
    proto = onnx.TypeProto()
    tensor = proto.tensor_type
    tensor.elem_type = ELEMENT_CODES.get(kind.dtype, TensorProto.UNDEFINED)
    if kind.shape is None:
        return proto
    tensor.shape.SetInParent()
    for dim in kind.shape:
        entry = tensor.shape.dim.add()
        if isinstance(dim, int):
            entry.dim_value = dim
        elif names is not None:
            entry.dim_param = names.send(dim)
    return proto
