"""Pad: constant, reflected, repeated or wrapped borders, and cropping by negative amounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape
from egraph_fusion.ir.graph import Array, Attrs
from egraph_fusion.ir.ops.operator import (
    Attr,
    Indices,
    Kind,
    MappingType,
    Operator,
    Piece,
    no_flops,
    register,
)
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integers
from egraph_fusion.ir.ops.slicing import shape_of
from egraph_fusion.ir.tensors import TensorType

MODES = ("constant", "reflect", "edge", "wrap")


def pad_amounts(rank: int, attrs: Attrs) -> list[tuple[int, int]]:
    """Return (before, after) per axis; TypeRuleError if `pads` does not hold two per axis."""
    pads = integers(attrs, "pads")
    if len(pads) != 2 * rank:
        raise TypeRuleError(f"Pad: {len(pads)} pads for an operand of rank {rank}")
    return list(zip(pads[:rank], pads[rank:], strict=True))


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    x = first(types)
    if attrs["mode"] not in MODES:
        raise TypeRuleError(f"Pad: mode {attrs['mode']!r} is none of {MODES}")
    fill = types[1] if len(types) > 1 else None
    several = fill is not None and isinstance(fill.size, int) and fill.size != 1
    if fill is not None and (several or fill.dtype is not x.dtype):
        raise TypeRuleError(f"Pad: the value to pad {x} with is {fill}, not one of its elements")
    if x.shape is None:
        return (TensorType(x.dtype, None),)
    out: list[Dim] = []
    for d, (before, after) in zip(x.shape, pad_amounts(len(x.shape), attrs), strict=True):
        padded = d + before + after
        if isinstance(padded, int) and padded < 0:
            raise TypeRuleError(f"Pad: {before} and {after} crop more than an extent of {d}")
        kept = d + min(0, before) + min(0, after)
        if kept == 0 and padded != 0 and attrs["mode"] != "constant":
            raise TypeRuleError(f"Pad: {attrs['mode']} border of an axis with no element left")
        out.append(padded)
    return (TensorType(x.dtype, tuple(out)),)


def _evaluate(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x = values[0]
    if x is None:
        raise TypeRuleError("Pad: the first operand is missing")
    amounts = pad_amounts(x.ndim, attrs)
    cropped = x[
        tuple(
            slice(max(0, -before), d - max(0, -after))
            for d, (before, after) in zip(x.shape, amounts, strict=True)
        )
    ]
    grown = [(max(0, before), max(0, after)) for before, after in amounts]
    fill = values[1] if len(values) > 1 else None
    if attrs["mode"] == "constant":
        value = x.dtype.type(0) if fill is None else fill.reshape(())
        return (np.pad(cropped, grown, mode="constant", constant_values=value),)
    mode: Any = attrs["mode"]
    return (np.pad(cropped, grown, mode=mode),)


def _inside(ix: Indices, index: Sequence[Any], shape: Shape, attrs: Attrs) -> Any | None:
    condition: Any | None = None
    for i, d, (before, after) in zip(index, shape, pad_amounts(len(shape), attrs), strict=True):
        tests = [ix.ge(i, before)] if before > 0 else []
        tests += [ix.lt(i, d + before)] if after > 0 else []
        for test in tests:
            condition = test if condition is None else ix.both(condition, test)
    return condition


def _constant_pieces(
    ix: Indices, index: Sequence[Any], ins: Types, attrs: Attrs
) -> tuple[Piece, ...]:
    shape = shape_of(ins)
    amounts = pad_amounts(len(shape), attrs)
    moved = tuple(
        i - before if before else i for i, (before, _) in zip(index, amounts, strict=True)
    )
    condition = _inside(ix, index, shape, attrs)
    if condition is None:
        return (Piece(0, moved),)
    if len(ins) > 1 and ins[1] is not None:
        fill = ins[1].shape
        return (Piece(0, moved, condition), Piece(1, (0,) * len(fill or ())))
    return (Piece(0, moved, condition), Piece(None, ()))


def _bent(ix: Indices, i: Any, extent: Dim, before: int, after: int, mode: str) -> Any:
    """Fold a padded index back into the operand (cropping happens before the border is made)."""
    low = max(0, -before)
    length = extent - low - max(0, -after)
    at = i - max(0, before) if before > 0 else i
    if before <= 0 and after <= 0:
        return at + low if low else at
    if mode == "edge":
        folded = ix.clamp(at, 0, length - 1)
    elif mode == "wrap":
        folded = at % length
    elif length == 1:
        folded = 0
    else:
        turned = at % (length * 2 - 2)
        folded = _mirror(ix, turned, length)
    return folded + low if low else folded


def _mirror(ix: Indices, turned: Any, length: Dim) -> Any:
    """Return min(turned, 2 * (length - 1) - turned)."""
    return ix.clamp(turned, 0, turned * -1 + (length * 2 - 2))


def _pull(
    ix: Indices, _out: int, index: Sequence[Any], ins: Types, _o: Sequence[TensorType], attrs: Attrs
) -> tuple[Piece, ...]:
    if attrs["mode"] == "constant":
        return _constant_pieces(ix, index, ins, attrs)
    shape = shape_of(ins)
    amounts = pad_amounts(len(shape), attrs)
    bent = tuple(
        _bent(ix, i, d, before, after, str(attrs["mode"]))
        for i, d, (before, after) in zip(index, shape, amounts, strict=True)
    )
    return (Piece(0, bent),)


def _mapping(
    _ins: Types, _outs: Sequence[TensorType], _constant: Sequence[bool], attrs: Attrs
) -> MappingType:
    """A constant border is a guarded One-to-One; the other modes read elements twice."""
    return MappingType.ONE_TO_ONE if attrs["mode"] == "constant" else MappingType.ONE_TO_MANY


register(
    Operator(
        name="Pad",
        kind=Kind.MOVEMENT,
        arity=(1, 2),
        infer=_infer,
        evaluate=_evaluate,
        mapping=_mapping,
        flops=no_flops,
        attrs=(Attr("mode", "str", "constant", values=MODES), Attr("pads", "ints")),
        pull=_pull,
        keeps_rank=True,
    )
)
