/* Thread pool of compiled models: threads claim small chunks of a range from one counter.

   Dynamic claiming keeps its pace beside other processes: a thread that loses its core delays one
   chunk, and one that never wakes up delays nothing, because the caller waits only for threads that
   joined the current range. Workers spin for at most EF_SPIN_NANOSECONDS between two ranges of a run
   and park at its end. After fork() the child's pool starts its own threads when it next needs them.
   Floating-point state (rounding, denormals) is left as the caller has it. */
#ifndef EF_RUNTIME
#define EF_RUNTIME
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifndef EF_RUNTIME_LINKAGE
#define EF_RUNTIME_LINKAGE
#endif
#define EF_SPIN_NANOSECONDS 100000
#define EF_CACHE_LINE 128
#define EF_MAX_THREADS 256

typedef void (*ef_range_fn)(void *ctx, int64_t begin, int64_t end, int thread);

/* The range that threads may join: `gate` holds (serial << 16) | (open << 15) | threads inside. */
typedef struct ef_pool {
    _Atomic uint64_t gate;
    char pad0[EF_CACHE_LINE - sizeof(uint64_t)];
    _Atomic int64_t next;
    char pad1[EF_CACHE_LINE - sizeof(int64_t)];
    ef_range_fn fn;
    void *ctx;
    int64_t n, grain;
    _Atomic int busy;     /* a caller owns the pool */
    _Atomic int running;  /* inside ef_run_begin .. ef_run_end: idle workers may spin */
    _Atomic int sleepers; /* workers parked or about to be */
    _Atomic int stopping;
    int threads;          /* the caller included */
    int started;          /* workers alive in this process */
    pthread_t ids[EF_MAX_THREADS];
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct ef_pool *following; /* list of all pools, for fork */
} ef_pool;

typedef struct {
    ef_pool *pool;
    int thread;
} ef_worker_start;

#define EF_OPEN ((uint64_t)1 << 15)
#define EF_INSIDE (EF_OPEN - 1)

static ef_pool *ef_pools;
static pthread_mutex_t ef_pools_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t ef_fork_once = PTHREAD_ONCE_INIT;
static _Thread_local ef_pool *ef_inside_pool; /* whose range this thread is working on */
static _Thread_local int ef_thread_index;

static inline void ef_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static int64_t ef_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void ef_claim_chunks(ef_pool *pool, int thread) {
    const ef_range_fn fn = pool->fn;
    void *const ctx = pool->ctx;
    const int64_t n = pool->n, grain = pool->grain;
    for (;;) {
        const int64_t begin = atomic_fetch_add_explicit(&pool->next, grain, memory_order_relaxed);
        if (begin >= n) return;
        fn(ctx, begin, n - begin < grain ? n : begin + grain, thread);
    }
}

/* Join the open range unless this worker already left it; true if work was (perhaps) done. */
static int ef_try_join(ef_pool *pool, uint64_t *seen, int thread) {
    uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    while ((gate & EF_OPEN) && (gate >> 16) != *seen) {
        if (!atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        *seen = gate >> 16;
        ef_claim_chunks(pool, thread);
        atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
        return 1;
    }
    return 0;
}

static int ef_joinable(ef_pool *pool, uint64_t seen) {
    const uint64_t gate = atomic_load(&pool->gate);
    return (gate & EF_OPEN) && (gate >> 16) != seen;
}

static void ef_park(ef_pool *pool, uint64_t seen) {
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!ef_joinable(pool, seen) && !atomic_load(&pool->stopping))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* Spin while a run goes on; false when the time is over or the run has ended. */
static int ef_spin(ef_pool *pool, uint64_t seen) {
    const int64_t deadline = ef_nanoseconds() + EF_SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < 32; ++i) {
            if (ef_joinable(pool, seen)) return 1;
            if (!atomic_load_explicit(&pool->running, memory_order_relaxed)) return 0;
            ef_pause();
        }
    } while (ef_nanoseconds() < deadline);
    return 0;
}

static void *ef_worker(void *argument) {
    ef_worker_start start = *(ef_worker_start *)argument;
    ef_pool *pool = start.pool;
    uint64_t seen = 0;
    free(argument);
    ef_inside_pool = pool;
    ef_thread_index = start.thread;
    while (!atomic_load(&pool->stopping))
        if (!ef_try_join(pool, &seen, start.thread) && !ef_spin(pool, seen)) ef_park(pool, seen);
    return NULL;
}

