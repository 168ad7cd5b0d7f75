"""From a planned graph to a program: lower each block, place values, emit the native text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.codegen.layout import Layout, choose_layouts, inside, row_major
from egraph_fusion.codegen.lower import Argument, LoweredBlock, lower_block
from egraph_fusion.codegen.memory import ALIGNMENT
from egraph_fusion.codegen.native import Binding, Launch, NativeText, Segment
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.fusion.plan import Block, Plan, make_block
from egraph_fusion.ir.graph import Array, Graph, Node
from egraph_fusion.ir.index_ranges import IndexRange
from egraph_fusion.runtime import fallback
from egraph_fusion.runtime.control_step import control_step
from egraph_fusion.runtime.placement import Placement, place_values
from egraph_fusion.runtime.program import (
    Bytes,
    FallbackStep,
    NativeStep,
    Port,
    Program,
    Step,
    StepRecord,
)


@dataclass(frozen=True)
class Assembly:
    """A program and the native text it needs, still to be built."""

    program: Program
    text: NativeText

    def bounded(self, ranges: tuple[IndexRange, ...]) -> Assembly:
        """Return the assembly whose program accepts inputs in `ranges` only."""
        return replace(self, program=replace(self.program, index_ranges=ranges))


def ports(graph: Graph) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the inputs and outputs of `graph` as a session describes them."""
    defaults = {k: c.array for k, c in graph.defaults.items()}
    ins = tuple(Port(v, graph.types[v], defaults.get(v)) for v in graph.inputs)
    return ins, tuple(Port(v, graph.types[v]) for v in graph.outputs)


def lower_plan(plan: Plan, target: TargetInfo) -> tuple[list[LoweredBlock | None], list[str]]:
    """Lower each block (None: the fallback runs it); the second list says why not, else ""."""
    layouts = _layouts(plan)
    lowered: list[LoweredBlock | None] = []
    reasons: list[str] = []
    for b in plan.launched:
        low, reason = _lower(plan, b, layouts, target)
        lowered.append(low)
        reasons.append(reason)
    return lowered, reasons


def _lower(
    plan: Plan, block: Block, layouts: Mapping[str, Layout], target: TargetInfo
) -> tuple[LoweredBlock | None, str]:
    graph = plan.graph
    if block.opaque:
        return None, block.nodes[0].reason or "no declaration of this operator applies"
    try:
        return lower_block(graph, block.nodes, block.inputs, block.outputs, layouts, target), ""
    except LoweringError as error:
        touched = {*block.inputs, *block.outputs}
        if len(block.nodes) > 1:
            # Only now are layouts settled. A block that these force into stages still runs.
            return _staged(plan, block, layouts, target), f"run in stages: {error}"
        if touched & (plan.views.keys() | plan.bases):
            raise
        return None, str(error)


def _staged(
    plan: Plan, block: Block, layouts: Mapping[str, Layout], target: TargetInfo
) -> LoweredBlock:
    nodes, ins, outs = block.nodes, block.inputs, block.outputs
    return lower_block(plan.graph, nodes, ins, outs, layouts, target, staged=True)


def likely_layouts(graph: Graph) -> Mapping[str, Layout]:
    """Return the layouts that values have if each node is a block of its own."""
    return choose_layouts(graph, [make_block(graph, (n,)) for n in graph.nodes])


def refusal(
    graph: Graph,
    nodes: Sequence[Node],
    target: TargetInfo,
    layouts: Mapping[str, Layout] | None = None,
) -> str | None:
    """Return why the code generator cannot make one kernel of `nodes`, or None if it can."""
    block = make_block(graph, nodes)
    try:
        lower_block(graph, block.nodes, block.inputs, block.outputs, layouts or {}, target)
    except LoweringError as error:
        return str(error)
    return None


def _layouts(plan: Plan) -> dict[str, Layout]:
    """Choose layouts; what the fallback touches lies as numpy has it, a view as what it is in."""
    native = [b for b in plan.launched if not b.opaque]
    layouts = dict(choose_layouts(plan.graph, native, plan.bases))
    for b in plan.launched:
        for v in (*b.inputs, *b.outputs) if b.opaque else ():
            shape = plan.graph.types[v].shape
            if shape is not None:
                layouts[v] = row_major(len(shape))
    for v, view in plan.views.items():
        layouts[v] = inside(
            layouts[view.base], plan.graph.types[view.base].static_shape or (), view
        )
    return layouts


