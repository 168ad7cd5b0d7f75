"""The micro-kernels in OpenCL C: the same operands and results as the C ones, as plain loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

_DEFAULT_VECTOR = 16


def prelude(vl: int | None = None) -> str:
    """Return the definition of the vector length that panels are packed for."""
    return f"#define EF_VL {vl or _DEFAULT_VECTOR}\n"


def igemm_source(mr: int, nv: int) -> str:
    """Return `igemm_{mr}x{nv}`: a tile of mr rows times nv * EF_VL packed columns."""
    return f"""
static void igemm_{mr}x{nv}(__global const float *const *rows, int64_t taps, int64_t k,
    __global const float *b, int64_t ldb, __global float *c, int64_t ldc, int accumulate) {{
    float tile[{mr}][{nv} * EF_VL];
    for (int i = 0; i < {mr}; ++i)
        for (int j = 0; j < {nv} * EF_VL; ++j) tile[i][j] = accumulate ? c[i * ldc + j] : 0.0f;
    for (int64_t t = 0; t < taps; ++t, rows += {mr})
        for (int64_t p = 0; p < k; ++p, b += ldb)
            for (int i = 0; i < {mr}; ++i)
                for (int j = 0; j < {nv} * EF_VL; ++j)
                    tile[i][j] = fma(rows[i][p], b[j], tile[i][j]);
    for (int i = 0; i < {mr}; ++i)
        for (int j = 0; j < {nv} * EF_VL; ++j) c[i * ldc + j] = tile[i][j];
}}
"""


def dwconv_source(taps: int, pixels: int) -> str:
    """Return `dwconv_{taps}x{pixels}`: depthwise convolution of a few pixels."""
    return f"""
static void dwconv_{taps}x{pixels}(__global const float *const *rows, __global const float *w,
    int64_t ldw, int64_t channels, __global float *out, int64_t ldo) {{
    for (int q = 0; q < {pixels}; ++q)
        for (int64_t ch = 0; ch < channels; ++ch) {{
            float s = 0.0f;
            for (int t = 0; t < {taps}; ++t) s = fma(rows[q * {taps} + t][ch], w[t * ldw + ch], s);
            out[q * ldo + ch] = s;
        }}
}}
"""


def dwline_source(kh: int, kw: int, stride: int, dilation: int, pixels: int) -> str:
    """Return `dwline_...`: depthwise convolution of neighbours in a line without padding."""
    return f"""
static void dwline_{kh}x{kw}x{stride}x{dilation}x{pixels}(__global const float *const *lines,
    int64_t pixel, __global const float *w, int64_t ldw, int64_t channels, __global float *out,
    int64_t ldo) {{
    for (int q = 0; q < {pixels}; ++q)
        for (int64_t ch = 0; ch < channels; ++ch) {{
            float s = 0.0f;
            for (int y = 0; y < {kh}; ++y)
                for (int x = 0; x < {kw}; ++x)
                    s = fma(lines[y][(q * {stride} + x * {dilation}) * pixel + ch],
                            w[(y * {kw} + x) * ldw + ch], s);
            out[q * ldo + ch] = s;
        }}
}}
"""


def pack_b_source() -> str:
    """Return `pack_b`: b[p][j] = src[p*ld_k + j*ld_n] as panels, the last padded with zeros."""
    return """
static void pack_b(__global const float *src, int64_t ld_k, int64_t ld_n, int64_t k, int64_t n,
    int64_t nr, __global float *dst) {
    for (int64_t j = 0; j < n; j += nr)
        for (int64_t p = 0; p < k; ++p)
            for (int64_t q = 0; q < nr; ++q, ++dst)
                *dst = j + q < n ? src[p * ld_k + (j + q) * ld_n] : 0.0f;
}
"""


SOURCES: Final[Mapping[str, Callable[..., str]]] = {
    "igemm": igemm_source,
    "dwconv": dwconv_source,
    "dwline": dwline_source,
    "pack_b": pack_b_source,
}
"""Text of each micro-kernel by name, given its variant's numbers."""
