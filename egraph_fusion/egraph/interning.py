"""Ids for the values that e-graph programs mention: attributes, types, shapes and dtypes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from egraph_fusion.ir.dims import Shape
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.tensors import DType, TensorType

Bundle = tuple[TensorType | None, ...]


class Typed(NamedTuple):
    """What the type of an e-class says: one type per output, None for an absent one."""

    types: Bundle


class Interner:
    """Gives every value a small integer, the same for equal values; 0.0 and -0.0 differ."""

    def __init__(self) -> None:
        """Start with no value but the dtypes."""
        self._ids: dict[tuple[str, str], int] = {}
        self._values: list[Any] = []
        self.new_types: list[int] = []
        self.new_whole: list[int] = []
        for dtype in DType:
            self.dtype(dtype)

    def value(self, key: int) -> Any:
        """Return the value with this id."""
        return self._values[key]

    def attr(self, value: AttrValue | None) -> int:
        """Return the id of an attribute value; None stands for an absent attribute.

        New floats without a fraction are listed in `new_whole`.
        """
        size = len(self._values)
        key = self._id(f"attr {type(value).__name__}", repr(value), value)
        if key == size and isinstance(value, float) and value.is_integer():
            self.new_whole.append(key)
        return key

    def number(self, value: float) -> int:
        """Return the id of a number: the same as that of the float attribute."""
        return self.attr(float(value))

    def exactly(self, value: Fraction) -> int:
        """Return the id of a real number: that of the float that it is, if it is one."""
        nearest = float(value)
        if Fraction(nearest) == value:
            return self.number(nearest)
        return self._id("exactly", str(value), value)

    def shape(self, shape: Shape) -> int:
        """Return the id of a shape."""
        return self._id("shape", repr(shape), shape)

    def dtype(self, dtype: DType) -> int:
        """Return the id of an element type."""
        return self._id("dtype", dtype.value, dtype)

    def types(self, types: Bundle) -> int:
        """Return the id of the types of a node's outputs; new ones are listed in `new_types`."""
        size = len(self._values)
        key = self._id("types", "; ".join(map(str, types)), Typed(types))
        if key == size:
            self.new_types.append(key)
        return key

    def _id(self, kind: str, text: str, value: Any) -> int:
        key = (kind, text)
        if key not in self._ids:
            self._ids[key] = len(self._values)
            self._values.append(value)
        return self._ids[key]
