"""Depthwise convolutions: a micro-kernel over the channels of a few pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from egraph_fusion.codegen.contraction_rows import split_index, tap_space
from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.index import Ranges, simplify, stride_of
from egraph_fusion.codegen.loops import (
    Alloc,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    MicroKernel,
    Pointer,
    PointerTable,
    SetPointer,
    Stmt,
    Table,
    Var,
)
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_nests import Target, serial
from egraph_fusion.codegen.lower_reduce import finish_into
from egraph_fusion.codegen.lower_space import Space
from egraph_fusion.codegen.lower_terms import Terms, conjunction
from egraph_fusion.codegen.lower_windows import Window, window_of
from egraph_fusion.codegen.targets import ZERO_ROW_FLOATS
from egraph_fusion.ir.graph import Array, Node
from egraph_fusion.ir.tensors import DType

MOST_PIXELS = 8
"""Neighbouring pixels of one call at most: each takes an accumulator register."""

LARGEST_TAPS = 25
"""Taps whose weights a call keeps in registers, more or less."""

UNIT_WORK = 50_000
"""Multiply-adds that are worth a turn of a thread."""


class Packer(Protocol):
    """Adds constants to the kernel that is being written."""

    def constant(self, value: str, form: str, size: int, pack: Callable[[Array], Array]) -> str:
        """Add a constant in packed form and return its name."""
        ...


def is_depthwise(fragment: Fragment, n: Node) -> bool:
    """Whether `n` is a float32 convolution of each channel by itself, with constant weights."""
    if n.op != "Conv" or n.inputs[1] not in fragment.constants:
        return False
    x, w = fragment.shape(n.inputs[0]), fragment.shape(n.inputs[1])
    single = n.attrs.get("group", 1) == x[1] == w[0]
    small = prod(w[2:]) <= LARGEST_TAPS and x[1] > 1
    return single and small and fragment.types[n.inputs[0]].dtype is DType.FLOAT32


def depthwise_nest(
    elements: Elements, n: Node, terms: Terms, targets: Sequence[Target], packer: Packer
) -> tuple[Stmt, ...]:
    """Return the nest of a depthwise convolution; LoweringError if channels are not contiguous."""
    fragment = elements.fragment
    x, w = n.inputs[:2]
    shape, out = fragment.shape(x), fragment.shape(n.outputs[0])
    window = window_of(n.attrs, fragment.shape(w)[2:], shape[2:])
    _expect_contiguous(elements, n, x, shape[1], len(window.kernel))
    weights = packer.constant(w, "taps", prod(window.kernel) * shape[1], _by_tap)
    return _Depthwise(elements, terms, tuple(targets), x, window, out, weights).nest()


def _by_tap(array: Array) -> Array:
    return array.reshape(array.shape[0], -1).T


@dataclass(frozen=True)
class _Depthwise:
    """One depthwise convolution: lines of pixels, in groups that read no padding beside them."""

    elements: Elements
    terms: Terms
    targets: tuple[Target, ...]
    x: str
    window: Window
    out: tuple[int, ...]
    weights: str

    @property
    def channels(self) -> int:
        """Channels, which are contiguous in memory."""
        return self.out[1]

    @property
    def pixel(self) -> int:
        """Floats from one pixel of a line to the next, more than channels inside a wider image."""
        ranges = {"q": (0, self.window.inside[-1] - 1)}
        known = self.elements.within(lambda e: simplify(e, ranges))
        zero = Const(0)
        found = known.at(self.x, (*(zero for _ in self.out[:-1]), Var("q")))
        assert isinstance(found, Load)
        stride = stride_of(found.index, "q", ranges)
        assert isinstance(stride, Const)
        return int(stride.value)

    @property
    def taps(self) -> int:
        """Taps of the window."""
        return prod(self.window.kernel)

    @property
    def lines(self) -> tuple[int, ...]:
        """Shape of what the parallel loop runs over: batch and all spatial axes but the last."""
        return (self.out[0], *self.out[2:-1])

    @property
    def inner(self) -> tuple[int, int]:
        """The pixels of a line that read no padding before or after it: first and one past last."""
        w = self.window
        step, reach = w.strides[-1], (w.kernel[-1] - 1) * w.dilations[-1]
        first = max(0, -(-w.pads[-1] // step))
        last = (w.inside[-1] - 1 - reach + w.pads[-1]) // step
        return first, max(first, min(self.out[-1], last + 1))

    @property
    def pixels(self) -> int:
        """Pixels of a group: leave few over, then many at once; 0 if a group reads too far."""
        count = self.inner[1] - self.inner[0]
        fitting = [p for p in range(2, MOST_PIXELS + 1) if self._span(p) <= ZERO_ROW_FLOATS]
        usable = [p for p in fitting if p <= count]
        return min(usable, key=lambda p: (count % p > 1, -p)) if usable else 0

    def _span(self, pixels: int) -> int:
        w = self.window
        columns = (pixels - 1) * w.strides[-1] + (w.kernel[-1] - 1) * w.dilations[-1] + 1
        return columns * self.pixel

    def nest(self) -> tuple[Stmt, ...]:
        """Return the parallel loop over lines."""
        first, last = self.inner
        groups = (last - first) // self.pixels if self.pixels else 0
        rest = first + groups * self.pixels
        body = (
            PointerTable("rows", self.taps),
            Alloc("acc", DType.FLOAT32, Const(max(1, self.pixels) * self.channels)),
            *self._single(0, first),
            *self._grouped(first, groups),
            *self._single(rest, self.out[-1]),
        )
        grain = max(1, UNIT_WORK // (self.out[-1] * self.channels * self.taps))
        note = f"depthwise {self.taps} taps, {self.channels} channels"
        total = Const(prod(self.lines))
        return (For("p", total, body, LoopKind.PARALLEL, grain=grain, note=note),)

    @property
    def _line(self) -> Index:
        return split_index(Var("p"), self.lines)

    def _known(self, space: Space | None = None) -> Ranges:
        last = (0, self.out[-1] - 1)
        ranges: Ranges = {"p": (0, prod(self.lines) - 1), "q": last, "o": last}
        return {**ranges, **(space.ranges if space else {})}

    def _single(self, start: int, stop: int) -> tuple[Stmt, ...]:
        """Compute the pixels from `start` up to `stop` one by one; any tap may read padding."""
        if start >= stop:
            return ()
        space = tap_space(self.window.kernel)
        points = self._pointers(self.window.kernel, space, space.index)
        sizes = (Const(self.channels), Const(self.channels), Pointer("acc"), Const(self.channels))
        call = MicroKernel("dwconv", (self.taps, 1), (Table("rows"), Pointer(self.weights), *sizes))
        column = Let("q", Var("e") + start if start else Var("e"))
        body = (column, *points, call, self._stores(Const(0)))
        return (For("e", Const(stop - start), body),)

    def _grouped(self, start: int, groups: int) -> tuple[Stmt, ...]:
        """Compute groups of neighbouring pixels, all inside the line; lines may be padding."""
        if not groups:
            return ()
        w, pixels = self.window, self.pixels
        upper = w.kernel[:-1]
        space = tap_space(upper)
        points = self._pointers(upper, space, (*space.index, Const(0)), "o")
        variant = (prod(upper), w.kernel[-1], w.strides[-1], w.dilations[-1], pixels)
        lanes = Const(self.channels)
        operands = (
            Table("rows"),
            Const(self.pixel),
            Pointer(self.weights),
            lanes,
            lanes,
            Pointer("acc"),
            lanes,
        )
        call = MicroKernel("dwline", variant, operands)
        first = Let("o", Var("g") * pixels + start if start else Var("g") * pixels)
        column = Let("q", Var("o") + Var("i"))
        stores = For("i", Const(pixels), (column, self._stores(Var("i"))))
        return (For("g", Const(groups), (first, *points, call, stores)),)

    def _pointers(
        self, taps: tuple[int, ...], space: Space, tap: Index, column: str = "q"
    ) -> tuple[Stmt, ...]:
        """Set one pointer per tap of `space`: the first channel that pixel `column` reads there."""
        known = self._known(space)
        pixel = (*self._line[1:], Var(column))
        found = self.window.conditions(pixel, tap)
        kept = found if len(taps) == len(self.window.kernel) else found[:-2]
        conditions = [simplify(c, known) for c in kept]
        conditions = [c for c in conditions if not (isinstance(c, Const) and c.value)]
        here = self.elements.within(lambda e: simplify(e, known))
        load = here.at(self.x, (self._line[0], Const(0), *self.window.positions(pixel, tap)))
        assert isinstance(load, Load)
        entry: Expr = Const(0)
        for i, size in zip(space.index, taps, strict=True):
            entry = entry * size + i
        entry = simplify(entry)
        point: tuple[Stmt, ...] = (SetPointer("rows", entry, load.buffer, load.index),)
        if conditions:
            point = (If(conjunction(conditions), point, (SetPointer("rows", entry, None),)),)
        return serial(space, point)

    def _stores(self, number: Expr) -> Stmt:
        """Store what becomes of pixel `q`, which is number `number` of its call."""
        ranges = {"p": prod(self.lines), "q": self.out[-1], "c": self.channels, "i": MOST_PIXELS}
        space = Space(tuple(ranges), tuple(Const(e) for e in ranges.values()), ())
        index = (self._line[0], Var("c"), *self._line[1:], Var("q"))
        known = self.elements.within(space.simplify)
        place = simplify(number * self.channels + Var("c"))
        stored = Load("acc", place, DType.FLOAT32)
        stores = finish_into(known, self.terms, self.targets, space, index, stored)
        return For("c", Const(self.channels), stores, LoopKind.VECTOR)


def _expect_contiguous(elements: Elements, n: Node, x: str, channels: int, spatial: int) -> None:
    ranges = {"c": (0, channels - 1)}
    known = elements.within(lambda e: simplify(e, ranges))
    places = tuple(Var(f"s{d}") for d in range(spatial))
    found = known.at(x, (Var("b"), Var("c"), *places))
    if not isinstance(found, Load) or stride_of(found.index, "c", ranges) != Const(1):
        raise LoweringError(f"{n.label()}: channels are not contiguous in memory")
