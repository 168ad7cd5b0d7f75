"""One run of a program: its steps in order, each on the values that are there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import RunError
from egraph_fusion.runtime.control_flow import Bodies
from egraph_fusion.runtime.program import (
    ControlStep,
    FallbackStep,
    NativeStep,
    Program,
    Step,
    StepRecord,
)

Array = NDArray[Any]


class Native(Protocol):
    """The machine code of a program: what a target's loader gives the session."""

    def run(
        self, step: NativeStep, slots: Sequence[Array | None], seconds: list[float] | None
    ) -> None:
        """Run a native step; append the seconds of each of its blocks to `seconds` if given."""
        ...


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """One launch: its nodes, who ran it, seconds of the last runs' mean, operations and bytes."""

    nodes: tuple[str, ...]
    executor: str
    mapping_type: str
    seconds: float
    flops: int
    bytes: int
    reason: str


def execute(
    program: Program,
    arrays: Sequence[Array],
    native: Callable[[Program], Native],
    bodies: Bodies,
    seconds: list[float] | None = None,
) -> list[Any]:
    """Run every step and return all values; append each launch's seconds to `seconds` if given.

    Raises RunError, naming the nodes, where memory runs out.
    """
    slots: list[Any] = [None] * len(program.slot_types)
    for i, constant in program.slot_constants.items():
        slots[i] = constant
    for i, array in zip(program.input_slots, arrays, strict=True):
        slots[i] = array
    for step in program.steps:
        try:
            _run_step(program, step, slots, native, bodies, seconds)
        except MemoryError as error:
            raise RunError(f"not enough memory to run {_label(step)}: {error}") from error
    return slots


def _run_step(
    program: Program,
    step: Step,
    slots: list[Any],
    native: Callable[[Program], Native],
    bodies: Bodies,
    seconds: list[float] | None,
) -> None:
    if isinstance(step, NativeStep):
        _allocate(program, step, slots)
        native(program).run(step, slots, seconds)
    elif isinstance(step, ControlStep):
        start = time.perf_counter()
        bodies.run(step, slots)
        if seconds is not None:
            seconds.append(time.perf_counter() - start)
    else:
        _run_fallback(step, slots, seconds)


def _label(step: Step) -> str:
    """Return the first node of a step and how many launches follow in it."""
    records = step.blocks if isinstance(step, NativeStep) else (step.record,)
    first = " + ".join(records[0].nodes) if records else "a step without nodes"
    more = len(records) - 1
    return f"{first} (with {more} more in one step)" if more > 0 else first


def results(program: Program, slots: Sequence[Any], wanted: Sequence[int]) -> list[Any]:
    """Return the wanted outputs among the values of a run."""
    made = {i for s in program.steps if isinstance(s, NativeStep) for i in s.writes}
    places = [program.output_slots[i] for i in wanted]
    # What no kernel wrote may be the caller's own array, or a constant.
    return [slots[i] if i in made else _copied(slots[i]) for i in places]


def launches(program: Program, bodies: Bodies) -> tuple[StepRecord, ...]:
    """Return what one run launches, in order."""
    found: list[StepRecord] = []
    for step in program.steps:
        if isinstance(step, ControlStep):
            found.append(bodies.record(step))
        else:
            found += step.blocks if isinstance(step, NativeStep) else (step.record,)
    return tuple(found)


def profiled(records: Sequence[StepRecord], runs: Sequence[Sequence[float]]) -> list[ProfileStep]:
    """Return the launches with the median of their seconds over `runs`."""
    medians = np.median(np.asarray(runs).reshape(len(runs), -1), axis=0)
    return [_profile_step(r, float(s)) for r, s in zip(records, medians, strict=True)]


def _copied(value: Any) -> Any:
    return value.copy() if hasattr(value, "__array_interface__") else value


def _allocate(program: Program, step: NativeStep, slots: list[Any]) -> None:
    for i in step.writes:
        kind = program.slot_types[i]
        assert kind is not None
        assert kind.static_shape is not None
        slots[i] = np.empty(kind.static_shape, kind.dtype.numpy)
    for i in step.reads:
        if slots[i].ndim and not slots[i].flags.c_contiguous:
            slots[i] = np.ascontiguousarray(slots[i])


def _run_fallback(step: FallbackStep, slots: list[Any], seconds: list[float] | None) -> None:
    # Brings onnx with it, which most compiled models run without.
    from egraph_fusion.runtime import fallback

    start = time.perf_counter()
    feeds = {name: slots[i] for name, i in step.feeds}
    results = fallback.run(step.model, feeds, step.record.nodes[0])
    for i, value in zip(step.writes, results, strict=True):
        slots[i] = value
    if seconds is not None:
        seconds.append(time.perf_counter() - start)


def _profile_step(record: StepRecord, seconds: float) -> ProfileStep:
    return ProfileStep(
        record.nodes,
        record.executor,
        record.mapping_type,
        seconds,
        record.flops,
        record.bytes,
        record.reason,
    )
