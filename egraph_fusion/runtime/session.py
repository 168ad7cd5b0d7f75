"""A compiled model that runs: called as `onnxruntime.InferenceSession` is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import CompileError, RunError
from egraph_fusion.ir.tensors import DType
from egraph_fusion.runtime.control_flow import Bodies, MakeBody
from egraph_fusion.runtime.feeds import (
    Extents,
    Request,
    accept,
    extents,
    fixed_extents,
    random_array,
)
from egraph_fusion.runtime.program import (
    ControlStep,
    FallbackStep,
    NativeStep,
    Port,
    Program,
    StepRecord,
)

Array = NDArray[Any]

MAX_BOUND_ELEMENTS = 64
MAX_BOUND_PROGRAMS = 32
"""Programs compiled for values of inputs; further values run in the program for any value."""


class Native(Protocol):
    """The machine code of a program: what a target's loader gives the session."""

    def run(
        self, step: NativeStep, slots: Sequence[Array | None], seconds: list[float] | None
    ) -> None:
        """Run a native step; append the seconds of each of its blocks to `seconds` if given."""
        ...


# Compiles the program that a request asks for, and loads a program's native code.
Specialize = Callable[[Request], Program]
Load = Callable[[Program], Native]


@dataclass(frozen=True, slots=True)
class NodeArg:
    """Name, shape and ONNX type string of an input or output, as onnxruntime describes them."""

    name: str
    shape: list[int | str | None]
    type: str


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


