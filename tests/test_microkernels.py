"""Every micro-kernel against numpy in float64, on every vector length this processor has."""

import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from compiled_c import CompiledC, rounding_bound
from numpy.typing import NDArray

from egraph_fusion.codegen import microkernels as mk
from egraph_fusion.codegen.tiling import register_tiles

X86 = platform.machine() in {"x86_64", "AMD64"}
X86_TARGETS: dict[str, tuple[str, ...]] = {
    "no AVX-512": ("-march=native", "-mno-avx512f"),
    "baseline": ("-march=x86-64",),
}
TARGETS: dict[str, tuple[str, ...]] = {"native": ("-march=native",)} | (X86_TARGETS if X86 else {})
TILES = sorted(set(register_tiles(16)) | set(register_tiles(8)))
DWCONV = [(taps, pixels) for taps in (1, 4, 9, 25) for pixels in (1, 4)]
DWLINE = [(3, 3, 1, 1, 4), (3, 3, 2, 1, 4), (5, 5, 1, 1, 2), (5, 5, 2, 1, 3), (1, 3, 1, 2, 3)]
FLOATS = "const float *const *rows"

Array = NDArray[np.float32]


def source() -> str:
    text = [mk.prelude(), mk.PACK_B.replace("static", "extern", 1)]
    text += [mk.igemm_source(mr, nv, "extern") for mr, nv in TILES]
    text += [mk.dwconv_source(*variant, "extern") for variant in DWCONV]
    text += [mk.dwline_source(*variant, "extern") for variant in DWLINE]
    return "".join(text) + "int vector_length(void) { return EF_VL; }\n"


def declarations() -> str:
    text = [
        f"void igemm_{mr}x{nv}({FLOATS}, int64_t taps, int64_t k, const float *b, int64_t ldb,"
        " float *c, int64_t ldc, int accumulate);"
        for mr, nv in TILES
    ]
    end = "const float *w, int64_t ldw, int64_t channels, float *out, int64_t ldo);"
    text += [f"void dwconv_{taps}x{pixels}({FLOATS}, {end}" for taps, pixels in DWCONV]
    text += [
        f"void dwline_{'x'.join(map(str, variant))}({FLOATS}, int64_t pixel, {end}"
        for variant in DWLINE
    ]
    text.append("void pack_b(const float *, int64_t, int64_t, int64_t, int64_t, int64_t, float *);")
    return "".join(text) + "int vector_length(void);"


@pytest.fixture(scope="module", params=TARGETS)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CompiledC:
    flags = ("-O2", *TARGETS[str(request.param)])
    return CompiledC(tmp_path_factory.mktemp("kernels"), source(), declarations(), flags)