/* Start the workers that are missing; fewer than asked for is slower, never wrong. */
static void ef_start_workers(ef_pool *pool) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->started < pool->threads - 1) {
        ef_worker_start *start = malloc(sizeof *start);
        if (!start) break;
        *start = (ef_worker_start){pool, pool->started + 1};
        if (pthread_create(&pool->ids[pool->started], NULL, ef_worker, start)) {
            free(start);
            pool->threads = pool->started + 1;
            break;
        }
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void ef_reset(ef_pool *pool) {
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    atomic_store(&pool->gate, (uint64_t)1 << 16);
    atomic_store(&pool->busy, 0);
    atomic_store(&pool->running, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->stopping, 0);
    pool->started = 0;
}

static void ef_before_fork(void) { pthread_mutex_lock(&ef_pools_mutex); }

static void ef_parent_after_fork(void) { pthread_mutex_unlock(&ef_pools_mutex); }

/* Only the forking thread lives on in the child: its pools have no workers and no owner. */
static void ef_child_after_fork(void) {
    for (ef_pool *pool = ef_pools; pool; pool = pool->following) ef_reset(pool);
    pthread_mutex_init(&ef_pools_mutex, NULL);
    ef_inside_pool = NULL;
    ef_thread_index = 0;
}

static void ef_watch_forks(void) {
    pthread_atfork(ef_before_fork, ef_parent_after_fork, ef_child_after_fork);
}

/* Return a pool of `threads` threads, the caller's included; NULL when out of memory. */
EF_RUNTIME_LINKAGE ef_pool *ef_pool_create(int threads) {
    void *memory;
    if (posix_memalign(&memory, EF_CACHE_LINE, sizeof(ef_pool))) return NULL;
    ef_pool *pool = memory;
    pool->threads = threads < 1 ? 1 : threads > EF_MAX_THREADS ? EF_MAX_THREADS : threads;
    ef_reset(pool);
    pthread_once(&ef_fork_once, ef_watch_forks);
    pthread_mutex_lock(&ef_pools_mutex);
    pool->following = ef_pools;
    ef_pools = pool;
    pthread_mutex_unlock(&ef_pools_mutex);
    return pool;
}

/* Stop the workers and free the pool, which no call may be using. */
EF_RUNTIME_LINKAGE void ef_pool_destroy(ef_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&ef_pools_mutex);
    ef_pool **link = &ef_pools;
    while (*link && *link != pool) link = &(*link)->following;
    if (*link) *link = pool->following;
    pthread_mutex_unlock(&ef_pools_mutex);
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->stopping, 1);
    atomic_store(&pool->running, 0);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->started; ++i) pthread_join(pool->ids[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

/* Number of threads that may call `fn` at once: the size of per-thread scratch tables. */
EF_RUNTIME_LINKAGE int ef_pool_threads(const ef_pool *pool) { return pool ? pool->threads : 1; }

/* Between begin and end idle workers spin for a while, so that the next range starts at once. */
EF_RUNTIME_LINKAGE void ef_run_begin(ef_pool *pool) {
    if (pool) atomic_fetch_add(&pool->running, 1);
}

EF_RUNTIME_LINKAGE void ef_run_end(ef_pool *pool) {
    if (pool) atomic_fetch_sub(&pool->running, 1);
}

static void ef_open_range(ef_pool *pool) {
    const uint64_t serial = (atomic_load_explicit(&pool->gate, memory_order_relaxed) >> 16) + 1;
    atomic_store(&pool->gate, (serial << 16) | EF_OPEN);
    if (!atomic_load(&pool->sleepers)) return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

static void ef_close_range(ef_pool *pool) {
    uint64_t gate = atomic_fetch_and_explicit(&pool->gate, ~EF_OPEN, memory_order_acq_rel);
    int64_t deadline = 0;
    for (int turns = 0; gate & EF_INSIDE; ++turns) {
        ef_pause();
        if (turns % 64 == 63) {
            const int64_t now = ef_nanoseconds();
            if (!deadline) deadline = now + EF_SPIN_NANOSECONDS;
            if (now > deadline) sched_yield();
        }
        gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    }
}

/* Call fn(ctx, begin, end, thread) over 0..n in chunks of `grain`, on the pool's threads.

   `thread` lies in 0 .. ef_pool_threads - 1 and is nobody else's during the call. A nested call, a
   call while another thread uses the pool (its `thread` is 0: contexts own their scratch), and a
   range of one chunk run on the caller alone. */
EF_RUNTIME_LINKAGE void ef_parallel(ef_pool *pool, ef_range_fn fn, void *ctx, int64_t n,
                                    int64_t grain) {
    int idle = 0;
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (!pool || pool->threads < 2 || n <= grain || ef_inside_pool ||
        !atomic_compare_exchange_strong(&pool->busy, &idle, 1)) {
        const int thread = ef_inside_pool == pool ? ef_thread_index : 0;
        for (int64_t begin = 0; begin < n; begin += grain)
            fn(ctx, begin, n - begin < grain ? n : begin + grain, thread);
        return;
    }
    if (pool->started < pool->threads - 1) ef_start_workers(pool);
    pool->fn = fn;
    pool->ctx = ctx;
    pool->n = n;
    pool->grain = grain;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    ef_inside_pool = pool;
    ef_open_range(pool);
    ef_claim_chunks(pool, 0);
    ef_close_range(pool);
    ef_inside_pool = NULL;
    atomic_store(&pool->busy, 0);
}
#endif
