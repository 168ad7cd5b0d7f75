"""ONNX nodes as readers see them, and the table of readers by operator and opset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import AttributeProto

from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.ir.dims import Dim, Shape
from egraph_fusion.ir.graph import Array, AttrValue
from egraph_fusion.ir.tensors import TensorType


class CannotReadError(EgraphFusionError):
    """A node has no normalised form: it becomes opaque, for the reason given."""


Raw = AttrValue | Array


@dataclass(frozen=True, slots=True)
class Form:
    """One ONNX node with what is known about its operands.

    `values` holds the arrays of constant operands, by position; `dims` holds integer operands whose
    entries are known as dimensions though not as numbers; `used` says which outputs anything reads.
    """

    op: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Raw]
    types: tuple[TensorType | None, ...]
    values: Mapping[int, Array]
    dims: Mapping[int, Shape]
    used: tuple[bool, ...]

    def has(self, position: int) -> bool:
        """Whether the operand at `position` is present."""
        return position < len(self.inputs) and self.inputs[position] != ""

    def array(self, position: int, what: str) -> Array:
        """Return a constant operand; CannotReadError if it is computed at run time."""
        if position not in self.values:
            raise CannotReadError(f"{what} is computed at run time")
        return self.values[position]

    def ints(self, position: int, what: str) -> tuple[int, ...]:
        """Return a constant integer operand, flattened; CannotReadError as `array`."""
        array = self.array(position, what)
        if array.dtype.kind not in "iu":
            raise CannotReadError(f"{what} has dtype {array.dtype}, expected integers")
        return tuple(int(v) for v in array.reshape(-1))

    def shape(self, position: int = 0) -> Shape:
        """Return the shape of an operand; CannotReadError if its rank is unknown."""
        kind = self.types[position] if position < len(self.types) else None
        if kind is None or kind.shape is None:
            raise CannotReadError(f"the rank of operand {position} is unknown")
        return kind.shape

    def attr_ints(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute as integers, None if absent; CannotReadError if it holds others."""
        if name not in self.attrs:
            return None
        value = self.attrs[name]
        if not isinstance(value, tuple):
            raise CannotReadError(f"attribute {name} is {value!r}, expected integers")
        found = tuple(v for v in value if isinstance(v, int))
        if len(found) != len(value):
            raise CannotReadError(f"attribute {name} is {value!r}, expected integers")
        return found

    def attr_int(self, name: str, default: int) -> int:
        """Return an integer attribute; CannotReadError if it is of another kind."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int):
            raise CannotReadError(f"attribute {name} is {value!r}, expected an integer")
        return value

    def plain(self, *without: str) -> dict[str, AttrValue]:
        """Return the attributes except `without`; CannotReadError if a tensor is among them."""
        kept: dict[str, AttrValue] = {}
        for name, value in self.attrs.items():
            if name in without:
                continue
            if isinstance(value, np.ndarray):
                raise CannotReadError(f"attribute {name} is a tensor")
            kept[name] = value
        return kept


@dataclass(frozen=True, slots=True)
class Reading:
    """A node in normal form, its attributes not yet completed by the registry.

    `absorbed` are the operand positions of the ONNX node that became attributes.  `constants` are
    further operands to be defined, by the name that `inputs` uses.  An empty `outputs` means the
    ONNX node's own.
    """

    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue]
    absorbed: tuple[int, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict[str, Array])


Reader = Callable[[Form], Reading | Sequence[Reading]]
READERS: dict[str, list[tuple[int, Reader]]] = {}


def reads(*ops: str, since: int = 1) -> Callable[[Reader], Reader]:
    """Enter a reader for `ops` from opset `since` up to the next one entered for the same name."""

    def enter(reader: Reader) -> Reader:
        for op in ops:
            READERS.setdefault(op, []).append((since, reader))
            READERS[op].sort(key=lambda entry: entry[0])
        return reader

    return enter


def reader_of(op: str, opset: int) -> Reader:
    """Return the reader of `op` at `opset`; most operators are read as they stand."""
    chosen: Reader = as_it_stands
    for since, reader in READERS.get(op, []):
        if since <= opset:
            chosen = reader
    return chosen


def as_it_stands(form: Form) -> Reading:
    """Read a node whose ONNX form is the normal form."""
    return Reading(form.op, form.inputs, form.plain())


def operands(form: Form, *kept: int) -> tuple[str, ...]:
    """Return the operands at the positions `kept`, "" where absent, none trailing."""
    values = [form.inputs[i] if form.has(i) else "" for i in kept]
    while values and not values[-1]:
        values.pop()
    return tuple(values)


def decode(attribute: onnx.AttributeProto) -> Raw:
    """Return the value of an attribute; CannotReadError for kinds that the IR does not hold."""
    match attribute.type:
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.STRING:
            return _text(attribute.s)
        case AttributeProto.FLOATS:
            return tuple(attribute.floats)
        case AttributeProto.INTS:
            return tuple(attribute.ints)
        case AttributeProto.STRINGS:
            return tuple(_text(s) for s in attribute.strings)
        case _:
            kind = AttributeProto.AttributeType.Name(attribute.type)
            raise CannotReadError(f"attribute {attribute.name} holds a {kind}")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CannotReadError(f"attribute text {data!r} is not UTF-8") from error


def known_dims(form: Form, position: int) -> tuple[Dim, ...] | None:
    """Return an integer operand as dimensions, constant or symbolic; None if it is neither."""
    if position in form.values:
        return form.ints(position, f"operand {position}")
    return form.dims.get(position)
