"""From an e-graph state to a snapshot for the extractors, and back to the chosen e-nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egraph_fusion.egraph.facts import Loaded
from egraph_fusion.egraph.pricing import Prices
from egraph_fusion.egraph.snapshot import Node as SnapshotNode
from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.egraph.state import ENode, EState
from egraph_fusion.extract.choice import Choice

FOLDED = "Folded"


@dataclass(frozen=True)
class Offer:
    """A snapshot and what its numbers mean: `enodes` by payload, `classes` of the state by class.

    Classes that are folded at compile time are leaves of the snapshot; `folded` says how each is
    computed.
    """

    snapshot: Snapshot
    enodes: tuple[ENode, ...]
    classes: tuple[int, ...]
    folded: Mapping[int, ENode]

    def chosen(self, choice: Choice) -> dict[int, ENode]:
        """Return the e-node of every class of the state that a choice needs."""
        payloads = self.snapshot.payloads
        picked = {self.classes[c]: self.enodes[payloads[n]] for c, n in choice.nodes.items()}
        return {**self.folded, **picked}

    def order(self, choice: Choice) -> list[int]:
        """Return the classes of the state that a choice needs, operands first."""
        return [self.classes[c] for c in choice.order(self.snapshot)]


def offer(loaded: Loaded, state: EState, prices: Prices) -> Offer:
    """Return the snapshot of a state: what may be chosen, nodes of the graph itself first."""
    folded = prices.folded
    listed = [
        (n.made_by >= 0, eclass, n, cost)
        for eclass, members in state.classes.items()
        for n in ((folded[eclass],) if eclass in folded else members)
        if (cost := prices.of(eclass, n)) is not None and eclass not in n.children
    ]
    listed.sort(key=lambda p: (p[0], p[1]))
    roots = [state.of_value[loaded.values[o]] for o in loaded.graph.outputs]
    operands = {k for _, eclass, n, _ in listed if eclass not in folded for k in n.children}
    classes = tuple(sorted({eclass for _, eclass, _, _ in listed} | operands | set(roots)))
    number = {c: i for i, c in enumerate(classes)}
    nodes = [
        SnapshotNode(
            eclass=number[eclass],
            children=() if eclass in folded else tuple(number[k] for k in n.children),
            cost=cost,
            op=FOLDED if eclass in folded else _op(n),
            payload=i,
        )
        for i, (_, eclass, n, cost) in enumerate(listed)
    ]
    wanted = list(dict.fromkeys(number[r] for r in roots))
    return Offer(Snapshot.build(nodes, wanted), tuple(p[2] for p in listed), classes, folded)


def _op(n: ENode) -> str:
    return n.constructor if isinstance(n.constructor, str) else n.constructor.name
