"""Compile C text for a test and call its functions on numpy arrays."""

import os
import subprocess
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from numpy.typing import NDArray

FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-pthread")


class CompiledC:
    """A shared library built from `text`; `declarations` are the functions that tests call."""

    def __init__(
        self, folder: Path, text: str, declarations: str, flags: tuple[str, ...] = ("-O2",)
    ) -> None:
        source, library = folder / "text.c", folder / "text.so"
        source.write_text(text)
        compiler = os.environ.get("CC", "cc")
        command = [compiler, *FLAGS, *flags, "-shared", str(source), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(declarations)
        self.functions: Any = self.ffi.dlopen(str(library))

    def pointer(self, array: NDArray[np.float32], start: int = 0) -> Any:
        """Return the address of element `start` (counted in C order) of an array."""
        return self.ffi.cast("float *", array.ctypes.data) + start

    def pointers(self, array: NDArray[np.float32], starts: list[int]) -> Any:
        """Return a table of addresses of elements of one array, for kernels that read rows."""
        return self.ffi.new("const float *[]", [self.pointer(array, s) for s in starts])


def rounding_bound(magnitudes: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Return the bound on the float32 error of sums of `terms` products with these |·| sums."""
    return magnitudes * (terms + 1) * 2.0**-24 * 1.01
