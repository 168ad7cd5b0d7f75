"""Reading through run-time indices: Gather and its kin, and OneHot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.contraction import agree
from egraph_fusion.ir.ops.operator import (
    Attr,
    Evaluate,
    Indices,
    Kind,
    MappingType,
    Operator,
    Piece,
    Pull,
    TypeRule,
    fixed_mapping,
    no_flops,
    register,
)
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    first,
    integer,
    known_shape,
    must_be_vector,
    normal_axis,
)
from egraph_fusion.ir.ops.slicing import shape_of
from egraph_fusion.ir.tensors import DType, TensorType


def _operands(values: Sequence[Array | None]) -> tuple[Array, Array]:
    x, indices = values[0], values[1]
    if x is None or indices is None:
        raise TypeRuleError("data and indices must be present")
    return x, indices


def wrapped(ix: Indices, index: Any, extent: Dim) -> Any:
    """Return a run-time index with negative values counted from the end."""
    return (index + extent) % extent


def lookup_operator(
    name: str,
    infer: TypeRule,
    evaluate: Evaluate,
    pull: Pull,
    attrs: tuple[Attr, ...] = (),
    arity: tuple[int, int] = (2, 2),
    *,
    at: int = 1,
    keeps_rank: bool = False,
) -> Operator:
    """Declare an operator that reads elements at indices held by operand number `at`."""
    return register(
        Operator(
            name=name,
            kind=Kind.LOOKUP,
            arity=arity,
            infer=infer,
            evaluate=evaluate,
            mapping=fixed_mapping(MappingType.ONE_TO_MANY),
            flops=no_flops,
            attrs=attrs,
            pull=pull,
            asides=((at, DType.INT64),),
            keeps_rank=keeps_rank,
        )
    )


def _check_indices(types: Types, name: str) -> None:
    found = types[1] if len(types) > 1 else None
    if found is not None and not found.dtype.is_integer:
        raise TypeRuleError(f"{name}: indices must be integers, got {found}")


def _gather_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    _check_indices(types, "Gather")
    dtype, x, at = first(types).dtype, known_shape(types, 0), known_shape(types, 1)
    if x is None or at is None:
        return (TensorType(dtype, None),)
    axis = normal_axis(integer(attrs, "axis"), len(x), "Gather")
    return (TensorType(dtype, (*x[:axis], *at, *x[axis + 1 :])),)


def _gather(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, indices = _operands(values)
    return (np.asarray(np.take(x, indices.astype(np.int64), axis=integer(attrs, "axis"))),)


def _gather_pull(
    ix: Indices, _out: int, index: Sequence[Any], ins: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    axis, x, at = integer(attrs, "axis"), shape_of(ins, 0), shape_of(ins, 1)
    found = wrapped(ix, ix.load(1, index[axis : axis + len(at)]), x[axis])
    return (Piece(0, (*index[:axis], found, *index[axis + len(at) :])),)


lookup_operator(
    "Gather", _gather_infer, _gather, _gather_pull, (Attr("axis", "int", 0, axis_of="operand"),)
)


def _elements_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    _check_indices(types, "GatherElements")
    x, at = known_shape(types, 0), known_shape(types, 1)
    if x is not None and at is not None and len(x) != len(at):
        raise TypeRuleError(f"GatherElements: data has rank {len(x)} and indices rank {len(at)}")
    if x is not None and at is not None:
        axis = normal_axis(integer(attrs, "axis"), len(x), "GatherElements")
        _no_more("GatherElements", at[:axis] + at[axis + 1 :], x[:axis] + x[axis + 1 :])
    return (TensorType(first(types).dtype, at),)


def _no_more(name: str, at: Shape, x: Shape) -> None:
    for n, d in zip(at, x, strict=True):
        if isinstance(n, int) and isinstance(d, int) and n > d:
            raise TypeRuleError(f"{name}: {n} indices along an extent of {d}")


def _elements(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, indices = _operands(values)
    axis = integer(attrs, "axis")
    at = np.asarray(indices, dtype=np.int64)
    grid = list(np.ogrid[tuple(slice(n) for n in at.shape)])
    grid[axis] = at  # numpy counts from the end too, and refuses what lies outside
    return (np.asarray(x[tuple(grid)]),)


def _elements_pull(
    ix: Indices, _out: int, index: Sequence[Any], ins: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    axis = integer(attrs, "axis")
    found = wrapped(ix, ix.load(1, index), shape_of(ins)[axis])
    return (Piece(0, (*index[:axis], found, *index[axis + 1 :])),)


lookup_operator(
    "GatherElements",
    _elements_infer,
    _elements,
    _elements_pull,
    (Attr("axis", "int", 0, axis_of="operand"),),
    keeps_rank=True,
)


def _nd_depth(at: Shape, batch: int, rank: int) -> int:
    depth = at[-1] if at else None
    if not isinstance(depth, int) or not 1 <= depth <= rank - batch:
        raise TypeRuleError(f"GatherND: indices end in {depth}, not in 1 to {rank - batch}")
    return depth


def _nd_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    _check_indices(types, "GatherND")
    dtype, x, at = first(types).dtype, known_shape(types, 0), known_shape(types, 1)
    if x is None or at is None:
        return (TensorType(dtype, None),)
    batch = integer(attrs, "batch_dims")
    depth = _nd_depth(at, batch, len(x))
    if len(at) <= batch:
        raise TypeRuleError(f"GatherND: indices of shape {at} with {batch} batch dimensions")
    for n, d in zip(at[:batch], x[:batch], strict=True):
        agree(n, d, "GatherND: batch dimensions")
    return (TensorType(dtype, (*at[:-1], *x[batch + depth :])),)


def _nd(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, indices = _operands(values)
    batch = integer(attrs, "batch_dims")
    depth = _nd_depth(indices.shape, batch, x.ndim)
    own = np.ogrid[tuple(slice(n) for n in indices.shape[:batch])] if batch else ()
    spread = [g.reshape(g.shape + (1,) * (indices.ndim - 1 - batch)) for g in own]
    columns = [indices[..., i].astype(np.int64) for i in range(depth)]
    return (np.asarray(x[(*spread, *columns)]),)


def _nd_pull(
    ix: Indices, _out: int, index: Sequence[Any], ins: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    x, at, batch = shape_of(ins, 0), shape_of(ins, 1), integer(attrs, "batch_dims")
    depth, lead = _nd_depth(at, batch, len(x)), len(at) - 1
    found = [wrapped(ix, ix.load(1, (*index[:lead], i)), x[batch + i]) for i in range(depth)]
    return (Piece(0, (*index[:batch], *found, *index[lead:])),)


lookup_operator("GatherND", _nd_infer, _nd, _nd_pull, (Attr("batch_dims", "int", 0),))


def _one_hot_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    at, pair = first(types), types[1]
    dtype = DType.OTHER if pair is None else pair.dtype
    must_be_vector("OneHot", known_shape(types, 1), 2)
    if at.shape is None:
        return (TensorType(dtype, None),)
    depth = integer(attrs, "depth")
    axis = normal_axis(integer(attrs, "axis"), len(at.shape) + 1, "OneHot")
    return (TensorType(dtype, (*at.shape[:axis], depth, *at.shape[axis:])),)


def _one_hot(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    at, pair = _operands(values)
    depth, axis = integer(attrs, "depth"), integer(attrs, "axis")
    column = np.arange(depth).reshape(depth, *(1,) * (at.ndim - axis))
    whole = at.astype(np.int64)
    found = np.where(whole < 0, whole + depth, whole)
    hot = np.expand_dims(found, axis) == column
    off, on = pair[:1].reshape(()), pair[1:].reshape(())
    chosen: Array = np.where(hot, on, off)
    return (chosen,)


def _one_hot_pull(
    ix: Indices, _out: int, index: Sequence[Any], _i: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    """The index wraps once; what stays outside 0 .. depth matches no column."""
    depth, axis = integer(attrs, "depth"), integer(attrs, "axis")
    found = ix.load(0, (*index[:axis], *index[axis + 1 :]))
    column = index[axis]
    from_end = column - depth
    hit = ix.both(ix.ge(found, column), ix.lt(found, column + 1))
    wrapped_hit = ix.both(ix.ge(found, from_end), ix.lt(found, from_end + 1))
    return (Piece(1, (1,), hit), Piece(1, (1,), wrapped_hit), Piece(1, (0,)))


lookup_operator(
    "OneHot",
    _one_hot_infer,
    _one_hot,
    _one_hot_pull,
    (Attr("axis", "int", -1, axis_of="result"), Attr("depth", "int")),
    at=0,
)
