"""Values that lie inside others: what layout operators make, described without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops.reading import integer, integers

REGROUPS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
"""Operators that keep the order of elements."""


@dataclass(frozen=True, slots=True)
class View:
    """Where a value lies inside the value `base`.

    Element i of the value is element `start` + (the sum over its dimensions d of `i[d] * step`
    along `axis`) of `base`, with `(axis, step)` = `axes[d]`; `start` has one entry per dimension of
    `base`. How `base` lies in memory does not matter.
    """

    base: str
    axes: tuple[tuple[int, int], ...]
    start: tuple[int, ...]

    def within(self, outer: View) -> View:
        """Return the same place in the base of `outer`, which says where `self.base` lies."""
        start = list(outer.start)
        for d, first in enumerate(self.start):
            axis, step = outer.axes[d]
            start[axis] += first * step
        axes = ((outer.axes[d][0], step * outer.axes[d][1]) for d, step in self.axes)
        return View(outer.base, tuple(axes), tuple(start))


def whole(base: str, rank: int) -> View:
    """Return the view that is all of `base`."""
    return View(base, tuple((d, 1) for d in range(rank)), (0,) * rank)


def part(view: View, axis: int, first: int) -> View:
    """Return what begins at position `first` along dimension `axis` of the view.

    >>> part(whole("x", 2), 1, 3)
    View(base='x', axes=((0, 1), (1, 1)), start=(0, 3))
    """
    along, step = view.axes[axis]
    start = tuple(s + first * step * (d == along) for d, s in enumerate(view.start))
    return replace(view, start=start)


def regrouped(view: View, before: Sequence[int], after: Sequence[int]) -> View | None:
    """Return the view of shape `before` as one of shape `after`, in the same order of elements.

    None if neighbouring dimensions would have to merge that do not follow one another in the base.

    >>> regrouped(whole("x", 2), (4, 6), (4, 2, 3)).axes
    ((0, 1), (1, 3), (1, 1))
    >>> regrouped(whole("x", 2), (4, 6), (24,)) is None
    True
    """
    old = [(size, *view.axes[d]) for d, size in enumerate(before) if size != 1]
    axes: list[tuple[int, int]] = []
    for size in reversed(after):
        if size == 1:
            axes.append((0, 0))
            continue
        found = _taken(old, size)
        if found is None:
            return None
        axes.append(found)
    return replace(view, axes=tuple(reversed(axes)))


Run = tuple[int, int, int]
"""Neighbouring elements: how many, along which axis of the base, at which step."""


def _joined(outer: Run, inner: Run) -> Run | None:
    """Return two dimensions as one, if the outer goes on where the inner ends."""
    follows = outer[1] == inner[1] and outer[2] == inner[0] * inner[2]
    return (outer[0] * inner[0], inner[1], inner[2]) if follows else None


def _taken(old: list[Run], size: int) -> tuple[int, int] | None:
    """Take the innermost `size` elements off the runs and return where they lie."""
    while old and old[-1][0] % size:
        if len(old) < 2 or (joined := _joined(old[-2], old[-1])) is None:
            return None
        old[-2:] = [joined]
    if not old:
        return None
    count, axis, step = old.pop()
    if count != size:
        old.append((count // size, axis, step * size))
    return axis, step


def moved(graph: Graph, n: Node, output: int, view: View) -> View | None:
    """Return where result number `output` of the layout operator `n` lies; None if in no one place.

    `view` is the operand's place.
    """
    before = graph.types[n.inputs[0]].static_shape
    after = graph.types[n.outputs[output]].static_shape
    if before is None or after is None:
        return None
    if n.op in REGROUPS:
        return regrouped(view, before, after)
    if n.op == "Split":
        axis = integer(n.attrs, "axis") % len(before)
        return part(view, axis, sum(integers(n.attrs, "split")[:output]))
    return _sliced(n, view, before) if n.op == "Slice" else None


def _sliced(n: Node, view: View, shape: Sequence[int]) -> View | None:
    """Slices with gaps are no views: vectors could not read them."""
    if any(step != 1 for step in integers(n.attrs, "steps")):
        return None
    rows = zip(integers(n.attrs, "axes"), integers(n.attrs, "starts"), strict=True)
    for axis, start in rows:
        first, _, _ = slice(start, None).indices(shape[axis])
        view = part(view, axis % len(shape), first)
    return view
