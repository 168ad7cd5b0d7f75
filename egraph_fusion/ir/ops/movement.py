"""Reshaping, permuting and repeating: the same elements under another index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, floordiv, product
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.operator import (
    Attr,
    Complete,
    Indices,
    Kind,
    MappingType,
    Operator,
    Piece,
    fixed_mapping,
    no_flops,
    register,
    switch,
)
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integer, integers
from egraph_fusion.ir.tensors import TensorType, broadcast

ShapeRule = Callable[[Shape, Attrs], Shape]
Move = Callable[[Array, Attrs], Array]
Source = Callable[[Sequence[Any], Shape, Shape, Attrs], tuple[Any, ...]]


def linear(index: Sequence[Any], shape: Shape) -> Any:
    """Return the row-major position of `index` in `shape` (0 for a scalar)."""
    position: Any = 0
    for i, extent in zip(index, shape, strict=True):
        position = position * extent + i
    return position


def delinear(position: Any, shape: Shape) -> tuple[Any, ...]:
    """Return the index in `shape` of a row-major position."""
    index: list[Any] = []
    for axis, extent in enumerate(shape):
        inner = product(shape[axis + 1 :])
        if extent == 1:
            index.append(0)
            continue
        outer = position // inner if inner != 1 else position
        index.append(outer % extent if any(d != 1 for d in shape[:axis]) else outer)
    return tuple(index)


def reindexing(
    name: str,
    shape: ShapeRule,
    move: Move,
    source: Source,
    mapping: MappingType,
    attrs: tuple[Attr, ...] = (),
    complete: Complete | None = None,
    keeps_rank: bool = False,
) -> Operator:
    """Declare a movement operator of one operand: result shape, numpy meaning, source index."""

    def infer(types: Types, a: Attrs) -> tuple[TensorType, ...]:
        x = first(types)
        return (TensorType(x.dtype, None if x.shape is None else shape(x.shape, a)),)

    def evaluate(values: Sequence[Array | None], a: Attrs) -> tuple[Array, ...]:
        x = values[0]
        if x is None:
            raise TypeRuleError(f"{name}: the first operand is missing")
        return (np.ascontiguousarray(move(x, a)).reshape(_evaluated(shape, x, a)),)

    def pull(
        _ix: Indices,
        _out: int,
        index: Sequence[Any],
        ins: Types,
        outs: Sequence[TensorType],
        a: Attrs,
    ) -> tuple[Piece, ...]:
        inner, outer = first(ins).shape, outs[0].shape
        if inner is None or outer is None:
            raise TypeRuleError(f"{name}: index maps need a known rank")
        return (Piece(0, source(index, inner, outer, a)),)

    return register(
        Operator(
            name=name,
            kind=Kind.MOVEMENT,
            arity=(1, 1),
            infer=infer,
            evaluate=evaluate,
            mapping=fixed_mapping(mapping),
            flops=no_flops,
            attrs=attrs,
            pull=pull,
            complete=complete,
            keeps_rank=keeps_rank,
        )
    )


def _evaluated(shape: ShapeRule, x: Array, attrs: Attrs) -> tuple[int, ...]:
    return tuple(int(str(d)) for d in shape(x.shape, attrs))


def reshaped(shape: Shape, attrs: Attrs) -> Shape:
    """Return the result shape of Reshape: 0 copies a dimension (unless allowzero), -1 is inferred.

    Raises TypeRuleError if the element counts are known to differ.
    """
    wanted = integers(attrs, "shape")
    copies = not attrs.get("allowzero", 0)
    out: list[Dim] = []
    for axis, d in enumerate(wanted):
        if d == 0 and copies:
            if axis >= len(shape):
                raise TypeRuleError(
                    f"Reshape to {wanted}: 0 at {axis} copies no dimension of {shape}"
                )
            out.append(shape[axis])
        else:
            out.append(d)
    total, free = product(shape), [axis for axis, d in enumerate(wanted) if d == -1]
    if len(free) > 1 or any(d < -1 for d in wanted):
        raise TypeRuleError(f"Reshape to {wanted}: at most one -1, and nothing below it")
    if free:
        rest = product(d for axis, d in enumerate(out) if axis != free[0])
        out[free[0]] = _missing(total, rest, shape, wanted)
    if isinstance(total, int) and isinstance(product(out), int) and product(out) != total:
        raise TypeRuleError(f"Reshape of {_show(shape)} to {wanted}: element counts differ")
    return tuple(out)


def _missing(total: Dim, rest: Dim, shape: Shape, wanted: tuple[int, ...]) -> Dim:
    if rest == 0:
        return 0
    if isinstance(total, int) and isinstance(rest, int) and total % rest:
        raise TypeRuleError(
            f"Reshape of {_show(shape)} to {wanted}: {total} is no multiple of {rest}"
        )
    return floordiv(total, rest)


def _show(shape: Shape) -> str:
    return f"[{','.join(map(str, shape))}]"


def _flattened(shape: Shape, attrs: Attrs) -> Shape:
    axis = integer(attrs, "axis")
    if not -len(shape) <= axis <= len(shape):
        raise TypeRuleError(f"Flatten: axis {axis} is outside the operand's rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return (product(shape[:axis]), product(shape[axis:]))


def _squeezed(shape: Shape, attrs: Attrs) -> Shape:
    axes = integers(attrs, "axes")
    for a in axes:
        if not 0 <= a < len(shape) or (isinstance(shape[a], int) and shape[a] != 1):
            raise TypeRuleError(f"Squeeze: axis {a} of {_show(shape)} does not have size 1")
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _unsqueezed(shape: Shape, attrs: Attrs) -> Shape:
    axes = integers(attrs, "axes")
    rank = len(shape) + len(axes)
    if len(set(axes)) != len(axes) or any(not 0 <= a < rank for a in axes):
        raise TypeRuleError(f"Unsqueeze: axes {axes} do not fit a result of rank {rank}")
    rest = iter(shape)
    return tuple(1 if i in axes else next(rest) for i in range(rank))


def _transposed(shape: Shape, attrs: Attrs) -> Shape:
    perm = integers(attrs, "perm")
    if sorted(perm) != list(range(len(shape))):
        raise TypeRuleError(f"Transpose: {perm} does not permute the {len(shape)} axes")
    return tuple(shape[p] for p in perm)


def _expanded(shape: Shape, attrs: Attrs) -> Shape:
    wanted = integers(attrs, "shape")
    out = broadcast(shape, wanted)
    if out is None:
        raise TypeRuleError(f"Expand: {_show(shape)} does not broadcast with {wanted}")
    return out


def _tiled(shape: Shape, attrs: Attrs) -> Shape:
    repeats = integers(attrs, "repeats")
    if len(repeats) != len(shape):
        raise TypeRuleError(f"Tile: {len(repeats)} repeats for an operand of rank {len(shape)}")
    return tuple(d * r for d, r in zip(shape, repeats, strict=True))


def _by_position(index: Sequence[Any], inner: Shape, outer: Shape, _a: Attrs) -> tuple[Any, ...]:
    return delinear(linear(index, outer), inner)


def _squeezed_source(
    index: Sequence[Any], inner: Shape, _outer: Shape, a: Attrs
) -> tuple[Any, ...]:
    axes, rest = integers(a, "axes"), iter(index)
    return tuple(0 if i in axes else next(rest) for i in range(len(inner)))


def _unsqueezed_source(index: Sequence[Any], _in: Shape, _out: Shape, a: Attrs) -> tuple[Any, ...]:
    axes = integers(a, "axes")
    return tuple(v for i, v in enumerate(index) if i not in axes)


def _transposed_source(
    index: Sequence[Any], inner: Shape, _out: Shape, a: Attrs
) -> tuple[Any, ...]:
    perm = integers(a, "perm")
    return tuple(index[perm.index(axis)] for axis in range(len(inner)))


def _expanded_source(
    index: Sequence[Any], inner: Shape, outer: Shape, _a: Attrs
) -> tuple[Any, ...]:
    tail = index[len(outer) - len(inner) :]
    return tuple(0 if d == 1 else i for i, d in zip(tail, inner, strict=True))


def _tiled_source(index: Sequence[Any], inner: Shape, _out: Shape, a: Attrs) -> tuple[Any, ...]:
    repeats = integers(a, "repeats")
    return tuple(i if r == 1 else i % d for i, d, r in zip(index, inner, repeats, strict=True))


def _reversed_perm(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    shape = first(types).shape
    if "perm" in attrs or shape is None:
        return attrs
    return {**attrs, "perm": tuple(reversed(range(len(shape))))}


def _unit_axes(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    shape = first(types).shape
    if "axes" in attrs or shape is None or not all(isinstance(d, int) for d in shape):
        return attrs
    return {**attrs, "axes": tuple(i for i, d in enumerate(shape) if d == 1)}


def _front_axis(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    shape, axis = first(types).shape, integer(attrs, "axis")
    if shape is None or not -len(shape) <= axis < 0:
        return attrs
    return {**attrs, "axis": axis + len(shape)}


reindexing(
    "Reshape",
    reshaped,
    lambda x, a: x.reshape(_evaluated(reshaped, x, a)),
    _by_position,
    MappingType.REORGANIZE,
    (Attr("shape", "ints"), switch("allowzero")),
)
reindexing(
    "Flatten",
    _flattened,
    lambda x, a: x.reshape(_evaluated(_flattened, x, a)),
    _by_position,
    MappingType.REORGANIZE,
    (Attr("axis", "int", 1),),
    _front_axis,
)
reindexing(
    "Squeeze",
    _squeezed,
    lambda x, a: np.squeeze(x, axis=integers(a, "axes")),
    _squeezed_source,
    MappingType.REORGANIZE,
    (Attr("axes", "ints", axis_of="operand"),),
    _unit_axes,
)
reindexing(
    "Unsqueeze",
    _unsqueezed,
    lambda x, a: np.expand_dims(x, integers(a, "axes")),
    _unsqueezed_source,
    MappingType.REORGANIZE,
    (Attr("axes", "ints", axis_of="result"),),
)
reindexing(
    "Transpose",
    _transposed,
    lambda x, a: np.transpose(x, integers(a, "perm")),
    _transposed_source,
    MappingType.SHUFFLE,
    (Attr("perm", "ints"),),
    _reversed_perm,
    keeps_rank=True,
)
reindexing(
    "Expand",
    _expanded,
    lambda x, a: np.broadcast_to(x, np.broadcast_shapes(x.shape, integers(a, "shape"))),
    _expanded_source,
    MappingType.ONE_TO_MANY,
    (Attr("shape", "ints"),),
)
reindexing(
    "Tile",
    _tiled,
    lambda x, a: np.tile(x, integers(a, "repeats")),
    _tiled_source,
    MappingType.ONE_TO_MANY,
    (Attr("repeats", "ints"),),
    keeps_rank=True,
)
