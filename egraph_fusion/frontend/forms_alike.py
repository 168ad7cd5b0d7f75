"""Whether a node can stand in another opset as it is: at most the dtypes it takes have changed."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx.defs import OpSchema

from egraph_fusion.frontend.inference import onnx_name, schema_of
from egraph_fusion.ir.tensors import DType, TensorType


def alike(op: str, old_opset: int, new_opset: int) -> bool:
    """Whether an operator has one form in both opsets, and takes in the new all that it took."""
    old, new = schema_of(op, "", old_opset), schema_of(op, "", new_opset)
    if old is None or new is None:
        return False
    return old.since_version == new.since_version or (_one_form(old, new) and not _lost(old, new))


def alike_for(
    proto: onnx.NodeProto, types: Sequence[TensorType | None], old_opset: int, new_opset: int
) -> bool:
    """Whether a node can stand in the new opset, `types` being those of its operands and results.

    Operands come first, absent ones as None, then results.
    """
    old, new = (schema_of(proto.op_type, "", v) for v in (old_opset, new_opset))
    if old is None or new is None or not _one_form(old, new):
        return False
    lost = _lost(old, new)
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in new.type_constraints}
    formals = [*_formals(new.inputs, len(proto.input)), *_formals(new.outputs, len(proto.output))]
    seen = {f.type_str for f, t in zip(formals, types, strict=False) if t is not None}
    if not lost <= seen:
        return False
    return all(
        kind is None
        or (kind.dtype is not DType.OTHER and onnx_name(kind.dtype) in allowed[f.type_str])
        for f, kind in zip(formals, types, strict=False)
        if f.type_str in lost
    )


def _formals(
    formals: Sequence[OpSchema.FormalParameter], count: int
) -> list[OpSchema.FormalParameter]:
    """Return the declaration of each of `count` values; the last one may stand for many."""
    return [formals[min(i, len(formals) - 1)] for i in range(count)] if formals else []


def _one_form(old: OpSchema, new: OpSchema) -> bool:
    """Whether two declarations agree in attributes, defaults, operands and results."""
    return not new.deprecated and _signature(old) == _signature(new)


def _signature(schema: OpSchema) -> tuple[object, ...]:
    attributes = {
        name: (a.type, a.required, a.default_value.SerializeToString())
        for name, a in schema.attributes.items()
    }
    numbers = {name: i for i, name in enumerate(_variables(schema))}
    values = [
        [
            (numbers.get(f.type_str, f.type_str), f.option, f.is_homogeneous, f.min_arity)
            for f in side
        ]
        for side in (schema.inputs, schema.outputs)
    ]
    return attributes, values


def _variables(schema: OpSchema) -> list[str]:
    """Return the type variables in the order in which operands and results name them.

    Versions may call them otherwise.
    """
    declared = {c.type_param_str for c in schema.type_constraints}
    named = (f.type_str for f in (*schema.inputs, *schema.outputs))
    return list(dict.fromkeys(name for name in named if name in declared))


def _lost(old: OpSchema, new: OpSchema) -> set[str]:
    """Return the type variables of the new declaration that take less than in the old one."""
    before, after = (
        {c.type_param_str: set(c.allowed_type_strs) for c in s.type_constraints} for s in (old, new)
    )
    pairs = zip(_variables(old), _variables(new), strict=True)
    return {theirs for ours, theirs in pairs if not before[ours] <= after[theirs]}
