"""A compiled model as data: steps over slots, packed constants, and native code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    tensors read and written.  `reason` says why a fallback step is not native.
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
class FallbackStep:
    """One operator that onnx.reference runs; `model` is a serialized one-node ONNX model.

    `feeds` pairs the model's input names with slots, `writes` lists the slots of its outputs (-1:
    not wanted).
    """

    model: bytes
    feeds: tuple[tuple[str, int], ...]
    writes: tuple[int, ...]
    record: StepRecord


Step = NativeStep | FallbackStep


@dataclass(frozen=True)
class Program:
    """Steps in order over numbered slots, which hold the values that Python can see.

    Slots are the graph's inputs, its outputs, constants read by fallback steps, and what crosses
    between native and fallback steps.  `slot_types` gives dtype and static shape of each slot that
    a native step writes (None where a fallback step decides).  Everything else lives in one arena
    of `arena_bytes`, or in `constants`, the packed weights.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    slot_types: tuple[TensorType | None, ...]
    slot_constants: Mapping[int, NDArray[Any]]
    steps: tuple[Step, ...]
    arena_bytes: int
    scratch_bytes: int
    constants: Bytes
    sources: tuple[tuple[str, str], ...]
    target: str = "c"

    def records(self) -> tuple[StepRecord, ...]:
        """All launches of one run, in order."""
        out: list[StepRecord] = []
        for step in self.steps:
            out += step.blocks if isinstance(step, NativeStep) else (step.record,)
        return tuple(out)
