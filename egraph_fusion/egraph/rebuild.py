"""Chosen e-nodes back to a graph: names and untouched nodes kept, constants folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from types import MappingProxyType

from egraph_fusion.egraph.demand import attrs_of
from egraph_fusion.egraph.facts import Loaded, Term
from egraph_fusion.egraph.folding import Expressions, Folder, Folds
from egraph_fusion.egraph.language import OPAQUE, Constructor
from egraph_fusion.egraph.pricing import Prices
from egraph_fusion.egraph.range_check import ASKED
from egraph_fusion.egraph.state import OUT, ENode, EState
from egraph_fusion.errors import OptimizeError
from egraph_fusion.ir.graph import Constant, Graph, Node, frozen_attrs, topological
from egraph_fusion.ir.tensors import TensorType

EKey = tuple[Constructor | str, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Rebuilt:
    """A graph and, for every rule that it owes something to, how often."""

    graph: Graph
    uses: Mapping[int, int]


def rebuild(
    loaded: Loaded,
    state: EState,
    prices: Prices,
    chosen: Mapping[int, ENode],
    order: Sequence[int],
    rule_names: Sequence[str],
    folds: Folds,
) -> Rebuilt:
    """Return the graph of the chosen e-nodes.

    `chosen` gives the e-node of every class that the outputs need, `order` those classes with
    operands first.  `folds` keeps what is computed at compile time for the next call.  Raises
    OptimizeError if a folded constant is not finite.
    """
    names = tuple(rule_names)
    return _Rebuilder(loaded, state, prices, chosen, names, folds).build(order)


@dataclass
class _Rebuilder:
    loaded: Loaded
    state: EState
    prices: Prices
    chosen: Mapping[int, ENode]
    rule_names: tuple[str, ...]
    folds: Folds
    nodes: list[tuple[int, Node]] = field(default_factory=list[tuple[int, Node]])
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    uses: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        loaded, graph = self.loaded, self.loaded.graph
        self.names: dict[int, list[str]] = {}
        for v, k in loaded.values.items():
            self.names.setdefault(self.state.of_value[k], []).append(v)
        self.absent = next(
            c for c, ns in self.state.classes.items() if ENode("Absent", (), ()) in ns
        )
        self.terms = {self._key(t): t for t in reversed(loaded.terms)}
        self.value_names = {k: v for v, k in loaded.values.items()}
        self.taken = set(graph.types)
        self.name_of: dict[int, str] = {}
        self.folder = Folder(self.folds, Expressions(loaded, self.chosen), self._type)
        self.outs: dict[int, dict[int, int]] = {
            n.children[0]: {} for n in self.chosen.values() if n.constructor == OUT
        }
        for eclass, n in self.chosen.items():
            if n.constructor == OUT:
                self.outs[n.children[0]][n.attrs[0]] = eclass
        self.position = 0

    def build(self, order: Sequence[int]) -> Rebuilt:
        graph = self.loaded.graph
        for v in graph.inputs:
            self.types[v] = graph.types[v]
        for eclass in order:
            if not self.prices.folds(eclass):
                self._emit(eclass, self.chosen[eclass])
        for v in graph.outputs:
            self._connect_output(v)
        available = [*graph.inputs, *self.constants]
        self.nodes.sort(key=lambda pair: pair[0])
        nodes = topological([n for _, n in self.nodes], available)
        rebuilt = graph.replace(
            nodes=nodes,
            types=MappingProxyType(self.types),
            constants=MappingProxyType(self.constants),
        )
        rebuilt.check()
        return Rebuilt(rebuilt, self.uses)

    def _emit(self, eclass: int, n: ENode) -> None:
        c = n.constructor
        if c in ("Input", OUT):
            self._note_uses(eclass, n)
        if c == "Input":
            self.name_of[eclass] = self.value_names[n.attrs[0]]
        elif c in ("Const", "Num", "Absent", OUT):
            return
        else:
            assert isinstance(c, Constructor)
            self._note_uses(eclass, n)
            self._node(eclass, n, c)

    def _note_uses(self, eclass: int, n: ENode) -> None:
        """Count the rule that made a node, and those that joined several values of the graph."""
        if n.made_by >= 0:
            self.uses[n.made_by] = self.uses.get(n.made_by, 0) + 1
        if len(self.names.get(eclass, ())) > 1:
            for number in self.state.joined.get(eclass, ()):
                self.uses[number] = self.uses.get(number, 0) + 1

    def _node(self, eclass: int, n: ENode, c: Constructor) -> None:
        inputs = tuple(self._operand(k) for k in n.children)
        term = self.terms.get(self._enode_key(n))
        if term is not None:
            self._kept_node(eclass, term, inputs, c)
            return
        outputs = self._outputs(eclass, c, None)
        if c.op == OPAQUE:
            raise OptimizeError("an opaque node was made by a rule")
        node = Node(
            c.op,
            inputs,
            outputs,
            frozen_attrs(attrs_of(self.loaded.interner, c, n.attrs)),
            rules=(self.rule_names[n.made_by].removesuffix(ASKED),) if n.made_by >= 0 else (),
        )
        self._add(self.position, node)

    def _kept_node(self, eclass: int, term: Term, inputs: tuple[str, ...], c: Constructor) -> None:
        old = self.loaded.graph.nodes[term.node]
        outputs = self._outputs(eclass, c, old)
        if c.op == OPAQUE:
            pairs = zip(old.reads, inputs, strict=True)
            renamed = {v: self._own_constant(v) or new for v, new in pairs}
            node = dataclass_replace(
                old,
                inputs=tuple(renamed.get(v, v) for v in old.inputs),
                captures=tuple(renamed.get(v, v) for v in old.captures),
                outputs=outputs,
            )
        else:
            padding = ("",) * (len(old.inputs) - len(inputs))
            node = dataclass_replace(old, inputs=inputs + padding, outputs=outputs)
        self.position = max(self.position, term.node)
        self._add(term.node, node)

    def _own_constant(self, v: str) -> str:
        """Return `v` if it is a constant of the graph, else "".

        Equal constants of an opaque node stay apart: operators that update one in place exist.
        """
        graph = self.loaded.graph
        if v not in graph.constants:
            return ""
        self.constants[v] = graph.constants[v]
        self.types[v] = graph.types[v]
        return v

    def _add(self, position: int, node: Node) -> None:
        self.nodes.append((position, node))

    def _outputs(self, eclass: int, c: Constructor, old: Node | None) -> tuple[str, ...]:
        if not c.outputs:
            return (self._name(eclass, old.outputs[0] if old else None),)
        used = self.outs.get(eclass, {})
        return tuple(self._bundle_output(used.get(i), i, old) for i in range(c.outputs))

    def _bundle_output(self, eclass: int | None, i: int, old: Node | None) -> str:
        former = old.outputs[i] if old and i < len(old.outputs) else ""
        if eclass is not None and not self.prices.folds(eclass):
            return self._name(eclass, former or None)
        if not former:
            return ""
        taken = former in self.types or former in self.loaded.graph.outputs  # made elsewhere
        name = self._fresh(f"{former}_unused") if taken else former
        self.types[name] = self.loaded.graph.types[former]
        return name

    def _name(self, eclass: int, preferred: str | None) -> str:
        """Give the value of a class its name: a graph output's, else its own, else a new one."""
        if eclass in self.name_of:
            return self.name_of[eclass]
        graph = self.loaded.graph
        own = [v for v in self.names.get(eclass, []) if v not in graph.inputs]
        outputs = [v for v in own if v in graph.outputs]
        choices = outputs or ([preferred] if preferred in own else own)
        name = choices[0] if choices else self._fresh(self._stem(eclass))
        self.name_of[eclass] = name
        assert name is not None
        self.types[name] = self._type(eclass, name)
        return name

    def _stem(self, eclass: int) -> str:
        n = self.chosen[eclass]
        op = n.constructor if isinstance(n.constructor, str) else n.constructor.op
        return f"{op.lower()}_{len(self.types)}"

    def _fresh(self, stem: str) -> str:
        name, count = stem, 1
        while name in self.taken:
            name, count = f"{stem}_{count}", count + 1
        self.taken.add(name)
        return name

    def _operand(self, eclass: int) -> str:
        if self.chosen[eclass].constructor == "Absent":
            return ""
        if self.prices.folds(eclass) or self.chosen[eclass].constructor == "Const":
            return self._constant(eclass)
        if self.chosen[eclass].constructor == OUT:
            return self._name(eclass, None)
        return self.name_of[eclass]

    def _constant(self, eclass: int) -> str:
        if eclass in self.name_of:
            return self.name_of[eclass]
        n = self.chosen[eclass]
        graph = self.loaded.graph
        if n.constructor == "Const":
            source = self.value_names[n.attrs[0]]
            constant = graph.constants[source]
        else:
            source, constant = "", Constant.of(self.folder.value(eclass))
            self._note_constant_uses(eclass)
        own = [v for v in self.names.get(eclass, []) if v not in graph.inputs]
        outputs = [v for v in own if v in graph.outputs]
        name = (outputs or own or [""])[0] or source or self._fresh(f"folded_{len(self.types)}")
        self.name_of[eclass] = name
        self.constants[name] = constant
        self.types[name] = constant.type
        return name

    def _note_constant_uses(self, eclass: int) -> None:
        stack, seen = [eclass], {eclass}
        while stack:
            n = self.chosen[stack.pop()]
            if n.made_by >= 0:
                self.uses[n.made_by] = self.uses.get(n.made_by, 0) + 1
            fresh = [k for k in n.children if k not in seen]
            seen.update(fresh)
            stack.extend(fresh)

    def _connect_output(self, v: str) -> None:
        graph = self.loaded.graph
        if v in graph.inputs:
            return
        eclass = self.state.of_value[self.loaded.values[v]]
        source = self._operand(eclass)
        if source == v:
            return
        if source in self.constants:
            self.constants[v] = self.constants[source]
            self.types[v] = self.types[source]
            return
        self.types[v] = graph.types[v]
        self._add(len(graph.nodes), self._identity(source, v))

    def _identity(self, source: str, v: str) -> Node:
        old = self.loaded.graph.producers.get(v)
        if old is not None and old.op == "Identity":
            return dataclass_replace(old, inputs=(source,))
        return Node("Identity", (source,), (v,))

    def _type(self, eclass: int, name: str = "") -> TensorType:
        found = self.prices.type_of(eclass)
        return found if found is not None else self.loaded.graph.types[name]

    def _key(self, t: Term) -> EKey:
        of = self.state.of_value
        return (t.constructor, tuple(of.get(k, self.absent) for k in t.operands), t.attrs)

    def _enode_key(self, n: ENode) -> EKey:
        return (n.constructor, n.children, n.attrs)
