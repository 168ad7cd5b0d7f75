"""Normal forms written as an opset wants them: what is an operand there, what an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx.defs import OpSchema, get_all_schemas_with_history

from egraph_fusion.errors import ModelError
from egraph_fusion.frontend.inference import schema_of
from egraph_fusion.frontend.types import ELEMENT_CODES
from egraph_fusion.ir.graph import Array, AttrValue, Node
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.reading import integer, integers
from egraph_fusion.ir.tensors import DType, TensorType

OLDEST_WRITTEN = 7  # the first whose operators broadcast as numpy does


class CannotWriteError(ModelError):
    """An opset has no form for a node."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a node is written for: an opset, known types and constants, a place for new ones."""

    opset: int
    types: Mapping[str, TensorType]
    arrays: Callable[[str], Array | None]
    constant: Callable[[Array, str], str]


@dataclass(frozen=True, slots=True)
class Written:
    """A node in the target's form."""

    inputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue]


Writer = Callable[[Node, Target], Written]
WRITERS: dict[str, Writer] = {}


def writes(*ops: str) -> Callable[[Writer], Writer]:
    """Enter a writer for `ops`."""

    def enter(writer: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(ops, writer))
        return writer

    return enter


def written(node: Node, target: Target) -> Written:
    """Return a declared node in the form of the target's opset; CannotWriteError if it has none."""
    schema = schema_of(node.op, "", target.opset)
    if target.opset < OLDEST_WRITTEN:
        raise CannotWriteError(
            f"node {node.label()}: new nodes need opset {OLDEST_WRITTEN}, not {target.opset}"
        )
    if schema is None or schema.deprecated:
        raise CannotWriteError(
            f"node {node.label()}: opset {target.opset} has no {node.op}{_since(node.op)}"
        )
    form = WRITERS.get(node.op, _as_it_stands)(node, target)
    return Written(form.inputs, _accepted(node, form.attrs, schema, target.opset))


def _since(op: str) -> str:
    versions = [
        s.since_version
        for s in get_all_schemas_with_history()
        if s.name == op and s.domain == "" and not s.deprecated
    ]
    return f"; it needs opset {min(versions)} or newer" if versions else ""


def _accepted(
    node: Node, attrs: Mapping[str, AttrValue], schema: OpSchema, opset: int
) -> dict[str, AttrValue]:
    """Leave out what equals ONNX's default; refuse what the opset's form does not know."""
    operator = OPERATORS.get(node.op)
    ours = {} if operator is None else {a.name: a.default for a in operator.attrs}
    kept: dict[str, AttrValue] = {}
    for name, value in attrs.items():
        formal = schema.attributes.get(name)
        if formal is None and ours.get(name) != value:
            raise CannotWriteError(
                f"node {node.label()}: {node.op} of opset {opset} has no attribute "
                f"{name} (here {value!r})"
            )
        if formal is not None and not _is_default(formal, value):
            kept[name] = value
    return kept


def _is_default(formal: Any, value: AttrValue) -> bool:
    default = formal.default_value
    if default is None or not default.name:
        return False
    match value:
        case str():
            return bool(default.s == value.encode())
        case int():
            return bool(default.type == default.INT and default.i == value)
        case float():
            return bool(default.type == default.FLOAT and default.f == np.float32(value))
        case _:
            return False


def _as_it_stands(node: Node, _target: Target) -> Written:
    return Written(node.inputs, node.attrs)


def without(node: Node, *names: str) -> dict[str, AttrValue]:
    """Return the node's attributes except `names`."""
    return {k: v for k, v in node.attrs.items() if k not in names}


def _int64(values: Sequence[int]) -> Array:
    return np.array(values, np.int64)


def _operand(node: Node, target: Target, name: str) -> str:
    return target.constant(_int64(integers(node.attrs, name)), name)


@writes("Reshape", "Expand")
def _shape(node: Node, target: Target) -> Written:
    return Written((node.inputs[0], _operand(node, target, "shape")), without(node, "shape"))


@writes("Tile")
def _tile(node: Node, target: Target) -> Written:
    return Written((node.inputs[0], _operand(node, target, "repeats")), without(node, "repeats"))


@writes("Squeeze", "Unsqueeze")
def _axes(node: Node, target: Target) -> Written:
    if target.opset < 13:
        return Written(node.inputs, node.attrs)
    return Written((node.inputs[0], _operand(node, target, "axes")), without(node, "axes"))


_AXES_OPERAND_SINCE = {"ReduceSum": 13}


