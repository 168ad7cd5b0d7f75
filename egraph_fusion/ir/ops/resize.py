"""Resize: nearest, linear and cubic interpolation as a few weighted reads along each axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, static
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.composite import composite, dtype_of, wide
from egraph_fusion.ir.ops.operator import Attr, Builder, Kind, MappingType, fixed_mapping, switch
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, first, integers, known_shape, number
from egraph_fusion.ir.tensors import TensorType

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
CROP = "tf_crop_and_resize"
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Taps:
    """Which elements of an axis make each result, and their weights: [taps, extent] each.

    `outside` marks results that lie off the axis and get the extrapolation value instead.
    """

    index: Array
    weight: Array
    outside: Array


def _floats(attrs: Attrs, name: str) -> tuple[float, ...]:
    value = attrs.get(name, ())
    if not isinstance(value, tuple):
        raise TypeRuleError(f"Resize: {name} must hold numbers, got {value!r}")
    return tuple(float(v) for v in value)


def _complete(types: Types, attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    """Give both sizes and scales where the operand's sizes are known."""
    filled: dict[str, AttrValue] = {"sizes": (), "scales": (), "roi": (), **attrs}
    shape = known_shape(types)
    known = None if shape is None else static(shape)
    sizes, scales = integers(filled, "sizes"), _floats(filled, "scales")
    if known is None or len(known) != len(sizes or scales):
        return filled
    if not sizes:
        filled["sizes"] = tuple(
            math.floor(d * s * (last - first))
            for d, s, (first, last) in zip(known, scales, _crops(filled), strict=False)
        )
    elif not scales:
        filled["scales"] = tuple(s / d if d else 1.0 for s, d in zip(sizes, known, strict=True))
    return filled


def _crops(attrs: Attrs) -> Iterator[tuple[float, float]]:
    """Yield first and last place that each axis is cropped to, as parts of its length."""
    roi = _floats(attrs, "roi") if attrs.get("coordinate_transformation_mode") == CROP else ()
    half = len(roi) // 2
    yield from zip(roi[:half], roi[half:], strict=True) if roi else repeat((0.0, 1.0))


def _refuse(attrs: Attrs) -> None:
    mode, coordinates = attrs["mode"], attrs["coordinate_transformation_mode"]
    if mode not in MODES or coordinates not in COORDINATES:
        raise TypeRuleError(f"Resize: mode {mode!r} with {coordinates!r} is not computed on")


def _infer(types: Types, attrs: Attrs) -> tuple[TensorType, ...]:
    _refuse(attrs)
    x, sizes, scales = first(types), integers(attrs, "sizes"), _floats(attrs, "scales")
    if x.shape is None or len(x.shape) != len(sizes or scales):
        raise TypeRuleError(f"Resize: {x} to sizes {sizes} or scales {scales}")
    if sizes:
        resized: Shape = sizes
    else:
        resized = tuple(_scaled(d, s) for d, s in zip(x.shape, scales, strict=True))
    for old, new in zip(x.shape, resized, strict=True):
        if old != new and not (isinstance(old, int) and isinstance(new, int)):
            raise TypeRuleError(f"Resize: an unknown extent {old} cannot be resized to {new}")
    return (TensorType(x.dtype, resized),)


def _scaled(d: Dim, scale: float) -> Dim:
    if isinstance(d, int):
        return math.floor(d * scale)
    if scale != 1.0:
        raise TypeRuleError(f"Resize: an unknown extent {d} cannot be resized")
    return d


def _position(i: int, old: int, new: int, scale: Fraction, mode: str) -> Fraction:
    """Return where result element `i` of an axis lies among the operand's elements."""
    if mode == "align_corners":
        # ONNX's resized length is the scaled one, even where it is no whole number.
        length = old * scale
        return i * (old - 1) / (length - 1) if length != 1 else Fraction(0)
    if mode == "asymmetric":
        return i / scale
    if mode == "pytorch_half_pixel" and new == 1:
        return Fraction(0)
    centre = (i + _HALF) / scale - _HALF
    if mode == "half_pixel_symmetric":
        return centre + Fraction(old, 2) * (1 - Fraction(new) / (old * scale))
    return centre


