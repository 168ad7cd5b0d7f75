"""The Extended Computational Graph: frozen nodes over named, typed values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import ModelError
from egraph_fusion.ir.tensors import DType, TensorType

AttrValue = int | float | str | bytes | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
Attrs = Mapping[str, AttrValue]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor known at compile time, addressed by its content (dtype, shape and bytes)."""

    id: str
    array: Array

    @staticmethod
    def of(array: Array) -> Constant:
        """Wrap `array`, which is copied only if it could still be written to."""
        frozen = array if not array.flags.writeable else array.copy()
        frozen.flags.writeable = False
        digest = hashlib.sha256(f"{frozen.dtype}{frozen.shape}".encode())
        digest.update(_bytes(frozen))
        return Constant(digest.hexdigest()[:24], frozen)

    @property
    def type(self) -> TensorType:
        """Element type and static shape."""
        return TensorType(DType.of(self.array.dtype), self.array.shape)

    def __eq__(self, other: object) -> bool:
        """Two constants are equal iff dtype, shape and bytes are."""
        return isinstance(other, Constant) and other.id == self.id

    def __hash__(self) -> int:
        """Hash of the content address."""
        return hash(self.id)


def _bytes(array: Array) -> memoryview | bytes:
    if array.dtype == object:
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application.

    `op` is the ONNX name, prefixed by `domain:` outside the default domain.  `inputs` holds the
    tensor operands by value name ("" where an optional one is absent); what the registry declares
    as an attribute is in `attrs` whatever the opset's form was.  `opaque` nodes have no declaration
    that applies: they are carried unchanged.  `captures` are outer values that subgraphs read.
    `payload` is the node as it came in (an ONNX NodeProto), for verbatim export and the fallback;
    `absorbed` holds the constant operands of the payload, by position, that became attributes.
    `reason` says why a node is opaque, `rules` names the rewrites that made a node.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attrs = field(default_factory=lambda: MappingProxyType({}))
    name: str = ""
    opaque: bool = False
    captures: tuple[str, ...] = ()
    payload: bytes = field(default=b"", compare=False, repr=False)
    absorbed: Mapping[int, Constant] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )
    reason: str = field(default="", compare=False)
    rules: tuple[str, ...] = field(default=(), compare=False)

    @property
    def reads(self) -> tuple[str, ...]:
        """Every value the node depends on: present operands and captures."""
        return tuple(v for v in (*self.inputs, *self.captures) if v)

    def label(self) -> str:
        """How messages name the node: its own name, else its first output, and the operator."""
        own = self.name or next((o for o in self.outputs if o), "?")
        return f"{own} ({self.op})"


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attrs: AttrValue
) -> Node:
    """Build a declared node; attributes are sorted by name."""
    return Node(op, tuple(inputs), tuple(outputs), frozen_attrs(attrs), name)


def frozen_attrs(attrs: Mapping[str, AttrValue]) -> Attrs:
    """Return a read-only copy of `attrs`, sorted by name."""
    return MappingProxyType(dict(sorted(attrs.items())))


@dataclass(frozen=True)
class Graph:
    """A program: nodes in topological order over named values.

    Every value has a type in `types`; a value is an input, a constant or one output of one node.
    `defaults` are the values of inputs that a caller may leave out.
    `header` is what the importer needs to write the model back (an ONNX ModelProto without nodes
    and initializers); the IR does not look into it.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Constant] = field(default_factory=lambda: MappingProxyType({}))
    header: bytes = field(default=b"", compare=False, repr=False)
    opset: int = 0
    defaults: Mapping[str, Constant] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that produces each value which is not an input or a constant."""
        return {o: n for n in self.nodes for o in n.outputs if o}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, in order, one entry per node."""
        found: dict[str, list[Node]] = {}
        for n in self.nodes:
            for v in dict.fromkeys(n.reads):
                found.setdefault(v, []).append(n)
        return {v: tuple(ns) for v, ns in found.items()}

    def type_of(self, value: str) -> TensorType:
        """Return the type of `value`; ModelError if there is no such value."""
        if value not in self.types:
            raise ModelError(f"graph {self.name!r} has no value named {value!r}")
        return self.types[value]

    def in_types(self, n: Node) -> tuple[TensorType | None, ...]:
        """Types of a node's operands; None for an absent one."""
        return tuple(self.types[v] if v else None for v in n.inputs)

    def out_types(self, n: Node) -> tuple[TensorType, ...]:
        """Types of a node's present outputs."""
        return tuple(self.types[v] for v in n.outputs if v)

    def constant(self, value: str) -> Array | None:
        """Return the array of a constant value, or None if it is computed at run time."""
        found = self.constants.get(value)
        return None if found is None else found.array

    def replace(self, **changes: Any) -> Graph:
        """Return a copy with some fields changed."""
        return dataclass_replace(self, **changes)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """Yield each node with its position."""
        return enumerate(self.nodes)

    def check(self) -> None:
        """Raise ModelError unless values are typed, defined once and before use."""
        known: set[str] = set()
        for v in (*self.inputs, *self.constants):
            _define(self, v, known, "graph input or constant")
        for n in self.nodes:
            for v in n.reads:
                if v not in known:
                    raise ModelError(f"node {n.label()} reads {v!r} before it is defined")
            for v in n.outputs:
                if v:
                    _define(self, v, known, f"node {n.label()}")
        for v in self.outputs:
            if v not in known:
                raise ModelError(f"graph output {v!r} is not defined by any node")
        for v, c in self.defaults.items():
            if v not in self.inputs or self.types[v].dtype is not c.type.dtype:
                raise ModelError(f"default {v!r} of {c.type} belongs to no input of that dtype")
        for v, c in self.constants.items():
            if self.types[v] != c.type:
                raise ModelError(f"constant {v!r} is {c.type} but its value has {self.types[v]}")


def _define(graph: Graph, value: str, known: set[str], by: str) -> None:
    if value in known:
        raise ModelError(f"value {value!r} is defined twice, the second time by {by}")
    if value not in graph.types:
        raise ModelError(f"value {value!r}, defined by {by}, has no type")
    known.add(value)


def topological(
    nodes: Iterable[Node], available: Iterable[str], wanted: Iterable[str] | None = None
) -> tuple[Node, ...]:
    """Order `nodes` so that each follows what it reads, keeping the given order where possible.

    With `wanted`, nodes that no wanted value needs are left out.  Raises ModelError on a cycle or
    on a value that nothing defines.
    """
    pool = list(nodes)
    makes = {o: i for i, n in enumerate(pool) for o in n.outputs if o}
    have = set(available)
    order: list[int] = []
    state: dict[int, int] = {}
    goals = range(len(pool)) if wanted is None else [makes[v] for v in wanted if v in makes]
    for goal in goals:
        stack = [(goal, False)]
        while stack:
            i, done = stack.pop()
            if done:
                state[i] = 2
                order.append(i)
                continue
            if state.get(i) == 2:
                continue
            if state.get(i) == 1:
                raise ModelError(f"the graph has a cycle through node {pool[i].label()}")
            state[i] = 1
            stack.append((i, True))
            for v in reversed(pool[i].reads):
                if v in have:
                    continue
                if v not in makes:
                    raise ModelError(f"node {pool[i].label()} reads {v!r}, which nothing defines")
                if state.get(makes[v]) == 1:
                    raise ModelError(f"the graph has a cycle through {v!r}")
                if state.get(makes[v]) != 2:
                    stack.append((makes[v], False))
    return tuple(pool[i] for i in order)
