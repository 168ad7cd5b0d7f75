"""A fusion block as one loop IR kernel with its arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from egraph_fusion.codegen.attention import attention_nest
from egraph_fusion.codegen.concat_parts import by_parts
from egraph_fusion.codegen.contraction import contract
from egraph_fusion.codegen.expand import Fragment, LoweringError, expand
from egraph_fusion.codegen.layout import Layout, row_major
from egraph_fusion.codegen.loop_check import check
from egraph_fusion.codegen.loop_text import text
from egraph_fusion.codegen.loops import Buffer, Const, Kernel, Role, Stmt
from egraph_fusion.codegen.lower_elements import Elements, Index, Source, load_source
from egraph_fusion.codegen.lower_names import renamed_buffers, used_buffers
from egraph_fusion.codegen.lower_nests import Target
from egraph_fusion.codegen.lower_stages import Stages
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.ir.graph import Array, Graph, Node
from egraph_fusion.ir.ops.operator import declared
from egraph_fusion.ir.ops.tracing import node_flops
from egraph_fusion.ir.tensors import DType


@dataclass(frozen=True)
class PackedConstant:
    """A constant in the form that a kernel reads: `pack` applied to the graph's constant `source`.

    Equal `key`s mean equal contents, so packings are made once and shared.
    """

    key: str
    source: Array
    pack: Callable[[Array], Array]

    @cached_property
    def array(self) -> Array:
        """The packed array."""
        packed = np.ascontiguousarray(self.pack(self.source))
        packed.flags.writeable = False
        return packed


@dataclass(frozen=True)
class Argument:
    """What a kernel's buffer is bound to: a value of the graph, a packed constant, or scratch.

    Scratch `holds` a value that the kernel computes, or a copy of what it reads ("").
    """

    buffer: str
    value: str = ""
    constant: PackedConstant | None = None
    scratch_bytes: int = 0
    holds: str = ""


@dataclass(frozen=True)
class LoweredBlock:
    """A kernel and its arguments, one per buffer in order; `flops` and `bytes` are estimates."""

    kernel: Kernel
    arguments: tuple[Argument, ...]
    flops: int
    bytes: int


@dataclass
class _Arguments:
    """Collects the buffers of one kernel."""

    fragment: Fragment
    layouts: Mapping[str, Layout]
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    arguments: dict[str, Argument] = field(default_factory=dict[str, Argument])

    def value(self, value: str, role: Role) -> str:
        """Add the buffer of an input or output and return its name."""
        prefix = "x" if role is Role.IN else "y"
        size = self.layout(value).room or prod(self.fragment.shape(value))
        name = self._add(prefix, self.fragment.types[value].dtype, role, size)
        self.arguments[name] = Argument(name, value)
        return name

    def target(self, value: str) -> Target:
        """Add the buffer of an output and return where in it the value is stored."""
        layout = self.layout(value)
        shape = self.fragment.shape(value)
        return Target(value, self.value(value, Role.OUT), shape, layout, start=layout.start)

    def scratch(self, dtype: DType, size: int, holds: str = "") -> str:
        """Add scratch that the nests share and return its name."""
        name = self._add("s", dtype, Role.SCRATCH, size)
        self.arguments[name] = Argument(name, scratch_bytes=size * dtype.itemsize, holds=holds)
        return name

    def constant(self, value: str, form: str, size: int, pack: Callable[[Array], Array]) -> str:
        """Add a constant in packed form and return its name; equal forms are one buffer."""
        held = self.fragment.constants[value]
        packed = PackedConstant(f"{held.id}:{form}", held.array, pack)
        for name, known in self.arguments.items():
            if known.constant is not None and known.constant.key == packed.key:
                return name
        name = self._add("c", self.fragment.types[value].dtype, Role.CONST, size)
        self.arguments[name] = Argument(name, constant=packed)
        return name

    def layout(self, value: str) -> Layout:
        """Return the layout of a value that lies in memory between kernels."""
        return self.layouts.get(value) or row_major(len(self.fragment.shape(value)))

    def _add(self, prefix: str, dtype: DType, role: Role, size: int) -> str:
        number = sum(b.startswith(prefix) for b in self.buffers)
        name = f"{prefix}{number}"
        self.buffers[name] = Buffer(name, dtype, role, Const(max(size, 1)))
        return name

    def sources(self) -> dict[str, Source]:
        """Return the readers of everything that is given to the block."""
        found: dict[str, Source] = {}
        for v in self.fragment.inputs:
            layout = self.layout(v)
            strides = layout.strides(self.fragment.shape(v))
            name = self.value(v, Role.IN)
            found[v] = load_source(name, self.fragment.types[v].dtype, strides, layout.start)
        for v, held in self.fragment.constants.items():
            if held.array.size != 1:
                found[v] = self._constant_source(v)
        return found

    def _constant_source(self, value: str) -> Source:
        """Read a constant in the memory order that its consumers' results have."""
        shape = self.fragment.shape(value)
        layout = _constant_layout(self.fragment, value, self.layout_of_results(value))
        dtype = self.fragment.types[value].dtype

        def source(index: Index) -> object:
            order = layout.order
            name = self.constant(value, f"order{order}", prod(shape), _transposed(order))
            return load_source(name, dtype, layout.strides(shape))(index)

        return source  # type: ignore[return-value]

    def layout_of_results(self, value: str) -> Layout:
        """Return the layout of the first block output of the constant's rank, else row-major."""
        shape = self.fragment.shape(value)
        for out in self.fragment.outputs:
            if len(self.fragment.shape(out)) == len(shape):
                return self.layout(out).dense
        return row_major(len(shape))


