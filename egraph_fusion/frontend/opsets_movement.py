"""Readers of movement: shapes, axes, pads and repeats become attributes in every opset."""

from __future__ import annotations

from math import prod

import numpy as np

from egraph_fusion.frontend.folding import constant_range
from egraph_fusion.frontend.forms import (
    CannotReadError,
    Form,
    Reading,
    known_dims,
    operands,
    reads,
)
from egraph_fusion.ir.dims import Dim, product, static
from egraph_fusion.ir.graph import AttrValue


@reads("Reshape", since=5)
def _reshape(form: Form) -> Reading:
    copies = not form.attr_int("allowzero", 0)
    wanted = known_dims(form, 1)
    if wanted is None:
        raise CannotReadError("its shape is computed at run time")
    source = form.types[0].shape if form.types[0] is not None else None
    shape = _copied(wanted, source) if copies else wanted
    found = static(shape) if static(shape) is not None else _with_one_open(shape, source)
    if found is None:
        raise CannotReadError("its shape has more than one size computed at run time")
    zero_kept = not copies and 0 in found
    attrs: dict[str, AttrValue] = {"shape": found, "allowzero": int(zero_kept)}
    if not zero_kept and source is not None and static(source) is not None:
        attrs["shape"] = _closed(found, source)
    return Reading("Reshape", operands(form, 0), attrs, (1,))


def _copied(wanted: tuple[Dim, ...], source: tuple[Dim, ...] | None) -> tuple[Dim, ...]:
    """Replace a 0 by the operand's size where that is known."""
    if source is None:
        return wanted
    known = [source[i] if d == 0 and i < len(source) else d for i, d in enumerate(wanted)]
    return tuple(k if isinstance(k, int) else d for k, d in zip(known, wanted, strict=True))


def _with_one_open(
    shape: tuple[Dim, ...], source: tuple[Dim, ...] | None
) -> tuple[int, ...] | None:
    """Write symbolic sizes as 0 (copied from the same axis) or -1 (at most one)."""
    out: list[int] = []
    for i, d in enumerate(shape):
        if isinstance(d, int):
            out.append(d)
        else:
            out.append(0 if source is not None and i < len(source) and source[i] == d else -1)
    return tuple(out) if out.count(-1) <= 1 else None


def _closed(wanted: tuple[int, ...], source: tuple[Dim, ...]) -> tuple[int, ...]:
    """Resolve a -1 where everything else is known; a wrong one is left for the type rule."""
    total = product(source)
    rest = prod(d for d in wanted if d != -1)
    if not isinstance(total, int) or wanted.count(-1) != 1 or rest <= 0 or total % rest:
        return wanted
    return tuple(total // rest if d == -1 else d for d in wanted)


@reads("Expand")
def _expand(form: Form) -> Reading:
    wanted = known_dims(form, 1)
    if wanted is None:
        raise CannotReadError("its shape is computed at run time")
    if static(wanted) is not None:
        return Reading("Expand", operands(form, 0), {"shape": static(wanted) or ()}, (1,))
    source = form.shape()
    offset = len(wanted) - len(source)
    out: list[int] = []
    for i, d in enumerate(wanted):
        kept = i >= offset and source[i - offset] == d
        if not isinstance(d, int) and not kept:
            raise CannotReadError(f"its size {d} is only known at run time")
        out.append(d if isinstance(d, int) else 1)
    return Reading("Expand", operands(form, 0), {"shape": tuple(out)}, (1,))


@reads("Tile", since=6)
def _tile(form: Form) -> Reading:
    return Reading("Tile", operands(form, 0), {"repeats": form.ints(1, "repeats")}, (1,))


@reads("Squeeze", "Unsqueeze", since=13)
def _axes_operand(form: Form) -> Reading:
    if not form.has(1):
        return _all_unit_axes(form)
    return Reading(form.op, operands(form, 0), {"axes": form.ints(1, "axes")}, (1,))


@reads("Squeeze", since=1)
def _squeeze_attribute(form: Form) -> Reading:
    if "axes" not in form.attrs:
        return _all_unit_axes(form)
    return Reading("Squeeze", form.inputs, form.plain())


def _all_unit_axes(form: Form) -> Reading:
    if static(form.shape()) is None:
        raise CannotReadError("which axes have size 1 is only known at run time")
    return Reading(form.op, operands(form, 0), {})


@reads("Slice", since=1)
def _slice_attributes(form: Form) -> Reading:
    starts, ends = form.attr_ints("starts"), form.attr_ints("ends")
    if starts is None or ends is None:
        raise CannotReadError("starts or ends are missing")
    axes = form.attr_ints("axes") or tuple(range(len(starts)))
    return _slice(form, starts, ends, axes, (1,) * len(starts), ())


@reads("Slice", since=10)
def _slice_operands(form: Form) -> Reading:
    starts, ends = form.ints(1, "starts"), form.ints(2, "ends")
    axes = form.ints(3, "axes") if form.has(3) else tuple(range(len(starts)))
    steps = form.ints(4, "steps") if form.has(4) else (1,) * len(starts)
    return _slice(form, starts, ends, axes, steps, (1, 2, 3, 4))


def _slice(
    form: Form,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...],
    steps: tuple[int, ...],
    absorbed: tuple[int, ...],
) -> Reading:
    attrs = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    present = tuple(i for i in absorbed if form.has(i))
    return Reading("Slice", operands(form, 0), attrs, present)


