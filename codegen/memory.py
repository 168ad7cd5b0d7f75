"""Where values lie in the arena: values whose lifetimes do not overlap share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 128
"""Bytes: two cache lines, the widest vector, and what OpenCL asks of a sub-buffer."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """`size` bytes that are needed from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def place(lifetimes: Sequence[Lifetime]) -> tuple[tuple[int, ...], int]:
    """Return the byte offset of each lifetime and the arena's size in bytes.

    Greedy by size (Pisarchyk and Lee, 2020, "Efficient Memory Management for Deep Neural Net
    Inference"): the largest first, each at the lowest offset that is free over its lifetime.

    >>> place([Lifetime(200, 0, 1), Lifetime(64, 1, 2), Lifetime(256, 2, 3)])
    ((0, 256, 0), 384)
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size, i)):
        offsets[i] = _lowest_gap(lifetimes, offsets, placed, lifetimes[i])
        placed.append(i)
    ends = (o + _aligned(t.size) for o, t in zip(offsets, lifetimes, strict=True))
    return tuple(offsets), max(ends, default=0)


def _lowest_gap(
    lifetimes: Sequence[Lifetime], offsets: Sequence[int], placed: Sequence[int], new: Lifetime
) -> int:
    busy = sorted(
        (offsets[j], offsets[j] + _aligned(lifetimes[j].size))
        for j in placed
        if lifetimes[j].first <= new.last and new.first <= lifetimes[j].last
    )
    start = 0
    for begin, end in busy:
        if start + _aligned(new.size) <= begin:
            break
        start = max(start, end)
    return start


def largest_live(lifetimes: Sequence[Lifetime]) -> int:
    """Return the most bytes alive at any one step: the lower bound of every arena."""
    steps = range(max((t.last for t in lifetimes), default=-1) + 1)
    alive = (sum(_aligned(t.size) for t in lifetimes if t.first <= s <= t.last) for s in steps)
    return max(alive, default=0)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
