"""Fusion blocks and the plan they form: a partition of a graph into kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from egraph_fusion.arguments import checked
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.fusion.mapping import join
from egraph_fusion.fusion.views import View
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.ops.operator import MappingType, declared


class PlanError(EgraphFusionError):
    """A plan is not a partition into convex blocks, or names a node that does not exist."""


@dataclass(frozen=True)
class Block:
    """Nodes that one kernel runs; their inner values never exist in full.

    `inputs` are the values read from outside that are not constants, `outputs` the values that a
    later block or the caller reads.  An `opaque` block holds one node that the fallback runs.
    """

    nodes: tuple[Node, ...]
    mapping_type: MappingType
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opaque: bool = False

    def label(self) -> str:
        """Name the block by its operators in order."""
        return "+".join(n.op for n in self.nodes)


@dataclass(frozen=True)
class Plan:
    """A partition of a graph's nodes into blocks, in an order in which they can run.

    Where layout operators are eliminated, `views` says inside which other values the values lie
    that they read or make, and `kernels` are the blocks without them, one for one.
    """

    graph: Graph
    blocks: tuple[Block, ...]
    planner: str
    reasons: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    views: Mapping[str, View] = field(default_factory=dict[str, View])
    kernels: tuple[Block, ...] = ()

    @cached_property
    def block_of(self) -> Mapping[str, int]:
        """Index of the block that produces each value."""
        return {o: i for i, b in enumerate(self.blocks) for n in b.nodes for o in n.outputs if o}

    @property
    def launched(self) -> tuple[Block, ...]:
        """What each block's kernel computes: the block without eliminated nodes."""
        return self.kernels or self.blocks

    @property
    def intermediate_bytes_before(self) -> int:
        """Bytes of the values between nodes, had each node a kernel of its own."""
        kept = (o for n in self.graph.nodes for o in n.outputs if o and o not in self.graph.outputs)
        return sum(self.graph.types[o].nbytes or 0 for o in kept)

    @property
    def intermediate_bytes_after(self) -> int:
        """Bytes of the values between blocks."""
        stored = (o for b in self.launched for o in b.outputs)
        kept = (o for o in stored if self.base_of(o) not in self.graph.outputs)
        return sum(self.graph.types[o].nbytes or 0 for o in kept)

    @cached_property
    def unsized(self) -> tuple[str, ...]:
        """Values between nodes whose bytes are unknown, which the sums above leave out."""
        made = (o for n in self.graph.nodes for o in n.outputs if o and o not in self.graph.outputs)
        return tuple(o for o in made if self.graph.types[o].nbytes is None)

    @cached_property
    def bases(self) -> frozenset[str]:
        """The values inside which others lie."""
        return frozenset(view.base for view in self.views.values())

    def base_of(self, value: str) -> str:
        """Return the value inside which `value` lies, or `value` itself."""
        return self.views[value].base if value in self.views else value

    def find(self, name: str) -> Node:
        """Return the node called `name`, by its own name or by one of its outputs."""
        for n in self.graph.nodes:
            if name and (n.name == name or name in n.outputs):
                return n
        raise PlanError(f"no node is called {name!r} and none produces a value of that name")

    @checked(PlanError)
    def why_not(self, a: str | Node, b: str | Node) -> str:
        """Say why two nodes (or the nodes of two names) are in different blocks."""
        first, second = (self.find(x) if isinstance(x, str) else x for x in (a, b))
        i, j = self._place(first), self._place(second)
        both = f"{first.label()} and {second.label()}"
        if i == j:
            return f"{both} are in one block (block {i})"
        for p, r in ((first, second), (second, first)):
            if _pair(p, r) in self.reasons:
                return f"{both}: {self.reasons[_pair(p, r)]}"
        meetings = [*self._edges(i, j), *self._edges(j, i)]
        for p, r in meetings:
            if _pair(p, r) in self.reasons:
                reason = self.reasons[_pair(p, r)]
                return (
                    f"{both} are in blocks {i} and {j}, which meet at {p.label()} and "
                    f"{r.label()}: {reason}"
                )
        if not meetings:
            return f"{both} are in blocks {i} and {j}, neither of which reads what the other makes"
        types = f"{self.blocks[i].mapping_type.value} and {self.blocks[j].mapping_type.value}"
        return (
            f"{both} are in blocks {i} and {j} ({types}): each was formed on its own, and this "
            "planner joins no two blocks"
        )

    def _place(self, n: Node) -> int:
        place = self.block_of.get(next(filter(None, n.outputs), ""))
        if place is None:
            raise PlanError(f"node {n.label()} is none of this plan's")
        return place

    def _edges(self, i: int, j: int) -> list[tuple[Node, Node]]:
        """Return the nodes of block `i` whose results nodes of block `j` read, with these."""
        readers = self.blocks[j].nodes
        return [
            (p, r) for p in self.blocks[i].nodes for r in readers if set(p.outputs) & set(r.reads)
        ]

    def check(self) -> None:
        """Raise PlanError unless each node is in one block and the blocks can run in order."""
        placed = [id(n) for b in self.blocks for n in b.nodes]
        if sorted(placed) != sorted(id(n) for n in self.graph.nodes):
            raise PlanError("the blocks are not a partition of the graph's nodes")
        if len(self.launched) != len(self.blocks):
            raise PlanError(f"{len(self.blocks)} blocks have {len(self.launched)} kernels")
        known = {*self.graph.inputs, *self.graph.constants}
        for i, b in enumerate(self.blocks):
            missing = [v for v in b.inputs if v not in known]
            if missing:
                raise PlanError(f"block {i} reads {missing[0]!r} before a block produces it")
            known |= set(b.outputs)
        if not set(self.graph.outputs) <= known:
            raise PlanError("a graph output is not an output of any block")

    def to_text(self) -> str:
        """Print the plan, one block a paragraph."""
        counts = f"{len(self.graph.nodes)} nodes, {len(self.blocks)} blocks"
        lines = [f"plan by {self.planner}: {counts}"]
        for i, b in enumerate(self.blocks):
            kind = "opaque" if b.opaque else b.mapping_type.value
            lines.append(f"block {i} [{kind}] ({', '.join(b.inputs)}) -> ({', '.join(b.outputs)})")
            computed = {id(n) for n in self.launched[i].nodes}
            for n in b.nodes:
                note = "" if id(n) in computed else "  # in place"
                lines.append(f"  {', '.join(n.outputs)} = {n.op}({', '.join(n.inputs)}){note}")
        return "\n".join(lines)

    __str__ = to_text