@writes(*(op for op in OPERATORS if op.startswith("Reduce")))
def _reduce(node: Node, target: Target) -> Written:
    as_operand = target.opset >= _AXES_OPERAND_SINCE.get(node.op, 18)
    if not integers(node.attrs, "axes"):
        if not as_operand:
            raise CannotWriteError(
                f"node {node.label()}: opset {target.opset} has no {node.op} over no axes"
            )
        return Written(node.inputs, {**without(node, "axes"), "noop_with_empty_axes": 1})
    if not as_operand:
        return Written(node.inputs, node.attrs)
    return Written((node.inputs[0], _operand(node, target, "axes")), without(node, "axes"))


@writes("CumSum")
def _cumsum(node: Node, target: Target) -> Written:
    axis = target.constant(np.array(integer(node.attrs, "axis"), np.int64), "axis")
    return Written((node.inputs[0], axis), without(node, "axis"))


@writes("Split")
def _split(node: Node, target: Target) -> Written:
    if target.opset < 13:
        return Written(node.inputs, node.attrs)
    return Written((node.inputs[0], _operand(node, target, "split")), without(node, "split"))


@writes("Slice")
def _slice(node: Node, target: Target) -> Written:
    if target.opset < 10:
        if set(integers(node.attrs, "steps")) - {1}:
            raise CannotWriteError(
                f"node {node.label()}: opset {target.opset} slices by steps of 1 only"
            )
        return Written(node.inputs, without(node, "steps"))
    names = ("starts", "ends", "axes", "steps")
    return Written((node.inputs[0], *(_operand(node, target, n) for n in names)), {})


@writes("Pad")
def _pad(node: Node, target: Target) -> Written:
    fill = node.inputs[1:2]
    if target.opset >= 11:
        inputs = (node.inputs[0], _operand(node, target, "pads"), *fill)
        return Written(inputs, without(node, "pads"))
    if not fill or not fill[0]:
        return Written(node.inputs[:1], node.attrs)
    value = _scalar(node, target, fill[0])
    return Written(node.inputs[:1], {**node.attrs, "value": value})


def _scalar(node: Node, target: Target, value: str) -> float:
    array = target.arrays(value)
    if array is None or array.size != 1:
        raise CannotWriteError(
            f"node {node.label()}: {value!r} is computed at run time, but is an attribute "
            f"in opset {target.opset}"
        )
    return float(array.reshape(()))


@writes("Clip")
def _clip(node: Node, target: Target) -> Written:
    if target.opset >= 11:
        return Written(node.inputs, {})
    names = ("min", "max")
    bounds = {
        n: _scalar(node, target, v) for n, v in zip(names, node.inputs[1:], strict=False) if v
    }
    return Written(node.inputs[:1], bounds)


@writes("Softmax", "LogSoftmax", "Hardmax")
def _softmax(node: Node, target: Target) -> Written:
    if target.opset >= 13:
        return Written(node.inputs, node.attrs)
    axis, kind = integer(node.attrs, "axis"), target.types.get(node.inputs[0])
    shape = None if kind is None else kind.shape
    if shape is None or any(d != 1 for d in shape[axis + 1 :]):
        raise CannotWriteError(
            f"node {node.label()}: opset {target.opset} normalises the last axes only, "
            f"not axis {axis} of {kind}"
        )
    return Written(node.inputs, node.attrs)


@writes("Cast")
def _cast(node: Node, _target: Target) -> Written:
    return Written(node.inputs, {"to": _code(node, "to")})


def _code(node: Node, name: str) -> int:
    return ELEMENT_CODES[DType(str(node.attrs[name]))]


@writes("EyeLike", "QuantizeLinear", "DequantizeLinear")
def _with_element_type(node: Node, _target: Target) -> Written:
    attrs = without(node, "dtype", "output_dtype", "precision")
    for name in ("dtype", "output_dtype"):
        if node.attrs.get(name):
            attrs[name] = _code(node, name)
    return Written(node.inputs, attrs)


_DILATED_SINCE = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}


@writes(*_DILATED_SINCE)
def _pool(node: Node, target: Target) -> Written:
    plain = set(integers(node.attrs, "dilations")) <= {1}
    if plain and target.opset < _DILATED_SINCE[node.op]:
        return Written(node.inputs, without(node, "dilations"))
    return Written(node.inputs, node.attrs)


@writes("Trilu")
def _trilu(node: Node, target: Target) -> Written:
    k = integer(node.attrs, "k")
    operand = (target.constant(np.array(k, np.int64), "k"),) if k else ()
    return Written((node.inputs[0], *operand), without(node, "k"))


@writes("OneHot")
def _one_hot(node: Node, target: Target) -> Written:
    depth = target.constant(np.array(integer(node.attrs, "depth"), np.int64), "depth")
    return Written((node.inputs[0], depth, node.inputs[1]), without(node, "depth"))
