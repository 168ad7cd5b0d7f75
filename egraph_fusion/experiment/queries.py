"""What a caller asks about: a tensor by its name, or an expression over an explored graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from egraph_fusion.errors import ModelError, suggested
from egraph_fusion.experiment.expressions import graph_of, shown
from egraph_fusion.experiment.leaves import Leaf
from egraph_fusion.experiment.view import View
from egraph_fusion.ir.graph import Graph
from egraph_fusion.rulesets.pattern import Pattern

Term = Pattern | str


@dataclass(frozen=True)
class Query:
    """A value of the explored graph, or (with a graph of its own) one computed from such values."""

    text: str
    value: str
    graph: Graph | None = None
    leaves: Mapping[str, Leaf] = field(default_factory=dict[str, Leaf])

    def classes(self, view: View) -> frozenset[int]:
        """Return the classes that hold the term; none if the e-graph does not."""
        if self.graph is not None:
            return view.lookup(self.graph)[self.value]
        if self.value in view.loaded.graph.constants:
            return view.constants(view.loaded.graph.constants[self.value])
        found = view.class_of(self.value)
        return frozenset(() if found is None else (found,))


def query(explored: Graph, asked: Term) -> Query:
    """Return what `asked` means in the graph that was explored.

    Raises ModelError for a name that it does not have, and for a leaf of another type than its
    namesake there.
    """
    if isinstance(asked, str):
        if asked not in explored.types:
            hint = suggested(
                asked, explored.types, f"its outputs are {', '.join(explored.outputs)}"
            )
            raise ModelError(f"the explored graph has no tensor called {asked!r}; {hint}")
        return Query(asked, asked)
    made = graph_of([asked])
    for name, leaf in made.leaves.items():
        have = explored.types.get(name)
        if have is not None and have != leaf.type:
            raise ModelError(f"{name!r} is {have} in the explored graph, and {leaf.type} here")
    return Query(shown(asked), made.values[0], made.graph, made.leaves)


def with_query(explored: Graph, *asked: Query) -> Graph:
    """Return the explored graph with the asked terms as further outputs."""
    graph = explored
    for q in asked:
        if q.graph is None:
            graph = graph.replace(outputs=(*dict.fromkeys((*graph.outputs, q.value)),))
        else:
            graph = _joined(graph, q.graph, q.value)
    return graph


def _joined(graph: Graph, other: Graph, value: str) -> Graph:
    """Append the nodes of `other`, whose inputs are values of `graph` where it has such."""
    names = {v: v for v in other.inputs}
    taken = {*graph.types, *other.types}
    for v in (*other.constants, *(o for n in other.nodes for o in n.outputs if o)):
        names[v] = _fresh(v, taken) if v in graph.types else v
    nodes = tuple(
        n.__class__(
            n.op,
            tuple(names.get(v, v) for v in n.inputs),
            tuple(names.get(v, v) for v in n.outputs),
            n.attrs,
        )
        for n in other.nodes
    )
    fresh_inputs = tuple(v for v in other.inputs if v not in graph.types)
    return graph.replace(
        inputs=(*graph.inputs, *fresh_inputs),
        outputs=(*dict.fromkeys((*graph.outputs, names[value])),),
        nodes=(*graph.nodes, *nodes),
        types={**{names[v]: t for v, t in other.types.items()}, **graph.types},
        constants={**graph.constants, **{names[v]: c for v, c in other.constants.items()}},
    )


def _fresh(name: str, taken: set[str]) -> str:
    count = 1
    while f"{name}_{count}" in taken:
        count += 1
    taken.add(f"{name}_{count}")
    return f"{name}_{count}"