@reads("Split", since=2)
def _split_attribute(form: Form) -> Reading:
    return _split(form, form.attr_ints("split"), ())


@reads("Split", since=13)
def _split_operand(form: Form) -> Reading:
    sizes = form.ints(1, "split") if form.has(1) else None
    return _split(form, sizes, (1,) if form.has(1) else ())


def _split(form: Form, sizes: tuple[int, ...] | None, absorbed: tuple[int, ...]) -> Reading:
    axis = form.attr_int("axis", 0)
    if sizes is None:
        shape = form.shape()
        if not -len(shape) <= axis < len(shape):
            raise CannotReadError(f"axis {axis} is outside rank {len(shape)}")
        sizes = _equal_parts(shape[axis], len(form.outputs))
    if len(sizes) != len(form.outputs):
        raise CannotReadError(f"{len(sizes)} sizes for {len(form.outputs)} outputs")
    return Reading("Split", operands(form, 0), {"axis": axis, "split": sizes}, absorbed)


def _equal_parts(extent: Dim, count: int) -> tuple[int, ...]:
    """Split as evenly as ONNX does: equal chunks, the last one smaller."""
    if not isinstance(extent, int):
        raise CannotReadError("the size of the axis that is split is only known at run time")
    chunk = -(-extent // count)
    last = extent - chunk * (count - 1)
    if last < 0:
        raise CannotReadError(f"{extent} elements do not split into {count} chunks of {chunk}")
    return (*(chunk,) * (count - 1), last)


@reads("Pad", since=2)
def _pad_attributes(form: Form) -> Reading:
    attrs = form.plain("value")
    value = form.attrs.get("value", 0.0)
    kind = form.types[0]
    if value == 0.0 or kind is None:
        return Reading("Pad", form.inputs, attrs)
    fill = {"fill": np.asarray(value, kind.dtype.numpy)}
    return Reading("Pad", (*operands(form, 0), "fill"), attrs, constants=fill)


@reads("Pad", since=11)
def _pad_operands(form: Form) -> Reading:
    pads = form.ints(1, "pads")
    if form.has(3):
        pads = _pads_of_axes(pads, form.ints(3, "axes"), len(form.shape()))
    attrs = {**form.plain(), "pads": pads}
    return Reading("Pad", operands(form, 0, 2), attrs, (1, 3) if form.has(3) else (1,))


def _pads_of_axes(pads: tuple[int, ...], axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    if len(pads) != 2 * len(axes) or any(not -rank <= a < rank for a in axes):
        raise CannotReadError(f"pads {pads} do not fit axes {axes} of rank {rank}")
    out = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        out[axis % rank] = pads[i]
        out[axis % rank + rank] = pads[i + len(axes)]
    return tuple(out)


@reads("OneHot", since=9)
def _one_hot(form: Form) -> Reading:
    depth = form.array(1, "depth").reshape(-1)
    if depth.size != 1:
        raise CannotReadError(f"depth holds {depth.size} numbers, expected one")
    attrs = {**form.plain(), "depth": int(depth[0])}
    return Reading("OneHot", operands(form, 0, 2), attrs, (1,))


@reads("Trilu", since=14)
def _trilu(form: Form) -> Reading:
    attrs = form.plain()
    if not form.has(1):
        return Reading("Trilu", operands(form, 0), attrs)
    (k,) = form.ints(1, "k")
    return Reading("Trilu", operands(form, 0), {**attrs, "k": k}, (1,))


@reads("ConstantOfShape", since=9)
def _constant_of_shape(form: Form) -> Reading:
    """Becomes an Expand of the scalar, so that big fills stay small until they are needed."""
    value = form.attrs.get("value", np.zeros(1, np.float32))
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise CannotReadError("its value is not a tensor of one element")
    shape = form.ints(0, "the shape")
    return Reading(
        "Expand", ("fill",), {"shape": shape}, (0,), constants={"fill": value.reshape(())}
    )


@reads("Range", since=11)
def _range(form: Form) -> Reading:
    """A Range of constants that has to stay a node, since it is an output, copies its numbers."""
    numbers = [form.array(i, what) for i, what in enumerate(("start", "limit", "step"))]
    array = constant_range(numbers)
    if array is None:
        raise CannotReadError("its numbers are not finite, or too many")
    return Reading("Identity", ("numbers",), {}, (0, 1, 2), constants={"numbers": array})
