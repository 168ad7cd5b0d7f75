"""The last state of a saturation, made ready to be looked into: classes, members, facts, terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Protocol

from egraph_fusion.egraph.facts import Loaded, load_graph
from egraph_fusion.egraph.interning import Interner, Typed
from egraph_fusion.egraph.language import Constructor
from egraph_fusion.egraph.saturate import Saturation
from egraph_fusion.egraph.state import OUT, ENode, EState
from egraph_fusion.egraph.value_guards import Known
from egraph_fusion.ir.graph import Constant, Graph
from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import TensorType

Key = tuple[Constructor | str, tuple[int, ...], tuple[int, ...]]


class Terms(Known, Protocol):
    """Classes of equal terms, and what is known of each; what a pattern is matched against."""

    @property
    def interner(self) -> Interner:
        """The ids of attributes and types."""
        ...

    def members(self, eclass: int) -> Sequence[ENode]:
        """Return the nodes of a class."""
        ...


@dataclass(frozen=True)
class View:
    """One state of a saturation of `loaded`."""

    loaded: Loaded
    state: EState

    @staticmethod
    def of(found: Saturation) -> View:
        """Return the view of the last state."""
        return View(found.loaded, found.states[-1])

    @property
    def interner(self) -> Interner:
        """The ids of attributes and types."""
        return self.loaded.interner

    def members(self, eclass: int) -> Sequence[ENode]:
        """Return the nodes of a class."""
        return self.state.classes.get(eclass, ())

    def type_of(self, eclass: int) -> TensorType | None:
        """Return the type of a class of tensors, if it is known."""
        key = self.state.types.get(eclass)
        return None if key is None else only_type(self.interner.value(key))

    def interval(self, eclass: int) -> Interval:
        """Return the bounds of the elements."""
        facts = self.state.facts
        return (facts["lo"].get(eclass, -math.inf), facts["hi"].get(eclass, math.inf))

    def splat(self, eclass: int) -> int | None:
        """Return the interned number that all elements are, if that is known."""
        found = self.state.facts["splat"].get(eclass)
        return None if found is None else int(found)

    def holds(self, fact: str, eclass: int) -> bool:
        """Whether a fact ("constant", or a table that FACTS names) is known of a class."""
        if fact == "constant":
            return eclass in self.state.constant
        return eclass in self.state.facts[fact]

    @cached_property
    def by_key(self) -> Mapping[Key, int]:
        """The class of each node."""
        return {key(n): c for c, ns in self.state.classes.items() for n in ns}

    @cached_property
    def by_op(self) -> Mapping[str, tuple[int, ...]]:
        """The classes that hold an application of each operator, ascending."""
        found: dict[str, set[int]] = {}
        for eclass, members in self.state.classes.items():
            for n in members:
                found.setdefault(op_of(n), set()).add(eclass)
        return {op: tuple(sorted(classes)) for op, classes in found.items()}

    @cached_property
    def names(self) -> Mapping[int, tuple[str, ...]]:
        """The values of the graph that each class holds."""
        found: dict[int, list[str]] = {}
        for name, number in self.loaded.values.items():
            found.setdefault(self.state.of_value[number], []).append(name)
        return {c: tuple(ns) for c, ns in found.items()}

    @cached_property
    def parents(self) -> Mapping[int, tuple[int, ...]]:
        """The classes that hold a node over each class."""
        found: dict[int, dict[int, None]] = {}
        for eclass, members in self.state.classes.items():
            for child in (k for n in members for k in n.children):
                found.setdefault(child, {})[eclass] = None
        return {c: tuple(above) for c, above in found.items()}

    def values_above(self, classes: Iterable[int]) -> tuple[str, ...]:
        """Return the computed values of the graph that are in `classes`, else nearest above."""
        level, seen = list(dict.fromkeys(classes)), set[int]()
        producers = self.loaded.graph.producers
        while level:
            named = [v for c in level for v in self.names.get(c, ()) if v in producers]
            if named:
                return tuple(named)
            seen.update(level)
            above = (p for c in level for p in self.parents.get(c, ()) if p not in seen)
            level = list(dict.fromkeys(above))
        return ()

    def class_of(self, name: str) -> int | None:
        """Return the class of a value of the graph; None if nothing reads it or there is none."""
        number = self.loaded.values.get(name)
        return None if number is None else self.state.of_value[number]

    @cached_property
    def constant_names(self) -> Mapping[str, str]:
        """By content, the first name of each constant of the graph that is read."""
        found: dict[str, str] = {}
        for name, c in self.loaded.graph.constants.items():
            if name in self.loaded.values:
                found.setdefault(c.id, name)
        return found

    def constants(self, value: Constant) -> frozenset[int]:
        """Return the classes that are a constant: the graph's own, and numbers that rules made."""
        own = self.constant_names.get(value.id)
        given = {None if own is None else self.class_of(own)}
        if is_number(value):
            number = self.interner.number(float(value.array))
            dtype = self.interner.dtype(value.type.dtype)
            given.add(self.by_key.get(("Num", (), (number, dtype))))
        return frozenset(c for c in given if c is not None)

    def lookup(self, graph: Graph) -> Mapping[str, frozenset[int]]:
        """Return the classes that hold each value of `graph`, whose inputs are values of ours."""
        found: dict[str, frozenset[int]] = {}
        for v in graph.inputs:
            eclass = self.class_of(v)
            found[v] = frozenset(() if eclass is None else (eclass,))
        found |= {v: self.constants(c) for v, c in graph.constants.items()}
        loaded = load_graph(graph)
        numbered = {k: v for v, k in loaded.values.items()}
        absent = self.by_key.get(("Absent", (), ()))
        nothing = frozenset(() if absent is None else (absent,))
        for t in loaded.terms:
            outputs = graph.nodes[t.node].outputs
            operands = [found[numbered[k]] if k >= 0 else nothing for k in t.operands]
            attrs = tuple(self.interner.attr(loaded.interner.value(a)) for a in t.attrs)
            classes = self._applications(t.constructor, operands, attrs)
            if not t.constructor.outputs:
                found[outputs[0]] = classes
                continue
            for i, v in enumerate(outputs):
                found[v] = self._applications(OUT, [classes], (i,))
        return found

    def _applications(
        self, c: Constructor | str, operands: Sequence[frozenset[int]], attrs: tuple[int, ...]
    ) -> frozenset[int]:
        keys = ((c, tuple(children), attrs) for children in product(*map(sorted, operands)))
        return frozenset(self.by_key[k] for k in keys if k in self.by_key)


def only_type(typed: Typed) -> TensorType | None:
    """Return the type of a class of tensors; None for a bundle of several outputs."""
    return typed.types[0] if len(typed.types) == 1 else None


def key(n: ENode) -> Key:
    """Return what tells a node from others."""
    return (n.constructor, n.children, n.attrs)


def op_of(n: ENode) -> str:
    """Return the operator of a node, or the name of its kind of leaf."""
    return n.constructor if isinstance(n.constructor, str) else n.constructor.op


def is_number(value: Constant) -> bool:
    """Whether a constant is a scalar that an expression can write as a number."""
    dtype = value.type.dtype
    if value.array.ndim or not (dtype.is_float or dtype.is_integer):
        return False
    return dtype.is_float or int(float(value.array)) == int(value.array)