def _pair(a: Node, b: Node) -> tuple[str, str]:
    return (next(filter(None, a.outputs), ""), next(filter(None, b.outputs), ""))


def mapping_type(graph: Graph, n: Node) -> MappingType:
    """Return a node's mapping type, computed from its operands' shapes; opaque is Many-to-Many."""
    operator = declared(n)
    if operator is None:
        return MappingType.MANY_TO_MANY
    constant = [v in graph.constants for v in n.inputs]
    return operator.mapping(graph.in_types(n), graph.out_types(n), constant, n.attrs)


def make_block(graph: Graph, nodes: Iterable[Node]) -> Block:
    """Return the block of `nodes` (in graph order): its boundary follows from the graph."""
    inside = tuple(nodes)
    made = {o for n in inside for o in n.outputs if o}
    reads = dict.fromkeys(v for n in inside for v in n.reads)
    ids = {id(n) for n in inside}
    outputs = tuple(
        o
        for n in inside
        for o in n.outputs
        if o and (o in graph.outputs or any(id(c) not in ids for c in graph.consumers.get(o, ())))
    )
    return Block(
        nodes=inside,
        mapping_type=join(mapping_type(graph, n) for n in inside),
        inputs=tuple(v for v in reads if v not in made and v not in graph.constants),
        outputs=outputs or tuple(o for o in inside[-1].outputs if o)[:1],
        opaque=any(declared(n) is None for n in inside),
    )


def order_blocks(graph: Graph, groups: Sequence[Sequence[Node]]) -> tuple[Block, ...]:
    """Return the groups as blocks in an order in which they can run; PlanError if there is none.

    Ties keep the order of the groups' first nodes, so equal graphs give equal plans.
    """
    place = {id(n): i for i, n in enumerate(graph.nodes)}
    sorted_groups = sorted(
        (sorted(g, key=lambda n: place[id(n)]) for g in groups if g), key=lambda g: place[id(g[0])]
    )
    group_of = {id(n): i for i, g in enumerate(sorted_groups) for n in g}
    needs: list[set[int]] = [set() for _ in sorted_groups]
    for i, g in enumerate(sorted_groups):
        sources = (graph.producers.get(v) for n in g for v in n.reads)
        needs[i] = {group_of[id(p)] for p in sources if p is not None} - {i}
    order: list[int] = []
    done: set[int] = set()
    pending = list(range(len(sorted_groups)))
    while pending:
        ready = next((i for i in pending if needs[i] <= done), None)
        if ready is None:
            raise PlanError("the blocks depend on each other in a cycle")
        pending.remove(ready)
        done.add(ready)
        order.append(ready)
    return tuple(make_block(graph, sorted_groups[i]) for i in order)
