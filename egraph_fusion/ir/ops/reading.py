"""What declarations of operators read: attributes, and the types of operands."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.ir.dims import Dim, Shape, product
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.tensors import DType, TensorType

Types = Sequence[TensorType | None]


class TypeRuleError(EgraphFusionError):
    """An operator cannot be applied to these operand types or attributes."""


def normal_axis(axis: int, rank: int, op: str = "operator") -> int:
    """Return `axis` counted from the front; TypeRuleError if it is outside `rank`."""
    if not -rank <= axis < rank:
        raise TypeRuleError(f"{op}: axis {axis} is outside the operand's rank {rank}")
    return axis % rank


def must_broadcast_into(name: str, part: Shape | None, whole: Shape | None) -> None:
    """Raise TypeRuleError if broadcasting `part` with `whole` is known to give another shape."""
    if part is None or whole is None:
        return
    pairs = zip(reversed(part), reversed(whole), strict=False)
    clash = (isinstance(p, int) and isinstance(w, int) and p not in (1, w) for p, w in pairs)
    if len(part) > len(whole) or any(clash):
        raise TypeRuleError(f"{name}: an operand of shape {part} does not broadcast into {whole}")


def must_be_vector(name: str, vector: Shape | None, length: Dim | None) -> None:
    """Raise TypeRuleError unless an operand may be a vector of this length (None: of any)."""
    if vector is None:
        return
    if len(vector) != 1:
        raise TypeRuleError(f"{name}: an operand of shape {vector}, expected a vector")
    if isinstance(length, int) and isinstance(vector[0], int) and vector[0] != length:
        raise TypeRuleError(f"{name}: a vector of {vector[0]} elements, expected {length}")


def integer(attrs: Attrs, name: str) -> int:
    """Return the integer attribute `name`; TypeRuleError if it is missing or not an integer."""
    value = attrs.get(name)
    if not isinstance(value, int):
        raise TypeRuleError(f"attribute {name} must be an integer, got {value!r}")
    return value


def number(attrs: Attrs, name: str) -> float:
    """Return the numeric attribute `name`; TypeRuleError if it is missing or not a number."""
    value = attrs.get(name)
    if not isinstance(value, int | float):
        raise TypeRuleError(f"attribute {name} must be a number, got {value!r}")
    return float(value)


def integers(attrs: Attrs, name: str) -> tuple[int, ...]:
    """Return the attribute `name` as integers; TypeRuleError if it is missing or holds others."""
    value = attrs.get(name)
    if not isinstance(value, tuple | list) or not all(isinstance(v, int) for v in value):
        raise TypeRuleError(f"attribute {name} must hold integers, got {value!r}")
    return tuple(int(v) for v in value)


def types_of(values: Sequence[Array | None]) -> tuple[TensorType | None, ...]:
    """Return the types of arrays; None for an absent one."""
    return tuple(None if v is None else TensorType(DType.of(v.dtype), v.shape) for v in values)


def known_shape(types: Types, operand: int = 0) -> Shape | None:
    """Return the shape of an operand, or None if it is absent or of unknown rank."""
    found = types[operand] if operand < len(types) else None
    return None if found is None else found.shape


def first(types: Types) -> TensorType:
    """Return the first operand's type, which must be present."""
    if not types or types[0] is None:
        raise TypeRuleError("the first operand is missing")
    return types[0]


def present(types: Types) -> list[TensorType]:
    """Return the types of the operands that are present."""
    return [t for t in types if t is not None]


def same_dtype(types: Types) -> DType:
    """Return the common dtype of all present operands; TypeRuleError if they differ."""
    found = {t.dtype for t in types if t is not None}
    if len(found) != 1:
        names = ", ".join(str(t) for t in types if t is not None)
        raise TypeRuleError(f"operands must share one dtype, got {names}")
    return found.pop()


def elements(out: Sequence[TensorType], per_element: int = 1) -> Dim:
    """Return `per_element` operations for each element of the first output (0 if unknown rank)."""
    shape = out[0].shape
    return 0 if shape is None else per_element * product(shape)
