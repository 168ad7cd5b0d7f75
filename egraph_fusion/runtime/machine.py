"""What the compiler's target can do: vector length and CPU features; and the caches of this CPU."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from egraph_fusion.codegen.build import find_compiler, target_flags
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.errors import CompileError

# Compiler macro to the name that Linux gives the feature.
FEATURES = {
    "__AVX512F__": "avx512f",
    "__AVX512BW__": "avx512bw",
    "__AVX512DQ__": "avx512dq",
    "__AVX512VL__": "avx512vl",
    "__AVX2__": "avx2",
    "__FMA__": "fma",
    "__AVX__": "avx",
    "__SSE4_2__": "sse4_2",
}
_VECTOR_FLOATS = (("__AVX512F__", 16), ("__AVX__", 8))
MANY_WEIGHTS = 1 << 26
_DEFAULT_L1, _DEFAULT_L2 = 32 * 1024, 512 * 1024


@cache
def macros(march: str | None) -> frozenset[str]:
    """Return the macros that the C compiler predefines for `march` (None: this machine).

    Raises CompileError if the compiler does not know `march`.
    """
    if march is not None and not march.isprintable():
        raise CompileError(f"--march {march!r} names no instruction set")
    compiler = find_compiler()
    command = [*compiler.command, *target_flags(march), "-dM", "-E", "-x", "c", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = next(iter(done.stderr.strip().splitlines()), "it said nothing")
        raise CompileError(f"the C compiler refuses --march {march!r}: {said}")
    return frozenset(line.split()[1] for line in done.stdout.splitlines() if line)


def vector_floats(march: str | None) -> int:
    """Return the floats of one vector register of the target."""
    known = macros(march)
    return next((floats for macro, floats in _VECTOR_FLOATS if macro in known), 4)


def needed_features(march: str | None) -> tuple[str, ...]:
    """Return the architecture and the CPU features that code for `march` may use."""
    known = macros(march)
    return (platform.machine(), *(name for macro, name in FEATURES.items() if macro in known))


def missing_features(needed: tuple[str, ...]) -> list[str]:
    """Return which of `needed` this machine lacks, as far as the system says."""
    architecture, *features = needed
    if architecture != platform.machine():
        return [architecture]
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    flags = next((line.split(":", 1)[1] for line in text.splitlines() if line[:5] == "flags"), "")
    return [f for f in features if f not in flags.split()]


def release_memory(weights: int) -> None:
    """Give memory that nobody needs back to the system, for a model of many `weights` (bytes).

    Closures that call themselves keep what they read (a model's weights) until the collector runs,
    and glibc keeps what is freed between blocks in use.
    """
    if weights < MANY_WEIGHTS:
        return
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def target_info(march: str | None, threads: int) -> TargetInfo:
    """Return what schedules are made for."""
    l1 = _cache_bytes("SC_LEVEL1_DCACHE_SIZE", _DEFAULT_L1)
    l2 = _cache_bytes("SC_LEVEL2_CACHE_SIZE", _DEFAULT_L2)
    return TargetInfo(vl=vector_floats(march), l1=l1, l2=l2, threads=threads)


def _cache_bytes(name: str, default: int) -> int:
    known = os.sysconf(name) if name in os.sysconf_names else 0
    return known if known > 0 else default
