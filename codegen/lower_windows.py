"""Windows of convolutions and pooling: which input positions a result reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egraph_fusion.codegen.expand import Fragment
from egraph_fusion.codegen.loops import Call, Cast, Const, Expr, constant
from egraph_fusion.codegen.lower_elements import Elements, Index, LoopScalars
from egraph_fusion.codegen.lower_terms import Terms, accumulator_of, cast, ints, number
from egraph_fusion.ir.graph import Attrs, Node


@dataclass(frozen=True)
class Window:
    """How spatial positions of a convolution or pooling relate: per spatial dimension."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    ends: tuple[int, ...]
    dilations: tuple[int, ...]
    inside: tuple[int, ...]

    def positions(self, out: Sequence[Expr], tap: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the input position that each output position reads at a tap."""
        rows = zip(out, tap, self.strides, self.dilations, self.pads, strict=True)
        return tuple(o * s + t * d - p for o, t, s, d, p in rows)

    def conditions(self, out: Sequence[Expr], tap: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the conditions under which the position lies inside the input."""
        rows = zip(self.positions(out, tap), self.inside, strict=True)
        return tuple(c for p, n in rows for c in (p >= 0, p < n))


def window_of(attrs: Attrs, kernel: Sequence[int], inside: Sequence[int]) -> Window:
    """Return the window that normalised ONNX attributes describe."""
    rank = len(kernel)
    pads = ints(attrs, "pads", (0,) * 2 * rank)
    return Window(
        tuple(kernel),
        ints(attrs, "strides", (1,) * rank),
        pads[:rank],
        pads[rank:],
        ints(attrs, "dilations", (1,) * rank),
        tuple(inside),
    )


def pooling(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of a pooling over windows."""
    x = n.inputs[0]
    shape = fragment.shape(x)
    dtype = fragment.types[x].dtype
    wide = accumulator_of(dtype)
    window = window_of(n.attrs, ints(n.attrs, "kernel_shape", shape[2:]), shape[2:])
    power = number(n.attrs, "p", 2) if n.op == "LpPool" else 0.0
    scalars = LoopScalars(wide)

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        element = cast(wide, elements.at(x, (*i[:2], *window.positions(i[2:], r))))
        if n.op != "LpPool":
            return element
        return scalars.pow(Call("abs", (element,)), scalars.const(power))

    def guard(i: Index, r: Index) -> tuple[Expr, ...]:
        return window.conditions(i[2:], r)

    def finish(elements: Elements, total: Expr, i: Index) -> Expr:
        if n.op == "AveragePool":
            include = bool(n.attrs.get("count_include_pad", 0))
            count = elements.simplify(_window_size(window, i[2:], include))
            exact = constant(count.value, wide) if isinstance(count, Const) else Cast(wide, count)
            total = Call("div", (total, exact))
        if n.op == "LpPool":
            total = scalars.pow(total, scalars.const(1.0 / power))
        return cast(dtype, total)

    combine = "max" if n.op == "MaxPool" else "add"
    return Terms(n, window.kernel, combine, wide, term, guard, finish, (x,))


def _window_size(window: Window, out: Sequence[Expr], include: bool) -> Expr:
    """Return how many taps of a window count: those inside the input, or inside its padding."""
    total: Expr = Const(1)
    for d, o in enumerate(out):
        start = o * window.strides[d] - window.pads[d]
        step, taps = window.dilations[d], Const(window.kernel[d])
        limit = window.inside[d] + (window.ends[d] if include else 0)
        last = Call("min", (taps, (Const(limit) - start + (step - 1)) // step))
        first = Const(0) - (start // step)  # ceil(-start / step): the first tap at or past 0
        count = last if include else last - Call("max", (Const(0), first))
        total = total * Call("max", (count, Const(0)))
    return total
