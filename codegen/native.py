"""The C sources of a whole program: kernels in a few units, and one function per native segment."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from egraph_fusion.codegen.emit import scratch_bytes, symbol, translation_unit
from egraph_fusion.codegen.index import simplify
from egraph_fusion.codegen.loops import Const, Kernel
from egraph_fusion.codegen.targets import C
from egraph_fusion.errors import CompileError

UNIT_KERNELS = 6
"""Kernels in one translation unit: few enough that two cores share the compiler's work."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a buffer lies: `space` "arena" or "constant" at a byte offset, or "slot" number."""

    space: str
    offset: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel; `writes` are the slots among its results."""

    kernel: Kernel
    bindings: tuple[Binding, ...]
    writes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """Launches that one native call runs, in order."""

    entry: str
    launches: tuple[Launch, ...]

    def extended(self, launch: Launch) -> Segment:
        """Return the segment with one more launch at its end."""
        return Segment(self.entry, (*self.launches, launch))


@dataclass(frozen=True, slots=True)
class NativeText:
    """Distinct kernels and the segments that call them."""

    kernels: tuple[Kernel, ...]
    segments: tuple[Segment, ...]

    def scratch_bytes(self) -> int:
        """Bytes of scratch that each thread needs."""
        sizes = (simplify(scratch_bytes(k, C)) for k in self.kernels)
        return max((_known(s) for s in sizes), default=0)

    def c_units(
        self, vector_floats: int | None, unit_kernels: int = UNIT_KERNELS
    ) -> tuple[tuple[str, str], ...]:
        """Return (name, C source) of each translation unit; equal programs give equal text."""
        starts = range(0, len(self.kernels), unit_kernels)
        groups = [self.kernels[i : i + unit_kernels] for i in starts]
        units = [
            (f"kernels_{i}", translation_unit(group, C, vector_floats))
            for i, group in enumerate(groups)
        ]
        return (*units, ("program", self._program()))

    def _program(self) -> str:
        folder = files("egraph_fusion.codegen")
        runtime = (folder / "runtime.c").read_text(encoding="utf-8")
        names = [symbol(k) for k in self.kernels]
        declared = [f"void {n}(ef_env *, char *const *, const int64_t *);" for n in names]
        return "\n".join([runtime, _ENVIRONMENT, *declared, "", *map(_segment, self.segments)])


def _known(size: object) -> int:
    if not isinstance(size, Const):
        raise CompileError(f"scratch size {size} depends on a size that is not known")
    return int(size.value)


def _segment(segment: Segment) -> str:
    lines = [
        f"void {segment.entry}(ef_env *env, char *arena, char *constants, char *const *slots,",
        "        double *seconds) {",
        "    (void)arena, (void)constants, (void)slots;",
        "    ef_run_begin(env->pool);",
    ]
    for i, launch in enumerate(segment.launches):
        buffers = ", ".join(_address(b) for b in launch.bindings) or "0"
        call = f"{symbol(launch.kernel)}(env, b, 0)"
        lines.append(f"    {{ char *b[] = {{{buffers}}}; EF_LAUNCH({i}, {call}); }}")
    return "\n".join([*lines, "    ef_run_end(env->pool);", "}", ""])


def _address(binding: Binding) -> str:
    if binding.space == "slot":
        return f"slots[{binding.offset}]"
    base = "arena" if binding.space == "arena" else "constants"
    return f"{base} + {binding.offset}"


_ENVIRONMENT = """
typedef struct ef_env {
    ef_pool *pool;
    char *const *scratch;
} ef_env;

static double ef_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Run one launch; with `seconds` given, note how long it took. */
#define EF_LAUNCH(i, call) \\
    do { \\
        const double start = seconds ? ef_now() : 0.0; \\
        call; \\
        if (seconds) seconds[i] = ef_now() - start; \\
    } while (0)

ef_env *ef_env_create(int threads, int64_t scratch_bytes) {
    ef_env *env = calloc(1, sizeof *env);
    if (!env) return 0;
    env->pool = threads > 1 ? ef_pool_create(threads) : 0;
    const int count = ef_pool_threads(env->pool);
    char **scratch = calloc((size_t)count, sizeof *scratch);
    for (int i = 0; scratch && i < count; ++i) {
        /* One extra line apart, so that two threads never share one. */
        const size_t bytes = ((size_t)scratch_bytes + 191) / 64 * 64;
        scratch[i] = aligned_alloc(64, bytes);
        if (!scratch[i]) return 0;
    }
    env->scratch = scratch;
    return scratch ? env : 0;
}

void ef_env_destroy(ef_env *env) {
    if (!env) return;
    const int count = ef_pool_threads(env->pool);
    if (env->pool) ef_pool_destroy(env->pool);
    for (int i = 0; env->scratch && i < count; ++i) free(env->scratch[i]);
    free((void *)env->scratch);
    free(env);
}
"""
