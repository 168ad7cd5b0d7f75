"""A compiled model that runs: called as `onnxruntime.InferenceSession` is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.arguments import checked, fits
from egraph_fusion.errors import CompileError, RunError
from egraph_fusion.runtime.control_flow import Bodies, MakeBody
from egraph_fusion.runtime.execution import (
    Native,
    ProfileStep,
    execute,
    launches,
    profiled,
    results,
)
from egraph_fusion.runtime.feeds import (
    Extents,
    Request,
    accept,
    check_indices,
    extents,
    fixed_extents,
    random_array,
    within,
)
from egraph_fusion.runtime.program import Port, Program, StepRecord
from egraph_fusion.runtime.signature import NodeArg, node_arg

__all__ = ["NodeArg", "ProfileStep", "Session"]

Array = NDArray[Any]

MAX_BOUND_ELEMENTS = 64
MAX_BOUND_PROGRAMS = 32
"""Programs compiled for values of inputs; further values run in the program for any value."""


# Compiles the program that a request asks for, and loads a program's native code.
Specialize = Callable[[Request], Program]
Load = Callable[[Program], Native]


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
        return [node_arg(p) for p in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Describe the outputs, in the model's order."""
        return [node_arg(p) for p in self._outputs]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs compiled so far, one for each set of input shapes or values."""
        return tuple(self._programs.values())

    @property
    def bound_values(self) -> tuple[dict[str, Any], ...]:
        """The values of inputs that programs were compiled for, as lists and numbers."""
        return tuple(self._bound_values)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the model on `feeds` (name to array) and return the wanted outputs.

        No names, None or an empty list, ask for all, as in onnxruntime.

        Raises RunError for a missing or unknown input, a wrong dtype or shape, an unknown output,
        or an index in an input that lies outside of what a node reads there.
        """
        arrays = accept(self._inputs, feeds)
        wanted = self._wanted(output_names)
        program = self._program(arrays)
        check_indices(program.index_ranges, self._inputs, arrays)
        slots = execute(program, arrays, self._native, self._bodies)
        return results(program, slots, wanted)

    @checked(RunError, least={"runs": 1})
    def profile(self, feeds: Mapping[str, Array] | None = None, runs: int = 5) -> list[ProfileStep]:
        """Run `runs` times with clocks on and list the launches; random inputs if no `feeds`.

        `seconds` is the median over the runs of one launch's wall time.
        """
        arrays = accept(self._inputs, feeds if feeds is not None else self.random_feeds())
        program = self._program(arrays)
        check_indices(program.index_ranges, self._inputs, arrays)
        times: list[list[float]] = []
        for _ in range(runs):
            clocks: list[float] = []
            execute(program, arrays, self._native, self._bodies, clocks)
            times.append(clocks)
        return profiled(launches(program, self._bodies), times)

    def steps(self, feeds: Mapping[str, Array] | None = None) -> tuple[StepRecord, ...]:
        """List the launches of one run without running."""
        arrays = accept(self._inputs, feeds if feeds is not None else self.random_feeds())
        return launches(self._program(arrays), self._bodies)

    def records(self) -> tuple[StepRecord, ...]:
        """List the launches of every program compiled so far."""
        return tuple(r for p in self.programs for r in launches(p, self._bodies))

    @checked(CompileError)
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
        if names is not None and not fits(names, Sequence[Any]):
            raise RunError(f"the outputs wanted are {names!r}; expected a list of {known}, or None")
        unknown = [n for n in names or () if n not in known]
        if unknown:
            raise RunError(f"no output is called {unknown[0]!r}; the outputs are {known}")
        return [known.index(n) for n in (names or known)]

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

    def random_feeds(self) -> dict[str, Array]:
        """Return seeded inputs: normal floats, other values 0 or 1; symbolic dims are 1.

        An index of an axis of one element is 0.
        """
        rng = np.random.default_rng(0)
        feeds = {p.name: random_array(p, rng) for p in self._inputs if p.default is None}
        return within(self._program(accept(self._inputs, feeds)).index_ranges, feeds)
