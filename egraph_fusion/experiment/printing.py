"""Classes and e-nodes as expressions, for people to read and to use again."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from egraph_fusion.egraph.demand import attrs_of
from egraph_fusion.egraph.facts import Loaded
from egraph_fusion.egraph.language import OPAQUE, Constructor
from egraph_fusion.egraph.state import OUT, ENode
from egraph_fusion.experiment.expressions import shown
from egraph_fusion.experiment.leaves import ABSENT, Leaf
from egraph_fusion.experiment.view import View, is_number
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.pattern import Apply, Number, Output, Pattern


@dataclass(frozen=True)
class Reader:
    """Turns e-nodes of a loaded graph into terms of expressions.

    Leaves of expressions keep what was claimed of them: `leaves` has those, by name.
    """

    loaded: Loaded
    leaves: Mapping[str, Leaf]

    @cached_property
    def _values(self) -> Mapping[int, str]:
        return {k: v for v, k in self.loaded.values.items()}

    def named(self, name: str) -> Leaf:
        """Return a value of the graph as a leaf."""
        if name in self.leaves:
            return self.leaves[name]
        graph = self.loaded.graph
        return Leaf(name, graph.types[name], value=graph.constants.get(name))

    def term(self, n: ENode, operands: Sequence[Pattern]) -> Pattern:
        """Return an e-node applied to terms of its children."""
        c = n.constructor
        if isinstance(c, Constructor):
            return self.applied(c, n.attrs, operands)
        match c:
            case "Input":
                return self.named(self._values[n.attrs[0]])
            case "Const":
                return self.constant(self._values[n.attrs[0]])
            case "Num":
                return Number(float(self.loaded.interner.value(n.attrs[0])))
            case "Out":
                return self.output(n.attrs[0], operands[0])
            case _:
                return ABSENT

    def applied(self, c: Constructor, ids: tuple[int, ...], operands: Sequence[Pattern]) -> Pattern:
        """Return an operator with interned attributes applied to terms."""
        if c.op == OPAQUE:
            outputs = self.loaded.graph.nodes[ids[0]].outputs
            return Leaf(next(filter(None, outputs), ""), _UNKNOWN)  # which no other node has
        attrs = attrs_of(self.loaded.interner, c, ids)
        defaults = {a.name: a.default for a in OPERATORS[c.op].attrs}
        told = {k: v for k, v in attrs.items() if k not in defaults or defaults[k] != v}
        return Apply(c.op, tuple(operands), tuple(sorted(told.items())))

    def output(self, index: int, bundle: Pattern) -> Pattern:
        """Return an output; one of an opaque node is a value by itself."""
        if not isinstance(bundle, Leaf):
            return Output(bundle, index)
        return self.named(self.loaded.graph.producers[bundle.name].outputs[index])

    def constant(self, name: str) -> Pattern:
        """Return a constant: one without a name of its own is a number if it can be."""
        value = self.loaded.graph.constants[name]
        if name not in self.leaves and is_number(value):
            return Number(float(value.array))
        return self.named(name)


_UNKNOWN = TensorType(DType.OTHER, None)


@dataclass
class Printer:
    """Writes each class of a view as its smallest term; values called `kept` stand as they are."""

    view: View
    reader: Reader
    kept: Collection[str]
    terms: dict[int, Pattern] = field(default_factory=dict[int, Pattern])

    def text(self, eclass: int, limit: int = 160) -> str:
        """Return a class as text: its smallest term, cut where it grows long."""
        return shown(self.term(eclass), limit)

    def term(self, eclass: int) -> Pattern:
        """Return the smallest term of a class."""
        stack = [eclass]
        while stack:
            c = stack[-1]
            name = self._name(c)
            n = self._best[c]
            wanted = () if name else tuple(k for k in n.children if k not in self.terms)
            if wanted and c not in self.terms:
                stack.extend(wanted)
                continue
            stack.pop()
            if c not in self.terms:
                operands = () if name else [self.terms[k] for k in n.children]
                self.terms[c] = self.reader.named(name) if name else self.reader.term(n, operands)
        return self.terms[eclass]

    def node(self, n: ENode) -> Pattern:
        """Return one node, its operands as their smallest terms."""
        return self.reader.term(n, [self.term(k) for k in n.children])

    def _name(self, eclass: int) -> str:
        return next((v for v in self.view.names.get(eclass, ()) if v in self.kept), "")

    @cached_property
    def _best(self) -> dict[int, ENode]:
        """The root of the smallest term of each class (Knuth's algorithm); older nodes first."""
        state = self.view.state
        users: dict[int, list[tuple[int, int]]] = {}
        waiting: dict[tuple[int, int], int] = {}
        queue: list[tuple[int, bool, int, int]] = []
        for c, members in state.classes.items():
            for i, n in enumerate(members):
                waiting[c, i] = len(set(n.children))
                for k in set(n.children):
                    users.setdefault(k, []).append((c, i))
                if not n.children:
                    queue.append((1, n.made_by >= 0, c, i))
        heapq.heapify(queue)
        best: dict[int, ENode] = {}
        size: dict[int, int] = {}
        while queue:
            cost, _, c, i = heapq.heappop(queue)
            if c in best:
                continue
            best[c], size[c] = state.classes[c][i], 1 if self._name(c) else cost
            for user, j in users.get(c, ()):
                waiting[user, j] -= 1
                if not waiting[user, j]:
                    n = state.classes[user][j]
                    total = sum(size[k] for k in n.children) + (n.constructor != OUT)
                    heapq.heappush(queue, (total, n.made_by >= 0, user, j))
        return best
