"""Readers of elementwise operators, reductions, norms and casts, where their form varies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egraph_fusion.frontend.forms import (
    CannotReadError,
    Form,
    Reading,
    as_it_stands,
    operands,
    reads,
)
from egraph_fusion.frontend.opsets_quantization import element_name
from egraph_fusion.ir.dims import product, static
from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType

FIRST_BOOLEAN_MASK = 10  # the opset in which Dropout's mask became boolean
_REDUCTIONS = [
    "ReduceMean",
    "ReduceProd",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
]


@reads("ReduceSum", *_REDUCTIONS, since=1)
def _reduce_attribute(form: Form) -> Reading:
    return as_it_stands(form) if form.attr_ints("axes") else _reduce(form, form.attr_ints("axes"))


@reads("ReduceSum", since=13)
@reads(*_REDUCTIONS, since=18)
def _reduce_operand(form: Form) -> Reading:
    return _reduce(form, form.ints(1, "axes") if form.has(1) else None)


def _reduce(form: Form, axes: tuple[int, ...] | None) -> Reading:
    """No axes mean every axis, unless the node says that they mean none."""
    attrs = form.plain("axes", "noop_with_empty_axes")
    if not axes:
        noop = form.attr_int("noop_with_empty_axes", 0)
        axes = () if noop else tuple(range(len(form.shape())))
    return Reading(form.op, operands(form, 0), {**attrs, "axes": axes}, (1,) if form.has(1) else ())


@reads("CumSum", since=11)
def _cumsum(form: Form) -> Reading:
    axis = form.ints(1, "axis")
    if len(axis) != 1:
        raise CannotReadError(f"axis holds {len(axis)} numbers, expected one")
    return Reading("CumSum", operands(form, 0), {**form.plain(), "axis": axis[0]}, (1,))


@reads("Clip", since=6)
def _clip_attributes(form: Form) -> Reading:
    kind = form.types[0]
    if kind is None:
        raise CannotReadError("the type of its operand is unknown")
    bounds: dict[str, Array] = {
        name: np.asarray(form.attrs[name], kind.dtype.numpy)
        for name in ("min", "max")
        if name in form.attrs
    }
    names = [name if name in bounds else "" for name in ("min", "max")]
    while names and not names[-1]:
        names.pop()
    return Reading("Clip", (*operands(form, 0), *names), {}, constants=bounds)


@reads("Clip", since=11)
def _clip_operands(form: Form) -> Reading:
    """Read bounds that are vectors of one element, which runtimes take, as numbers."""
    vectors = {i: form.values[i] for i in (1, 2) if i in form.values and form.values[i].ndim == 1}
    bounds = {f"bound {i}": v.reshape(()) for i, v in vectors.items() if v.size == 1}
    named = enumerate(operands(form, 0, 1, 2))
    inputs = tuple(f"bound {i}" if f"bound {i}" in bounds else name for i, name in named)
    return Reading("Clip", inputs, form.plain(), constants=bounds)


@reads("Softmax", "LogSoftmax", "Hardmax", since=1)
def _flattened_softmax(form: Form) -> Reading | Sequence[Reading]:
    """Read the form before opset 13, where all axes from `axis` on are one group.

    It is the new form if only one of them is wider than 1.
    """
    shape, axis = form.shape(), form.attr_int("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise CannotReadError(f"axis {axis} is outside rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    wide = [i for i in range(axis, len(shape)) if shape[i] != 1]
    if len(wide) <= 1 and len(shape) > axis:
        return Reading(form.op, form.inputs, {"axis": wide[0] if wide else axis})
    return _through_matrix(form, axis)


def _through_matrix(form: Form, axis: int) -> Sequence[Reading]:
    shape = static(form.shape())
    if shape is None:
        raise CannotReadError("it normalises several axes whose sizes are only known at run time")
    rows, columns = product(shape[:axis]), product(shape[axis:])
    flat, done = f"{form.outputs[0]}_flat", f"{form.outputs[0]}_done"
    matrix = tuple(d for d in (rows, columns) if isinstance(d, int))
    return [
        Reading("Reshape", form.inputs, {"shape": matrix, "allowzero": 0}, outputs=(flat,)),
        Reading(form.op, (flat,), {"axis": 1}, outputs=(done,)),
        Reading("Reshape", (done,), {"shape": shape, "allowzero": 0}, outputs=form.outputs),
    ]


@reads("Softmax", "LogSoftmax", "Hardmax", since=13)
def _softmax(form: Form) -> Reading:
    return Reading(form.op, form.inputs, {"axis": form.attr_int("axis", -1)})


@reads("Cast", since=6)
def _cast(form: Form) -> Reading:
    return Reading("Cast", form.inputs, {"to": element_name(form.attr_int("to", 0))})


@reads("CastLike", since=15)
def _cast_like(form: Form) -> Reading:
    like = form.types[1] if len(form.types) > 1 else None
    if like is None or like.dtype in (DType.OTHER, DType.STRING):
        raise CannotReadError("it casts to a type that is not known or not computed on")
    return Reading("Cast", operands(form, 0), {"to": like.dtype.value})


@reads("Dropout", since=7)
def _dropout(form: Form) -> Reading | Sequence[Reading]:
    return _dropped(form, ())


@reads("Dropout", since=12)
def _dropout_with_operands(form: Form) -> Reading | Sequence[Reading]:
    training = form.has(2) and bool(np.any(form.array(2, "training_mode")))
    zero = form.has(1) and not np.any(form.values.get(1, np.ones(1)))
    if training and not zero:
        raise CannotReadError("it drops elements at random (training mode)")
    if form.has(1) and 1 not in form.values:
        raise CannotReadError("its ratio is computed at run time")
    return _dropped(form, tuple(i for i in (1, 2) if form.has(i)))


def _dropped(form: Form, absorbed: tuple[int, ...]) -> Reading | Sequence[Reading]:
    """Drop nothing; the mask, if anything reads it, is true everywhere."""
    kept = Reading("Identity", operands(form, 0), {}, absorbed, form.outputs[:1])
    if not any(form.used[1:]):
        return kept
    shape = static(form.shape())
    if form.opset < FIRST_BOOLEAN_MASK or shape is None:
        raise CannotReadError("its mask is used, and is no boolean or of unknown size")
    every = {"every": np.array(True)}
    mask = Reading("Expand", ("every",), {"shape": shape}, (), form.outputs[1:2], every)
    return [kept, mask] if form.outputs[0] else [mask]


@reads("BatchNormalization", since=7)
def _batch_normalization(form: Form) -> Reading:
    if sum(map(bool, form.outputs)) > 1:
        raise CannotReadError("it updates running statistics (training mode)")
    if form.attr_int("spatial", 1) != 1:
        raise CannotReadError("it normalises every activation on its own (spatial=0)")
    return Reading(form.op, form.inputs, form.plain("momentum", "spatial"))


@reads("BatchNormalization", since=14)
def _batch_normalization_with_mode(form: Form) -> Reading:
    if form.attr_int("training_mode", 0) or sum(map(bool, form.outputs)) > 1:
        raise CannotReadError("it updates running statistics (training mode)")
    return Reading(form.op, form.inputs, form.plain("momentum", "training_mode"))


@reads("GroupNormalization", since=18)
def _grouped_scale(_form: Form) -> Reading:
    raise CannotReadError("its scale is per group (opset 18 to 20)")


@reads("GroupNormalization", since=21)
def _group_normalization(form: Form) -> Reading:
    return Reading(form.op, form.inputs, form.plain("stash_type"))


@reads("LayerNormalization", since=17)
@reads("RMSNormalization", since=23)
def _stashed_in_float32(form: Form) -> Reading:
    if form.attr_int("stash_type", 1) != 1:
        raise CannotReadError("it does not accumulate in float32")
    if any(form.used[1:]):
        raise CannotReadError("its statistics are used")
    return Reading(form.op, form.inputs, form.plain("stash_type"), outputs=form.outputs[:1])


@reads("Constant")
def _constant(form: Form) -> Reading:
    raise CannotReadError(f"Constant with attributes {sorted(form.attrs)}")
