"""Convolutions of every rank: Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as every

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, product
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.contraction import MANY, agree, widened
from egraph_fusion.ir.ops.operator import Attr, Kind, Operator, register
from egraph_fusion.ir.ops.reading import (
    TypeRuleError,
    Types,
    integer,
    integers,
    known_shape,
    must_be_vector,
    same_dtype,
)
from egraph_fusion.ir.ops.windows import (
    AUTO_PAD,
    DILATIONS,
    PADS,
    STRIDES,
    Window,
    completed,
    view,
    windows,
)
from egraph_fusion.ir.tensors import TensorType

GROUP = Attr("group", "int", 1)


def _complete(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    x, w = known_shape(types, 0), known_shape(types, 1)
    kernel = attrs.get("kernel_shape")
    attrs = {k: v for k, v in attrs.items() if k != "kernel_shape"}
    spatial = w[2:] if w is not None else integers({"k": kernel}, "k") if kernel else None
    return completed(None if x is None else x[2:], spatial, attrs)


def _ranks(x: Shape, w: Shape, name: str) -> None:
    if len(x) != len(w) or len(x) < 3:
        raise TypeRuleError(
            f"{name}: X has rank {len(x)} and W rank {len(w)}; both need the same, 3 or more"
        )


def _conv_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    dtype = same_dtype(types)
    x, w, bias = (known_shape(types, i) for i in range(3))
    if x is None or w is None:
        return (TensorType(dtype, None),)
    _ranks(x, w, "Conv")
    group = integer(attrs, "group")
    agree(x[1], w[1] * group, "Conv: channels of X, and of W times group")
    if isinstance(w[0], int) and (group < 1 or w[0] % group):
        raise TypeRuleError(f"Conv: {w[0]} output channels are no multiple of group {group}")
    must_be_vector("Conv", bias, w[0])
    spatial = zip(windows(w[2:], attrs), x[2:], strict=True)
    return (TensorType(dtype, (x[0], w[0], *(window.count(d) for window, d in spatial))),)


def _has_bias(types: Types) -> bool:
    return len(types) > 2 and types[2] is not None


def _conv_flops(ins: Types, outs: Sequence[TensorType], _attrs: Attrs) -> Dim:
    w, size = known_shape(ins, 1), outs[0].size
    if w is None or size is None:
        return 0
    return size * product(w[1:]) * 2 + (size if _has_bias(ins) else 0)


def _with_bias(out: Array, bias: Sequence[Array], dtype: np.dtype[np.generic]) -> Array:
    for b in bias:
        out = out + b.reshape(1, -1, *(1,) * (out.ndim - 2))
    return np.ascontiguousarray(out).astype(dtype)


def _conv(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, w, *bias = widened(values)
    dtype = next(v.dtype for v in values if v is not None)
    group, rank = integer(attrs, "group"), x.ndim - 2
    parts = windows(w.shape[2:], attrs)
    counts = tuple(int(str(p.count(d))) for p, d in zip(parts, x.shape[2:], strict=True))
    patches = view(x, parts, counts, 0)
    each = w.shape[0] // group
    outs: list[Array] = []
    channels = (1, *range(2 + rank, 2 + 2 * rank))
    with np.errstate(all="ignore"):
        for g in range(group):
            part = patches[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            kernel = w[g * each : (g + 1) * each]
            product_ = np.tensordot(part, kernel, axes=(channels, tuple(range(1, 2 + rank))))
            outs.append(np.moveaxis(product_, -1, 1))
        return (_with_bias(np.concatenate(outs, axis=1), bias, dtype),)


CONV = register(
    Operator(
        name="Conv",
        kind=Kind.CONTRACTION,
        arity=(2, 3),
        infer=_conv_infer,
        evaluate=_conv,
        mapping=MANY,
        flops=_conv_flops,
        attrs=(Attr("kernel_shape", "ints"), STRIDES, PADS, DILATIONS, GROUP, AUTO_PAD),
        complete=_complete,
        keeps_rank=True,
    )
)


def _transpose_complete(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    """Fill the defaults; output_shape and auto_pad are turned into pads where sizes are known."""
    x, w = known_shape(types, 0), known_shape(types, 1)
    attrs = {k: v for k, v in attrs.items() if k != "kernel_shape"}
    if w is None:
        return attrs
    rank = len(w) - 2
    ones, zeros = (1,) * rank, (0,) * rank
    filled: dict[str, AttrValue] = {
        "strides": ones,
        "dilations": ones,
        "output_padding": zeros,
        "pads": zeros + zeros,
        **attrs,
    }
    wanted, mode = filled.pop("output_shape", None), filled.get("auto_pad", "NOTSET")
    same = mode in ("SAME_UPPER", "SAME_LOWER")
    if wanted is None and not same:
        return {**filled, "auto_pad": "NOTSET"}
    if x is None:
        raise TypeRuleError("ConvTranspose: output_shape and auto_pad need a known rank")
    target: list[Dim] = [d * s for d, s in zip(x[2:], integers(filled, "strides"), strict=True)]
    if wanted is not None:
        target = list[Dim](integers({"output_shape": wanted}, "output_shape"))[-rank:]
    filled["pads"] = _pads_for(x[2:], w[2:], target, filled, upper=mode == "SAME_UPPER")
    return {**filled, "auto_pad": "NOTSET"}


def _pads_for(
    spatial: Shape, kernel: Shape, target: Sequence[Dim], attrs: Attrs, upper: bool
) -> tuple[int, ...]:
    full = [
        _unpadded(window, d) + extra - t
        for window, d, extra, t in zip(
            windows(kernel, {**attrs, "pads": (0,) * (2 * len(kernel))}),
            spatial,
            integers(attrs, "output_padding"),
            target,
            strict=True,
        )
    ]
    before: list[int] = []
    after: list[int] = []
    for total in full:
        if not isinstance(total, int):
            raise TypeRuleError(f"ConvTranspose: pads for {target} depend on unknown sizes")
        half, rest = total // 2, total - total // 2
        before.append(half if upper else rest)
        after.append(rest if upper else half)
    return (*before, *after)


def _unpadded(window: Window, size: Dim) -> Dim:
    return (size - 1) * window.stride + window.reach


def _transpose_infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    dtype = same_dtype(types)
    x, w, bias = (known_shape(types, i) for i in range(3))
    if x is None or w is None:
        return (TensorType(dtype, None),)
    _ranks(x, w, "ConvTranspose")
    agree(x[1], w[0], "ConvTranspose: channels of X and W")
    group = integer(attrs, "group")
    if isinstance(w[0], int) and (group < 1 or w[0] % group):
        raise TypeRuleError(f"ConvTranspose: {w[0]} channels are no multiple of group {group}")
    must_be_vector("ConvTranspose", bias, w[1] * group)
    extra = integers(attrs, "output_padding")
    spatial = [
        _unpadded(window, d) - window.before - window.after + e
        for window, d, e in zip(windows(w[2:], attrs), x[2:], extra, strict=True)
    ]
    if any(isinstance(d, int) and d < 0 for d in spatial):
        raise TypeRuleError(f"ConvTranspose: pads leave a result of {tuple(spatial)}")
    return (TensorType(dtype, (x[0], w[1] * group, *spatial)),)


def _transpose_flops(ins: Types, outs: Sequence[TensorType], _attrs: Attrs) -> Dim:
    """Two per multiply-add of the scattered products, padding included."""
    x, w, size = known_shape(ins, 0), known_shape(ins, 1), outs[0].size
    if x is None or w is None or size is None:
        return 0
    return product(x) * product(w[1:]) * 2 + (size if _has_bias(ins) else 0)


def _transpose(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x, w, *bias = widened(values)
    dtype = next(v.dtype for v in values if v is not None)
    parts, extra = windows(w.shape[2:], attrs), integers(attrs, "output_padding")
    full = [int(str(_unpadded(p, d))) for p, d in zip(parts, x.shape[2:], strict=True)]
    group = integer(attrs, "group")
    each = x.shape[1] // group
    grown = [f + max(0, e) for f, e in zip(full, extra, strict=True)]
    out = np.zeros((x.shape[0], w.shape[1] * group, *grown), dtype=x.dtype)
    for g in range(group):
        part, kernel = x[:, g * each : (g + 1) * each], w[g * each : (g + 1) * each]
        target = out[:, g * w.shape[1] : (g + 1) * w.shape[1]]
        for tap in every(*(range(k) for k in w.shape[2:])):
            weights: Array = kernel[(slice(None), slice(None), *tap)]  # type: ignore[arg-type]
            scattered = np.tensordot(part, weights, axes=(1, 0))
            where = _scatter(tap, parts, x.shape[2:])
            target[(slice(None), slice(None), *where)] += np.moveaxis(scattered, -1, 1)
    return (_with_bias(_cropped(out, parts, extra, full), bias, dtype),)


def _scatter(
    tap: Sequence[int], parts: Sequence[Window], spatial: Sequence[int]
) -> tuple[slice, ...]:
    starts = [t * p.dilation for t, p in zip(tap, parts, strict=True)]
    return tuple(
        slice(s, s + (d - 1) * p.stride + 1, p.stride)
        for s, p, d in zip(starts, parts, spatial, strict=True)
    )


def _cropped(
    out: Array, parts: Sequence[Window], extra: Sequence[int], full: Sequence[int]
) -> Array:
    """Cut the pads off; negative pads grow the result by zeros."""
    grow = [(0, 0), (0, 0)]
    cut = [slice(None), slice(None)]
    for p, e, f in zip(parts, extra, full, strict=True):
        size = f - p.before - p.after + e
        grow.append((max(0, -p.before), max(0, p.before + size - f - max(0, e), 0)))
        start = max(0, p.before)
        cut.append(slice(start, start + size))
    return np.pad(out, grow)[tuple(cut)]


register(
    Operator(
        name="ConvTranspose",
        kind=Kind.CONTRACTION,
        arity=(2, 3),
        infer=_transpose_infer,
        evaluate=_transpose,
        mapping=MANY,
        flops=_transpose_flops,
        attrs=(
            Attr("kernel_shape", "ints"),
            STRIDES,
            PADS,
            DILATIONS,
            GROUP,
            AUTO_PAD,
            Attr("output_padding", "ints"),
            Attr("output_shape", "ints"),
        ),
        complete=_transpose_complete,
        keeps_rank=True,
    )
)
