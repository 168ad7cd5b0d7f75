"""What C and OpenCL C disagree on, as a table with one row per target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from egraph_fusion.codegen import microkernels, opencl_microkernels

MicroKernelSource = Callable[..., str]

ZERO_ROW_FLOATS: Final = 1 << 16
"""Length of the row of zeros that `SetPointer(buffer=None)` points to."""


@dataclass(frozen=True, slots=True)
class Target:
    """The language facts that the emitter reads.

    `space` qualifies pointers to memory, `restrict` those to scratch; `stack_bytes` is the largest
    scratch array kept on the stack; `simd` precedes a vector loop ({} are its reductions), `unroll`
    an unrolled one ({} is its extent); `reduction` prints one reduction.
    """

    name: str
    space: str
    restrict: str
    stack_bytes: int
    aligned: str
    simd: str
    unroll: str
    preludes: tuple[str, ...]
    micro_kernels: Mapping[str, MicroKernelSource]
    micro_prelude: Callable[[int | None], str]
    prologue: str


C: Final = Target(
    name="c",
    space="",
    restrict=" restrict",
    stack_bytes=16384,
    aligned="_Alignas(64) ",
    simd='_Pragma("omp simd{}")',
    unroll="EF_UNROLL({})",
    preludes=("scalar_ops.h", "vector_math.h"),
    micro_kernels={
        "igemm": microkernels.igemm_source,
        "dwconv": microkernels.dwconv_source,
        "dwline": microkernels.dwline_source,
        "pack_b": lambda: microkernels.PACK_B,
    },
    micro_prelude=microkernels.prelude,
    prologue=r"""
#include <stddef.h>
#ifdef __clang__
#define EF_UNROLL(n) _Pragma("unroll")
#else
#define EF_UNROLL_TEXT(x) _Pragma(#x)
#define EF_UNROLL(n) EF_UNROLL_TEXT(GCC unroll n)
#endif
#ifndef EF_ENV
#define EF_ENV
/* What kernels share: the threads, and for each thread the scratch that it may use. */
typedef struct ef_pool ef_pool;
typedef struct ef_env {
    ef_pool *pool;
    char *const *scratch;
} ef_env;
typedef struct ef_call {
    ef_env *env;
    char *const *buffers;
    const int64_t *sizes;
} ef_call;
#endif
void ef_parallel(ef_pool *pool, void (*fn)(void *ctx, int64_t begin, int64_t end, int thread),
                 void *ctx, int64_t n, int64_t grain);
#pragma omp declare reduction(ef_max_f32 : float : omp_out = ef_max_f32(omp_out, omp_in)) \
    initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(ef_min_f32 : float : omp_out = ef_min_f32(omp_out, omp_in)) \
    initializer(omp_priv = INFINITY)
#pragma omp declare reduction(ef_max_f64 : double : omp_out = ef_max_f64(omp_out, omp_in)) \
    initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(ef_min_f64 : double : omp_out = ef_min_f64(omp_out, omp_in)) \
    initializer(omp_priv = INFINITY)
""",
)

OPENCL: Final = Target(
    name="opencl",
    space="__global ",
    restrict=" restrict",
    stack_bytes=4096,
    aligned="",
    simd="",
    unroll="__attribute__((opencl_unroll_hint({})))",
    preludes=("scalar_ops.h", "vector_math.h"),
    micro_kernels=opencl_microkernels.SOURCES,
    micro_prelude=opencl_microkernels.prelude,
    prologue="#pragma OPENCL FP_CONTRACT OFF\n",
)

TARGETS: Final = {target.name: target for target in (C, OPENCL)}


@cache
def prelude(target_name: str) -> str:
    """Return the text that precedes generated kernels: scalar operators, then the prologue."""
    target = TARGETS[target_name]
    folder = files("egraph_fusion.codegen")
    headers = [(folder / name).read_text(encoding="utf-8") for name in target.preludes]
    pragma = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" if target is OPENCL else ""
    return "\n".join([pragma, *headers, target.prologue])
