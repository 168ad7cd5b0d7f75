"""A compiled model that runs: called as `onnxruntime.InferenceSession` is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.errors import CompileError, RunError
from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.tensors import DType
from egraph_fusion.runtime import fallback
from egraph_fusion.runtime.program import FallbackStep, NativeStep, Port, Program, StepRecord

Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]


class Native(Protocol):
    """The machine code of a program: what a target's loader gives the session."""

    def run(
        self, step: NativeStep, slots: Sequence[Array | None], seconds: list[float] | None
    ) -> None:
        """Run a native step; append the seconds of each of its blocks to `seconds` if given."""
        ...


# Compiles the program for given input shapes, and loads a program's native code.
Specialize = Callable[[Shapes], Program]
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
    with (and kept), unless its shapes were fixed by `compile(..., shapes=...)`.
    """

    def __init__(
        self,
        ports: tuple[tuple[Port, ...], tuple[Port, ...]],
        programs: Mapping[tuple[tuple[int, ...], ...], Program],
        load: Load,
        specialize: Specialize | None = None,
    ) -> None:
        self._inputs, self._outputs = ports
        self._programs = dict(programs)
        self._load = load
        self._specialize = specialize
        self._natives: dict[int, Native] = {}

    def get_inputs(self) -> list[NodeArg]:
        """Describe the inputs, in the model's order."""
        return [_node_arg(p) for p in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Describe the outputs, in the model's order."""
        return [_node_arg(p) for p in self._outputs]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs compiled so far, one for each set of input shapes."""
        return tuple(self._programs.values())

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the model on `feeds` (name to array) and return the wanted outputs (None: all).

        Raises RunError for a missing or unknown input, a wrong dtype or shape, an unknown output.
        """
        arrays = self._accept(feeds)
        wanted = self._wanted(output_names)
        program = self._program(arrays)
        slots = self._execute(program, arrays)
        return [slots[program.output_slots[i]] for i in wanted]

    def profile(self, feeds: Mapping[str, Array] | None = None, runs: int = 5) -> list[ProfileStep]:
        """Run `runs` times with clocks on and list the launches; random inputs if no `feeds`.

        `seconds` is the median over the runs of one launch's wall time.
        """
        arrays = self._accept(feeds if feeds is not None else self.random_feeds())
        program = self._program(arrays)
        times: list[list[float]] = []
        for _ in range(max(1, runs)):
            clocks: list[float] = []
            self._execute(program, arrays, clocks)
            times.append(clocks)
        medians = np.median(np.asarray(times).reshape(len(times), -1), axis=0)
        return [_profile_step(r, float(s)) for r, s in zip(program.records(), medians, strict=True)]

    def steps(self, feeds: Mapping[str, Array] | None = None) -> tuple[StepRecord, ...]:
        """List the launches of one run without running."""
        arrays = self._accept(feeds if feeds is not None else self.random_feeds())
        return self._program(arrays).records()

    def save(self, path: str | Path) -> None:
        """Write the compiled model to a `.efz` file, which is executable code.

        Raises CompileError if nothing is compiled yet (symbolic shapes that no call has fixed).
        """
        from egraph_fusion.runtime.container import write

        if not self._programs:
            names = ", ".join(p.name for p in self._inputs)
            raise CompileError(
                f"nothing to save: the shapes of {names} are symbolic; fix them with "
                "compile(..., shapes={name: dims}) or run the session once"
            )
        write(Path(path), (self._inputs, self._outputs), self._programs)

    def _native(self, program: Program) -> Native:
        if id(program) not in self._natives:
            self._natives[id(program)] = self._load(program)
        return self._natives[id(program)]

    def _wanted(self, names: Sequence[str] | None) -> list[int]:
        known = [p.name for p in self._outputs]
        unknown = [n for n in names or () if n not in known]
        if unknown:
            raise RunError(f"no output is called {unknown[0]!r}; the outputs are {known}")
        return [known.index(n) for n in (known if names is None else names)]

    def _accept(self, feeds: Mapping[str, Array]) -> list[Array]:
        known = {p.name for p in self._inputs}
        unknown = [n for n in feeds if n not in known]
        if unknown:
            raise RunError(f"no input is called {unknown[0]!r}; the inputs are {sorted(known)}")
        bound: dict[str, tuple[int, str]] = {}
        return [_accept_one(p, feeds.get(p.name), bound) for p in self._inputs]

    def _program(self, arrays: Sequence[Array]) -> Program:
        key = tuple(a.shape for a in arrays)
        if key not in self._programs:
            if self._specialize is None:
                fixed = [list(k) for k in self._programs]
                raise RunError(f"this model is compiled for input shapes {fixed}, not {list(key)}")
            shapes = {p.name: s for p, s in zip(self._inputs, key, strict=True)}
            self._programs[key] = self._specialize(shapes)
        return self._programs[key]

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
            else:
                _run_fallback(step, slots, seconds)
        return slots

    def random_feeds(self) -> dict[str, Array]:
        """Return seeded inputs: normal floats, other values 0 or 1; symbolic dims are 1."""
        rng = np.random.default_rng(0)
        return {p.name: _random(p, rng) for p in self._inputs if p.default is None}


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
    start = time.perf_counter()
    feeds = {name: slots[i] for name, i in step.feeds}
    results = fallback.run(step.model, feeds, step.record.nodes[0])
    for i, value in zip(step.writes, results, strict=True):
        if i >= 0:
            slots[i] = value
    if seconds is not None:
        seconds.append(time.perf_counter() - start)


def _accept_one(port: Port, value: Any, bound: dict[str, tuple[int, str]]) -> Array:
    if value is None and port.default is None:
        raise RunError(f"input {port.name!r} ({port.type}) is missing")
    array = np.asarray(port.default if value is None else value)
    if port.type.shape is None and port.type.dtype in (DType.OTHER, DType.STRING):
        return array
    if DType.of(array.dtype) is not port.type.dtype:
        raise RunError(f"input {port.name!r}: expected {port.type}, got dtype {array.dtype}")
    if port.type.shape is not None:
        _check_shape(port, port.type.shape, array.shape, bound)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _check_shape(
    port: Port, want: tuple[Dim, ...], got: tuple[int, ...], bound: dict[str, tuple[int, str]]
) -> None:
    wrong = len(want) != len(got) or any(
        isinstance(w, int) and w != g for w, g in zip(want, got, strict=True)
    )
    if wrong:
        raise RunError(f"input {port.name!r}: expected {port.type}, got shape {list(got)}")
    for w, g in zip(want, got, strict=True):
        if not isinstance(w, int):
            size, by = bound.setdefault(str(w), (g, port.name))
            if size != g:
                raise RunError(
                    f"input {port.name!r}: dimension {w} is {g} here but {size} in input {by!r}"
                )


def _node_arg(port: Port) -> NodeArg:
    shape = port.type.shape
    dims: list[int | str | None] = [d if isinstance(d, int) else str(d) for d in shape or ()]
    dtype = port.type.dtype
    return NodeArg(port.name, dims, f"tensor({_ONNX_NAMES.get(dtype, dtype.value)})")


_ONNX_NAMES = {DType.FLOAT32: "float", DType.FLOAT64: "double"}


def _random(port: Port, rng: np.random.Generator) -> Array:
    dims = [d if isinstance(d, int) else 1 for d in port.type.shape or ()]
    if port.type.dtype.is_float:
        return rng.standard_normal(dims).astype(port.type.dtype.numpy)
    return rng.integers(0, 2, dims).astype(port.type.dtype.numpy)


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