def assemble(plan: Plan, target: TargetInfo, name: str = "c") -> Assembly:
    """Return the program that runs `plan` and its native text for target `name`."""
    graph = plan.graph
    lowered, reasons = lower_plan(plan, target)
    placement = place_values(graph, plan.launched, lowered, plan.base_of)
    pool = _ConstantPool()
    steps: list[Step] = []
    segments: list[Segment] = []
    for i, (block, low) in enumerate(zip(plan.blocks, lowered, strict=True)):
        if low is None:
            control = control_step(graph, block.nodes[0], placement.slots)
            steps.append(control or _fallback_step(graph, block, placement, reasons[i]))
            continue
        launch = _launch(i, plan, low, placement, pool)
        record = _record(block, low, reasons[i])
        if steps and isinstance(steps[-1], NativeStep):
            steps[-1] = _extended(steps[-1], record, launch)
            segments[-1] = segments[-1].extended(launch)
        else:
            entry = f"ef_segment_{len(segments)}"
            steps.append(_extended(NativeStep(entry, (), (), ()), record, launch))
            segments.append(Segment(entry, (launch,)))
    kernels = {low.kernel.name: low.kernel for low in lowered if low is not None}
    text = NativeText(tuple(kernels.values()), tuple(segments))
    return Assembly(_program(graph, placement, steps, pool, name), text)


def _program(
    graph: Graph, placement: Placement, steps: list[Step], pool: _ConstantPool, name: str
) -> Program:
    written = {i for s in steps if isinstance(s, NativeStep) for i in s.writes}
    kinds = tuple(graph.types[v] if i in written else None for v, i in placement.slots.items())
    held = {i: graph.constants[v].array for v, i in placement.slots.items() if v in graph.constants}
    ins, outs = ports(graph)
    return Program(
        inputs=ins,
        outputs=outs,
        input_slots=tuple(placement.slots[v] for v in graph.inputs),
        output_slots=tuple(placement.slots[v] for v in graph.outputs),
        slot_types=kinds,
        slot_constants=held,
        steps=tuple(steps),
        arena_bytes=placement.arena_bytes,
        constants=pool.blob(),
        target=name,
    )


class _ConstantPool:
    """Packed constants at aligned offsets of one blob; equal ones are stored once."""

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        self._parts: list[tuple[int, Array]] = []
        self._size = 0

    def offset(self, argument: Argument) -> int:
        """Return the byte offset of a packed constant, adding it if it is new."""
        packed = argument.constant
        assert packed is not None
        if packed.key not in self._offsets:
            array = np.ascontiguousarray(packed.pack(packed.source))
            self._offsets[packed.key] = self._size
            self._parts.append((self._size, array))
            self._size += -(-max(array.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return self._offsets[packed.key]

    def blob(self) -> Bytes:
        """Return all constants as bytes that start at an aligned address, and let go of the parts.

        Each is freed as soon as it is copied, so that weights never lie in memory twice.
        """
        room = np.zeros(self._size + ALIGNMENT, np.uint8)
        first = -room.ctypes.data % ALIGNMENT
        out = room[first : first + self._size]
        while self._parts:
            start, array = self._parts.pop()
            out[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
        return out


def _launch(
    i: int, plan: Plan, low: LoweredBlock, placement: Placement, pool: _ConstantPool
) -> Launch:
    bindings: list[Binding] = []
    for a in low.arguments:
        if a.constant is not None:
            bindings.append(Binding("constant", pool.offset(a)))
        elif not a.value:  # scratch; for a value without elements it takes no room
            bindings.append(Binding("arena", placement.scratch.get((i, a.buffer), 0)))
        elif (base := plan.base_of(a.value)) in placement.slots:
            bindings.append(Binding("slot", placement.slots[base]))
        else:
            bindings.append(Binding("arena", placement.arena[base]))
    # An output without elements has no buffer in the kernel, but Python still allocates it.
    stored = dict.fromkeys(map(plan.base_of, plan.launched[i].outputs))
    written = tuple(placement.slots[v] for v in stored if v in placement.slots)
    return Launch(low.kernel, tuple(bindings), written)


def _extended(step: NativeStep, record: StepRecord, launch: Launch) -> NativeStep:
    used = {b.offset for b in launch.bindings if b.space == "slot"}
    writes = tuple(dict.fromkeys([*step.writes, *launch.writes]))
    reads = tuple(sorted({*step.reads, *used} - set(writes)))
    return NativeStep(step.entry, (*step.blocks, record), reads, writes)


def _record(block: Block, low: LoweredBlock, reason: str) -> StepRecord:
    return StepRecord(
        nodes=tuple(n.label() for n in block.nodes),
        executor="native",
        mapping_type=block.mapping_type.value,
        flops=low.flops,
        bytes=low.bytes,
        kernel=low.kernel.name,
        reason=reason,
    )


def _fallback_step(graph: Graph, block: Block, placement: Placement, reason: str) -> FallbackStep:
    n = block.nodes[0]
    return FallbackStep(
        model=fallback.one_node_model(graph, n),
        feeds=tuple((v, placement.slots[v]) for v in fallback.reads(n)),
        writes=tuple(placement.slots[o] for o in n.outputs if o),
        record=StepRecord(
            nodes=(n.label(),),
            executor="fallback",
            mapping_type="opaque" if block.opaque else block.mapping_type.value,
            flops=0,
            bytes=sum(t.nbytes or 0 for t in graph.out_types(n)),
            reason=reason,
        ),
    )
