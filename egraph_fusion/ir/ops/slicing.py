"""Cutting, joining and padding: Concat, Split, Slice, Pad and the block shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, floordiv
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.movement import reindexing
from egraph_fusion.ir.ops.operator import (
    Attr,
    Indices,
    Kind,
    MappingType,
    Operator,
    Piece,
    fixed_mapping,
    no_flops,
    register,
)
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    first,
    integer,
    integers,
    known_shape,
    normal_axis,
    present,
    same_dtype,
)
from egraph_fusion.ir.tensors import TensorType

ONE_TO_ONE = fixed_mapping(MappingType.ONE_TO_ONE)


def shape_of(types: Types, operand: int = 0) -> Shape:
    """Return the shape of an operand; TypeRuleError if it is unknown (index maps need it)."""
    shape = known_shape(types, operand)
    if shape is None:
        raise TypeRuleError("index maps need operands of known rank")
    return shape


def _concat_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    axis, dtype = integer(attrs, "axis"), same_dtype(types)
    shapes = [t.shape for t in present(types)]
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return (TensorType(dtype, None),)
    rank = len(known[0])
    axis = normal_axis(axis, rank, "Concat")
    if any(len(s) != rank for s in known):
        raise TypeRuleError(f"Concat: operands have ranks {[len(s) for s in known]}")
    out = [_agreed([s[i] for s in known], i) for i in range(rank) if i != axis]
    total: Dim = 0
    for s in known:
        total = total + s[axis]
    out.insert(axis, total)
    return (TensorType(dtype, tuple(out)),)


def _agreed(dims: Sequence[Dim], axis: int) -> Dim:
    known = sorted({d for d in dims if isinstance(d, int)})
    if len(known) > 1:
        raise TypeRuleError(f"Concat: operands have sizes {known} along axis {axis}")
    return known[0] if known else dims[0]


def _concat(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    parts = [v for v in values if v is not None]
    return (np.concatenate(parts, axis=integer(attrs, "axis")),)


def _concat_pull(
    ix: Indices, _out: int, index: Sequence[Any], ins: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    axis = integer(attrs, "axis")
    pieces: list[Piece] = []
    start: Dim = 0
    for operand in range(len(ins)):
        end = start + shape_of(ins, operand)[axis]
        moved = tuple(v - start if i == axis and start != 0 else v for i, v in enumerate(index))
        last = operand == len(ins) - 1
        pieces.append(Piece(operand, moved, None if last else ix.lt(index[axis], end)))
        start = end
    return tuple(pieces)


register(
    Operator(
        name="Concat",
        kind=Kind.MOVEMENT,
        arity=(1, None),
        infer=_concat_infer,
        evaluate=_concat,
        mapping=ONE_TO_ONE,
        flops=no_flops,
        attrs=(Attr("axis", "int", axis_of="operand"),),
        pull=_concat_pull,
        keeps_rank=True,
    )
)


def _split_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x, sizes = first(types), integers(attrs, "split")
    if x.shape is None:
        return tuple(TensorType(x.dtype, None) for _ in sizes)
    axis = normal_axis(integer(attrs, "axis"), len(x.shape), "Split")
    extent = x.shape[axis]
    if isinstance(extent, int) and sum(sizes) != extent:
        raise TypeRuleError(f"Split: sizes {sizes} do not add up to {extent}")
    shape = x.shape
    return tuple(TensorType(x.dtype, (*shape[:axis], s, *shape[axis + 1 :])) for s in sizes)


def _split(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = values[0]
    if x is None:
        raise TypeRuleError("Split: the first operand is missing")
    stops = np.cumsum(integers(attrs, "split"))[:-1].tolist()
    parts = np.split(x, stops, axis=integer(attrs, "axis"))
    return tuple(np.ascontiguousarray(p) for p in parts)


def _split_pull(
    _ix: Indices, out: int, index: Sequence[Any], _i: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    axis, start = integer(attrs, "axis"), sum(integers(attrs, "split")[:out])
    moved = tuple(v + start if i == axis and start else v for i, v in enumerate(index))
    return (Piece(0, moved),)


register(
    Operator(
        name="Split",
        kind=Kind.MOVEMENT,
        arity=(1, 1),
        infer=_split_infer,
        evaluate=_split,
        mapping=ONE_TO_ONE,
        flops=no_flops,
        attrs=(Attr("axis", "int", 0, axis_of="operand"), Attr("split", "ints")),
        pull=_split_pull,
        outputs=None,
    )
)


def _bounds(extent: Dim, start: int, end: int, step: int) -> tuple[Dim, Dim]:
    """Return first index and length of one sliced axis (ONNX clamping)."""
    if step == 0:
        raise TypeRuleError("Slice: step 0")
    if isinstance(extent, int):
        low, high, stride = slice(start, end, step).indices(extent)
        if step < 0 and end < -extent:
            high = -1
        return low, len(range(low, high, stride))
    return _symbolic_bounds(extent, start, end, step)


def _symbolic_bounds(extent: Dim, start: int, end: int, step: int) -> tuple[Dim, Dim]:
    """Slice a symbolic axis; decided only for the forms whose clamping does not depend on it."""
    if start == 0 and step == 1 and end >= 2**31 - 1:
        return 0, extent
    if start < 0 and step == -1 and start == -1 and end <= -(2**31) + 1:
        return extent - 1, extent
    raise TypeRuleError(
        f"Slice: [{start}:{end}:{step}] of the unknown extent {extent} is undecided"
    )


def _slice_parts(shape: Shape, attrs: Attrs) -> list[tuple[Dim, Dim, int]]:
    """Return (start, length, step) per axis."""
    parts: list[tuple[Dim, Dim, int]] = [(0, d, 1) for d in shape]
    names = ("axes", "starts", "ends", "steps")
    axes, starts, ends, steps = (integers(attrs, n) for n in names)
    if len({len(axes), len(starts), len(ends), len(steps)}) != 1:
        raise TypeRuleError(f"Slice: axes {axes}, starts {starts}, ends {ends}, steps {steps}")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = normal_axis(axis, len(shape), "Slice")
        first_index, length = _bounds(shape[axis], start, end, step)
        parts[axis] = (first_index, length, step)
    return parts


def _sliced(shape: Shape, attrs: Attrs) -> Shape:
    return tuple(length for _, length, _ in _slice_parts(shape, attrs))


def _slice_source(
    index: Sequence[Any], inner: Shape, _outer: Shape, attrs: Attrs
) -> tuple[Any, ...]:
    parts = _slice_parts(inner, attrs)
    scaled = [i if step == 1 else i * step for i, (_, _, step) in zip(index, parts, strict=True)]
    return tuple(
        i if start == 0 else i + start for i, (start, _, _) in zip(scaled, parts, strict=True)
    )


def _slice_move(x: Array, attrs: Attrs) -> Array:
    found = x
    for axis, (start, length, step) in enumerate(_slice_parts(x.shape, attrs)):
        picked = np.arange(int(str(length))) * step + int(str(start))
        found = np.take(found, picked, axis=axis)
    return found


def _slice_complete(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    count = len(integers(attrs, "starts"))
    out = {"axes": tuple(range(count)), "steps": (1,) * count, **attrs}
    return out


reindexing(
    "Slice",
    _sliced,
    _slice_move,
    _slice_source,
    MappingType.ONE_TO_ONE,
    (
        Attr("starts", "ints"),
        Attr("ends", "ints"),
        Attr("axes", "ints", axis_of="operand"),
        Attr("steps", "ints"),
    ),
    _slice_complete,
    keeps_rank=True,
)


def _channels(shape: Shape, name: str) -> tuple[Dim, Dim, Dim, Dim]:
    if len(shape) != 4:
        raise TypeRuleError(f"{name}: the operand must have rank 4, not {len(shape)}")
    n, c, h, w = shape
    return n, c, h, w


def _depth_to_space(shape: Shape, attrs: Attrs) -> Shape:
    b = integer(attrs, "blocksize")
    n, c, h, w = _channels(shape, "DepthToSpace")
    if b < 1 or (isinstance(c, int) and c % (b * b)):
        raise TypeRuleError(f"DepthToSpace: {c} channels are no multiple of blocksize {b} squared")
    return (n, floordiv(c, b * b), h * b, w * b)


def _space_to_depth(shape: Shape, attrs: Attrs) -> Shape:
    b = integer(attrs, "blocksize")
    n, c, h, w = _channels(shape, "SpaceToDepth")
    if b < 1 or any(isinstance(d, int) and d % b for d in (h, w)):
        raise TypeRuleError(f"SpaceToDepth: {h} x {w} is no multiple of blocksize {b}")
    return (n, c * (b * b), floordiv(h, b), floordiv(w, b))


def _to_space(x: Array, attrs: Attrs) -> Array:
    b, (n, c, h, w) = integer(attrs, "blocksize"), x.shape
    if attrs["mode"] == "CRD":
        parts = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        parts = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // (b * b), h * b, w * b)


def _to_depth(x: Array, attrs: Attrs) -> Array:
    b, (n, c, h, w) = integer(attrs, "blocksize"), x.shape
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b * b, h // b, w // b)


def _to_space_source(index: Sequence[Any], _in: Shape, outer: Shape, a: Attrs) -> tuple[Any, ...]:
    b, (n, c, y, x) = integer(a, "blocksize"), index
    row, column = y % b, x % b
    if a["mode"] == "CRD":
        channel = c * (b * b) + row * b + column
    else:
        channel = (row * b + column) * outer[1] + c
    return (n, channel, y // b, x // b)


def _to_depth_source(index: Sequence[Any], inner: Shape, _out: Shape, a: Attrs) -> tuple[Any, ...]:
    b, (n, c, y, x) = integer(a, "blocksize"), index
    block = c // inner[1]
    return (n, c % inner[1], y * b + block // b, x * b + block % b)


reindexing(
    "DepthToSpace",
    _depth_to_space,
    _to_space,
    _to_space_source,
    MappingType.SHUFFLE,
    (Attr("blocksize", "int"), Attr("mode", "str", "DCR", values=("DCR", "CRD"))),
    keeps_rank=True,
)
reindexing(
    "SpaceToDepth",
    _space_to_depth,
    _to_depth,
    _to_depth_source,
    MappingType.SHUFFLE,
    (Attr("blocksize", "int"),),
    keeps_rank=True,
)
