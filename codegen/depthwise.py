"""Depthwise convolutions: a micro-kernel over the channels of a few pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import Protocol

from egraph_fusion.codegen.contraction_rows import split_index
from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.index import simplify, stride_of
from egraph_fusion.codegen.loops import (
    Alloc,
    Call,
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
from egraph_fusion.codegen.lower_elements import Elements
from egraph_fusion.codegen.lower_nests import Target, serial
from egraph_fusion.codegen.lower_reduce import finish_into
from egraph_fusion.codegen.lower_space import Space, grouped_space
from egraph_fusion.codegen.lower_terms import Terms, conjunction
from egraph_fusion.codegen.lower_windows import Window, window_of
from egraph_fusion.ir.graph import Array, Node
from egraph_fusion.ir.tensors import DType

PIXELS = 4
"""Neighbouring pixels of one call: they share the loads of the weights."""

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
    channels, taps = shape[1], prod(window.kernel)
    _expect_contiguous(elements, n, x, channels, len(window.kernel))
    lines = (out[0], *out[2:-1])
    width = out[-1]
    weights = packer.constant(w, "taps", taps * channels, _by_tap)
    groups = ceil(width / PIXELS)
    line = split_index(Var("p"), lines)
    pixel = (*line, Var("q"))
    points = _pointers(elements, x, window, pixel, out)
    count: Expr = Const(PIXELS)
    if width % PIXELS:
        count = Call("min", (Const(PIXELS), Const(width) - Var("g") * PIXELS))
    run = MicroKernel(
        "dwconv",
        (taps, PIXELS),
        (
            Table("rows"),
            Pointer(weights),
            Const(channels),
            Const(channels),
            Pointer("acc"),
            Const(channels),
        ),
    )
    ranges = {"p": prod(lines), "g": groups, "i": PIXELS, "c": channels, "q": width}
    space = Space(tuple(ranges), tuple(Const(e) for e in ranges.values()), ())
    index = (pixel[0], Var("c"), *pixel[1:])
    stored = Load("acc", Var("i") * channels + Var("c"), DType.FLOAT32)
    known = elements.within(space.simplify)
    stores = finish_into(known, terms, targets, space, index, stored)
    place = Let("q", Var("g") * PIXELS + Var("i"))
    epilogue = For("i", count, (place, For("c", Const(channels), stores, LoopKind.VECTOR)))
    group = For("g", Const(groups), (*points, run, epilogue))
    body = (
        PointerTable("rows", PIXELS * taps),
        Alloc("acc", DType.FLOAT32, Const(PIXELS * channels)),
        group,
    )
    grain = max(1, UNIT_WORK // (width * channels * taps))
    note = f"depthwise {taps} taps, {channels} channels"
    total = Const(prod(lines))
    return (For("p", total, body, LoopKind.PARALLEL, grain=grain, note=note),)


def _by_tap(array: Array) -> Array:
    return array.reshape(array.shape[0], -1).T


def _pointers(
    elements: Elements, x: str, window: Window, pixel: tuple[Expr, ...], out: Sequence[int]
) -> tuple[Stmt, ...]:
    """Set one pointer per pixel and tap; pixels beyond the line repeat its last."""
    taps = prod(window.kernel)
    groups = tuple((d,) for d in range(len(window.kernel)) if window.kernel[d] != 1)
    space = grouped_space(window.kernel, groups, "k")
    known = {
        "p": (0, prod((out[0], *out[2:-1])) - 1),
        "q": (0, out[-1] - 1),
        "g": (0, ceil(out[-1] / PIXELS) - 1),
        **space.ranges,
    }
    conditions = [simplify(c, known) for c in window.conditions(pixel[1:], space.index)]
    conditions = [c for c in conditions if not (isinstance(c, Const) and c.value)]
    here = elements.within(lambda e: simplify(e, known))
    load = here.at(x, (pixel[0], Const(0), *window.positions(pixel[1:], space.index)))
    assert isinstance(load, Load)
    tap: Expr = Const(0)
    for i, size in zip(space.index, window.kernel, strict=True):
        tap = tap * size + i
    entry = simplify(Var("i") * taps + tap)
    point: tuple[Stmt, ...] = (SetPointer("rows", entry, load.buffer, load.index),)
    if conditions:
        point = (If(conjunction(conditions), point, (SetPointer("rows", entry, None),)),)
    column = Var("g") * PIXELS + Var("i")
    if out[-1] % PIXELS:
        place = Let("q", Call("min", (column, Const(out[-1] - 1))))
    else:
        place = Let("q", column)
    return (For("i", Const(PIXELS), (place, *serial(space, point))),)


def _expect_contiguous(elements: Elements, n: Node, x: str, channels: int, spatial: int) -> None:
    ranges = {"c": (0, channels - 1)}
    known = elements.within(lambda e: simplify(e, ranges))
    places = tuple(Var(f"s{d}") for d in range(spatial))
    found = known.at(x, (Var("b"), Var("c"), *places))
    if not isinstance(found, Load) or stride_of(found.index, "c", ranges) != Const(1):
        raise LoweringError(f"{n.label()}: channels are not contiguous in memory")
