"""Emitted text: goldens for both targets, each also run against numpy; names can't break out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden_files import GoldenFile
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import CProgram, OpenCLProgram, value
from loop_strategies import constants_of

from egraph_fusion.codegen import build
from egraph_fusion.codegen.emit import emit, launches, scratch_bytes, translation_unit
from egraph_fusion.codegen.emit_expr import Expressions, literal
from egraph_fusion.codegen.identifiers import comment, identifier
from egraph_fusion.codegen.loop_check import check
from egraph_fusion.codegen.loop_parse import parse
from egraph_fusion.codegen.loops import (
    Alloc,
    Const,
    For,
    Kernel,
    LoopKind,
    MicroKernel,
    Select,
    Store,
    Var,
    call,
)
from egraph_fusion.codegen.microkernels import PRELUDE
from egraph_fusion.codegen.targets import OPENCL, TARGETS, C
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.tensors import DType

Array = np.ndarray[Any, Any]
SOFTMAX = """\
kernel softmax(rows, n)  # "Softmax"
  in x: float32[rows * n]
  out y: float32[rows * n]
  parallel r < rows:
    var peak: float32 = float32(-inf)
    vector j < n reduce max peak:
      peak = max(peak, x[r * n + j])
    let top = peak
    var total: float32 = float32(0.0)
    vector j < n reduce add total:
      total = total + exp(x[r * n + j] - top)
    let scale = float32(1.0) / total
    vector j < n:
      y[r * n + j] = exp(x[r * n + j] - top) * scale
"""
PAD = """\
kernel pad(n)  # "Pad, Relu"
  in x: float32[n]
  out y: float32[n + 5]
  vector i < n + 5:
    let v = select(logical_and(i >= 2, i < n + 2), x[i - 2], float32(-1.5))
    y[i] = max(v, float32(0.0))
"""
GATHER = """\
kernel gather(n, rows)
  in table: float32[rows * 4]
  in ids: int64[n]
  out y: float32[n * 4]
  out seen: uint8[rows]
  for i < rows:
    seen[i] = uint8(0)
  parallel i < n grain 8:
    let id = ids[i]
    let row = select(id < 0, id + rows, id)
    unroll c < 4:
      y[i * 4 + c] = table[row * 4 + c]
    seen[row] = uint8(1)
