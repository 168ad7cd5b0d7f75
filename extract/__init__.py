"""What to choose from an e-graph: cost models, choices, and the table of extractors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.extract.auto import extract_auto
from egraph_fusion.extract.choice import Choice
from egraph_fusion.extract.exact import extract_exact
from egraph_fusion.extract.greedy_dag import extract_greedy_dag
from egraph_fusion.extract.gym import from_gym
from egraph_fusion.extract.tree import extract_tree

__all__ = ["EXTRACTORS", "Choice", "Extractor", "Promise", "from_gym"]


class Promise(Enum):
    """What an extractor's result is the least of."""

    TREE = "least tree cost"
    DAG = "least DAG cost where the gap is 0, and never dearer than greedy-dag"
    NOTHING = "a valid choice"


@dataclass(frozen=True)
class Extractor:
    """A named extraction algorithm and what it promises; calling it runs it."""

    name: str
    run: Callable[[Snapshot, float], Choice]
    promise: Promise
    doc: str

    def __call__(self, eg: Snapshot, time_limit: float = 60.0) -> Choice:
        """Return a choice for `eg` in about `time_limit` seconds.

        Raises OptimizeError if a root has no finite term.
        """
        return self.run(eg, time_limit)


TREE, DAG, NOTHING = Promise.TREE, Promise.DAG, Promise.NOTHING

EXTRACTORS: dict[str, Extractor] = {
    e.name: e
    for e in (
        Extractor("tree",       extract_tree,       TREE,    "every use counted; fastest"),
        Extractor("greedy-dag", extract_greedy_dag, NOTHING, "shared work once; local search"),
        Extractor("exact",      extract_exact,      DAG,     "integer program; bound and gap"),
        Extractor("auto",       extract_auto,       NOTHING, "exact up to a size, else greedy-dag"),
    )
}  # fmt: skip
