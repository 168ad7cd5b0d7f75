"""The OpenCL target: the same kernels, compiled by the driver, enqueued one block after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from egraph_fusion.codegen.emit import launches, scratch_bytes, translation_unit
from egraph_fusion.codegen.index import simplify
from egraph_fusion.codegen.loops import Const, Expr
from egraph_fusion.codegen.native import Launch
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.codegen.targets import OPENCL, ZERO_ROW_FLOATS
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.graph import Array
from egraph_fusion.runtime.program import DeviceBlock, NativeStep, Program

if TYPE_CHECKING:
    from egraph_fusion.runtime.assemble import Assembly

VECTOR_FLOATS = 16
"""Panels are packed for this vector length on every device."""
UNIT_KERNELS = 30
"""Kernels in one OpenCL program: a driver takes longer for many programs than for many kernels."""
MAX_WORK_ITEMS = 1024
PROBE = "__kernel void probe(__global float *x) { x[get_global_id(0)] = 0; }"
_INSTALL = "pip install 'egraph-fusion[opencl]' (pyopencl and, on a machine without a driver, PoCL)"


def target_info(_march: str | None, threads: int) -> TargetInfo:
    """Return what schedules are made for: the same panels whatever the device."""
    return TargetInfo(vl=VECTOR_FLOATS, threads=threads)


def identity(_march: str | None) -> str:
    """Return what the text depends on besides the model: nothing, drivers compile it anywhere."""
    return ""


def build_program(assembly: Assembly, _march: str | None) -> Program:
    """Return the program with its OpenCL text; the driver compiles it when it is loaded."""
    kernels = assembly.text.kernels
    groups = [kernels[i : i + UNIT_KERNELS] for i in range(0, len(kernels), UNIT_KERNELS)]
    units = [
        (f"kernels_{i}", translation_unit(group, OPENCL, VECTOR_FLOATS))
        for i, group in enumerate(groups)
    ]
    blocks = {s.entry: tuple(map(_device_block, s.launches)) for s in assembly.text.segments}
    return replace(assembly.program, sources=tuple(units), device_blocks=blocks)


def _device_block(launch: Launch) -> DeviceBlock:
    return DeviceBlock(
        launches=tuple((n.symbol, _known(n.items)) for n in launches(launch.kernel)),
        buffers=tuple(
            (where.space, where.offset, _known(b.size) * b.dtype.itemsize)
            for where, b in zip(launch.bindings, launch.kernel.buffers, strict=True)
        ),
        scratch=_known(scratch_bytes(launch.kernel, OPENCL)),
    )


def _known(size: Expr) -> int:
    found = simplify(size)
    if not isinstance(found, Const):
        raise CompileError(f"size {size} is not known when the model is compiled")
    return int(found.value)


def driver() -> Any:
    """Return the module pyopencl; CompileError says what to install if it is missing."""
    try:
        import pyopencl
    except ImportError as error:
        raise CompileError(f"target 'opencl' needs pyopencl: {_INSTALL}") from error
    return pyopencl


def describe_device() -> str:
    """Return platform and name of the device that would run; CompileError if there is none."""
    device = _device(driver())
    return f"{device.platform.name.strip()}: {device.name.strip()}"


@cache
def _device(cl: Any) -> Any:
    """Return the first device whose driver can build a kernel; one may not know this processor."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise CompileError(f"no OpenCL driver is installed: {_INSTALL}") from error
    devices = [d for p in platforms for d in p.get_devices()]
    refusals: list[str] = []
    for device in devices:
        try:
            cl.Program(cl.Context([device]), PROBE).build()
        except cl.Error as error:
            refusals.append(f"{device.platform.version.strip()}, {device.name.strip()}: {error}")
        else:
            return device
    if refusals:
        raise CompileError("no OpenCL driver can build a kernel here:\n" + "\n".join(refusals))
    raise CompileError(f"no OpenCL device was found: {_INSTALL}")