"""
TWO_NESTS = """\
kernel two_nests(n)
  in x: float32[n * 16]
  scratch sums: float32[n]
  out y: float32[n * 16]
  let total = n * 16
  parallel i < n:  # "ReduceSum"
    var s: float32 = float32(0.0)
    vector j < 16 reduce add s:
      s = fma(x[i * 16 + j], x[i * 16 + j], s)
    sums[i] = s
  parallel p < total grain 64:
    if p // 16 == 0:
      y[p] = x[p]
    else:
      y[p] = x[p] / sums[p // 16] + cast(float32, p % 16)
"""
SCRATCH = """\
kernel scratch_rows(n)
  in x: float32[n * n]
  out y: float32[n * n]
  parallel i < n:
    alloc row: float32[n * 40]
    alloc small: int32[8]
    for j < n:
      row[j * 40] = x[j * n + i]
      small[j % 8] = int32(2)
    for j < n:
      y[i * n + j] = row[j * 40] * cast(float32, small[j % 8])
"""
TILE = """\
kernel tile(k, width)  # "MatMul, Relu"
  in x: float32[k * 5]
  const w: float32[k * width]
  out y: float32[width * 6]
  parallel t < 1:
    alloc acc: float32[width * 6]
    pointers rows[6]
    for r < 5:
      point rows[r] = x[r * k]
    point rows[5] = zeros[0]
    call igemm[6, 1](table(rows[0]), 1, k, pointer(w[0]), width, pointer(acc[0]), width, 0)
    vector j < width * 6:
      y[j] = max(acc[j], float32(0.0))
"""
HALF = """\
kernel half_scale(n)
  in x: float16[n]
  in flag: bool[n]
  out y: float16[n]
  out z: bool[n]
  out w: bfloat16[n]
  vector i < n:
    y[i] = x[i] * float16(1.5)
    z[i] = logical_or(flag[i], x[i] > float16(2.0))
    w[i] = cast(bfloat16, x[i])
"""
RNG = np.random.default_rng(0)


def f32(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def softmax_case() -> tuple[dict[str, Array], dict[str, int], dict[str, Array]]:
    x = f32(5, 37)
    x[2] = -np.inf
    x[2, 3] = 1.0
    x[3, 4] = np.nan
    wide = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    want = wide / wide.sum(axis=1, keepdims=True)
    return {"x": x, "y": np.zeros_like(x)}, {"rows": 5, "n": 37}, {"y": want}


def pad_case() -> tuple[dict[str, Array], dict[str, int], dict[str, Array]]:
    x = f32(19)
    want = np.maximum(np.pad(x, (2, 3), constant_values=-1.5), 0)
    return {"x": x, "y": np.zeros(24, np.float32)}, {"n": 19}, {"y": want}


def gather_case() -> tuple[dict[str, Array], dict[str, int], dict[str, Array]]:
    table, ids = f32(9, 4), np.array([0, -1, 3, 3, -9, 8, 2, 5, 1, 0], np.int64)
    seen = np.isin(np.arange(9), ids % 9).astype(np.uint8)
    outputs: dict[str, Array] = {
        "y": np.zeros((10, 4), np.float32),
        "seen": np.full(9, 7, np.uint8),
    }
    arrays = {"table": table, "ids": ids, **outputs}
    return arrays, {"n": 10, "rows": 9}, {"y": table[ids], "seen": seen}


def two_nests_case() -> tuple[dict[str, Array], dict[str, int], dict[str, Array]]:
    x = f32(7, 16)
    wide = x.astype(np.float64)
    want = wide / (wide**2).sum(axis=1, keepdims=True) + np.arange(16)
    want[0] = x[0]
    arrays = {"x": x, "sums": np.zeros(7, np.float32), "y": np.zeros_like(x)}
    return arrays, {"n": 7}, {"y": want}


def scratch_case() -> tuple[dict[str, Array], dict[str, int], dict[str, Array]]:
    x = f32(33, 33)
    return {"x": x, "y": np.zeros_like(x)}, {"n": 33}, {"y": 2.0 * x.T}


def tile_case(width: int = 16) -> tuple[dict[str, Array], dict[str, int], dict[str, Array]]:
    x, w = f32(5, 12), f32(12, width)
    want = np.zeros((6, width))
    want[:5] = np.maximum(x.astype(np.float64) @ w, 0)
    arrays = {"x": x, "w": w, "y": np.zeros((6, width), np.float32)}
    return arrays, {"k": 12, "width": width}, {"y": want}


def half_case() -> tuple[dict[str, Array], dict[str, int], dict[str, Array]]:
    x = (RNG.normal(size=40) * 3).astype(np.float16)
    flag = np.arange(40) % 3 == 0
    w = np.zeros(40, DType.BFLOAT16.numpy)
    arrays: dict[str, Array] = {
        "x": x,
        "flag": flag,
        "y": np.zeros_like(x),
        "z": np.zeros(40, bool),
        "w": w,
    }
    wide = x.astype(np.float32)
    want_y = (wide * np.float32(1.5)).astype(np.float16)
    return arrays, {"n": 40}, {"y": want_y, "z": flag | (x > 2), "w": wide.astype(w.dtype)}


Case = Callable[..., tuple[dict[str, Array], dict[str, int], dict[str, Array]]]
CASES: dict[str, tuple[str, Case]] = {
    "softmax": (SOFTMAX, softmax_case),
    "pad": (PAD, pad_case),
    "gather": (GATHER, gather_case),
    "two_nests": (TWO_NESTS, two_nests_case),
    "scratch": (SCRATCH, scratch_case),
    "half": (HALF, half_case),
    "tile": (TILE, tile_case),
}
KERNELS = {name: parse(source) for name, (source, _) in CASES.items()}


@pytest.fixture(scope="module")
def c_program() -> CProgram:
    return CProgram(list(KERNELS.values()))


@pytest.fixture(scope="module")
def opencl_program() -> OpenCLProgram:
    return OpenCLProgram(list(KERNELS.values()))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_text(name: str, target: str, golden: GoldenFile) -> None:
    golden(emit([KERNELS[name]], TARGETS[target]))


def assert_runs(program: CProgram | OpenCLProgram, name: str, **chosen: int) -> None:
    arrays, sizes, want = CASES[name][1](**chosen)
    program.run(KERNELS[name], arrays, **sizes)
    for output, expected in want.items():
        got = arrays[output].astype(np.float64)
        np.testing.assert_allclose(got, expected.astype(np.float64), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n != "tile"])
def test_runs_in_c(c_program: CProgram, name: str) -> None:
    assert_runs(c_program, name)


@pytest.mark.opencl
@pytest.mark.parametrize("name", CASES)
def test_runs_in_opencl(opencl_program: OpenCLProgram, name: str) -> None:
    assert_runs(opencl_program, name)


def test_micro_kernel_runs_in_c(c_program: CProgram) -> None:
    """The tile is as wide as the vectors of this machine."""
    source = f"{PRELUDE}\nint vector_floats(void) {{ return EF_VL; }}"
    asked = build.build([build.Unit("width", source)], "int vector_floats(void);")
    assert_runs(c_program, "tile", width=asked.function("vector_floats")())


def test_micro_kernels_are_defined_once_each() -> None:
    text = translation_unit([KERNELS["tile"], KERNELS["tile"]], C, 16)
    assert text.count("void igemm_6x1(const float") == 1
    assert "_Static_assert(EF_VL == 16" in text


def test_unknown_micro_kernel_is_refused() -> None:
    kernel = Kernel("k", (), (), (MicroKernel("magic", (), ()),))
    with pytest.raises(CompileError, match="'magic' is unknown for c"):
        translation_unit([kernel])


def test_launches_give_iterations_in_sizes() -> None:
    found = launches(KERNELS["two_nests"])
    assert [launch.symbol for launch in found] == ["k_two_nests_0", "k_two_nests_1"]
    assert [value(launch.items, {"n": 7}) for launch in found] == [7, 112]


def test_scratch_counts_what_does_not_fit_the_stack() -> None:
    kernel = KERNELS["scratch"]
    assert value(scratch_bytes(kernel, C), {"n": 33}) == 33 * 40 * 4 // 64 * 64 + 64
    assert value(scratch_bytes(KERNELS["tile"], C), {"k": 4, "width": 16}) == 384
    assert value(scratch_bytes(KERNELS["tile"], OPENCL), {"k": 4, "width": 16}) == 384


def test_large_constant_scratch_leaves_the_stack() -> None:
    allocs = (Alloc("a", DType.FLOAT32, Const(5000)), Alloc("b", DType.FLOAT64, Const(4000)))
    kernel = Kernel("k", (), (), (For("i", Const(1), allocs, LoopKind.PARALLEL),))
    assert scratch_bytes(kernel, C) == Const(20032 + 32000)


@pytest.mark.parametrize(
    "note",
    ["*/ int main() {}", "a\nb", "a\\", "??/", "/* nested", "\u202e", "a\x00b", "x" * 5000],
)
def test_comments_hold_nothing_dangerous(note: str) -> None:
    shown = comment(note)
    assert shown.startswith("/* ")
    assert shown.index("*/") == len(shown) - 2
    assert shown.isascii()
    assert not set("\n\\?\x00") & set(shown)
    assert len(shown) < 200


@settings(max_examples=60)
@given(st.text())
def test_any_note_is_safe(note: str) -> None:
    kernel = Kernel("k", (), (), (For("i", Const(1), (), note=note),), note=note)
    lines = emit([kernel]).splitlines()
    plain = emit([Kernel("k", (), (), (For("i", Const(1), ()),))]).splitlines()
    assert [line for line in lines if "/*" not in line] == plain


@pytest.mark.parametrize(
    "name", ["int", "half", "exp", "float4", "begin", "ef_call", "get_local_id"]
)
def test_names_that_mean_something_else_are_changed(name: str) -> None:
    assert identifier(name) != name


@given(st.lists(st.sampled_from(["int", "int_", "int__", "x", "x_", "ef_x", "k_0"]), unique=True))
def test_different_names_stay_different(names: list[str]) -> None:
    assert len({identifier(name) for name in names}) == len(names)


EXPRESSIONS = [
    (Var("i") - (Var("j") - Var("k")), "i - (j - k)"),
    ((Var("i") + 1) * 2, "(i + 1) * 2"),
    (Var("i") // 4, "i / 4"),
    (Var("i") % 4, "i % 4"),
    (Var("s") // 4, "ef_floordiv_i64(s, 4)"),
    (Var("i") // Var("n"), "ef_floordiv_i64(i, n)"),
    (Var("i") // Var("p"), "i / p"),
    (call("max", Var("x", DType.FLOAT32), Const(0.0, DType.FLOAT32)), "ef_limit_max_f32(0.0f, x)"),
    (call("max", Var("x", DType.FLOAT32), Var("y", DType.FLOAT32)), "ef_max_f32(x, y)"),
    (call("add", Var("b", DType.INT8), Var("c", DType.INT8)), "(int8_t)(b + c)"),
    (Select(Var("i") < 3, Var("i"), Const(3)), "(i < 3) ? i : 3"),
    (Const(2**40) * 2**40, "1099511627776L * 1099511627776L"),
    (Const(100000) * 100000, "100000L * 100000"),
]


@pytest.mark.parametrize(("expr", "expected"), EXPRESSIONS, ids=[e for _, e in EXPRESSIONS])
def test_expression(expr: Any, expected: str) -> None:
    ranges = {"i": (0, 99), "n": (0, None), "p": (1, None)}
    assert Expressions(ranges)(expr) == expected


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (0.1, DType.FLOAT32, "0.1f"),
        (1e30, DType.FLOAT32, "1e+30f"),
        (-0.0, DType.FLOAT32, "(-0.0f)"),
        (1.0, DType.FLOAT64, "1.0"),
        (float("-inf"), DType.FLOAT32, "(-INFINITY)"),
        (1e300, DType.FLOAT32, "INFINITY"),
        (70000.0, DType.FLOAT16, "INFINITY"),
        (0.1, DType.FLOAT16, "0.099975586f"),
        (-(2**63), DType.INT64, "(-9223372036854775807L - 1)"),
        (2**64 - 1, DType.UINT64, "18446744073709551615UL"),
        (2**32 - 1, DType.UINT32, "4294967295U"),
        (-5, DType.INT8, "(-5)"),
        (True, DType.BOOL, "true"),
    ],
)
def test_literal(number: float, dtype: DType, expected: str) -> None:
    assert literal(number, dtype) == expected


@given(constants_of(DType.FLOAT32))
def test_float_literals_name_the_same_float(const: Const) -> None:
    shown = literal(const.value, const.dtype).strip("()").removeprefix("float)")
    read = float(shown.removesuffix("f").replace("INFINITY", "inf").replace("NAN", "nan"))
    np.testing.assert_equal(np.float32(read), np.float32(const.value))


def test_equal_kernels_give_equal_text() -> None:
    assert emit([parse(SOFTMAX)]) == emit([parse(SOFTMAX)])


def test_every_case_is_well_formed() -> None:
    for kernel in KERNELS.values():
        check(kernel)


def test_a_store_without_loops_is_a_serial_nest() -> None:
    kernel = Kernel("k", (), (), (Store("y", Const(0), Const(1)),))
    assert "ef_parallel" not in emit([kernel])
