"""A compiled model as data: steps over slots, packed constants, and native code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.ir.index_ranges import IndexRange
from egraph_fusion.ir.tensors import TensorType

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Port:
    """An input or output of the model: its type as declared (dims may be symbolic).

    `default` is what an input holds that the caller does not feed.
    """

    name: str
    type: TensorType
    default: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one launch does, for profiles and reports.

    `flops` and `bytes` are those of one run: operations as the design counts them, and bytes of the
    tensors read and written.  `reason` says why a fallback step is not native,
    or why a native block runs in stages.
    """

    nodes: tuple[str, ...]
    executor: str
    mapping_type: str
    flops: int
    bytes: int
    kernel: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NativeStep:
    """A run of blocks behind one C function `entry`; it reads and writes `slots` by address."""

    entry: str
    blocks: tuple[StepRecord, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeviceBlock:
    """How an accelerator runs one block.

    `launches` are kernels and their numbers of work-items, in order; `buffers` are (space, offset
    or slot, bytes) of the kernels' buffers; `scratch` is bytes for each work-item.
    """

    launches: tuple[tuple[str, int], ...]
    buffers: tuple[tuple[str, int, int], ...]
    scratch: int


@dataclass(frozen=True, slots=True)
class FallbackStep:
    """One operator that onnx.reference runs; `model` is a serialized one-node ONNX model.

    `feeds` pairs the model's input names with slots, `writes` lists the slots of its outputs.
    """

    model: bytes
    feeds: tuple[tuple[str, int], ...]
    writes: tuple[int, ...]
    record: StepRecord


@dataclass(frozen=True, slots=True)
class ControlBody:
    """One graph of a control-flow step: `model` is a serialized ONNX model.

    Its inputs are `formals`, whose declared ranks `ranks` gives (-1: none), then `captures`, each
    with the slot it is read from.  `results` are the declared types of its outputs, with sizes of
    0 where none is declared.
    """

    model: bytes
    formals: tuple[str, ...]
    ranks: tuple[int, ...]
    captures: tuple[tuple[str, int], ...]
    results: tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class ControlStep:
    """An If, Loop or Scan; `operands` and `writes` are slots, -1 where one is absent.

    `attrs` holds the axes and directions of Scan.
    """

    op: str
    bodies: tuple[ControlBody, ...]
    operands: tuple[int, ...]
    writes: tuple[int, ...]
    attrs: Mapping[str, tuple[int, ...]]
    record: StepRecord


Step = NativeStep | FallbackStep | ControlStep


@dataclass(frozen=True)
class Program:
    """Steps in order over numbered slots, which hold the values that Python can see.

    Slots are the graph's inputs, its outputs, constants read by fallback steps, and what crosses
    between native and fallback steps.  `slot_types` gives dtype and static shape of each slot that
    a native step writes (None where a fallback step decides).  Everything else lives in one arena
    of `arena_bytes`, or in `constants`, the packed weights.  `scratch_bytes` is what each thread
    needs beside; `sources` is the generated text, `library` the machine code built from it (empty
    for a target whose driver compiles the text), `features` the CPU features that it needs.
    `device_blocks` says, by native step, how an accelerator runs its blocks.  `index_ranges` is
    what inputs may hold that are read as indices.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    slot_types: tuple[TensorType | None, ...]
    slot_constants: Mapping[int, NDArray[Any]]
    steps: tuple[Step, ...]
    arena_bytes: int
    constants: Bytes
    target: str = "c"
    scratch_bytes: int = 0
    sources: tuple[tuple[str, str], ...] = ()
    library: bytes = b""
    features: tuple[str, ...] = ()
    device_blocks: Mapping[str, tuple[DeviceBlock, ...]] = field(
        default_factory=dict[str, tuple[DeviceBlock, ...]]
    )
    index_ranges: tuple[IndexRange, ...] = ()

    def records(self) -> tuple[StepRecord, ...]:
        """All launches of one run, in order."""
        out: list[StepRecord] = []
        for step in self.steps:
            out += step.blocks if isinstance(step, NativeStep) else (step.record,)
        return tuple(out)
