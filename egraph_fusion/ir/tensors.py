"""Element types and tensor types, and how they print."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import ml_dtypes
import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, product, static


class DType(Enum):
    """An element type, named as numpy names it; the value is the name that prints."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"
    STRING = "string"
    OTHER = "other"  # float8 and narrower: carried, never computed on

    @property
    def is_float(self) -> bool:
        """Whether this is a real floating-point type."""
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type (not bool)."""
        return self.value.startswith(("int", "uint"))

    @property
    def is_whole(self) -> bool:
        """Whether this type holds integers alone: an integer type, or bool, of 0 and 1."""
        return self.is_integer or self is DType.BOOL

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype (ml_dtypes for bfloat16, object for strings)."""
        if self is DType.STRING or self is DType.OTHER:
            return np.dtype(object)
        dtype: np.dtype[Any] = np.dtype(
            ml_dtypes.bfloat16 if self is DType.BFLOAT16 else self.value
        )
        return dtype

    @property
    def itemsize(self) -> int:
        """Bytes per element; 1 for the narrow types that are only carried."""
        return 1 if self is DType.OTHER else self.numpy.itemsize

    @staticmethod
    def of(dtype: np.dtype[Any] | type | str) -> DType:
        """Return the DType of a numpy dtype; OTHER if there is none."""
        kind = np.dtype(dtype)
        if kind.kind in "OUS":
            return DType.STRING
        return _BY_NAME.get(kind.name, DType.OTHER)

    @staticmethod
    def named(dtype: object) -> DType | None:
        """Return what a name or a numpy dtype stands for; None if that holds no numbers."""
        if dtype is None:  # numpy takes it for float64
            return None
        try:
            kind = dtype if isinstance(dtype, DType | str) else np.dtype(cast("type", dtype)).name
        except TypeError:
            return None
        found = kind if isinstance(kind, DType) else _BY_NAME.get(kind)
        return None if found in (DType.STRING, DType.OTHER) else found


_FLOATS = {DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64}
_BY_NAME = {d.value: d for d in DType}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape of a tensor; `shape` is None when the rank is unknown."""

    dtype: DType
    shape: Shape | None

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape as integers, or None if it is not fully known."""
        return None if self.shape is None else static(self.shape)

    @property
    def size(self) -> Dim | None:
        """Number of elements."""
        return None if self.shape is None else product(self.shape)

    @property
    def nbytes(self) -> int | None:
        """Bytes of the dense tensor, or None if its size is unknown."""
        size = self.size
        return size * self.dtype.itemsize if isinstance(size, int) else None

    def __str__(self) -> str:
        """Print as `float32[1,3,224,224]`; `float32[*]` when the rank is unknown."""
        if self.shape is None:
            return f"{self.dtype.value}[*]"
        return f"{self.dtype.value}[{','.join(map(str, self.shape))}]"


def broadcast(*shapes: Shape) -> Shape | None:
    """Return the numpy broadcast of `shapes`, or None if it is undecided or impossible.

    >>> broadcast((8, 1), (3,))
    (8, 3)
    """
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out: list[Dim] = []
    for dims in zip(*padded, strict=True):
        wide = {d for d in dims if d != 1}
        if len(wide) > 1:
            return None
        out.append(wide.pop() if wide else 1)
    return tuple(out)
