"""Readers of Resize and Upsample: scales or sizes of every axis become attributes."""

from __future__ import annotations

import numpy as np

from egraph_fusion.frontend.forms import CannotReadError, Form, Reading, operands, reads
from egraph_fusion.ir.dims import static
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops.reading import normal_axis
from egraph_fusion.ir.ops.resize import CROP

# Resize before opset 11, and Upsample, have these without saying so.
_FIRST_FORM: dict[str, AttrValue] = {
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
_STRETCH = "stretch"


@reads("Upsample", since=7)
def _upsample_attribute(form: Form) -> Reading:
    return Reading("Resize", operands(form, 0), {**_FIRST_FORM, **form.plain()})


@reads("Upsample", since=9)
@reads("Resize", since=10)
def _scales_operand(form: Form) -> Reading:
    attrs = {**_FIRST_FORM, **form.plain(), "scales": _numbers(form, 1, "scales")}
    return Reading("Resize", operands(form, 0), attrs, (1,))


@reads("Resize", since=11)
def _resize(form: Form) -> Reading:
    attrs = form.plain("axes", "keep_aspect_ratio_policy")
    rank = len(form.shape())
    named = form.attr_ints("axes")
    axes = tuple(normal_axis(a, rank, "Resize") for a in named or range(rank))
    if form.has(1) and attrs.get("coordinate_transformation_mode") == CROP:
        attrs["roi"] = _crop(axes, _numbers(form, 1, "roi"), rank)
    scales = _numbers(form, 2, "scales") if form.has(2) else ()
    if scales:
        attrs["scales"] = _at(axes, scales, (1.0,) * rank)
    else:
        attrs |= _sized(form, axes)
    return Reading("Resize", operands(form, 0), attrs, tuple(i for i in (1, 2, 3) if form.has(i)))


def _crop(axes: tuple[int, ...], roi: tuple[float, ...], rank: int) -> tuple[float, ...]:
    """Return the first places of all axes, then the last ones."""
    half = len(roi) // 2
    return _at(axes, roi[:half], (0.0,) * rank) + _at(axes, roi[half:], (1.0,) * rank)


def _sized(form: Form, axes: tuple[int, ...]) -> dict[str, AttrValue]:
    """Return the sizes, and the common scale where the aspect ratio is kept."""
    shape = static(form.shape())
    if shape is None:
        raise CannotReadError("it resizes to given sizes from sizes known at run time only")
    sizes = form.ints(3, "sizes")
    policy = form.attrs.get("keep_aspect_ratio_policy", _STRETCH)
    if policy == _STRETCH:
        return {"sizes": tuple(int(s) for s in _at(axes, sizes, shape))}
    ratios = [size / shape[a] for size, a in zip(sizes, axes, strict=False)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    rounded = tuple(int(scale * shape[a] + 0.5) for a in axes)
    return {
        "sizes": tuple(int(s) for s in _at(axes, rounded, shape)),
        "scales": _at(axes, (scale,) * len(axes), (1.0,) * len(shape)),
    }


def _numbers(form: Form, position: int, what: str) -> tuple[float, ...]:
    array = form.array(position, what)
    if array.dtype.kind != "f":
        raise CannotReadError(f"{what} has dtype {array.dtype}, expected floats")
    return tuple(float(v) for v in np.atleast_1d(array))


def _at(
    axes: tuple[int, ...], values: tuple[float, ...], default: tuple[float, ...]
) -> tuple[float, ...]:
    """Return `default` with `values` at `axes`."""
    if len(values) != len(axes):
        raise CannotReadError(f"{len(values)} numbers for {len(axes)} axes")
    given = dict(zip(axes, values, strict=True))
    return tuple(given.get(a, d) for a, d in enumerate(default))
