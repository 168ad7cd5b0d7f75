/* What a machine can do at most: chains of fused multiply-adds in registers, and the triad
   a[i] = b[i] + s * c[i] over arrays that no cache holds (McCalpin's STREAM). */
#include <stdint.h>

typedef struct ef_pool ef_pool;
void ef_parallel(ef_pool *pool, void (*fn)(void *ctx, int64_t begin, int64_t end, int thread),
                 void *ctx, int64_t n, int64_t grain);
ef_pool *ef_pool_create(int threads);
void ef_pool_destroy(ef_pool *pool);

#if defined(__AVX512F__)
#define EF_PEAK_BYTES 64
#elif defined(__AVX__)
#define EF_PEAK_BYTES 32
#else
#define EF_PEAK_BYTES 16
#endif
/* Enough independent chains for the latency and the width of the multiply-add units. */
#define EF_PEAK_CHAINS 10
#define EF_PEAK_STEPS 4096
typedef float ef_peak_vector __attribute__((vector_size(EF_PEAK_BYTES)));

static void ef_multiply_add(void *ctx, int64_t begin, int64_t end, int thread) {
    ef_peak_vector sums[EF_PEAK_CHAINS];
    const ef_peak_vector zero = {0}, factor = zero + 0.999f, term = zero + 0.001f;
    (void)thread;
    for (int k = 0; k < EF_PEAK_CHAINS; ++k) sums[k] = zero + (float)k;
    for (int64_t i = begin; i < end; ++i)
        for (int step = 0; step < EF_PEAK_STEPS; ++step)
#pragma GCC unroll 10
            for (int k = 0; k < EF_PEAK_CHAINS; ++k) sums[k] = sums[k] * factor + term;
    for (int k = 1; k < EF_PEAK_CHAINS; ++k) sums[0] += sums[k];
    if (sums[0][0] == -1.0f) *(volatile float *)ctx = sums[0][0];
}

/* Run `n` pieces of multiply-adds; the result is their number of operations. */
double ef_peak_flops(ef_pool *pool, int64_t n) {
    float seen = 0;
    ef_parallel(pool, ef_multiply_add, &seen, n, 1);
    return 2.0 * EF_PEAK_CHAINS * EF_PEAK_STEPS * (EF_PEAK_BYTES / 4) * (double)n;
}

typedef struct {
    float *a;
    const float *b, *c;
} ef_triad_arrays;

static void ef_triad(void *ctx, int64_t begin, int64_t end, int thread) {
    const ef_triad_arrays *arrays = ctx;
    float *restrict a = arrays->a;
    const float *restrict b = arrays->b, *restrict c = arrays->c;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0f * c[i];
}

/* One triad over `n` floats; the result is the number of bytes read and written. */
double ef_peak_bytes(ef_pool *pool, float *a, const float *b, const float *c, int64_t n) {
    ef_triad_arrays arrays = {a, b, c};
    ef_parallel(pool, ef_triad, &arrays, n, 1 << 16);
    return 12.0 * (double)n;
}
