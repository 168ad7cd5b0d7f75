"""The extended planner: grow blocks along producer-consumer edges while one kernel can run them.

Beyond the paper's planner it lets reductions join with what feeds and follows them (softmax, layer
norm), and index maps of movement operators disappear into loads and stores.  It is deterministic:
edges are tried in graph order, epilogues before prologues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from egraph_fusion.fusion.grouping import Grouping
from egraph_fusion.fusion.legal import ANCHORS, ROWS, kind_of, refusal
from egraph_fusion.fusion.plan import Plan, order_blocks
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops.operator import Kind

# Says why the code generator cannot make one kernel of these nodes, or None if it can.
Supported = Callable[[Graph, Sequence[Node]], str | None]


def plan_extended(graph: Graph, supported: Supported | None = None) -> Plan:
    """Partition `graph` into the fewest blocks this greedy finds; `supported` may veto a block."""
    planner = _Extended(graph, supported)
    planner.attach_to_producers()
    planner.join_attention()
    planner.join_concatenations()
    planner.merge_neighbours()
    plan = Plan(graph, order_blocks(graph, planner.grouping.groups()), "extended", planner.reasons)
    plan.check()
    return plan


class _Extended:
    """State of one run."""

    def __init__(self, graph: Graph, supported: Supported | None) -> None:
        self.graph = graph
        self.supported = supported
        self.grouping = Grouping(graph)
        self.reasons: dict[tuple[str, str], str] = {}

    def attach_to_producers(self) -> None:
        """Give each node, in graph order, to the block of the producer it fits best."""
        for i, _ in self.graph.walk():
            for p in sorted(self.grouping.sources[i], key=self._preference):
                self._try(self.grouping.group[p], self.grouping.group[i])

    def join_attention(self) -> None:
        """Merge a product, the normalisation of its rows and the product with them, all at once."""
        for g in list(self.grouping.members):
            if g not in self.grouping.members or not self._holds(g, ROWS):
                continue
            before = [p for p in self.grouping.predecessors(g) if self._holds(p, ANCHORS)]
            after = [s for s in self.grouping.successors(g) if self._holds(s, ANCHORS)]
            if len(before) == 1 and len(after) == 1:
                self._try(before[0], g, after[0])

    def join_concatenations(self) -> None:
        """Merge a Concat with the contractions that make its operands: each writes its part.

        Elementwise operators after it are done on the parts.
        """
        for g in list(self.grouping.members):
            if g in self.grouping.members and self.grouping.nodes(g)[0].op == "Concat":
                self._try(*sorted(self.grouping.predecessors(g)), g)

    def _holds(self, group: int, kinds: set[Kind]) -> bool:
        return any(kind_of(n) in kinds for n in self.grouping.nodes(group))

    def merge_neighbours(self) -> None:
        """Merge blocks along the edges that are left until nothing changes."""
        changed = True
        while changed:
            changed = False
            for g in sorted(self.grouping.members, key=lambda g: min(self.grouping.members[g])):
                if g not in self.grouping.members:
                    continue
                for s in self.grouping.successors(g):
                    if self._try(g, s):
                        changed = True
                        break

    def _preference(self, producer: int) -> tuple[int, int]:
        """Contractions first (their tiles are at hand), then rows, then the latest node."""
        kinds = {kind_of(n) for n in self.grouping.nodes(self.grouping.group[producer])}
        rank = 0 if kinds & ANCHORS else 1 if kinds & ROWS else 2
        return (rank, -producer)

    def _try(self, *groups: int) -> bool:
        """Merge `groups` if one kernel can run them; otherwise note why not."""
        if len(set(groups)) < len(groups):
            return False
        members = self.grouping.members
        joined = [self.graph.nodes[i] for i in sorted(i for g in groups for i in members[g])]
        reason = refusal(self.graph, joined)
        if reason is None and not self.grouping.convex(groups):
            reason = "another block lies between them: fused, they would depend on each other"
        if reason is None and self.supported is not None:
            reason = self.supported(self.graph, joined)
        if reason is not None:
            for a, b in pairwise(groups):
                self._note(a, b, reason)
            return False
        for g in groups[1:]:
            self.grouping.merge(groups[0], g)
        return True

    def _note(self, a: int, b: int, reason: str) -> None:
        readers = self.grouping.nodes(b)
        for n in self.grouping.nodes(a):
            for reader in readers:
                if set(n.outputs) & set(reader.reads):
                    pair = (next(filter(None, n.outputs)), next(filter(None, reader.outputs)))
                    self.reasons[pair] = reason