class Session:
    """A model compiled for one target.

    A model with symbolic input shapes is compiled again for each new set of shapes it is called
    with (and kept), unless its shapes were fixed by `compile(..., shapes=...)`.  Where small inputs
    decide shapes, axes or the like, it is also compiled for their values (`bound_values` lists
    them), up to `MAX_BOUND_PROGRAMS` times; after that the fallback runs what depends on them.
    """

    def __init__(
        self,
        ports: tuple[tuple[Port, ...], tuple[Port, ...]],
        programs: Mapping[Extents, Program],
        load: Load,
        specialize: Specialize | None = None,
        value_inputs: Collection[str] = (),
        make_body: MakeBody | None = None,
    ) -> None:
        self._inputs, self._outputs = ports
        self._programs = {Request(shapes).key: p for shapes, p in programs.items()}
        self._load = load
        self._specialize = specialize
        self._value_inputs = frozenset(value_inputs)
        self._bound_values: list[dict[str, Any]] = []
        self._natives: dict[int, Native] = {}
        self._bodies = Bodies(make_body)
        # Two threads that meet a new shape compile it once.
        self._making = threading.RLock()

    def get_inputs(self) -> list[NodeArg]:
        """Describe the inputs, in the model's order."""
        return [_node_arg(p) for p in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Describe the outputs, in the model's order."""
        return [_node_arg(p) for p in self._outputs]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs compiled so far, one for each set of input shapes or values."""
        return tuple(self._programs.values())

    @property
    def bound_values(self) -> tuple[dict[str, Any], ...]:
        """The values of inputs that programs were compiled for, as lists and numbers."""
        return tuple(self._bound_values)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the model on `feeds` (name to array) and return the wanted outputs (None: all).

        Raises RunError for a missing or unknown input, a wrong dtype or shape, an unknown output.
        """
        arrays = accept(self._inputs, feeds)
        wanted = self._wanted(output_names)
        program = self._program(arrays)
        slots = self._execute(program, arrays)
        made = {i for s in program.steps if isinstance(s, NativeStep) for i in s.writes}
        places = [program.output_slots[i] for i in wanted]
        # What no kernel wrote may be the caller's own array, or a constant.
        return [slots[i] if i in made else _copied(slots[i]) for i in places]

    def profile(self, feeds: Mapping[str, Array] | None = None, runs: int = 5) -> list[ProfileStep]:
        """Run `runs` times with clocks on and list the launches; random inputs if no `feeds`.

        `seconds` is the median over the runs of one launch's wall time.
        """
        arrays = accept(self._inputs, feeds if feeds is not None else self.random_feeds())
        program = self._program(arrays)
        times: list[list[float]] = []
        for _ in range(max(1, runs)):
            clocks: list[float] = []
            self._execute(program, arrays, clocks)
            times.append(clocks)
        medians = np.median(np.asarray(times).reshape(len(times), -1), axis=0)
        records = self._launches(program)
        return [_profile_step(r, float(s)) for r, s in zip(records, medians, strict=True)]

    def steps(self, feeds: Mapping[str, Array] | None = None) -> tuple[StepRecord, ...]:
        """List the launches of one run without running."""
        arrays = accept(self._inputs, feeds if feeds is not None else self.random_feeds())
        return self._launches(self._program(arrays))

    def records(self) -> tuple[StepRecord, ...]:
        """List the launches of every program compiled so far."""
        return tuple(r for p in self.programs for r in self._launches(p))

    def save(self, path: str | Path) -> None:
        """Write the compiled model to a `.efz` file, which is executable code.

        Raises CompileError if nothing is compiled yet (symbolic shapes that no call has fixed).
        """
        from egraph_fusion.runtime.container import write

        self.prepare()
        programs = {shapes: p for (shapes, values), p in self._programs.items() if not values}
        if not programs:
            names = ", ".join(p.name for p in self._inputs)
            raise CompileError(
                f"nothing to save: the shapes of {names} are symbolic; fix them with "
                "compile(..., shapes={name: dims}) or run the session once"
            )
        write(Path(path), (self._inputs, self._outputs), programs)

    def _native(self, program: Program) -> Native:
        found = self._natives.get(id(program))
        if found is not None:
            return found
        with self._making:
            if id(program) not in self._natives:
                self._natives[id(program)] = self._load(program)
            return self._natives[id(program)]

    def _wanted(self, names: Sequence[str] | None) -> list[int]:
        known = [p.name for p in self._outputs]
        unknown = [n for n in names or () if n not in known]
        if unknown:
            raise RunError(f"no output is called {unknown[0]!r}; the outputs are {known}")
        return [known.index(n) for n in (known if names is None else names)]

    def request(self, feeds: Mapping[str, Array]) -> Request:
        """Return what the program that runs `feeds` is compiled for; errors as `run`."""
        return self._request(accept(self._inputs, feeds))

    def adopt(self, request: Request, program: Program) -> None:
        """Run what `request` says with `program` from now on."""
        self._programs[request.key] = program
        if request.values:
            self._bound_values.append({v: a.tolist() for v, a in request.values.items()})

    def prepare(self) -> None:
        """Compile the program for the declared input shapes if these are fixed and none is yet."""
        shapes = fixed_extents(self._inputs)
        if shapes is not None:
            self._program_for(Request(shapes))

    def _request(self, arrays: Sequence[Array]) -> Request:
        values = {
            p.name: a
            for p, a in zip(self._inputs, arrays, strict=True)
            if p.name in self._value_inputs and a.size <= MAX_BOUND_ELEMENTS
        }
        wanted = Request(extents(self._inputs, arrays), values)
        full = len(self._bound_values) >= MAX_BOUND_PROGRAMS and wanted.key not in self._programs
        return Request(wanted.extents) if full else wanted

    def _program(self, arrays: Sequence[Array]) -> Program:
        return self._program_for(self._request(arrays))

    def _program_for(self, request: Request) -> Program:
        found = self._programs.get(request.key)
        if found is not None:
            return found
        with self._making:
            if request.key not in self._programs:
                if self._specialize is None:
                    fixed = [list(shapes) for shapes, _ in self._programs]
                    wanted = list(request.extents)
                    raise RunError(f"this model is compiled for input shapes {fixed}, not {wanted}")
                self.adopt(request, self._specialize(request))
            return self._programs[request.key]

    def _execute(
        self,
        program: Program,
        arrays: Sequence[Array],
        seconds: list[float] | None = None,
    ) -> list[Any]:
        slots: list[Any] = [None] * len(program.slot_types)
        for i, constant in program.slot_constants.items():
            slots[i] = constant
        for i, array in zip(program.input_slots, arrays, strict=True):
            slots[i] = array
        for step in program.steps:
            if isinstance(step, NativeStep):
                _allocate(program, step, slots)
                self._native(program).run(step, slots, seconds)
            elif isinstance(step, ControlStep):
                start = time.perf_counter()
                self._bodies.run(step, slots)
                if seconds is not None:
                    seconds.append(time.perf_counter() - start)
            else:
                _run_fallback(step, slots, seconds)
        return slots

    def _launches(self, program: Program) -> tuple[StepRecord, ...]:
        found: list[StepRecord] = []
        for step in program.steps:
            if isinstance(step, ControlStep):
                found.append(self._bodies.record(step))
            else:
                found += step.blocks if isinstance(step, NativeStep) else (step.record,)
        return tuple(found)

    def random_feeds(self) -> dict[str, Array]:
        """Return seeded inputs: normal floats, other values 0 or 1; symbolic dims are 1."""
        rng = np.random.default_rng(0)
        return {p.name: random_array(p, rng) for p in self._inputs if p.default is None}


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


def _node_arg(port: Port) -> NodeArg:
    shape = port.type.shape
    dims: list[int | str | None] = [d if isinstance(d, int) else str(d) for d in shape or ()]
    dtype = port.type.dtype
    return NodeArg(port.name, dims, f"tensor({_ONNX_NAMES.get(dtype, dtype.value)})")


_ONNX_NAMES = {DType.FLOAT32: "float", DType.FLOAT64: "double"}


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
