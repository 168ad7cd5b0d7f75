"""Where each value of a program lives: a slot that Python sees, or bytes of the arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from egraph_fusion.codegen.lower import LoweredBlock
from egraph_fusion.codegen.memory import Lifetime, place
from egraph_fusion.fusion.plan import Block
from egraph_fusion.ir.graph import Graph

Lowered = LoweredBlock | None  # None: the fallback runs the block


@dataclass(frozen=True)
class Placement:
    """Slot number of the values Python sees; arena offset of the others and of kernels' scratch.

    `scratch` is keyed by block index and buffer name.  Offsets and `arena_bytes` are bytes.
    """

    slots: Mapping[str, int]
    arena: Mapping[str, int]
    scratch: Mapping[tuple[int, str], int]
    arena_bytes: int


def visible(graph: Graph, blocks: Sequence[Block], lowered: Sequence[Lowered]) -> list[str]:
    """Return the values Python must see: inputs, outputs, and all that a fallback step touches."""
    touched = [
        v
        for b, low in zip(blocks, lowered, strict=True)
        if low is None
        for n in b.nodes
        for v in (*n.reads, *(o for o in n.outputs if o))
    ]
    return list(dict.fromkeys([*graph.inputs, *graph.outputs, *touched]))


def place_values(
    graph: Graph, blocks: Sequence[Block], lowered: Sequence[Lowered], base_of: Callable[[str], str]
) -> Placement:
    """Give every value that crosses blocks a place; `base_of` gives what a value lies in."""
    slots = {v: i for i, v in enumerate(visible(graph, blocks, lowered))}
    keys: list[str | tuple[int, str]] = []
    lifetimes: list[Lifetime] = []
    for value, (first, last) in _lifetimes(blocks, base_of).items():
        if value not in slots:
            keys.append(value)
            lifetimes.append(Lifetime(graph.types[value].nbytes or 0, first, last))
    for i, low in enumerate(lowered):
        for a in low.arguments if low is not None else ():
            if a.scratch_bytes:
                keys.append((i, a.buffer))
                lifetimes.append(Lifetime(a.scratch_bytes, i, i))
    offsets, total = place(lifetimes)
    arena = {k: o for k, o in zip(keys, offsets, strict=True) if isinstance(k, str)}
    scratch = {k: o for k, o in zip(keys, offsets, strict=True) if not isinstance(k, str)}
    return Placement(slots, arena, scratch, total)


def _lifetimes(
    blocks: Sequence[Block], base_of: Callable[[str], str]
) -> dict[str, tuple[int, int]]:
    spans: dict[str, tuple[int, int]] = {}
    for i, b in enumerate(blocks):
        for v in map(base_of, b.outputs):
            spans[v] = (spans.get(v, (i, i))[0], i)
    for i, b in enumerate(blocks):
        for v in map(base_of, b.inputs):
            if v in spans:
                spans[v] = (spans[v][0], max(spans[v][1], i))
    return spans
