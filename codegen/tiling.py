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
POINTER_CYCLES: Final = 2.0
"""Cycles to compute one row pointer."""
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
    candidates = [
        _blocked(m, n, k, taps, threads, l1, l2, vl, mr, nv) for mr, nv in register_tiles(vl)
    ]
    return min(candidates, key=lambda t: (_cycles(t, m, n, k, taps, threads, vl), -t.nv, -t.mr))


def _blocked(
    m: int, n: int, k: int, taps: int, threads: int, l1: int, l2: int, vl: int, mr: int, nv: int
) -> Tiling:
    """Return the cache blocking of one register tile."""
    nr = nv * vl
    row_tiles, panels = ceil(m / mr), ceil(n / nr)
    panel = taps * k * nr * 4
    if panel * panels <= l2 // 2 and row_tiles >= threads:
        tiles = _row_tiles_per_unit(row_tiles, threads, mr * max(taps * k, nr) * 4, l1, l2)
        return Tiling(mr, nv, k, taps, tiles * mr, "m_outer")
    most = max(1, (l2 // 4) // (nr * mr * 4))
    splits = ceil(row_tiles / most)
    while splits < row_tiles and splits * panels < threads:
        splits += 1
    mc = ceil(row_tiles / splits) * mr
    if panel <= l2 // 2 or mc == mr:
        return Tiling(mr, nv, k, taps, mc, "n_outer")
    tc = max(1, min(taps, (l2 // 4) // (k * nr * 4)))
    parts = ceil(k * nr * 4 / (l2 // 2))
    return Tiling(mr, nv, ceil(k / parts), tc, mc, "n_outer")


def _row_tiles_per_unit(row_tiles: int, threads: int, tile_bytes: int, l1: int, l2: int) -> int:
    """Return how many row tiles a unit takes: eight units a thread, and its operands in cache."""
    balanced = row_tiles // (8 * threads)
    cached = max(l1 // 2, l2 // 8) // tile_bytes
    return max(1, min(balanced, cached, 8))


def _cycles(t: Tiling, m: int, n: int, k: int, taps: int, threads: int, vl: int) -> float:
    """Estimate the cycles until the last thread is done."""
    row_tiles, panels = ceil(m / t.mr), ceil(n / (t.nv * vl))
    products = t.mr * t.nv
    step = max(
        products / MULTIPLY_ADDS_PER_CYCLE,
        (t.mr + t.nv) / LOADS_PER_CYCLE,
        MULTIPLY_ADD_LATENCY,
    )
    pointer_sets = 1 if t.order == "m_outer" else panels
    calls = row_tiles * panels * ceil(k / t.kc) * ceil(taps / t.tc)
    work = row_tiles * panels * taps * k * step + calls * (CALL_CYCLES + 4 * products)
    work += row_tiles * pointer_sets * taps * t.mr * POINTER_CYCLES
    units = t.units(m, n, vl)
    return work / units * ceil(units / threads)