def _exact(scale: float, old: int, new: int) -> Fraction:
    """Return the scale as the ratio of the sizes if it is that up to rounding."""
    ratio = Fraction(new, old) if old else Fraction(1)
    return ratio if abs(scale - float(ratio)) < 1e-12 * abs(scale) else Fraction(scale)


def _nearest(x: Fraction, mode: str) -> int:
    if mode == "floor":
        return math.floor(x)
    if mode == "ceil":
        return math.ceil(x)
    return math.floor(x + _HALF) if mode == "round_prefer_ceil" else math.ceil(x - _HALF)


def _cubic_weights(t: Fraction, a: Fraction) -> list[Fraction]:
    """Return the weights of the four neighbours of a position `t` past the second one."""
    outer = [((a * s - 5 * a) * s + 8 * a) * s - 4 * a for s in (t + 1, 2 - t)]
    inner = [((a + 2) * s - (a + 3)) * s * s + 1 for s in (t, 1 - t)]
    return [outer[0], inner[0], inner[1], outer[1]]


def _antialiased(x: Fraction, scale: float, attrs: Attrs) -> tuple[list[int], list[float]]:
    """Return the reads of a filter that is as wide as the step between results."""
    cubic = attrs["mode"] == "cubic"
    start = math.floor(-(2 if cubic else 1) / scale) + 1
    low = math.ceil(x) - 1
    steps = range(start, 2 - start)
    distances = [abs(scale * (i - float(x - low))) for i in steps]
    if cubic:
        a = number(attrs, "cubic_coeff_a")
        weights = [_cubic_weight(d, a) for d in distances]
    else:
        weights = [max(0.0, 1 - d) for d in distances]
    return [low + i for i in steps], [w / sum(weights) for w in weights]


def _cubic_weight(d: float, a: float) -> float:
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def _reads(x: Fraction, old: int, scale: float, attrs: Attrs) -> tuple[list[int], list[float]]:
    """Return the elements that make the value at position `x`, before clamping, and weights."""
    if attrs["mode"] == "nearest":
        return [_nearest(x, str(attrs["nearest_mode"]))], [1.0]
    if attrs["antialias"] and scale < 1:
        return _antialiased(x, scale, attrs)
    if attrs["mode"] == "linear":
        x = min(max(x, Fraction(0)), Fraction(old - 1))
        low = math.floor(x)
        return [low, low + 1], [float(1 - (x - low)), float(x - low)]
    low = math.floor(x)
    index = [low - 1, low, low + 1, low + 2]
    weights = _cubic_weights(x - low, Fraction(repr(number(attrs, "cubic_coeff_a"))))
    if not attrs["exclude_outside"]:
        return index, [float(w) for w in weights]
    inside = [w if 0 <= i < old else Fraction(0) for i, w in zip(index, weights, strict=True)]
    total = sum(inside) or Fraction(1)  # off the axis, all are outside
    return index, [float(w / total) for w in inside]


def axis_taps(
    old: int, new: int, scale: float, attrs: Attrs, crop: tuple[float, float] = (0.0, 1.0)
) -> Taps:
    """Return the reads of one axis resized from `old` to `new` elements."""
    exact, mode = _exact(scale, old, new), str(attrs["coordinate_transformation_mode"])
    if mode == CROP:
        places = [_cropped(i, old, new, crop) for i in range(new)]
    else:
        places = [_position(i, old, new, exact, mode) for i in range(new)]
    rows = [_reads(x, old, scale, attrs) for x in places]
    index = np.array([r[0] for r in rows], dtype=np.int64).reshape(new, -1)
    weight = np.array([r[1] for r in rows], dtype=np.float64).reshape(new, -1)
    outside = np.array([mode == CROP and not 0 <= x <= old - 1 for x in places], dtype=np.bool_)
    return Taps(np.clip(index, 0, max(0, old - 1)).T, weight.T, outside)


