"""The thread pool of compiled models: every index once, whatever the threads, calls and forks."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_c import CompiledC

RUNTIME = Path(__file__).parent.parent / "codegen" / "runtime.c"
DRIVER = r"""
#include <sys/wait.h>
#include <unistd.h>
typedef struct { ef_pool *pool; int32_t *visits, *threads; int64_t inner; } walk;

static void visit(void *ctx, int64_t begin, int64_t end, int thread) {
    walk *w = ctx;
    for (int64_t i = begin; i < end; ++i) { w->visits[i]++; w->threads[i] = thread; }
}
void visit_all(ef_pool *pool, int64_t n, int64_t grain, int32_t *visits, int32_t *threads) {
    walk w = {pool, visits, threads, 0};
    ef_parallel(pool, visit, &w, n, grain);
}
static void visit_nested(void *ctx, int64_t begin, int64_t end, int thread) {
    walk *w = ctx;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        walk inside = {w->pool, w->visits + i * w->inner, w->threads + i * w->inner, 0};
        ef_parallel(w->pool, visit, &inside, w->inner, 3);
    }
}
void visit_rows(ef_pool *pool, int64_t n, int64_t inner, int32_t *visits, int32_t *threads) {
    walk w = {pool, visits, threads, inner};
    ef_parallel(pool, visit_nested, &w, n, 1);
}
static void visit_slowly(void *ctx, int64_t begin, int64_t end, int thread) {
    usleep(2000);
    visit(ctx, begin, end, thread);
}
void visit_all_slowly(ef_pool *pool, int64_t n, int32_t *visits, int32_t *threads) {
    walk w = {pool, visits, threads, 0};
    ef_parallel(pool, visit_slowly, &w, n, 1);
}
static void chunk_length(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    ((int32_t *)ctx)[begin] = (int32_t)(end - begin);
}
void chunk_lengths(ef_pool *pool, int64_t n, int64_t grain, int32_t *lengths) {
    ef_parallel(pool, chunk_length, lengths, n, grain);
}
void many_runs(ef_pool *pool, int runs, int ranges, int64_t n, int32_t *visits, int32_t *threads) {
    walk w = {pool, visits, threads, 0};
    for (int run = 0; run < runs; ++run) {
        ef_run_begin(pool);
        for (int i = 0; i < ranges; ++i) ef_parallel(pool, visit, &w, n, 1);
        ef_run_end(pool);
    }
}
/* In a child process: number of indices not visited exactly once, 255 if the child died. */
int visit_in_child(ef_pool *pool, int64_t n, int destroy) {
    const pid_t child = fork();
    if (!child) {
        int32_t *counts = calloc((size_t)n * 2, sizeof *counts);
        int wrong = 0;
        alarm(30);
        visit_all(pool, n, 1, counts, counts + n);
        for (int64_t i = 0; i < n; ++i) wrong += counts[i] != 1;
        if (destroy) ef_pool_destroy(pool);
        _exit(wrong > 254 ? 254 : wrong);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}
"""
DECLARATIONS = """
typedef struct ef_pool ef_pool;
ef_pool *ef_pool_create(int threads);
void ef_pool_destroy(ef_pool *pool);
int ef_pool_threads(const ef_pool *pool);
void visit_all(ef_pool *pool, int64_t n, int64_t grain, int32_t *visits, int32_t *threads);
void visit_rows(ef_pool *pool, int64_t n, int64_t inner, int32_t *visits, int32_t *threads);
void visit_all_slowly(ef_pool *pool, int64_t n, int32_t *visits, int32_t *threads);
void chunk_lengths(ef_pool *pool, int64_t n, int64_t grain, int32_t *lengths);
void many_runs(ef_pool *pool, int runs, int ranges, int64_t n, int32_t *visits, int32_t *threads);
int visit_in_child(ef_pool *pool, int64_t n, int destroy);
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompiledC:
    text = RUNTIME.read_text() + DRIVER
    return CompiledC(tmp_path_factory.mktemp("pool"), text, DECLARATIONS)


@pytest.fixture(params=[1, 2, 4])
def pool(compiled: CompiledC, request: pytest.FixtureRequest) -> Any:
    created = compiled.functions.ef_pool_create(request.param)
    yield created
    compiled.functions.ef_pool_destroy(created)


class Walk:
    """How often each index was visited, and by which thread."""

    def __init__(self, c: CompiledC, n: int) -> None:
        self.visits, self.threads = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.pointers = tuple(
            c.ffi.cast("int32_t *", a.ctypes.data) for a in (self.visits, self.threads)
        )


@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 1000, 100_000])
@pytest.mark.parametrize("grain", [1, 3, 64, 1_000_000])
def test_every_index_is_visited_once(compiled: CompiledC, pool: Any, n: int, grain: int) -> None:
    walk = Walk(compiled, n)
    compiled.functions.visit_all(pool, n, grain, *walk.pointers)
    assert (walk.visits == 1).all()


