"""One ONNX node read: into its normal form if the registry takes it, else carried as it is."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import onnx

from egraph_fusion.errors import EgraphFusionError, ModelError
from egraph_fusion.frontend.branches import taken_branch
from egraph_fusion.frontend.forms import CannotReadError, Form, Raw, Reading, decode, reader_of
from egraph_fusion.frontend.inference import dtype_complaint, schema_of
from egraph_fusion.frontend.scopes import captures, subgraphs
from egraph_fusion.frontend.versions import REVIEWED_OPSET
from egraph_fusion.frontend.weights import read_tensor
from egraph_fusion.frontend.workspace import Workspace, fold, follow, shape_arithmetic
from egraph_fusion.ir.graph import AttrValue, Constant, Node, frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import Attr, Operator, normalized
from egraph_fusion.ir.ops.reading import TypeRuleError
from egraph_fusion.ir.tensors import DType, TensorType

_NOT_COMPUTED_ON = {DType.OTHER, DType.STRING, DType.COMPLEX64, DType.COMPLEX128}
# What the registry refuses of these on static shapes is impossible; ONNX's inference lets it pass.
_TRUSTED = {"Conv", "Reshape", "Split", "Transpose"}
_KINDS: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "float": (int, float),
    "str": str,
    "ints": int,
    "floats": (int, float),
    "strs": str,
}


def read_node(space: Workspace, proto: onnx.NodeProto) -> list[Node]:
    """Read one node, entering its results in `space`; ModelError if no reading makes sense.

    Gives no node if the results were folded, several where the old form has no single new one.
    """
    branch = taken_branch(space, proto)
    if branch is not None:
        return [node for inner in branch for node in read_node(space, inner)]
    form = None
    try:
        form = _form(space, proto)
        _check_schema(space, proto)
        return _declared(space, proto, form)
    except CannotReadError as error:
        return [_opaque(space, proto, form, str(error), impossible=False)]
    except TypeRuleError as error:
        return [_opaque(space, proto, form, str(error), impossible=True)]
    except MemoryError as error:
        raise ModelError(f"{describe(proto, space.types)}: it cannot be read: {error}") from error


def describe(proto: onnx.NodeProto, types: dict[str, TensorType]) -> str:
    """Return how messages show a node: name, operator, operands with their types."""
    name = proto.name or next((o for o in proto.output if o), "?")
    operands = ", ".join(f"{v}: {types[v]}" if v in types else (v or "-") for v in proto.input)
    return f"node {name!r}: {proto.op_type}({operands})"


def _form(space: Workspace, proto: onnx.NodeProto) -> Form:
    if proto.domain:
        raise CannotReadError(f"it belongs to the domain {proto.domain!r}")
    if any(subgraphs(proto)):
        raise CannotReadError("it holds graphs of its own")
    attrs: dict[str, Raw] = {}
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            attrs[attribute.name] = read_tensor(attribute.t, None)
        else:
            attrs[attribute.name] = decode(attribute)
    inputs = tuple(proto.input)
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    return Form(
        op=proto.op_type,
        opset=space.opset,
        inputs=inputs,
        outputs=tuple(proto.output),
        attrs=attrs,
        types=tuple(space.types[v] if v else None for v in inputs),
        values={i: space.arrays[v] for i, v in enumerate(inputs) if v in space.arrays},
        dims={i: space.dims[v] for i, v in enumerate(inputs) if v in space.dims},
        used=tuple(v in space.used for v in proto.output),
    )


def _check_schema(space: Workspace, proto: onnx.NodeProto) -> None:
    schema = schema_of(proto.op_type, "", space.opset)
    if schema is not None and schema.since_version > REVIEWED_OPSET:
        raise CannotReadError(
            f"its form of opset {schema.since_version} is newer than this package"
        )
    complaint = "" if schema is None else dtype_complaint(proto, schema, space.types)
    if complaint and proto.op_type != "Constant":  # runtimes read odd constants that ONNX forbids
        raise ModelError(f"{describe(proto, space.types)}: {complaint}")


def _declared(space: Workspace, proto: onnx.NodeProto, form: Form) -> list[Node]:
    known = shape_arithmetic(space, form)
    if known:
        return []
    read = reader_of(form.op, form.opset)(form)
    readings = [read] if isinstance(read, Reading) else list(read)
    nodes: list[Node] = []
    for reading in readings:
        nodes.extend(_apply(space, proto, form, reading, alone=len(readings) == 1))
    follow(space, form)
    return nodes


def _apply(
    space: Workspace, proto: onnx.NodeProto, form: Form, reading: Reading, *, alone: bool
) -> list[Node]:
    operator = OPERATORS.get(reading.op)
    if operator is None:
        raise CannotReadError(f"operator {reading.op} has no declaration")
    fresh = {v: space.fresh(f"{form.outputs[0]}_{v}") for v in reading.constants}
    inputs = tuple(fresh.get(v, v) for v in reading.inputs)
    for hint, array in reading.constants.items():
        space.define(fresh[hint], array)
    types = tuple(space.types[v] if v else None for v in inputs)
    _check_operands(operator, types)
    attrs = _completed(operator, types, reading)
    outputs = _outputs(operator, form, reading)
    results = operator.infer(types, attrs)
    if len(results) < len(outputs):
        raise CannotReadError(f"{len(outputs)} outputs, of which {len(results)} are computed")
    results = _sharpened(space, proto, outputs, results) if alone else results
    for value, kind in zip(outputs, results, strict=False):
        if value:
            space.types[value] = kind
    if fold(space, operator, attrs, inputs, outputs, results):
        return []
    absorbed = {i: Constant.of(form.values[i]) for i in reading.absorbed if i in form.values}
    return [
        Node(
            op=reading.op,
            inputs=inputs,
            outputs=outputs,
            attrs=frozen_attrs(attrs),
            name=proto.name if alone else "",
            payload=proto.SerializeToString(deterministic=True) if alone else b"",
            absorbed=MappingProxyType(absorbed),
        )
    ]


def _check_operands(operator: Operator, types: Sequence[TensorType | None]) -> None:
    low, high = operator.arity
    if len(types) < low or (high is not None and len(types) > high):
        raise CannotReadError(f"{len(types)} operands, declared are {low} to {high or 'many'}")
    if any(t is None for t in types[:low]):
        raise CannotReadError("a needed operand is missing")
    for kind in types:
        if kind is not None and kind.dtype in _NOT_COMPUTED_ON:
            raise CannotReadError(f"an operand is {kind}, which is carried but not computed on")


def _completed(
    operator: Operator, types: Sequence[TensorType | None], reading: Reading
) -> dict[str, AttrValue]:
    kinds = {a.name: a for a in operator.attrs}
    for name, value in reading.attrs.items():
        if name in kinds and not _fits(kinds[name], value):
            raise TypeRuleError(f"attribute {name} is {value!r}, expected {kinds[name].kind}")
    try:
        return normalized(operator, types, reading.attrs)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise TypeRuleError(f"its attributes cannot be used: {error}") from error


def _fits(attr: Attr, value: AttrValue) -> bool:
    expected = _KINDS[attr.kind]
    if attr.kind.endswith("s"):
        return isinstance(value, tuple) and all(isinstance(v, expected) for v in value)
    return isinstance(value, expected)


def _outputs(operator: Operator, form: Form, reading: Reading) -> tuple[str, ...]:
    """Return the outputs that the declaration computes; CannotReadError if another one is used."""
    outputs = reading.outputs or form.outputs
    while outputs and (not outputs[-1]):
        outputs = outputs[:-1]
    if operator.outputs is None or reading.outputs:
        return outputs
    if any(form.used[operator.outputs : len(outputs)]):
        raise CannotReadError(f"output {operator.outputs + 1} or a later one is used")
    return outputs[: operator.outputs]


def _sharpened(
    space: Workspace, proto: onnx.NodeProto, outputs: Sequence[str], results: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    """Take the rank from ONNX's inference where the registry's rule left it open."""
    if all(t.shape is not None for t in results):
        return tuple(results)
    try:
        inferred, _ = space.inference.infer(proto, space.types, space.arrays)
    except ModelError:
        return tuple(results)
    better: list[TensorType] = []
    for i, kind in enumerate(results):
        found = inferred.get(outputs[i]) if i < len(outputs) else None
        usable = kind.shape is None and found is not None and found.dtype is kind.dtype
        better.append(found if usable and found is not None else kind)
    return tuple(better)


def _all_static(space: Workspace, proto: onnx.NodeProto) -> bool:
    return all(space.types[v].static_shape is not None for v in proto.input if v)


def _opaque(
    space: Workspace, proto: onnx.NodeProto, form: Form | None, reason: str, *, impossible: bool
) -> Node:
    inferred, complaint = space.inference.infer(proto, space.types, space.arrays)
    if impossible and proto.op_type in _TRUSTED and _all_static(space, proto):
        complaint = reason
    if complaint and proto.op_type != "Constant":  # runtimes read odd constants that ONNX forbids
        raise ModelError(f"{describe(proto, space.types)}: {complaint}")
    space.types.update(inferred)
    attrs: dict[str, AttrValue] = {}
    for attribute in proto.attribute:
        try:
            value = decode(attribute)
        except EgraphFusionError:
            continue
        if not isinstance(value, np.ndarray):
            attrs[attribute.name] = value
    return Node(
        op=f"{proto.domain}:{proto.op_type}" if proto.domain else proto.op_type,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attrs=frozen_attrs(attrs),
        name=proto.name,
        opaque=True,
        captures=captures(proto),
        payload=proto.SerializeToString(deterministic=True),
        reason=reason,
    )
