"""How to cut a contraction into register tiles, cache blocks and units of parallel work.

The advice is a pure function of sizes, so that schedules (and the panels packed for them) are the
same on every run. Figures of the machine model were fitted to measured micro-kernels.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final, Literal

Order = Literal["m_outer", "n_outer"]

LOADS_PER_CYCLE: Final = 1.1
"""Vector loads and broadcasts per cycle beside fused multiply-adds, as measured."""
MULTIPLY_ADDS_PER_CYCLE: Final = 2.0
MULTIPLY_ADD_LATENCY: Final = 4.0
CALL_CYCLES: Final = 40.0
"""Cycles to call a micro-kernel, beside its loads and stores of the tile."""
L2_BYTES_PER_CYCLE: Final = 24.0
MEMORY_BYTES_PER_CYCLE: Final = 16.0
"""Bytes of a panel that a core streams from beyond its L2 cache, mostly behind its arithmetic."""
POINTER_CYCLES: Final = 2.0
"""Cycles to compute one row pointer."""
LATE_UNITS: Final = 0.25
"""Units that the last thread is late by, on average, when others also use the machine."""
MAX_ROWS: Final = 10
"""Row pointers that stay in the general registers of x86-64."""
VECTOR_REGISTERS: Final = {16: 32, 8: 16, 4: 16}
"""Vector registers by floats per vector."""
MAX_VECTORS: Final = 4


@dataclass(frozen=True, slots=True)
class Tiling:
    """How to run `c[m, n] = sum over taps and k` with micro-kernel `igemm_{mr}x{nv}`.

    Panels are nr = nv * vl columns wide. A unit of work is a block of `mc` rows (a multiple of mr)
    times all panels (order "m_outer": row pointers are set once per block, panels are the outer
    loop inside it) or times one panel ("n_outer": units of one panel follow each other). In a unit
    the reduction is cut into `tc` taps times `kc` floats; blocks after the first accumulate, and
    all row tiles of the unit run before the next block, so the panel's part stays in cache. The
    unit's tile of mc * nr floats is scratch that the epilogue reads.
    """

    mr: int
    nv: int
    kc: int
    tc: int
    mc: int
    order: Order

    def units(self, m: int, n: int, vl: int) -> int:
        """Return the number of units of parallel work for `m` rows and `n` columns."""
        blocks = ceil(m / self.mc)
        return blocks if self.order == "m_outer" else blocks * ceil(n / (self.nv * vl))


def register_tiles(vl: int) -> tuple[tuple[int, int], ...]:
    """Return the (mr, nv) whose accumulators, panel vectors and one broadcast fit in registers."""
    registers = VECTOR_REGISTERS[vl]
    return tuple(
        (mr, nv)
        for nv in range(1, MAX_VECTORS + 1)
        for mr in range(1, MAX_ROWS + 1)
        if mr * nv + nv + 1 <= registers
    )


def schedule_contraction(
    m: int, n: int, k: int, taps: int, threads: int, l1: int, l2: int, vl: int
) -> Tiling:
    """Return the tiling of `m` rows, `n` columns and `taps` times `k` products per result.

    `l1`, `l2` are bytes of one core's data caches, `vl` floats per vector. Among the register tiles
    it minimises estimated cycles: padded work, loads, calls, and threads left idle at the end. A
    batch of contractions that is itself the parallel loop asks with `threads = 1`.
    """
    sizes = {"m": m, "n": n, "k": k, "taps": taps, "threads": threads}
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} = {value}: expected at least 1")
    problem = _Problem(m, n, k, taps, threads, l1, l2, vl)
    tilings = [t for mr, nv in register_tiles(vl) for t in _blockings(problem, mr, nv)]
    return min(tilings, key=lambda t: (_cycles(problem, t), -t.nv, -t.mr, -t.mc))


@dataclass(frozen=True, slots=True)
class _Problem:
    m: int
    n: int
    k: int
    taps: int
    threads: int
    l1: int
    l2: int
    vl: int

    def panel_bytes(self, nv: int) -> int:
        return self.taps * self.k * nv * self.vl * 4


def _blockings(problem: _Problem, mr: int, nv: int) -> list[Tiling]:
    """Return the cache blockings worth comparing for one register tile."""
    row_tiles = ceil(problem.m / mr)
    panels = ceil(problem.n / (nv * problem.vl))
    if problem.panel_bytes(nv) * panels <= problem.l2 // 2 and row_tiles >= problem.threads:
        mc = mr * _row_tiles_per_unit(problem, row_tiles, mr, nv)
        return [Tiling(mr, nv, problem.k, problem.taps, mc, "m_outer")]
    scratch_rows = max(1, (problem.l2 // 4) // (nv * problem.vl * mr * 4))
    fewest = ceil(row_tiles / scratch_rows)
    splits = sorted({min(row_tiles, fewest * factor) for factor in (1, 2, 4)})
    return [_column_blocking(problem, mr, nv, mr * ceil(row_tiles / s)) for s in splits]


def _row_tiles_per_unit(problem: _Problem, row_tiles: int, mr: int, nv: int) -> int:
    """Return how many row tiles a unit takes: eight units a thread, and its operands in cache."""
    balanced = row_tiles // (8 * problem.threads)
    tile_bytes = mr * max(problem.taps * problem.k, nv * problem.vl) * 4
    cached = max(problem.l1 // 2, problem.l2 // 8) // tile_bytes
    return max(1, min(balanced, cached, 8))


def _column_blocking(problem: _Problem, mr: int, nv: int, mc: int) -> Tiling:
    """Cut the reduction so that the part of a panel that row tiles share stays in the L2 cache."""
    k, taps = problem.k, problem.taps
    if mc == mr or problem.panel_bytes(nv) <= problem.l2 // 2:
        return Tiling(mr, nv, k, taps, mc, "n_outer")
    tap_bytes = k * nv * problem.vl * 4
    tc = max(1, min(taps, (problem.l2 // 4) // tap_bytes))
    return Tiling(mr, nv, ceil(k / ceil(tap_bytes / (problem.l2 // 2))), tc, mc, "n_outer")


def _cycles(problem: _Problem, t: Tiling) -> float:
    """Estimate the cycles until the last thread is done."""
    m, n, k, taps, threads = problem.m, problem.n, problem.k, problem.taps, problem.threads
    row_tiles, panels = ceil(m / t.mr), ceil(n / (t.nv * problem.vl))
    vector_bytes = t.nv * problem.vl * 4
    step = max(
        t.mr * t.nv / MULTIPLY_ADDS_PER_CYCLE,
        (t.mr + t.nv) / LOADS_PER_CYCLE,
        MULTIPLY_ADD_LATENCY,
        vector_bytes / L2_BYTES_PER_CYCLE if problem.panel_bytes(t.nv) > problem.l1 // 2 else 0.0,
    )
    calls = row_tiles * panels * ceil(k / t.kc) * ceil(taps / t.tc)
    pointers = row_tiles * t.mr * taps * (1 if t.order == "m_outer" else panels)
    work = row_tiles * panels * taps * k * step
    work += calls * (CALL_CYCLES + 4 * t.mr * t.nv) + pointers * POINTER_CYCLES
    if t.order == "n_outer":
        blocks = ceil(m / t.mc)
        work += blocks * panels * problem.panel_bytes(t.nv) / MEMORY_BYTES_PER_CYCLE
    units = t.units(m, n, problem.vl)
    late = LATE_UNITS if threads > 1 else 0.0
    return work / units * (ceil(units / threads) + late)
