"""C text of the register-tiled micro-kernels that generated code calls.

One family serves every contraction ("indirect GEMM"): a tile of `mr` rows, each reached through a
pointer per tap, times a packed panel of `nv` vectors of columns. A convolution passes pointers to
the pixels that each tap reads (or to a buffer of zeros where it reads padding); a matmul passes
`taps = 1`. Accumulation uses explicit fused multiply-adds, so the text means the same under
`-ffp-contract=off`. A function's last rows and columns are handled by its operands: row pointers
may repeat, panels are padded with zeros, and whoever reads the tile ignores what is beyond.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

VECTOR_LENGTHS: Final = {16: "AVX-512", 8: "AVX", 4: "SSE, NEON or generic"}
"""Floats per vector that the prelude can choose, and the instruction sets that choose them."""

PRELUDE: Final = r"""
#ifndef EF_MICROKERNEL_PRELUDE
#define EF_MICROKERNEL_PRELUDE
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__) || defined(__AVX__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif
#if defined(__AVX512F__)
#define EF_VL 16
#elif defined(__AVX__)
#define EF_VL 8
#else
#define EF_VL 4
#endif
#define EF_MK(linkage) linkage __attribute__((unused, noinline))
typedef float ef_v __attribute__((vector_size(4 * EF_VL)));
typedef float ef_vu __attribute__((vector_size(4 * EF_VL), aligned(4), may_alias));
#define EF_LOAD(p) ((ef_v) * (const ef_vu *)(p))
#define EF_STORE(p, v) (*(ef_vu *)(p) = (ef_vu)(v))
/* Hide how the index moves: else GCC gives every row pointer an addition of its own. */
#define EF_KEEP_INDEX(p) __asm__("" : "+r"(p))
#define EF_FMA(a, b, c) ef_fma((a), (b), (c))
#define EF_SPLAT(x) ef_splat(x)
static inline ef_v ef_splat(float x) {
#if defined(__AVX512F__)
    return (ef_v)_mm512_set1_ps(x);
#elif defined(__AVX__)
    return (ef_v)_mm256_set1_ps(x);
#else
    return (ef_v){x, x, x, x};
#endif
}
static inline ef_v ef_fma(ef_v a, ef_v b, ef_v c) {
#if defined(__AVX512F__)
    return (ef_v)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (ef_v)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (ef_v)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}
static inline float ef_fma1(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
#endif
"""
"""Vector type `ef_v` of EF_VL floats (in memory `ef_vu`), load, store, splat, multiply-add."""


def prelude(vl: int | None = None) -> str:
    """Return the prelude; with `vl`, the C compiler refuses a target of another vector length.

    Panels are packed for one vector length, so a mismatch would read wrong columns silently.
    """
    if vl is None:
        return PRELUDE
    if vl not in VECTOR_LENGTHS:
        raise ValueError(f"vector length {vl}: expected one of {sorted(VECTOR_LENGTHS)} floats")
    return PRELUDE + f'_Static_assert(EF_VL == {vl}, "panels are packed for {vl} floats");\n'


def igemm_source(mr: int, nv: int, linkage: str = "static") -> str:
    """Return the C function `igemm_{mr}x{nv}`, the tile of every contraction.

    `void igemm_MxV(const float *const *rows, int64_t taps, int64_t k, const float *b, int64_t ldb,
    float *c, int64_t ldc, int accumulate)` computes, for i < mr and j < nr = nv * EF_VL,
    `c[i*ldc + j] (+)= sum over t < taps, p < k of rows[t*mr + i][p] * b[(t*k + p)*ldb + j]`.
    `rows` holds taps * mr pointers; each float of `b` and `c` named by the formula must exist.
    Sums run in the order of t, then p, in float32 with one rounding per multiply-add.
    """
    _expect_positive(mr=mr, nv=nv)
    rows, columns = range(mr), range(nv)
    each = [(i, j) for i in rows for j in columns]
    zero = ", ".join(f"c{i}_{j} = {{0}}" for i, j in each)
    load = [f"c{i}_{j} = EF_LOAD(c + {i} * ldc + {j} * EF_VL);" for i, j in each]
    store = [f"EF_STORE(c + {i} * ldc + {j} * EF_VL, c{i}_{j});" for i, j in each]
    pointers = ", ".join(f"*r{i} = rows[{i}]" for i in rows)
    panel = ", ".join(f"b{j} = EF_LOAD(b + {j} * EF_VL)" for j in columns)
    step = [f"const ef_v {panel};"]
    for i in rows:
        step.append(f"a = EF_SPLAT(r{i}[p]);")
        step += [f"c{i}_{j} = EF_FMA(a, b{j}, c{i}_{j});" for j in columns]
    return f"""
EF_MK({linkage}) void igemm_{mr}x{nv}(const float *const *rows, int64_t taps, int64_t k,
    const float *b, int64_t ldb, float *c, int64_t ldc, int accumulate) {{
    ef_v a, {zero};
    if (accumulate) {{
{_indent(load, 8)}
    }}
    for (int64_t t = 0; t < taps; ++t, rows += {mr}) {{
        const float {pointers};
        for (int64_t p = 0; p < k; ++p, b += ldb) {{
            EF_KEEP_INDEX(p);
{_indent(step, 12)}
        }}
    }}
{_indent(store, 4)}
}}
"""


def dwconv_source(taps: int, pixels: int, linkage: str = "static") -> str:
    """Return the C function `dwconv_{taps}x{pixels}`: depthwise convolution of a few pixels.

    `void dwconv_TxP(const float *const *rows, const float *w, int64_t ldw, int64_t channels,
    float *out, int64_t ldo)` computes, for q < pixels and ch < channels,
    `out[q*ldo + ch] = sum over t < taps of rows[q*taps + t][ch] * w[t*ldw + ch]`. With ldw = 0 all
    taps share their weights, as in average pooling.
    """
    _expect_positive(taps=taps, pixels=pixels)
    weights = ", ".join(f"w{t} = EF_LOAD(w + {t} * ldw + ch)" for t in range(taps))
    step = [f"const ef_v {weights};", "ef_v s;"]
    for q in range(pixels):
        step.append(f"s = EF_LOAD(rows[{q * taps}] + ch) * w0;")
        step += [
            f"s = EF_FMA(EF_LOAD(rows[{q * taps + t}] + ch), w{t}, s);" for t in range(1, taps)
        ]
        step.append(f"EF_STORE(out + {q} * ldo + ch, s);")
    return f"""
EF_MK({linkage}) void dwconv_{taps}x{pixels}(const float *const *rows, const float *w, int64_t ldw,
    int64_t channels, float *out, int64_t ldo) {{
    int64_t ch = 0;
    for (; ch + EF_VL <= channels; ch += EF_VL) {{
{_indent(step, 8)}
    }}
    for (; ch < channels; ++ch)
        for (int q = 0; q < {pixels}; ++q) {{
            float s = rows[q * {taps}][ch] * w[ch];
            for (int t = 1; t < {taps}; ++t)
                s = ef_fma1(rows[q * {taps} + t][ch], w[t * ldw + ch], s);
            out[q * ldo + ch] = s;
        }}
}}
"""


def dwline_source(
    kh: int, kw: int, stride: int, dilation: int, pixels: int, linkage: str = "static"
) -> str:
    """Return the C function `dwline_{kh}x{kw}x{stride}x{dilation}x{pixels}`.

    It is a depthwise convolution of `pixels` neighbours in a line without padding: `lines[y]`
    points to the first input pixel that the first output pixel reads in its line y (a line of zeros
    where padded), `pixel` is the number of floats between input pixels.
    `void dwline_...(const float *const *lines, int64_t pixel, const float *w, int64_t ldw,
    int64_t channels, float *out, int64_t ldo)` computes `out[q*ldo + ch] = sum over y, x of
    lines[y][(q*stride + x*dilation)*pixel + ch] * w[(y*kw + x)*ldw + ch]`. Each input vector is
    loaded once for all pixels that read it.
    """
    _expect_positive(kh=kh, kw=kw, stride=stride, dilation=dilation, pixels=pixels)
    steps = [f"ef_v {', '.join(f's{q} = {{0}}' for q in range(pixels))}, a;"]
    span = (pixels - 1) * stride + (kw - 1) * dilation + 1
    for y in range(kh):
        weights = (f"w{x} = EF_LOAD(w + {y * kw + x} * ldw + ch)" for x in range(kw))
        steps.append("{")
        steps.append(f"const ef_v {', '.join(weights)};")
        for column in range(span):
            uses = _readers(column, kw, stride, dilation, pixels)
            if uses:
                steps.append(f"a = EF_LOAD(lines[{y}] + {column} * pixel + ch);")
            steps += [f"s{q} = EF_FMA(a, w{x}, s{q});" for q, x in uses]
        steps.append("}")
    steps += [f"EF_STORE(out + {q} * ldo + ch, s{q});" for q in range(pixels)]
    name = f"dwline_{kh}x{kw}x{stride}x{dilation}x{pixels}"
    return f"""
EF_MK({linkage}) void {name}(const float *const *lines, int64_t pixel, const float *w, int64_t ldw,
    int64_t channels, float *out, int64_t ldo) {{
    int64_t ch = 0;
    for (; ch + EF_VL <= channels; ch += EF_VL) {{
{_indent(steps, 8)}
    }}
    for (; ch < channels; ++ch)
        for (int q = 0; q < {pixels}; ++q) {{
            float s = 0;
            for (int y = 0; y < {kh}; ++y)
                for (int x = 0; x < {kw}; ++x)
                    s = ef_fma1(lines[y][(q * {stride} + x * {dilation}) * pixel + ch],
                                w[(y * {kw} + x) * ldw + ch], s);
            out[q * ldo + ch] = s;
        }}
}}
"""


PACK_B: Final = r"""
/* Pack b[p][j] = src[p*ld_k + j*ld_n], p < k, j < n, into panels dst[j / nr][p][j % nr], the last
   one padded with zeros: ceil(n / nr) * k * nr floats. */
EF_MK(static) void pack_b(const float *src, int64_t ld_k, int64_t ld_n, int64_t k, int64_t n,
    int64_t nr, float *dst) {
    for (int64_t j = 0; j < n; j += nr, dst += k * nr) {
        const float *const from = src + j * ld_n;
        const int64_t width = n - j < nr ? n - j : nr;
        if (ld_n == 1) {
            for (int64_t p = 0; p < k; ++p) {
                memcpy(dst + p * nr, from + p * ld_k, (size_t)width * sizeof(float));
                memset(dst + p * nr + width, 0, (size_t)(nr - width) * sizeof(float));
            }
            continue;
        }
        for (int64_t p = 0; p < k; ++p) {
            float *const to = dst + p * nr;
            const float *const column = from + p * ld_k;
            for (int64_t q = 0; q < width; ++q) to[q] = column[q * ld_n];
            for (int64_t q = width; q < nr; ++q) to[q] = 0;
        }
    }
}
"""
"""Run-time packing of an operand that is an activation (keys and values of attention)."""


def pack_panels(b: NDArray[np.float32], nr: int) -> NDArray[np.float32]:
    """Return matrix `b` [k, n] as panels [ceil(n / nr), k, nr], the last padded with zeros.

    A convolution's weights come as `b` of shape [taps * channels, n]: taps outer, channels inner.
    """
    _expect_positive(nr=nr)
    k, n = b.shape
    panels = -(-n // nr)
    padded = np.zeros((k, panels * nr), np.float32)
    padded[:, :n] = b
    return np.ascontiguousarray(padded.reshape(k, panels, nr).transpose(1, 0, 2))


def _readers(
    column: int, kw: int, stride: int, dilation: int, pixels: int
) -> list[tuple[int, int]]:
    """Return the (pixel, tap) pairs of a line that read this input column."""
    return [(q, x) for q in range(pixels) for x in range(kw) if q * stride + x * dilation == column]


def _indent(lines: list[str], spaces: int) -> str:
    return "\n".join(" " * spaces + line for line in lines)


def _expect_positive(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} = {value}: expected at least 1")
