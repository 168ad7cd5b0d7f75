"""A block's nodes written in primitive operators: composites are replaced by their bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from egraph_fusion.errors import CompileError
from egraph_fusion.ir.graph import Array, Attrs, AttrValue, Constant, Graph, Node, frozen_attrs
from egraph_fusion.ir.ops.operator import OPERATORS, Operator, declared, normalized
from egraph_fusion.ir.tensors import TensorType


class LoweringError(CompileError):
    """A block has a form that no kernel is generated for; the message says why not."""


@dataclass(frozen=True)
class Fragment:
    """Primitive nodes in topological order over static, typed values."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Constant]

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that produces each inner value."""
        return {o: n for n in self.nodes for o in n.outputs if o}

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """How many operands read each value."""
        found: dict[str, int] = {}
        for n in self.nodes:
            for v in n.inputs:
                found[v] = found.get(v, 0) + 1
        return found

    def shape(self, value: str) -> tuple[int, ...]:
        """Return the static shape of `value`; LoweringError if it is not static."""
        found = self.types[value].static_shape
        if found is None:
            raise LoweringError(f"value {value!r} is {self.types[value]}: its shape is not static")
        return found

    def operator(self, n: Node) -> Operator:
        """Return the declaration of `n`; LoweringError for an opaque node."""
        found = declared(n)
        if found is None:
            raise LoweringError(f"{n.label()} has no declaration")
        return found


_OF_SHAPES = frozenset({"Shape", "Size"})


@dataclass
class _Expansion:
    """A builder that appends primitive nodes; values of a composite's body get fresh names."""

    types: dict[str, TensorType]
    constants: dict[str, Constant]
    nodes: list[Node] = field(default_factory=list[Node])
    renamed: dict[str, str] = field(default_factory=dict[str, str])

    def type_of(self, value: str) -> TensorType:
        """Return the type of a value."""
        return self.types[value]

    def const(self, array: Array) -> str:
        """Return a constant value."""
        name = self._fresh()
        self.constants[name] = Constant.of(array)
        self.types[name] = self.constants[name].type
        return name

    def op(self, name: str, *inputs: str, **attrs: AttrValue) -> str:
        """Append one application and return its value."""
        operator = OPERATORS[name]
        types = tuple(self.types[v] if v else None for v in inputs)
        filled = frozen_attrs(normalized(operator, types, attrs))
        out = self._fresh()
        self.types[out] = operator.infer(types, filled)[0]
        self.add(Node(name, inputs, (out,), filled))
        return out

    def add(self, n: Node) -> None:
        """Append `n`, or the body of what it computes."""
        if n.op in _OF_SHAPES:
            self._known(n)
            return
        operator = declared(n)
        body = None if operator is None else operator.body
        if body is None:
            self.nodes.append(n)
            return
        results = body(self, n.inputs, n.attrs)
        for own, value in zip(n.outputs, results, strict=False):
            if own:
                self._alias(own, value)

    def _known(self, n: Node) -> None:
        """Make the result of Shape or Size a constant."""
        operand = self.types[n.inputs[0]]
        if operand.static_shape is None:
            raise LoweringError(f"{n.label()}: the shape of {n.inputs[0]!r} is not static")
        empty = np.broadcast_to(np.zeros((), np.bool_), operand.static_shape)
        result = OPERATORS[n.op].evaluate([empty], n.attrs)[0]
        self.constants[n.outputs[0]] = Constant.of(np.asarray(result))

    def _alias(self, own: str, value: str) -> None:
        attrs: Attrs = frozen_attrs({})
        self.nodes.append(Node("Identity", (value,), (own,), attrs))

    def _fresh(self) -> str:
        return f"%{len(self.types)}"


def expand(
    graph: Graph, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]
) -> Fragment:
    """Return the block `nodes` as primitive operators; its inner values get fresh names.

    Composites are operators with a `body` in the registry; bodies may use composites again.
    """
    read = {v for n in nodes for v in (*n.inputs, *n.outputs) if v} | {*inputs, *outputs}
    expansion = _Expansion(
        {v: graph.types[v] for v in read},
        {v: graph.constants[v] for v in read if v in graph.constants},
    )
    for n in nodes:
        expansion.add(n)
    return Fragment(
        _needed(expansion.nodes, outputs),
        tuple(inputs),
        tuple(outputs),
        expansion.types,
        expansion.constants,
    )


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """Return the nodes that some output depends on, in order."""
    wanted = set(outputs)
    kept: list[Node] = []
    for n in reversed(nodes):
        if wanted & set(n.outputs):
            kept.append(n)
            wanted |= {v for v in n.inputs if v}
    return tuple(reversed(kept))
