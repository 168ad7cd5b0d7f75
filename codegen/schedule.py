"""What schedules are made for: the machine that kernels will run on."""

from __future__ import annotations

from dataclasses import dataclass

from egraph_fusion.codegen.tiling import Tiling, schedule_contraction


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """Floats per vector, bytes of one core's data caches, and threads."""

    vl: int = 8
    l1: int = 32 * 1024
    l2: int = 1024 * 1024
    threads: int = 1

    def tiling(self, m: int, n: int, k: int, taps: int, batch: int = 1) -> Tiling:
        """Return how to cut `batch` contractions of m rows, n columns and taps times k products."""
        threads = 1 if batch >= 2 * self.threads else self.threads
        return schedule_contraction(m, n, k, taps, threads, self.l1, self.l2, self.vl)
