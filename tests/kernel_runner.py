"""Run loop IR kernels on numpy arrays: through C with cffi, or through OpenCL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egraph_fusion.codegen import build
from egraph_fusion.codegen.emit import launches, symbol, translation_unit
from egraph_fusion.codegen.index import simplify
from egraph_fusion.codegen.loop_check import check
from egraph_fusion.codegen.loop_walk import substitute
from egraph_fusion.codegen.loops import (
    Const,
    Expr,
    Kernel,
)
from egraph_fusion.codegen.scratch import scratch_bytes
from egraph_fusion.codegen.targets import OPENCL, ZERO_ROW_FLOATS, C

DECLARATIONS = """
typedef struct ef_pool ef_pool;
typedef struct { ef_pool *pool; char *const *scratch; } ef_env;
ef_pool *ef_pool_create(int threads);
void ef_pool_destroy(ef_pool *pool);
"""
Arrays = Mapping[str, np.ndarray[Any, Any]]


class CProgram:
    """Kernels compiled to one library, with a pool of two threads."""

    def __init__(self, kernels: Sequence[Kernel], cache: Path | None = None) -> None:
        for kernel in kernels:
            check(kernel)
        signature = "(ef_env *env, char *const *buffers, const int64_t *sizes);"
        declared = "".join(f"void {symbol(k)}{signature}\n" for k in kernels)
        runtime = (files("egraph_fusion.codegen") / "runtime.c").read_text()
        units = [build.Unit("kernels", translation_unit(kernels, C)), build.Unit("pool", runtime)]
        self.library = build.build(units, DECLARATIONS + declared, cache_folder=cache)

    def run(self, kernel: Kernel, arrays: Arrays, **sizes: int) -> None:
        """Run `kernel` on `arrays`, by buffer name; outputs are written in place."""
        ffi = self.library.ffi
        bytes_needed = value(scratch_bytes(kernel, C), sizes)
        scratch = [np.full(bytes_needed + 64, 0xAB, np.uint8) for _ in range(2)]
        table = ffi.new("char *[]", [_pointer(ffi, s, align=64) for s in scratch])
        buffers = ffi.new("char *[]", [_pointer(ffi, arrays[b.name]) for b in kernel.buffers])
        numbers = ffi.new("int64_t[]", [sizes[name] for name in kernel.sizes])
        pool = self.library.function("ef_pool_create")(2)
        env = ffi.new("ef_env *", {"pool": pool, "scratch": table})
        self.library.function(symbol(kernel))(env, buffers, numbers)
        self.library.function("ef_pool_destroy")(pool)


class OpenCLProgram:
    """Kernels compiled to one OpenCL program; the test is skipped without a platform."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        cl = pytest.importorskip("pyopencl")
        try:
            self.context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
        except cl.Error:
            pytest.skip("no OpenCL platform")
        self.cl = cl
        self.queue = cl.CommandQueue(self.context)
        self.program = cl.Program(self.context, translation_unit(kernels, OPENCL)).build()

    def run(self, kernel: Kernel, arrays: Arrays, **sizes: int) -> None:
        """Run `kernel` on `arrays`, by buffer name; outputs are written in place."""
        memory = [self.buffer(arrays[b.name]) for b in kernel.buffers]
        work_items = 4
        per_item = max(64, value(scratch_bytes(kernel, OPENCL), sizes))
        scratch = self.buffer(np.full(per_item * work_items, 0xAB, np.uint8))
        zeros = self.buffer(np.zeros(ZERO_ROW_FLOATS, np.float32))
        numbers = [np.int64(sizes[name]) for name in kernel.sizes]
        for launch in launches(kernel):
            function = getattr(self.program, launch.symbol)
            function(self.queue, (work_items,), None, *memory, *numbers, scratch, zeros)
        for buffer, device in zip(kernel.buffers, memory, strict=True):
            if arrays[buffer.name].size:
                self.cl.enqueue_copy(self.queue, arrays[buffer.name], device).wait()

    def buffer(self, array: np.ndarray[Any, Any]) -> Any:
        """Return a device buffer that holds a copy of `array`."""
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        return self.cl.Buffer(self.context, flags, hostbuf=array if array.size else np.zeros(1))


def value(expr: Expr, sizes: Mapping[str, int]) -> int:
    """Evaluate an expression of sizes."""
    found = simplify(substitute(expr, {n: Const(v) for n, v in sizes.items()}))
    assert isinstance(found, Const)
    return int(found.value)


def _pointer(ffi: Any, array: np.ndarray[Any, Any], align: int = 1) -> Any:
    address = int(array.ctypes.data)
    return ffi.cast("char *", -(-address // align) * align)