class OpenCLNative:
    """A program on an OpenCL device: weights uploaded once, one in-order queue."""

    def __init__(self, program: Program, _threads: int) -> None:
        cl = driver()
        self._cl = cl
        self._context = cl.Context([_device(cl)])
        self._queue = cl.CommandQueue(self._context)
        self._program = program
        self._lock = threading.Lock()
        self._kernels = self._compiled(program)
        flags = cl.mem_flags
        constants = program.constants if program.constants.nbytes else np.zeros(64, np.uint8)
        self._bases = {
            "arena": cl.Buffer(self._context, flags.READ_WRITE, max(64, program.arena_bytes)),
            "constant": cl.Buffer(
                self._context,
                flags.READ_ONLY | flags.COPY_HOST_PTR,
                hostbuf=np.ascontiguousarray(constants),
            ),
        }
        self._regions: dict[tuple[str, int, int], Any] = {}
        self._scratch = cl.Buffer(self._context, flags.READ_WRITE, self._scratch_bytes())
        zeros = np.zeros(ZERO_ROW_FLOATS, np.float32)
        self._zeros = cl.Buffer(self._context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=zeros)

    def run(
        self, step: NativeStep, slots: Sequence[Array | None], seconds: list[float] | None
    ) -> None:
        """Run one native step; append each block's seconds (queue finished) if wanted."""
        with self._lock:
            held = {i: self._uploaded(slots[i]) for i in step.reads}
            held |= {i: self._empty(slots[i]) for i in step.writes}
            for block in self._program.device_blocks[step.entry]:
                start = time.perf_counter()
                self._enqueue(block, held)
                if seconds is not None:
                    self._queue.finish()
                    seconds.append(time.perf_counter() - start)
            for i in step.writes:
                target = slots[i]
                if target is not None and target.nbytes:
                    self._cl.enqueue_copy(self._queue, _raw(target), held[i])
            self._queue.finish()

    def _compiled(self, program: Program) -> dict[str, Any]:
        kernels: dict[str, Any] = {}
        for name, text in program.sources:
            try:
                built = self._cl.Program(self._context, text).build(options=["-cl-std=CL1.2"])
            except self._cl.Error as error:
                last = "\n".join(str(error).strip().splitlines()[-12:])
                raise CompileError(f"the OpenCL driver refuses {name!r}:\n{last}") from error
            kernels |= {k.function_name: k for k in built.all_kernels()}
        return kernels

    def _scratch_bytes(self) -> int:
        blocks = [b for bs in self._program.device_blocks.values() for b in bs]
        sizes = [b.scratch * min(n, MAX_WORK_ITEMS) for b in blocks for _, n in b.launches]
        return max([64, *sizes])

    def _enqueue(self, block: DeviceBlock, held: dict[int, Any]) -> None:
        buffers = [self._buffer(space, at, size, held) for space, at, size in block.buffers]
        for symbol, items in block.launches:
            kernel = self._kernels[symbol]
            kernel.set_args(*buffers, self._scratch, self._zeros)
            count = max(1, min(items, MAX_WORK_ITEMS))
            self._cl.enqueue_nd_range_kernel(self._queue, kernel, (count,), None)

    def _buffer(self, space: str, at: int, size: int, held: dict[int, Any]) -> Any:
        if space == "slot":
            return held[at]
        key = (space, at, size)
        if key not in self._regions:
            self._regions[key] = self._bases[space].get_sub_region(at, max(1, size))
        return self._regions[key]

    def _uploaded(self, array: Array | None) -> Any:
        flags = self._cl.mem_flags
        if array is None or not array.nbytes:
            return self._empty(array)
        raw = _raw(array)
        return self._cl.Buffer(self._context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=raw)

    def _empty(self, array: Array | None) -> Any:
        size = 64 if array is None else max(64, array.nbytes)
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)


def _raw(array: Array) -> Array:
    """Return the bytes of a contiguous array, sharing its memory."""
    return array.reshape(-1).view(np.uint8)
