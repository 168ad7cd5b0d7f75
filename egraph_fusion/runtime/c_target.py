"""The C target: build a program's library, load it, call its segments."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from egraph_fusion.codegen import build
from egraph_fusion.codegen.cache import Cache, default_folder, digest
from egraph_fusion.codegen.memory import ALIGNMENT
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.graph import Array
from egraph_fusion.runtime.machine import missing_features, needed_features, vector_floats
from egraph_fusion.runtime.program import NativeStep, Program

if TYPE_CHECKING:
    from egraph_fusion.runtime.assemble import Assembly

_DECLARATIONS = """
void *ef_env_create(int threads, int64_t scratch_bytes);
void ef_env_destroy(void *env);
"""
_SEGMENT = "void {}(void *env, char *arena, char *constants, char *const *slots, double *seconds);"
# Vector loops and tiles may read (never write) up to this many bytes past a value.
_MARGIN = 4096


def build_program(assembly: Assembly, march: str | None) -> Program:
    """Return the assembly's program with its shared library; CompileError if the compiler fails."""
    units = assembly.text.c_units(vector_floats(march))
    flags = ("-ffp-contract=off",)
    path = build.shared_library([build.Unit(n, s, flags) for n, s in units], march)
    return replace(
        assembly.program,
        scratch_bytes=assembly.text.scratch_bytes(),
        sources=units,
        library=path.read_bytes(),
        features=needed_features(march),
    )


class CNative:
    """A loaded library with its arena, threads and scratch; one run at a time."""

    def __init__(self, program: Program, threads: int) -> None:
        missing = missing_features(program.features)
        if missing:
            raise CompileError(
                f"this model was compiled for a CPU with {', '.join(missing)}, which this machine "
                "lacks; compile it again here or with a lower --march"
            )
        self._library = build.load(_stored(program.library), _declarations(program))
        self._ffi = self._library.ffi
        self._lock = threading.Lock()
        self._arena, arena = self._aligned(program.arena_bytes + _MARGIN)
        self._constants, constants = self._mapped(program.constants)
        create = self._library.function("ef_env_create")
        env = create(threads, program.scratch_bytes)
        if env == self._ffi.NULL:
            raise CompileError(f"no memory for {threads} threads' scratch")
        finalize(self, self._library.function("ef_env_destroy"), env)
        self._bases = (env, arena, constants)
        self._slots = self._ffi.new("char *[]", max(1, len(program.slot_types)))

    def run(
        self, step: NativeStep, slots: Sequence[Array | None], seconds: list[float] | None
    ) -> None:
        """Run one segment on the slots' memory; append each block's seconds if wanted."""
        ffi = self._ffi
        clocks = ffi.NULL if seconds is None else ffi.new("double[]", len(step.blocks))
        entry = self._library.function(step.entry)
        with self._lock:
            for i in (*step.reads, *step.writes):
                self._slots[i] = ffi.cast("char *", _address(slots[i]))
            entry(*self._bases, self._slots, clocks)
        if seconds is not None:
            seconds.extend(clocks)

    def _aligned(self, size: int) -> tuple[Array, Any]:
        room = np.empty(size + ALIGNMENT, np.uint8)
        return room, self._ffi.cast("char *", -(-room.ctypes.data // ALIGNMENT) * ALIGNMENT)

    def _mapped(self, constants: Array) -> tuple[Array, Any]:
        """Return the constants where they lie, if aligned, else a copy."""
        if constants.ctypes.data % ALIGNMENT == 0:
            return constants, self._ffi.cast("char *", constants.ctypes.data)
        room, base = self._aligned(constants.nbytes)
        first = int(self._ffi.cast("intptr_t", base)) - room.ctypes.data
        room[first : first + constants.nbytes] = constants
        return room, base


def _address(array: Array | None) -> int:
    assert array is not None
    return int(array.__array_interface__["data"][0])


def _declarations(program: Program) -> str:
    entries = [s.entry for s in program.steps if isinstance(s, NativeStep)]
    return _DECLARATIONS + "\n".join(_SEGMENT.format(e) for e in entries)


def _stored(library: bytes) -> Path:
    """Return a file of the private cache that holds `library`, for the dynamic linker."""

    def write(out: Path) -> None:
        out.write_bytes(library)

    store = Cache(default_folder())
    return store.fetch(digest("library", library), ".so", write)
