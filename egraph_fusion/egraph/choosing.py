"""From an e-graph state to a snapshot for the extractors, and back to the chosen e-nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egraph_fusion.egraph.facts import Loaded
from egraph_fusion.egraph.pricing import Prices
from egraph_fusion.egraph.snapshot import Node as SnapshotNode
from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.egraph.state import ENode, EState


@dataclass(frozen=True)
class Offer:
    """A snapshot and what its numbers mean: `enodes` by payload, `classes` of the state by class."""

    snapshot: Snapshot
    enodes: tuple[ENode, ...]
    classes: tuple[int, ...]

    @property
    def numbers(self) -> Mapping[int, int]:
        """The snapshot's number of each class of the state."""
        return {c: i for i, c in enumerate(self.classes)}


def offer(loaded: Loaded, state: EState, prices: Prices) -> Offer:
    """Return the snapshot of a state: what may be chosen, nodes of the graph itself first."""
    priced = [
        (n.made_by >= 0, eclass, n, cost)
        for eclass, members in state.classes.items()
        for n in members
        if (cost := prices.of(eclass, n)) is not None and eclass not in n.children
    ]
    priced.sort(key=lambda p: (p[0], p[1]))
    mentioned = {c for _, eclass, n, _ in priced for c in (eclass, *n.children)}
    roots = [state.of_value[loaded.values[o]] for o in loaded.graph.outputs]
    classes = tuple(sorted(mentioned | set(roots)))
    number = {c: i for i, c in enumerate(classes)}
    nodes = [
        SnapshotNode(
            eclass=number[eclass],
            children=tuple(number[k] for k in n.children),
            cost=cost,
            op=n.constructor if isinstance(n.constructor, str) else n.constructor.name,
            payload=i,
        )
        for i, (_, eclass, n, cost) in enumerate(priced)
    ]
    wanted = list(dict.fromkeys(number[r] for r in roots))
    return Offer(Snapshot.build(nodes, wanted), tuple(p[2] for p in priced), classes)
