"""Physical layouts: in which order the dimensions of a dense tensor lie in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.tensors import TensorType


class Blocklike(Protocol):
    """What layouts and lowering need to know of a fusion block."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The block's nodes in topological order."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """Values read from outside that are no constants."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Values that a later block or the caller reads."""
        ...


class Viewlike(Protocol):
    """Where a value lies inside another: (axis of the other, step) per dimension, and its start."""

    @property
    def axes(self) -> tuple[tuple[int, int], ...]:
        """Per dimension of the value, the axis of the other along which it runs, and the step."""
        ...

    @property
    def start(self) -> tuple[int, ...]:
        """Where the value begins, per axis of the other."""
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """`order` lists the logical dimensions from the outermost in memory to the contiguous one.

    A value that lies inside a larger one has its own element strides `steps`, begins at element
    `start` of the buffer, and the buffer has `room` elements.
    """

    order: tuple[int, ...]
    steps: tuple[int, ...] = ()
    start: int = 0
    room: int = 0

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the element stride of each logical dimension of a tensor of `shape`.

        >>> channels_last(4).strides((1, 8, 5, 6))
        (240, 1, 48, 8)
        """
        if self.steps:
            return self.steps
        strides = [0] * len(shape)
        step = 1
        for d in reversed(self.order):
            strides[d] = step
            step *= shape[d]
        return tuple(strides)

    @property
    def dense(self) -> Layout:
        """The same order of dimensions in a buffer of its own."""
        return Layout(self.order)

    @property
    def row_major(self) -> bool:
        """Whether this is the order of numpy and ONNX."""
        return not self.steps and self.order == tuple(range(len(self.order)))


def row_major(rank: int) -> Layout:
    """Return the layout of a C array of `rank` dimensions."""
    return Layout(tuple(range(rank)))


def channels_last(rank: int) -> Layout:
    """Return the layout of `[N, C, spatial...]` with contiguous channels.

    >>> channels_last(4).order
    (0, 2, 3, 1)
    """
    return Layout((0, *range(2, rank), 1))


def inside(base: Layout, shape: Sequence[int], view: Viewlike) -> Layout:
    """Return the layout of a value that lies inside one of `shape` with layout `base`.

    >>> class Half: axes, start = ((0, 1), (1, 1)), (0, 3)
    >>> inside(row_major(2), (4, 6), Half())
    Layout(order=(0, 1), steps=(6, 1), start=3, room=24)
    """
    strides = base.strides(shape)
    steps = tuple(step * strides[axis] for axis, step in view.axes)
    start = sum(s * stride for s, stride in zip(view.start, strides, strict=True))
    order = sorted(range(len(steps)), key=lambda d: -steps[d])
    return Layout(tuple(order), steps, base.start + start, base.room or prod(shape))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse permutation."""
    return tuple(sorted(range(len(order)), key=lambda i: order[i]))


_CONTRACTIONS = frozenset({"MatMul", "Gemm", "Conv", "Einsum"})

_SPATIAL = frozenset(
    {
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "LpPool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "GlobalLpPool",
        "BatchNormalization",
        "InstanceNormalization",
        "Resize",
        "DepthToSpace",
        "SpaceToDepth",
        "LRN",
    }
)
"""Operators on `[N, C, spatial...]`; a value around one lies channels last."""


def choose_layouts(
    graph: Graph, blocks: Sequence[Blocklike], also: Iterable[str] = ()
) -> Mapping[str, Layout]:
    """Return the layout of each value that some block reads or writes and that is no constant.

    Images (rank 4 and 5) around convolutions and pooling lie channels last: from there the choice
    spreads along operators that keep the shape's rank. Graph inputs and outputs lie as in
    ONNX. `also` are further values, inside which some of the blocks' values lie.
    """
    kept = {*graph.inputs, *graph.outputs}
    images = _images(graph)
    chosen: dict[str, Layout] = {}
    natural = {v: found for b in blocks for v, found in _natural(graph, b).items()}
    touched = (v for b in blocks for v in (*b.inputs, *b.outputs))
    for value in dict.fromkeys((*touched, *also)):
        shape = graph.type_of(value).shape
        if shape is None:
            continue
        if value in kept:
            chosen[value] = row_major(len(shape))
        elif value in images:
            chosen[value] = channels_last(len(shape))
        else:
            chosen[value] = natural.get(value, row_major(len(shape)))
    return chosen


def _natural(graph: Graph, block: Blocklike) -> dict[str, Layout]:
    """Return, for outputs that a contraction's block transposes last, the order before that."""
    makes = {o: n for n in block.nodes for o in n.outputs if o}
    if not any(n.op in _CONTRACTIONS for n in block.nodes):
        return {}
    found: dict[str, Layout] = {}
    for value in block.outputs:
        n = makes.get(value)
        while n is not None and n.op not in ("Transpose", *_CONTRACTIONS):
            same = [v for v in n.inputs if v in makes and graph.types[v] == graph.types[value]]
            n = makes[same[0]] if len(same) == 1 else None
        if n is not None and n.op == "Transpose" and n.inputs[0] in makes:
            perm = n.attrs["perm"]
            assert isinstance(perm, tuple)
            found[value] = Layout(inverse([int(p) for p in perm]))
    return found


def _images(graph: Graph) -> frozenset[str]:
    """Return the values of rank 4 and 5 that are connected to a convolution or pooling."""
    found: set[str] = set()
    work = [v for n in graph.nodes if n.op in _SPATIAL for v in (*n.inputs[:1], *n.outputs) if v]
    while work:
        value = work.pop()
        if value in found or value in graph.constants or not _is_image(graph.types[value]):
            continue
        found.add(value)
        near = [*graph.consumers.get(value, ())]
        if value in graph.producers:
            near.append(graph.producers[value])
        for n in near:
            work += _same_axes(graph, n, value)
    return frozenset(found)


def _same_axes(graph: Graph, n: Node, value: str) -> list[str]:
    """Return the operands and results of `n` whose axes mean what those of `value` mean."""
    if (
        n.op in ("Reshape", "Transpose", "MatMul", "Gemm", "Einsum", "Flatten", "Gather")
        or n.opaque
    ):
        return []
    rank = len(graph.types[value].shape or ())
    return [v for v in (*n.inputs, *n.outputs) if v and _rank(graph.types[v]) == rank]


def _rank(found: TensorType) -> int | None:
    return None if found.shape is None else len(found.shape)


def _is_image(found: TensorType) -> bool:
    return _rank(found) in (4, 5)
