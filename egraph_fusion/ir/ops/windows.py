"""Sliding windows: what convolution and pooling share of attributes, sizes and numpy views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from egraph_fusion.ir.dims import Dim, Shape, floordiv
from egraph_fusion.ir.graph import Array, Attrs, AttrValue
from egraph_fusion.ir.ops.operator import Attr
from egraph_fusion.ir.ops.reading import TypeRuleError, integers

STRIDES = Attr("strides", "ints")
PADS = Attr("pads", "ints")
DILATIONS = Attr("dilations", "ints")
AUTO_PAD = Attr("auto_pad", "str", "NOTSET", values=("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))


@dataclass(frozen=True, slots=True)
class Window:
    """Extent, stride, dilation and padding of a window along one spatial axis."""

    extent: Dim
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> Dim:
        """How many operand elements the window spans."""
        return (self.extent - 1) * self.dilation + 1

    def count(self, size: Dim, ceil: bool = False) -> Dim:
        """Return how many windows fit into an operand of `size` elements.

        With `ceil` a last partial window counts, unless it would start in the padding behind.
        """
        room = size + (self.before + self.after) - self.reach
        if isinstance(room, int) and room < 0 and not ceil:
            raise TypeRuleError(f"a window of {self.reach} does not fit into {size} elements")
        if not ceil:
            return floordiv(room, self.stride) + 1
        rounded = floordiv(room + (self.stride - 1), self.stride) + 1
        if not isinstance(rounded, int) or not isinstance(size, int):
            return rounded
        return rounded - 1 if (rounded - 1) * self.stride >= size + self.before else rounded


def windows(kernel: Shape, attrs: Attrs) -> tuple[Window, ...]:
    """Return the window of each spatial axis; TypeRuleError for attributes of wrong length."""
    rank = len(kernel)
    strides, pads, dilations = (integers(attrs, n) for n in ("strides", "pads", "dilations"))
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise TypeRuleError(
            f"strides {strides}, dilations {dilations} and pads {pads} must have one, one and two "
            f"entries for each of {rank} spatial axes"
        )
    if any(s < 1 for s in (*strides, *dilations)):
        raise TypeRuleError(f"strides {strides} and dilations {dilations} must be positive")
    sides = zip(pads[:rank], pads[rank:], strict=True)
    parts = zip(kernel, strides, dilations, sides, strict=True)
    return tuple(Window(k, s, d, before, after) for k, s, d, (before, after) in parts)


def completed(
    spatial: Shape | None, kernel: Shape | None, attrs: dict[str, AttrValue]
) -> dict[str, AttrValue]:
    """Fill strides, dilations and pads, and resolve auto_pad where the sizes are known."""
    if kernel is None:
        return attrs
    rank = len(kernel)
    filled: dict[str, AttrValue] = {"strides": (1,) * rank, "dilations": (1,) * rank, **attrs}
    mode = filled.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if spatial is None:
            return filled
        filled["pads"] = _same_pads(spatial, kernel, filled, upper=mode == "SAME_UPPER")
    elif mode == "VALID" or "pads" not in filled:
        filled["pads"] = (0,) * (2 * rank)
    return {**filled, "auto_pad": "NOTSET"}


def _same_pads(
    spatial: Shape, kernel: Shape, attrs: dict[str, AttrValue], upper: bool
) -> tuple[int, ...]:
    strides, dilations = integers(attrs, "strides"), integers(attrs, "dilations")
    before: list[int] = []
    after: list[int] = []
    for size, k, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        reach = (k - 1) * dilation + 1
        if stride == 1 and isinstance(reach, int):
            total = reach - 1
        elif isinstance(size, int) and isinstance(reach, int):
            total = max(0, (-(-size // stride) - 1) * stride + reach - size)
        else:
            raise TypeRuleError(f"auto_pad with stride {stride} needs a known extent, got {size}")
        small, large = total // 2, total - total // 2
        before.append(small if upper else large)
        after.append(large if upper else small)
    return (*before, *after)


def view(x: Array, parts: tuple[Window, ...], counts: tuple[int, ...], fill: Any) -> Array:
    """Return the windows of `x` [N, C, *spatial] as [N, C, *counts, *kernel]; `fill` pads."""
    kernel = tuple(int(str(w.extent)) for w in parts)
    grown = [(0, 0), (0, 0)]
    for w, count, size in zip(parts, counts, x.shape[2:], strict=True):
        needed = (count - 1) * w.stride + int(str(w.reach)) - size - w.before
        grown.append((w.before, max(w.after, needed)))
    padded = np.pad(x, grown, constant_values=fill)
    reach = tuple(int(str(w.reach)) for w in parts)
    axes = tuple(range(2, x.ndim))
    found = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
    steps = tuple(
        slice(0, (c - 1) * w.stride + 1, w.stride) for w, c in zip(parts, counts, strict=True)
    )
    taps = tuple(slice(None, None, w.dilation) for w in parts)
    picked = found[(slice(None), slice(None), *steps, *taps)]
    if picked.shape[2:] != counts + kernel:
        raise TypeRuleError(f"windows {picked.shape[2:]} differ from {counts + kernel}")
    return picked