@dataclass(frozen=True)
class _MicroKernels:
    """Writes contractions into the kernel whose arguments are being collected."""

    arguments: _Arguments
    target: TargetInfo

    def single(self, elements: Elements, n: Node, targets: Sequence[Target]) -> tuple[Stmt, ...]:
        """Return the nests of one contraction."""
        return contract(elements, n, targets, self.arguments, self.target)

    def attention(
        self, elements: Elements, heavy: Sequence[Node], targets: Sequence[Target]
    ) -> tuple[Stmt, ...]:
        """Return the nests of two contractions with reductions of rows between them."""
        return attention_nest(elements, heavy, targets, self.arguments, self.target)


def _transposed(order: tuple[int, ...]) -> Callable[[Array], Array]:
    return lambda array: np.ascontiguousarray(np.transpose(array, order))


def _constant_layout(fragment: Fragment, value: str, otherwise: Layout) -> Layout:
    """Weights of convolutions lie with their output channels contiguous."""
    rank = len(fragment.shape(value))
    for n in fragment.nodes:
        if value in n.inputs[1:2]:
            if n.op == "Conv":
                return Layout((*range(2, rank), 1, 0))
            if n.op == "ConvTranspose":
                return Layout((*range(2, rank), 0, 1))
            if n.op == "Gemm" and n.attrs.get("transB"):
                return Layout((1, 0))
            if n.op in ("MatMul", "Gemm"):
                return row_major(rank)
    return otherwise


def lower_block(
    graph: Graph,
    nodes: Sequence[Node],
    inputs: Sequence[str],
    outputs: Sequence[str],
    layouts: Mapping[str, Layout],
    target: TargetInfo,
    *,
    staged: bool = False,
) -> LoweredBlock:
    """Return the kernel of the block `nodes`; LoweringError says why there is none.

    A block of several nodes is refused if a value that it computes for itself would exist in full,
    unless `staged` allows it. One node is never refused for that: what its composite's body
    computes in stages (a normalisation over rows too long for scratch) cannot be split further.
    Kernels that differ only in names have equal text and equal names, so they compile once.
    """
    fragment = by_parts(expand(graph, nodes, inputs, outputs))
    _expect_static(fragment)
    found = _Arguments(fragment, layouts)
    elements = Elements(fragment, found.sources(), lambda e: e)
    targets = [found.target(v) for v in outputs if prod(fragment.shape(v))]
    contractions = _MicroKernels(found, target)
    stages = Stages(elements, found.scratch, contractions, targets, tuple(targets))
    body = stages.run() if targets else ()  # no element is wanted
    lowered = _finished(graph, nodes, found, body)
    if len(nodes) > 1 and not staged:
        _expect_tiled(lowered)
    return lowered


def _expect_tiled(block: LoweredBlock) -> None:
    """Refuse a kernel with a value inside that exists in full."""
    for a in block.arguments:
        if a.holds:
            raise LoweringError(f"{a.holds!r} would exist in full inside {block.kernel.note!r}")


def _expect_static(fragment: Fragment) -> None:
    for v in (*fragment.inputs, *fragment.outputs, *(v for n in fragment.nodes for v in n.outputs)):
        if v:
            fragment.shape(v)
            if fragment.types[v].dtype in _UNSUPPORTED:
                raise LoweringError(f"value {v!r} is {fragment.types[v]}: no kernel computes on it")


_UNSUPPORTED = frozenset({DType.STRING, DType.OTHER, DType.COMPLEX64, DType.COMPLEX128})


def _finished(
    graph: Graph, nodes: Sequence[Node], found: _Arguments, body: tuple[Stmt, ...]
) -> LoweredBlock:
    used = used_buffers(body)
    kept = [b for b in found.buffers.values() if b.name in used or b.role is Role.OUT]
    names = positional(kept)
    buffers = tuple(replace(b, name=names[b.name]) for b in kept)
    arguments = tuple(replace(found.arguments[b.name], buffer=names[b.name]) for b in kept)
    plain = Kernel("k", buffers, (), renamed_buffers(body, names), note=_note(nodes))
    digest = hashlib.sha256(text(plain).encode()).hexdigest()[:16]
    kernel = replace(plain, name=f"k{digest}")
    check(kernel)
    flops, moved = _work(graph, nodes, found.fragment)
    return LoweredBlock(kernel, arguments, flops, moved)


def positional(buffers: Sequence[Buffer]) -> dict[str, str]:
    """Return names by role and position for the buffers that a kernel really uses."""
    prefix = {Role.IN: "x", Role.OUT: "y", Role.CONST: "c", Role.SCRATCH: "s"}
    count: dict[Role, int] = {}
    names: dict[str, str] = {}
    for b in buffers:
        names[b.name] = f"{prefix[b.role]}{count.get(b.role, 0)}"
        count[b.role] = count.get(b.role, 0) + 1
    return names


def _note(nodes: Sequence[Node]) -> str:
    return " ".join(n.op for n in nodes)


def _work(graph: Graph, nodes: Sequence[Node], fragment: Fragment) -> tuple[int, int]:
    flops = 0
    for n in nodes:
        operator = declared(n)
        if operator is not None:
            known = [v in graph.constants for v in n.inputs]
            counted = node_flops(operator, graph.in_types(n), graph.out_types(n), n.attrs, known)
            flops += counted if isinstance(counted, int) else 0
    values = (*fragment.inputs, *fragment.outputs, *fragment.constants)
    return flops, sum(fragment.types[v].nbytes or 0 for v in dict.fromkeys(values))