@pytest.mark.parametrize("grain", [0, -5])
def test_a_grain_below_one_means_one(compiled: CompiledC, pool: Any, grain: int) -> None:
    walk = Walk(compiled, 50)
    compiled.functions.visit_all(pool, 50, grain, *walk.pointers)
    assert (walk.visits == 1).all()


def test_chunks_are_as_long_as_the_grain(compiled: CompiledC, pool: Any) -> None:
    lengths = np.zeros(10, np.int32)
    pointer = compiled.ffi.cast("int32_t *", lengths.ctypes.data)
    compiled.functions.chunk_lengths(pool, 10, 4, pointer)
    assert lengths.tolist() == [4, 0, 0, 0, 4, 0, 0, 0, 2, 0]


def test_thread_numbers_lie_below_the_number_of_threads(compiled: CompiledC, pool: Any) -> None:
    walk = Walk(compiled, 10_000)
    compiled.functions.visit_all(pool, 10_000, 1, *walk.pointers)
    assert walk.threads.min() >= 0
    assert walk.threads.max() < compiled.functions.ef_pool_threads(pool)


def test_slow_chunks_are_shared_among_all_threads(compiled: CompiledC, pool: Any) -> None:
    threads = compiled.functions.ef_pool_threads(pool)
    walk = Walk(compiled, 40)
    compiled.functions.visit_all_slowly(pool, 40, *walk.pointers)
    assert set(walk.threads.tolist()) == set(range(threads))


def test_no_pool_is_one_thread(compiled: CompiledC) -> None:
    walk = Walk(compiled, 100)
    compiled.functions.visit_all(compiled.ffi.NULL, 100, 1, *walk.pointers)
    assert (walk.visits == 1).all()
    assert compiled.functions.ef_pool_threads(compiled.ffi.NULL) == 1


@pytest.mark.parametrize(("asked", "given"), [(-1, 1), (0, 1), (3, 3), (100_000, 256)])
def test_the_number_of_threads_is_kept_within_bounds(
    compiled: CompiledC, asked: int, given: int
) -> None:
    created = compiled.functions.ef_pool_create(asked)
    assert compiled.functions.ef_pool_threads(created) == given
    compiled.functions.ef_pool_destroy(created)


def test_nested_ranges_run_on_the_thread_that_asks(compiled: CompiledC, pool: Any) -> None:
    walk = Walk(compiled, 60 * 10)
    compiled.functions.visit_rows(pool, 60, 10, *walk.pointers)
    rows = walk.threads.reshape(60, 10)
    assert (walk.visits == 1).all()
    assert (rows == rows[:, :1]).all()


def test_runs_of_many_ranges_lose_nothing(compiled: CompiledC, pool: Any) -> None:
    walk = Walk(compiled, 13)
    compiled.functions.many_runs(pool, 50, 40, 13, *walk.pointers)
    assert (walk.visits == 50 * 40).all()


def test_callers_on_several_threads_share_a_pool(compiled: CompiledC, pool: Any) -> None:
    walks = [Walk(compiled, 17) for _ in range(4)]
    with ThreadPoolExecutor(4) as callers:
        runs = [
            callers.submit(compiled.functions.many_runs, pool, 20, 30, 17, *walk.pointers)
            for walk in walks
        ]
        for run in runs:
            run.result()
    assert all((walk.visits == 20 * 30).all() for walk in walks)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("destroy", [False, True])
def test_a_forked_child_has_threads_of_its_own(
    compiled: CompiledC, pool: Any, used: bool, destroy: bool
) -> None:
    walk = Walk(compiled, 100)
    if used:
        compiled.functions.visit_all(pool, 100, 1, *walk.pointers)
    assert compiled.functions.visit_in_child(pool, 500, destroy) == 0


def test_the_parent_of_a_fork_keeps_its_threads(compiled: CompiledC, pool: Any) -> None:
    walk = Walk(compiled, 100)
    compiled.functions.visit_in_child(pool, 10, True)
    compiled.functions.visit_all(pool, 100, 1, *walk.pointers)
    assert (walk.visits == 1).all()
