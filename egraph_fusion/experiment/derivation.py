"""Proofs of equality: rules replayed over terms, every union with its reason.

A congruence closure that remembers why (Nieuwenhuis and Oliveras, "Proof-producing congruence
closure", RTA 2005; as in egg, Willsey et al. 2021, section 5): each class is a forest of terms,
each edge of it a rule applied at the root, or congruence.  A path between two terms is then a chain
in which each term comes from the one before by one rule at one place.  What saturation found bounds
the replay: only terms of its e-graph are made, and its facts decide guards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from egraph_fusion.egraph.facts import load_graph
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import OPAQUE
from egraph_fusion.egraph.state import OUT, ENode
from egraph_fusion.errors import REFUSALS, OptimizeError
from egraph_fusion.experiment.conditions import unmet
from egraph_fusion.experiment.matching import Binding, levels, matches
from egraph_fusion.experiment.proof_forest import CONGRUENCE, FOLDING, Forest
from egraph_fusion.experiment.right_sides import right_side
from egraph_fusion.experiment.view import Key, View, is_number, key
from egraph_fusion.ir.graph import Constant, Graph
from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import TensorType
from egraph_fusion.rulesets.pattern import Apply, Output, Pattern
from egraph_fusion.rulesets.rule import Rule


class UnknownTermError(OptimizeError):
    """A term that the saturated e-graph does not hold."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One application of a rule: where (a path of operands), to what, and what it gave.

    `rule` counts the rules that were replayed, FOLDING being none of them; `forward` is false where
    the rule leads from the new term to the old one.
    """

    rule: int
    forward: bool
    place: tuple[int, ...]
    old: int
    new: int


@dataclass
class Proofs:
    """Terms, numbered; `nodes` holds each with the numbers of its operands.

    `forest` says which are equal, and why; `places` are their classes in the universe.
    """

    universe: View
    rules: tuple[Rule, ...]
    tame: bool
    nodes: list[ENode] = field(default_factory=list[ENode])
    numbers: dict[Key, int] = field(default_factory=dict[Key, int])
    forest: Forest = field(default_factory=Forest)
    canonical: dict[Key, int] = field(default_factory=dict[Key, int])
    places: list[int] = field(default_factory=list[int])
    literals: dict[object, int] = field(default_factory=dict[object, int])

    # What a pattern is matched against: the classes so far, with the facts of the universe.

    @property
    def interner(self) -> Interner:
        """The ids of attributes and types."""
        return self.universe.interner

    def members(self, eclass: int) -> list[ENode]:
        """Return the nodes of a class; operands stand for their classes."""
        return [self._resolved(self.nodes[i]) for i in self.forest.classes[self.find(eclass)]]

    def type_of(self, eclass: int) -> TensorType | None:
        """Return the type of a class of tensors, if it is known."""
        return self.universe.type_of(self.places[eclass])

    def interval(self, eclass: int) -> Interval:
        """Return the bounds of the elements."""
        return self.universe.interval(self.places[eclass])

    def splat(self, eclass: int) -> int | None:
        """Return the interned number that all elements are, if that is known."""
        return self.universe.splat(self.places[eclass])

    def holds(self, fact: str, eclass: int) -> bool:
        """Whether a fact is known of a class."""
        return self.universe.holds(fact, self.places[eclass])

    # Terms and their classes.

    def find(self, term: int) -> int:
        """Return the number of a term's class: that of its oldest term."""
        return self.forest.find(term)

    def load(self, graph: Graph, known: Mapping[str, int] | None = None) -> dict[str, int]:
        """Add the terms of a graph; return each value's number.

        Its inputs are `known` terms or inputs of the universe.  Raises UnknownTermError if the
        universe does not hold one of the terms.
        """
        own = self.universe.loaded
        loaded = own if graph is own.graph else load_graph(graph)
        found = {v: self._input(v, known or {}) for v in graph.inputs}
        found |= {v: self.add(self._constant(c)) for v, c in graph.constants.items()}
        names = {k: v for v, k in loaded.values.items()}
        missing = any(k < 0 for t in loaded.terms for k in t.operands)
        absent = self.add(ENode("Absent", (), ())) if missing else -1
        for t in loaded.terms:
            operands = tuple(found[names[k]] if k >= 0 else absent for k in t.operands)
            attrs = t.attrs
            if t.constructor.op != OPAQUE:
                attrs = tuple(self.interner.attr(loaded.interner.value(a)) for a in attrs)
            number = self.add(ENode(t.constructor, operands, attrs))
            outputs = graph.nodes[t.node].outputs
            if not t.constructor.outputs:
                found[outputs[0]] = number
                continue
            found |= {v: self.add(ENode(OUT, (number,), (i,))) for i, v in enumerate(outputs) if v}
        return found

    def _input(self, name: str, known: Mapping[str, int]) -> int:
        if name in known:
            return known[name]
        if name not in self.universe.loaded.values:
            raise UnknownTermError(f"the e-graph has no tensor called {name!r}")
        return self.add(ENode("Input", (), (self.universe.loaded.values[name],)))

    def _constant(self, value: Constant) -> ENode:
        """Return the term of a constant: the graph's own, else a number that a rule made."""
        name = self.universe.constant_names.get(value.id)
        if name is not None:
            return ENode("Const", (), (self.universe.loaded.values[name],))
        if not is_number(value):
            raise UnknownTermError("the e-graph has no such constant")
        number = self.interner.number(float(value.array))
        return ENode("Num", (), (number, self.interner.dtype(value.type.dtype)))

    def add(self, n: ENode) -> int:
        """Return the number of a term; raises UnknownTermError if the universe has no such term."""
        exact = key(n)
        if exact in self.numbers:
            return self.numbers[exact]
        place = self._place(n)
        number = self.forest.grow()
        self.nodes.append(n)
        self.places.append(place)
        self.numbers[exact] = number
        other = self.canonical.setdefault(key(self._resolved(n)), number)
        if other != number:
            self.forest.union(number, other, CONGRUENCE)
        self._valued(number, n, place)
        return number

    def _valued(self, number: int, n: ENode, place: int) -> None:
        """Join a constant with its value: a number of the graph is one that a rule makes."""
        value = self.universe.splat(place), self.universe.type_of(place)
        if None in value or not self.universe.holds("constant", place):
            return
        if n.constructor in ("Const", "Num"):
            self.forest.union(number, self.literals.setdefault(value, number), CONGRUENCE)
        elif value in self.literals:
            self.forest.union(number, self.literals[value], FOLDING)

    def _place(self, n: ENode) -> int:
        wanted = (n.constructor, tuple(self.places[k] for k in n.children), n.attrs)
        if wanted not in self.universe.by_key:
            raise UnknownTermError("the e-graph has no such term")
        return self.universe.by_key[wanted]

    def _resolved(self, n: ENode) -> ENode:
        return ENode(n.constructor, tuple(map(self.find, n.children)), n.attrs)

    def close(self) -> None:
        """Join applications of one operator to equal operands until there are no others."""
        changed = True
        while changed:
            changed = False
            self.canonical = {}
            for number, n in enumerate(self.nodes):
                other = self.canonical.setdefault(key(self._resolved(n)), number)
                changed |= self.forest.union(number, other, CONGRUENCE)

    # Rules.

    def step(self, deadline: float) -> bool:
        """Apply every rule where it has new matches; return whether anything was new.

        What is not matched by `deadline` (monotonic seconds) is left out.
        """
        found: list[tuple[int, Binding]] = []
        above = self._above_changes()
        for i, r in enumerate(self.rules):
            for eclass in above:
                if time.monotonic() >= deadline:
                    break
                found += [(i, b) for b in self._matches(r, eclass)]
        size = len(self.nodes)
        news = [self._fired(i, b) for i, b in found]
        self.close()
        return any(news) or len(self.nodes) > size

    def _above_changes(self) -> list[int]:
        """Return the classes where a left side may match anew since this was last asked."""
        parents: dict[int, set[int]] = {}
        for number, n in enumerate(self.nodes):
            for child in n.children:
                parents.setdefault(self.find(child), set()).add(self.find(number))
        found = frontier = {self.find(c) for c in self.forest.changed}
        for _ in range(max((levels(r.lhs) for r in self.rules), default=1) - 1):
            frontier = {p for c in frontier for p in parents.get(c, ())} - found
            found = found | frontier
        self.forest.changed.clear()
        return sorted(found)

    def _matches(self, r: Rule, eclass: int) -> Iterator[Binding]:
        for b in matches(self, r.lhs, eclass):
            if next(unmet(self, r, b, self.tame, control=False), None) is None:
                yield b

    def _fired(self, i: int, b: Binding) -> bool:
        r = self.rules[i]
        try:
            right = right_side(self, r, b, self.add)
            left = self._left(r.lhs, b)
        except (UnknownTermError, *REFUSALS):
            return False
        if self.places[left] != self.places[right]:
            return False
        return self.forest.union(left, right, i)

    def _left(self, p: Pattern, b: Binding) -> int:
        """Return the term of a left side: what its variables are bound to stands by its oldest."""
        if p not in b.nodes:
            return b.classes[p]
        n = b.nodes[p]
        operands = (p.of,) if isinstance(p, Output) else p.args if isinstance(p, Apply) else ()
        return self.add(ENode(n.constructor, tuple(self._left(q, b) for q in operands), n.attrs))

    # Explanations.

    def explain(self, a: int, b: int) -> Iterator[Rewrite]:
        """Yield the rewrites that lead from one term to an equal one."""
        for e in self.forest.path(a, b):
            if e.why != CONGRUENCE:
                yield Rewrite(e.why, e.forward, (), e.old, e.new)
                continue
            pairs = zip(self.nodes[e.old].children, self.nodes[e.new].children, strict=True)
            for i, (old, new) in enumerate(pairs):
                for r in self.explain(old, new):
                    yield replace(r, place=(i, *r.place))