def random_array(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def run_igemm(
    c: CompiledC, tile: tuple[int, int], a: Array, b: Array, out: Array, accumulate: bool
) -> None:
    """Call a tile on rows a[i, t, :k], panel b[taps, k, ldb] and result out[mr, ldc]."""
    rows, taps, k = a.shape
    starts = [(i * taps + t) * k for t in range(taps) for i in range(rows)]
    function = getattr(c.functions, f"igemm_{tile[0]}x{tile[1]}")
    panel, ldb, ldc = c.pointer(b), b.shape[2], out.shape[1]
    function(c.pointers(a, starts), taps, k, panel, ldb, c.pointer(out), ldc, accumulate)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize(("taps", "k"), [(1, 1), (1, 37), (3, 5), (9, 16)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_tile_is_the_sum_over_taps_and_k(
    compiled: CompiledC, tile: tuple[int, int], taps: int, k: int, accumulate: bool
) -> None:
    nr = tile[1] * int(compiled.functions.vector_length())
    a, b, c = (
        random_array(tile[0], taps, k),
        random_array(taps, k, nr + 3),
        random_array(tile[0], nr),
    )
    start = c.astype(np.float64) if accumulate else np.zeros(c.shape)
    run_igemm(compiled, tile, a, b, c, accumulate)
    wide, panel = a.astype(np.float64), b[:, :, :nr].astype(np.float64)
    expected = start + np.einsum("itp,tpj->ij", wide, panel)
    magnitude = np.abs(start) + np.einsum("itp,tpj->ij", np.abs(wide), np.abs(panel))
    assert (np.abs(c - expected) <= rounding_bound(magnitude, taps * k)).all()


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_a_tile_leaves_what_is_beyond_its_columns(
    compiled: CompiledC, tile: tuple[int, int]
) -> None:
    nr = tile[1] * int(compiled.functions.vector_length())
    c = np.full((tile[0], nr + 5), 7.0, np.float32)
    run_igemm(compiled, tile, random_array(tile[0], 2, 3), random_array(2, 3, nr), c, False)
    assert (c[:, nr:] == 7.0).all()


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_blocks_of_the_reduction_add_up_to_the_same_bits(
    compiled: CompiledC, tile: tuple[int, int]
) -> None:
    nr = tile[1] * int(compiled.functions.vector_length())
    a, b = random_array(tile[0], 1, 24), random_array(1, 24, nr)
    whole, blocked = (np.zeros((tile[0], nr), np.float32) for _ in range(2))
    run_igemm(compiled, tile, a, b, whole, False)
    for block in (slice(0, 7), slice(7, 24)):
        part = np.ascontiguousarray(a[:, :, block]), np.ascontiguousarray(b[:, block])
        run_igemm(compiled, tile, *part, blocked, block.start > 0)
    assert (whole == blocked).all()


def test_products_of_nan_and_infinity_follow_ieee(compiled: CompiledC) -> None:
    nr = int(compiled.functions.vector_length())
    a = np.array([[[np.inf, 1.0]]], np.float32)
    b = np.zeros((1, 2, nr), np.float32)
    b[0, 0, 1], b[0, 1, 2] = 1.0, np.nan
    c = np.zeros((1, nr), np.float32)
    run_igemm(compiled, (1, 1), a, b, c, False)
    np.testing.assert_array_equal(c[0, :3], [np.nan, np.inf, np.nan])


def test_denormal_results_are_not_flushed(compiled: CompiledC) -> None:
    nr = int(compiled.functions.vector_length())
    c = np.zeros((1, nr), np.float32)
    a, b = np.full((1, 1, 1), 1e-20, np.float32), np.full((1, 1, nr), 1e-20, np.float32)
    run_igemm(compiled, (1, 1), a, b, c, False)
    assert (c > 0).all()


CHANNELS = (1, 15, 16, 40)


@pytest.mark.parametrize(("taps", "pixels"), DWCONV)
@pytest.mark.parametrize("channels", CHANNELS)
def test_depthwise_pixels_are_weighted_sums_of_their_taps(
    compiled: CompiledC, taps: int, pixels: int, channels: int
) -> None:
    x, w = random_array(pixels, taps, channels), random_array(taps, channels + 2)
    out = np.full((pixels, channels + 1), 7.0, np.float32)
    rows = compiled.pointers(x, [i * channels for i in range(pixels * taps)])
    function = getattr(compiled.functions, f"dwconv_{taps}x{pixels}")
    weights, to = compiled.pointer(w), compiled.pointer(out)
    function(rows, weights, channels + 2, channels, to, channels + 1)
    products = x.astype(np.float64) * w[:, :channels]
    error = np.abs(out[:, :channels] - products.sum(axis=1))
    assert (error <= rounding_bound(np.abs(products).sum(axis=1), taps)).all()
    assert (out[:, channels] == 7.0).all()


@pytest.mark.parametrize("variant", DWLINE, ids=str)
@pytest.mark.parametrize("channels", CHANNELS)
def test_a_depthwise_line_is_a_convolution_without_padding(
    compiled: CompiledC, variant: tuple[int, int, int, int, int], channels: int
) -> None:
    kh, kw, stride, dilation, pixels = variant
    width = (pixels - 1) * stride + (kw - 1) * dilation + 1
    x, w = random_array(kh, width, channels), random_array(kh, kw, channels)
    out = np.zeros((pixels, channels), np.float32)
    lines = compiled.pointers(x, [y * width * channels for y in range(kh)])
    function = getattr(compiled.functions, f"dwline_{'x'.join(map(str, variant))}")
    weights, to = compiled.pointer(w), compiled.pointer(out)
    function(lines, channels, weights, channels, channels, to, channels)
    for q in range(pixels):
        columns = [q * stride + tap * dilation for tap in range(kw)]
        products = x[:, columns].astype(np.float64) * w
        error = np.abs(out[q] - products.sum(axis=(0, 1)))
        assert (error <= rounding_bound(np.abs(products).sum(axis=(0, 1)), kh * kw)).all()


@pytest.mark.parametrize("nr", [4, 48])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (5, 48), (7, 50), (3, 100)])
@pytest.mark.parametrize("transposed", [False, True])
def test_packing_at_run_time_is_packing_at_compile_time(
    compiled: CompiledC, nr: int, k: int, n: int, transposed: bool
) -> None:
    stored = random_array(n, k + 2) if transposed else random_array(k, n + 2)
    b = stored[:, :k].T if transposed else stored[:, :n]
    ld_k, ld_n = (stride // 4 for stride in b.strides)
    expected = mk.pack_panels(b, nr)
    packed = np.full(expected.size + 1, 7.0, np.float32)
    compiled.functions.pack_b(
        compiled.pointer(stored), ld_k, ld_n, k, n, nr, compiled.pointer(packed)
    )
    assert (packed[:-1] == expected.ravel()).all()
    assert packed[-1] == 7.0


@pytest.mark.parametrize(("k", "n", "nr"), [(1, 1, 16), (3, 32, 16), (4, 33, 16), (2, 5, 64)])
def test_panels_hold_the_columns_in_order_then_zeros(k: int, n: int, nr: int) -> None:
    b = random_array(k, n)
    columns = np.concatenate(list(mk.pack_panels(b, nr)), axis=1)
    assert (columns[:, :n] == b).all()
    assert not columns[:, n:].any()


def wrong_sizes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from (("igemm_source", (0, 1)), ("dwconv_source", (9, 0)))
    yield from (("dwline_source", (3, 3, 0, 1, 4)), ("prelude", (3,)))


@pytest.mark.parametrize(("function", "sizes"), list(wrong_sizes()))
def test_a_wrong_size_is_refused(function: str, sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        getattr(mk, function)(*sizes)


def test_panels_of_another_vector_length_do_not_compile(
    compiled: CompiledC, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    other = 4 if compiled.functions.vector_length() > 4 else 8
    target = TARGETS[request.node.callspec.params["compiled"]]
    with pytest.raises(ValueError, match="panels are packed for"):
        CompiledC(tmp_path, mk.prelude(other), "", target)