def _cropped(i: int, old: int, new: int, crop: tuple[float, float]) -> Fraction:
    first, last = (Fraction(c) * (old - 1) for c in crop)
    return first + i * (last - first) / (new - 1) if new > 1 else (first + last) / 2


def _resized_axes(shape: Shape, attrs: Attrs) -> list[tuple[int, Taps]]:
    """Return the taps of each axis that is not kept as it is."""
    sizes, scales = integers(attrs, "sizes"), _floats(attrs, "scales")
    found: list[tuple[int, Taps]] = []
    for axis, (old, scale, crop) in enumerate(zip(shape, scales, _crops(attrs), strict=False)):
        new = sizes[axis] if sizes else old
        kept = new == old and scale == 1.0 and crop == (0.0, 1.0)
        if isinstance(old, int) and isinstance(new, int) and not kept:
            found.append((axis, axis_taps(old, new, scale, attrs, crop)))
    return found


def _evaluate(values: Sequence[Array | None], attrs: Attrs) -> tuple[Array, ...]:
    x: Array = wide(values[0])
    with np.errstate(all="ignore"):
        for axis, taps in _resized_axes(x.shape, attrs):
            spread = (-1, *(1,) * (x.ndim - 1 - axis))
            parts = [
                np.take(x, i, axis=axis) * w.reshape(spread).astype(x.dtype)
                for i, w in zip(taps.index, taps.weight, strict=True)
            ]
            alone: Array = np.take(x, taps.index[0], axis=axis)
            total: Array = alone if len(parts) == 1 else np.sum(parts, axis=0)
            fill = np.asarray(number(attrs, "extrapolation_value"), x.dtype)
            x = np.asarray(np.where(taps.outside.reshape(spread), fill, total))
    return (x.astype(dtype_of(values)),)


def _body(b: Builder, x: Sequence[str], attrs: Attrs) -> tuple[str, ...]:
    """Gather the taps of each axis and add them with their weights."""
    out, kind = x[0], b.type_of(x[0])
    for axis, taps in _resized_axes(kind.shape or (), attrs):
        rank = len(kind.shape or ())
        parts: list[str] = []
        for index, weight in zip(taps.index, taps.weight, strict=True):
            part = b.op("Gather", out, b.const(np.ascontiguousarray(index)), axis=axis)
            if len(taps.index) > 1:
                spread = weight.reshape(-1, *(1,) * (rank - 1 - axis)).astype(kind.dtype.numpy)
                part = b.op("Mul", part, b.const(spread))
            parts.append(part)
        out = parts[0]
        for part in parts[1:]:
            out = b.op("Add", out, part)
        if taps.outside.any():
            mask = b.const(taps.outside.reshape(-1, *(1,) * (rank - 1 - axis)))
            value = np.asarray(number(attrs, "extrapolation_value"), np.float64)
            with np.errstate(invalid="ignore"):  # an unsigned integer cannot be negative
                fill = value.astype(kind.dtype.numpy)
            out = b.op("Where", mask, b.const(fill), out)
    return (out if out != x[0] else b.op("Identity", out),)


composite(
    "Resize",
    (1, 1),
    _evaluate,
    _body,
    (
        Attr("mode", "str", "nearest", values=MODES),
        Attr("coordinate_transformation_mode", "str", "half_pixel", values=COORDINATES),
        Attr("nearest_mode", "str", "round_prefer_floor", values=ROUNDINGS),
        Attr("cubic_coeff_a", "float", -0.75),
        switch("exclude_outside"),
        switch("antialias"),
        Attr("extrapolation_value", "float", 0.0),
        Attr("sizes", "ints"),
        Attr("scales", "floats"),
        Attr("roi", "floats"),
    ),
    infer=_infer,
    kind=Kind.OTHER,
    mapping=fixed_mapping(MappingType.ONE_TO_MANY),
    complete=_complete,
)
