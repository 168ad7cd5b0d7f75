"""Layout operators for which no kernel runs: their producers write, their readers read in place.

Each producer of a concatenation stores straight into its part; readers of a split, sliced or
reshaped value address it inside what was split. A block of only such operators disappears: its
nodes join the block that produces their operands (the last of these to run), whose kernel leaves
them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate

from egraph_fusion.fusion.plan import Block, Plan, make_block
from egraph_fusion.fusion.views import REGROUPS, View, moved, part, whole
from egraph_fusion.ir.graph import Graph, Node

DIVIDES = frozenset({"Split", "Slice"}) | REGROUPS
"""Operators whose results lie inside their operand."""

IMAGE_RANK = 4
"""Values of this rank and more lie channels last, but for those that others than kernels see."""


def without_copies(plan: Plan, native: Callable[[Block], bool]) -> Plan:
    """Return the plan with blocks eliminated that only lay values out.

    `native` says whether a kernel runs a block; what the fallback sees lies in memory of its own.
    """

    @cache
    def runs(i: int) -> bool:
        return native(plan.blocks[i])

    elimination = _Elimination(plan, runs)
    for i, block in enumerate(plan.blocks):
        elimination.visit(i, block)
    return elimination.result() if elimination.hosts else plan


@dataclass
class _Elimination:
    """The eliminated blocks so far, each with its host, and the values that became views.

    `begun` is the first block that writes into the result of an eliminated Concat.
    """

    plan: Plan
    native: Callable[[int], bool]
    hosts: dict[int, int] = field(default_factory=dict[int, int])
    views: dict[str, View] = field(default_factory=dict[str, View])
    begun: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def graph(self) -> Graph:
        """The graph that is planned."""
        return self.plan.graph

    def visit(self, i: int, block: Block) -> None:
        """Eliminate block number `i` if its results can lie where its operands' kernels write."""
        ops = [n.op for n in block.nodes]
        if block.opaque or not all(self._sized(v) for n in block.nodes for v in n.outputs):
            return
        if ops == ["Concat"]:
            found = self._concatenated(block.nodes[0])
        elif set(ops) <= DIVIDES:
            found = self._divided(block)
        else:
            return
        if found is not None:
            self.hosts[i], views = found
            self.views |= views

    def _concatenated(self, n: Node) -> tuple[int, Mapping[str, View]] | None:
        """Return the host of a Concat and its operands as parts of the result."""
        result = n.outputs[0]
        homes = [self._home(v) for v in n.inputs]
        own = all(self._free(v) for v in n.inputs) and len(set(n.inputs)) == len(n.inputs)
        known = [h for h in homes if h is not None]
        if not own or len(known) < len(homes):
            return None
        first = min(self.begun.get(v, h) for v, h in zip(n.inputs, known, strict=True))
        if not self._holds(result, first, max(known)):
            return None
        self.begun[result] = first
        axis = n.attrs["axis"]
        assert isinstance(axis, int)
        base = whole(result, len(self.graph.types[result].static_shape or ()))
        sizes = [(self.graph.types[v].static_shape or ())[axis] for v in n.inputs]
        starts = accumulate(sizes, initial=0)
        return max(known), {v: part(base, axis, s) for v, s in zip(n.inputs, starts, strict=False)}

    def _holds(self, result: str, first: int, last: int) -> bool:
        """Whether `result` may be written in parts by the blocks from `first` to `last`."""
        if not self._seen(result):
            return True
        image = len(self.graph.types[result].shape or ()) >= IMAGE_RANK
        return not image and all(self.native(i) for i in range(first, last + 1))

    def _divided(self, block: Block) -> tuple[int, Mapping[str, View]] | None:
        """Return the host of a block whose results lie inside its one operand, and their places."""
        sources = {v for n in block.nodes for v in n.inputs[:1]} - {
            o for n in block.nodes for o in n.outputs
        }
        if len(sources) != 1:
            return None
        (source,) = sources
        home, shape = self._home(source), self.graph.types[source].static_shape
        if home is None or shape is None or not all(self._free(v) for v in block.outputs):
            return None
        if self._seen(source) and len(shape) >= IMAGE_RANK:
            return None
        places = {source: whole(source, len(shape))}
        for n in block.nodes:
            for number, value in enumerate(n.outputs):
                place = moved(self.graph, n, number, places[n.inputs[0]])
                if place is None:
                    return None
                places[value] = place
        return home, {v: places[v] for v in block.outputs}

    def _home(self, value: str) -> int | None:
        """Return the block whose kernel completes `value`; None if it is given or a fallback's."""
        i = self.plan.block_of.get(value)
        while i is not None and i in self.hosts:
            i = self.hosts[i]
        return i if i is not None and self.native(i) else None

    def _sized(self, value: str) -> bool:
        """Whether `value` has a known shape with elements in it."""
        shape = self.graph.types[value].static_shape if value else None
        return shape is not None and 0 not in shape

    def _free(self, value: str) -> bool:
        """Whether only kernels touch `value` and it may lie anywhere."""
        return value not in self.views and not self._seen(value)

    def _seen(self, value: str) -> bool:
        """Whether the caller or a fallback sees `value`."""
        if value in self.graph.outputs or value not in self.plan.block_of:  # given from outside
            return True
        made = (o for n in self.graph.consumers.get(value, ()) for o in n.outputs if o)
        touching = {self.plan.block_of[v] for v in (value, *made)}
        return not all(self.native(i) for i in touching)

    def result(self) -> Plan:
        """Return the plan whose blocks hold the eliminated nodes and whose kernels do not."""
        order = {id(n): i for i, n in enumerate(self.graph.nodes)}
        taken: dict[int, list[Node]] = {}
        for i in self.hosts:
            host = i
            while host in self.hosts:
                host = self.hosts[host]
            taken.setdefault(host, []).extend(self.plan.blocks[i].nodes)
        blocks: list[Block] = []
        kernels: list[Block] = []
        for i, block in enumerate(self.plan.blocks):
            if i in self.hosts:
                continue
            nodes = sorted((*block.nodes, *taken.get(i, ())), key=lambda n: order[id(n)])
            blocks.append(make_block(self.graph, nodes) if i in taken else block)
            kernels.append(block)
        views = {v: self._resolved(v) for v in self.views}
        found = replace(self.plan, blocks=tuple(blocks), kernels=tuple(kernels), views=views)
        found.check()
        return found

    def _resolved(self, value: str) -> View:
        place = self.views[value]
        while place.base in self.views:
            place = place.within(self.views[place.base])
        return place
