/* Runs one contraction or depthwise convolution as generated code would, for benchmarks/gemm.py. */

typedef void (*igemm_fn)(const float *const *, int64_t, int64_t, const float *, int64_t, float *,
                         int64_t, int);
typedef void (*dwconv_fn)(const float *const *, const float *, int64_t, int64_t, float *, int64_t);
typedef void (*dwline_fn)(const float *const *, int64_t, const float *, int64_t, int64_t, float *,
                          int64_t);

/* Activations are [height][width][channels]; a matmul is a 1x1 convolution of a 1 x m image. */
typedef struct {
    const float *x, *b, *bias, *zeros;
    float *out, *copy;
    int64_t height, width, channels, out_height, out_width, kh, kw, stride, pad;
    int64_t m, n, k, taps, mr, nr, kc, tc, mc;
    int n_outer, merged;
    igemm_fn igemm;
    dwconv_fn dwconv4;
    dwconv_fn dwconv1;
    dwline_fn dwline;
    const float **tables; /* per thread: mc * taps + taps * mr pointers */
    float *tiles;         /* per thread: mc * nr floats */
    int64_t table_size, tile_size;
} bench_job;

/* Pointer to what tap `tap` of the output pixel at line y, column x reads. */
static inline const float *pixel_of(const bench_job *j, int64_t y, int64_t x, int64_t ky,
                                    int64_t kx) {
    if (j->merged)
        return j->copy + ((y * j->stride + ky) * (j->width + 2 * j->pad) + x * j->stride) * j->channels;
    const int64_t line = y * j->stride - j->pad + ky, column = x * j->stride - j->pad + kx;
    if (line < 0 || line >= j->height || column < 0 || column >= j->width) return j->zeros;
    return j->x + (line * j->width + column) * j->channels;
}

/* Lines of the padded copy; a line of a tap then reads kw * channels neighbouring floats. */
static void copy_lines(void *ctx, int64_t begin, int64_t end, int thread) {
    const bench_job *j = ctx;
    const int64_t line = (j->width + 2 * j->pad) * j->channels, edge = j->pad * j->channels;
    (void)thread;
    for (int64_t y = begin; y < end; ++y) {
        float *to = j->copy + y * line;
        memset(to, 0, (size_t)line * sizeof(float));
        if (y < j->pad || y >= j->height + j->pad) continue;
        memcpy(to + edge, j->x + (y - j->pad) * j->width * j->channels,
               (size_t)(j->width * j->channels) * sizeof(float));
    }
}

/* One division for the block: pixels follow each other, the last one is repeated. */
static void set_rows(const bench_job *j, int64_t first, int64_t rows, const float **table) {
    int64_t y = first / j->out_width, x = first % j->out_width, row = first;
    const int64_t kw = j->merged ? 1 : j->kw;
    for (int64_t tile = 0; tile < rows; tile += j->mr, table += j->taps * j->mr)
        for (int64_t i = 0; i < j->mr; ++i) {
            for (int64_t ky = 0; ky < j->kh; ++ky)
                for (int64_t kx = 0; kx < kw; ++kx)
                    table[(ky * kw + kx) * j->mr + i] = pixel_of(j, y, x, ky, kx);
            if (++row >= j->m) continue;
            if (++x == j->out_width) x = 0, ++y;
        }
}

static void run_panel(const bench_job *j, int64_t first, int64_t rows, int64_t panel,
                      const float **table, float *tile) {
    const float **moved = table + j->mc * j->taps;
    const float *b = j->b + panel * j->taps * j->k * j->nr;
    for (int64_t t = 0; t < j->taps; t += j->tc)
        for (int64_t p = 0; p < j->k; p += j->kc) {
            const int64_t tc = j->taps - t < j->tc ? j->taps - t : j->tc;
            const int64_t kc = j->k - p < j->kc ? j->k - p : j->kc;
            for (int64_t i = 0; i < rows; i += j->mr) {
                const float **at = table + i * j->taps + t * j->mr;
                if (p) {
                    for (int64_t q = 0; q < tc * j->mr; ++q) moved[q] = at[q] + p;
                    at = moved;
                }
                j->igemm(at, tc, kc, b + (t * j->k + p) * j->nr, j->nr, tile + i * j->nr, j->nr,
                         t + p > 0);
            }
        }
    const int64_t left = panel * j->nr;
    const int64_t columns = j->n - left < j->nr ? j->n - left : j->nr;
    const int64_t valid = j->m - first < rows ? j->m - first : rows;
    for (int64_t i = 0; i < valid; ++i) {
        float *to = j->out + (first + i) * j->n + left;
        for (int64_t c = 0; c < columns; ++c) to[c] = tile[i * j->nr + c] + j->bias[left + c];
    }
}

