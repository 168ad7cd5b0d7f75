"""What this machine can do at most, measured: the roof of a roofline plot."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from egraph_fusion.codegen.build import Unit, build

ROUNDS = 7
SECONDS = 0.02
"""Least time of one round: far above the clock's grain, short beside everything else."""
TRIAD_FLOATS = 1 << 24
_DECLARATIONS = """
void *ef_pool_create(int threads);
void ef_pool_destroy(void *pool);
double ef_peak_flops(void *pool, int64_t n);
double ef_peak_bytes(void *pool, float *a, const float *b, const float *c, int64_t n);
"""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Float32 operations a second (a fused multiply-add is two) and bytes of memory a second."""

    flops: float
    bandwidth: float
    threads: int


def measure_peaks(threads: int | None = None) -> Peaks:
    """Measure this machine with `threads` threads (None: all); the best of some short rounds.

    Bandwidth is that of STREAM's triad over 200 MB.  Raises CompileError without a C compiler.
    """
    count = threads or os.cpu_count() or 1
    folder = files("egraph_fusion.codegen")
    names = ("runtime.c", "peaks.c")
    units = [
        Unit(n, (folder / n).read_text(encoding="utf-8"), ("-ffp-contract=fast",)) for n in names
    ]
    library = build(units, _DECLARATIONS)
    ffi = library.ffi
    arrays = [np.ones(TRIAD_FLOATS, np.float32) for _ in range(3)]
    pointers = [ffi.cast("float *", a.ctypes.data) for a in arrays]
    pool = library.function("ef_pool_create")(count)
    try:
        flops, triad = library.function("ef_peak_flops"), library.function("ef_peak_bytes")
        return Peaks(
            _best(lambda n: float(flops(pool, n * count))),
            _best(lambda n: sum(float(triad(pool, *pointers, TRIAD_FLOATS)) for _ in range(n))),
            count,
        )
    finally:
        library.function("ef_pool_destroy")(pool)


def _best(work: Callable[[int], float]) -> float:
    """Return the best rate of `work(n)`, with n such that a round takes long enough."""
    n, best = 1, 0.0
    rounds = 0
    while rounds < ROUNDS:
        start = time.perf_counter()
        done = work(n)
        seconds = time.perf_counter() - start
        if seconds < SECONDS:
            n *= 2
            continue
        rounds += 1
        best = max(best, done / seconds)
    return best
