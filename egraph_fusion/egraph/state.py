"""The e-graph as it stands between two iterations: rows read out of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from egraph_fusion.egraph.facts import Loaded
from egraph_fusion.egraph.language import LEAVES, Constructor

OUT = "Out"
FACTS = ("lo", "hi", "splat", "nonzero", "integer", "tame", "varies", "open")
"""Tables of what the analyses know of the values of classes."""


@dataclass(frozen=True, slots=True)
class ENode:
    """One e-node: a constructor (or the name of a leaf, or Out), child classes and attribute ids.

    `made_by` numbers the rule that made it; -1 says that the graph had it from the start.
    """

    constructor: Constructor | str
    children: tuple[int, ...]
    attrs: tuple[int, ...]
    made_by: int = -1


@dataclass(frozen=True)
class EState:
    """All e-nodes by class, and what the analyses found; classes are numbered from 0.

    `facts` holds the tables named by FACTS, if they were asked for: a number for each class
    (the `splat` is interned), 0 where the table only says that something holds.
    """

    classes: Mapping[int, tuple[ENode, ...]]
    of_value: Mapping[int, int]
    types: Mapping[int, int]
    constant: frozenset[int]
    joined: Mapping[int, tuple[int, ...]]
    facts: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])

    @property
    def n_nodes(self) -> int:
        """Number of e-nodes."""
        return sum(map(len, self.classes.values()))


def table_names(constructors: frozenset[Constructor]) -> list[str]:
    """Return the tables that `read_state` needs."""
    names = [*LEAVES, OUT, "val", "ty", "constant", "joined"]
    return names + [n for c in sorted(constructors, key=str) for n in (c.name, f"by-{c.name}")]


def read_state(
    rows: Mapping[str, list[list[Any]]], constructors: frozenset[Constructor], loaded: Loaded
) -> EState:
    """Return the state that the rows of the engine's tables describe."""
    del loaded
    classes: dict[int, list[ENode]] = {}
    for leaf in LEAVES:
        for row in rows.get(leaf, []):
            classes.setdefault(row[-1], []).append(ENode(leaf, (), tuple(row[:-1])))
    for bundle, i, out in rows.get(OUT, []):
        classes.setdefault(out, []).append(ENode(OUT, (bundle,), (i,)))
    for c in sorted(constructors, key=str):
        _add(classes, c, rows.get(c.name, []), rows.get(f"by-{c.name}", []))
    joined: dict[int, list[int]] = {}
    for eclass, number, _ in rows.get("joined", []):
        joined.setdefault(eclass, []).append(number)
    return EState(
        classes={c: tuple(ns) for c, ns in classes.items()},
        of_value={row[0]: row[1] for row in rows["val"]},
        types={row[0]: row[1] for row in rows["ty"]},
        constant=frozenset(row[0] for row in rows["constant"]),
        joined={c: tuple(sorted(set(ns))) for c, ns in joined.items()},
        facts={t: {row[0]: row[-1] for row in rows[t]} for t in FACTS if t in rows},
    )


def _add(
    classes: dict[int, list[ENode]], c: Constructor, rows: list[list[Any]], tags: list[list[Any]]
) -> None:
    made = {tuple(row[:-1]): row[-1] for row in tags}
    for row in rows:
        key = tuple(row[:-1])
        node = ENode(c, key[: c.arity], key[c.arity :], made.get(key, -1))
        classes.setdefault(row[-1], []).append(node)