static void contraction_units(void *ctx, int64_t begin, int64_t end, int thread) {
    const bench_job *j = ctx;
    const float **table = j->tables + thread * j->table_size;
    float *tile = j->tiles + thread * j->tile_size;
    const int64_t blocks = (j->m + j->mc - 1) / j->mc, panels = (j->n + j->nr - 1) / j->nr;
    for (int64_t u = begin; u < end; ++u) {
        const int64_t block = j->n_outer ? u % blocks : u, first = block * j->mc;
        int64_t rows = j->m - first < j->mc ? j->m - first : j->mc;
        rows = (rows + j->mr - 1) / j->mr * j->mr;
        set_rows(j, first, rows, table);
        if (j->n_outer)
            run_panel(j, first, rows, u / blocks, table, tile);
        else
            for (int64_t panel = 0; panel < panels; ++panel)
                run_panel(j, first, rows, panel, table, tile);
    }
}

static void depthwise_pixels(const bench_job *j, int64_t y, int64_t x, int64_t count,
                             dwconv_fn fn) {
    const float *rows[4 * 25];
    float *out = j->out + (y * j->out_width + x) * j->channels;
    for (int64_t q = 0; q < count; ++q)
        for (int64_t ky = 0; ky < j->kh; ++ky)
            for (int64_t kx = 0; kx < j->kw; ++kx)
                rows[q * j->taps + ky * j->kw + kx] = pixel_of(j, y, x + q, ky, kx);
    fn(rows, j->b, j->channels, j->channels, out, j->channels);
    for (int64_t q = 0; q < count; ++q, out += j->channels)
        for (int64_t c = 0; c < j->channels; ++c) out[c] += j->bias[c];
}

static void depthwise_line(const bench_job *j, int64_t oy, int64_t ox) {
    const float *lines[5];
    float *out = j->out + (oy * j->out_width + ox) * j->channels;
    const int64_t left = ox * j->stride - j->pad;
    for (int64_t ky = 0; ky < j->kh; ++ky) {
        const int64_t line = oy * j->stride - j->pad + ky;
        const int outside = line < 0 || line >= j->height;
        lines[ky] = outside ? j->zeros : j->x + (line * j->width + left) * j->channels;
    }
    j->dwline(lines, j->channels, j->b, j->channels, j->channels, out, j->channels);
    for (int64_t q = 0; q < 4; ++q, out += j->channels)
        for (int64_t c = 0; c < j->channels; ++c) out[c] += j->bias[c];
}

/* Four pixels at a time: a line where no tap falls beside the image, else pixel pointers. */
static void depthwise_units(void *ctx, int64_t begin, int64_t end, int thread) {
    const bench_job *j = ctx;
    (void)thread;
    for (int64_t y = begin; y < end; ++y)
        for (int64_t x = 0; x < j->out_width;) {
            const int64_t left = x * j->stride - j->pad, right = left + 3 * j->stride + j->kw;
            const int four = x + 4 <= j->out_width;
            if (j->dwline && four && left >= 0 && right <= j->width) {
                depthwise_line(j, y, x);
                x += 4;
            } else if (!j->dwline && four) {
                depthwise_pixels(j, y, x, 4, j->dwconv4);
                x += 4;
            } else {
                depthwise_pixels(j, y, x++, 1, j->dwconv1);
            }
        }
}

/* Run the job `repeats` times; the fastest took the returned number of seconds. */
double bench_run(ef_pool *pool, bench_job *job, int depthwise, int repeats) {
    double best = 1e9;
    ef_run_begin(pool);
    for (int i = 0; i < repeats; ++i) {
        const int64_t start = ef_nanoseconds();
        if (job->merged) ef_parallel(pool, copy_lines, job, job->height + 2 * job->pad, 8);
        if (depthwise)
            ef_parallel(pool, depthwise_units, job, job->out_height, 1);
        else {
            const int64_t blocks = (job->m + job->mc - 1) / job->mc;
            const int64_t panels = (job->n + job->nr - 1) / job->nr;
            ef_parallel(pool, contraction_units, job, job->n_outer ? blocks * panels : blocks, 1);
        }
        const double seconds = (double)(ef_nanoseconds() - start) * 1e-9;
        if (seconds < best) best = seconds;
    }
    ef_run_end(pool);
    return best;
}
