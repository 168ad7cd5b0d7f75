"""The paper's planner, literally: seed at the smallest One-to-One operator, grow, ask Table 3.

DNNFusion (PLDI 2021), Listing 1 and Section 4.3.  Five points that the paper leaves open are
settled so: the *block's* accumulated type meets the candidate's; `argmin` of the result size
is meant; a merge must keep the blocks acyclic; blocks without a One-to-One operator are seeded in a
second pass over Reorganize and Shuffle operators; a value used outside its block stays an output.
"""

from __future__ import annotations

from collections.abc import Callable

from egraph_fusion.fusion.grouping import Grouping
from egraph_fusion.fusion.mapping import Relation, fused, relation
from egraph_fusion.fusion.plan import Plan, make_block, mapping_type, order_blocks
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops.operator import MappingType, declared

# Answers a yellow cell: given the graph, the block and the candidate, is fusing them faster?
Profit = Callable[[Graph, list[Node], list[Node]], bool]

# Stand-in for the paper's unpublished "empirically determined" register threshold: a block reads
# at most this many tensors from outside.
MAX_BLOCK_INPUTS = 16
# Without measurements a yellow cell is green unless the result is much larger than what feeds it,
# since a broadcasting consumer then repeats reads more than fusing saves.
MAX_EXPANSION = 8


def estimated_profit(graph: Graph, producer: list[Node], consumer: list[Node]) -> bool:
    """Answer a yellow cell without measuring: fuse unless the result grows beyond a ratio."""
    before = sum(graph.types[o].nbytes or 0 for n in producer[-1:] for o in n.outputs if o)
    after = sum(graph.types[o].nbytes or 0 for n in consumer[-1:] for o in n.outputs if o)
    return after <= MAX_EXPANSION * max(before, 1)


def plan_dnnfusion(graph: Graph, profit: Profit = estimated_profit) -> Plan:
    """Partition `graph` with the paper's algorithm; `profit` answers the yellow cells."""
    planner = _Literal(graph, profit)
    seeds = (MappingType.ONE_TO_ONE,), (MappingType.REORGANIZE, MappingType.SHUFFLE)
    for types in seeds:
        planner.seed(types)
    plan = Plan(graph, order_blocks(graph, planner.grouping.groups()), "dnnfusion", planner.reasons)
    plan.check()
    return plan


class _Literal:
    """State of one run: the groups, each group's mapping type, and why pairs were refused."""

    def __init__(self, graph: Graph, profit: Profit) -> None:
        self.graph = graph
        self.profit = profit
        self.grouping = Grouping(graph)
        self.types = [mapping_type(graph, n) for n in graph.nodes]
        self.opaque = [declared(n) is None for n in graph.nodes]
        self.block_type = dict(enumerate(self.types))
        self.fused: set[int] = set()
        self.reasons: dict[tuple[str, str], str] = {}

    def seed(self, types: tuple[MappingType, ...]) -> None:
        """Start a block at each still unfused node of `types`, smallest result first."""
        ready = [i for i, t in enumerate(self.types) if t in types and not self.opaque[i]]
        for i in sorted(ready, key=lambda i: (self._size(i), i)):
            if i in self.fused:
                continue
            self.fused.add(i)
            for s in self.grouping.users[i]:
                self._grow(i, s, forward=True)
            for p in self.grouping.sources[i]:
                self._grow(i, p, forward=False)

    def _size(self, i: int) -> int:
        return sum(t.nbytes or 0 for t in self.graph.out_types(self.graph.nodes[i]))

    def _grow(self, seed: int, candidate: int, *, forward: bool) -> None:
        stack = [candidate]
        while stack:
            i = stack.pop()
            if i in self.fused:
                continue
            reason = self._refusal(seed, i, forward=forward)
            if reason is not None:
                self._note(seed, i, reason)
                continue
            self.fused.add(i)
            block = self.grouping.group[seed]
            types = (self.block_type[block], self.types[i])
            joined = fused(*types) if forward else fused(*reversed(types))
            self.grouping.merge(block, self.grouping.group[i])
            self.block_type[block] = joined or MappingType.MANY_TO_MANY
            following = self.grouping.users[i] if forward else self.grouping.sources[i]
            stack += list(reversed(following))

    def _refusal(self, seed: int, i: int, *, forward: bool) -> str | None:
        block = self.grouping.group[seed]
        if self.opaque[i]:
            return "an opaque operator is a block of its own"
        types = (self.block_type[block], self.types[i])
        first, second = types if forward else (types[1], types[0])
        colour = relation(first, second)
        if colour is Relation.BREAK:
            return f"{second.value} after {first.value} breaks fusion (Table 3, red)"
        if not self.grouping.convex((block, self.grouping.group[i])):
            return "another block lies between them: fused, the blocks would depend on each other"
        joined = [*self.grouping.nodes(block), self.graph.nodes[i]]
        if len(make_block(self.graph, joined).inputs) > MAX_BLOCK_INPUTS:
            return f"the block would read more than {MAX_BLOCK_INPUTS} tensors"
        pair = (self.grouping.nodes(block), [self.graph.nodes[i]])
        if colour is Relation.DEPEND and not self.profit(
            self.graph, *(pair if forward else reversed(pair))
        ):
            return f"{second.value} after {first.value} does not pay here (Table 3, yellow)"
        return None

    def _note(self, seed: int, i: int, reason: str) -> None:
        block = self.grouping.nodes(self.grouping.group[seed])
        other = self.graph.nodes[i]
        out = next((o for o in other.outputs if o), "")
        for n in block:
            mine = next((o for o in n.outputs if o), "")
            touching = set(n.reads) & set(other.outputs) or set(other.reads) & set(n.outputs)
            if touching:
                self.reasons[(mine, out)] = reason
