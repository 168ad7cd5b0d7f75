"""Which of several equal graphs is the best, by work and by how well they fuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from egraph_fusion.egraph.counting import Totals, totals
from egraph_fusion.ir.graph import Graph

Measure = Callable[[Graph], int]
"""Returns the number of blocks that a graph is planned into."""


@dataclass(frozen=True)
class Candidate:
    """One graph to choose from: what it costs, the rules behind it, and what is known of it."""

    graph: Graph
    blocks_of: Measure
    uses: dict[str, int] = field(default_factory=dict[str, int])
    gap: float | None = None
    assumptions: tuple[str, ...] = ()

    @cached_property
    def totals(self) -> Totals:
        """FLOPs, bytes and operators."""
        return totals(self.graph)

    @cached_property
    def blocks(self) -> int:
        """Blocks of the planned graph."""
        return self.blocks_of(self.graph)


def best(
    original: Candidate, early: Candidate | None, others: Sequence[Candidate], cost: str
) -> Candidate:
    """Return the best candidate that has no more FLOPs and operators than the original.

    FLOPs come first (bytes where `cost` says so), then blocks, bytes and operators.  What the
    `early` rules reach is a bound: no other candidate is taken that has more FLOPs or more blocks,
    so that adding rules never makes a result worse in either.
    """
    fine = [c for c in others if _no_worse(c, original)]
    if early is not None and _no_worse(early, original):
        base = _least([early, original], cost)
        fine = [c for c in fine if _fuses_as_well(c, base)]
        return _least([base, *fine], cost)
    return _least([*fine, original], cost)


def _no_worse(c: Candidate, than: Candidate) -> bool:
    return c.totals.flops <= than.totals.flops and c.totals.ops <= than.totals.ops


def _fuses_as_well(c: Candidate, base: Candidate) -> bool:
    if c.totals.flops > base.totals.flops:
        return False
    return c.graph.nodes == base.graph.nodes or c.blocks <= base.blocks


def _least(candidates: Sequence[Candidate], cost: str) -> Candidate:
    """Return the least candidate, the first of equals; plans only what ties on work."""

    def work(c: Candidate) -> int:
        return c.totals.nbytes if cost == "bytes" else c.totals.flops

    least = min(map(work, candidates))
    tied = [c for c in candidates if work(c) == least]
    if len(tied) == 1:
        return tied[0]
    return min(tied, key=_rank)


def _rank(c: Candidate) -> tuple[int, int, int, int, bool]:
    return (c.blocks, c.totals.nbytes, c.totals.flops, c.totals.ops, c.gap != 0)
