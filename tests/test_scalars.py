"""Every scalar operator and cast, compiled and run on every dtype, against numpy in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from kernel_runner import CProgram, OpenCLProgram

from egraph_fusion.codegen.loops import (
    Buffer,
    Call,
    Cast,
    Const,
    For,
    Kernel,
    Load,
    LoopKind,
    Role,
    Store,
    Var,
    dtype_of,
)
from egraph_fusion.codegen.scalars import SCALARS, SUFFIXES, class_of
from egraph_fusion.errors import CompileError
from egraph_fusion.ir.tensors import DType

Array = np.ndarray[Any, Any]
FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)
CASES = [(s.name, d) for s in SCALARS.values() for d in SUFFIXES if class_of(d) & s.accepts]
CASTS = list(itertools.product(SUFFIXES, SUFFIXES))
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 10.0, 1e-3, -88.0, 88.0]
EXTREME = [math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e30, -1e30, 104.0, -104.0]
# The preludes promise these bounds, in units in the last place; unnamed operators round once.
ULPS = {"exp": 2, "log": 2, "tanh": 3, "erf": 3, "sigmoid": 4, "softplus": 4, "rsqrt": 2, "fma": 1}
LIBRARY_ULPS = 5
_LIBRARY = "pow log1p expm1 sin cos tan asin acos atan sinh cosh asinh acosh atanh fmod floormod"
LIBRARY = _LIBRARY.split()


def _fma(a: Array, b: Array, c: Array) -> Array:
    return np.asarray((a.astype(np.longdouble) * b + c).astype(np.float64))


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1) / (1 + small))


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x])


NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "pow": np.power, "fmod": np.fmod,
    "min": np.minimum, "max": np.maximum, "floordiv": np.floor_divide, "floormod": np.mod,
    "fma": _fma,
    "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sqrt": np.sqrt,
    "rsqrt": _rsqrt, "reciprocal": np.reciprocal, "exp": np.exp, "log": np.log,
    "log1p": np.log1p, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": _erf, "sigmoid": _sigmoid, "softplus": _softplus,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isnan": np.isnan, "isinf": np.isinf, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "bit_not": np.invert, "shift_left": np.left_shift, "shift_right": np.right_shift,
    "div": np.divide,
}  # fmt: skip


def operands(arity: int, dtype: DType) -> list[Array]:
    """Operand arrays: all combinations of edge values, then random ones."""
    columns = list(zip(*itertools.product(*[edge_values(dtype)] * arity), strict=True))
    rng = np.random.default_rng(1)
    edges = [np.array(c).astype(dtype.numpy) for c in columns]
    if not dtype.is_float:
        return edges
    return [np.concatenate([e, (rng.normal(size=64) * 4).astype(dtype.numpy)]) for e in edges]


def edge_values(dtype: DType) -> list[Any]:
    """Return the numbers near which implementations differ."""
    if dtype is DType.BOOL:
        return [False, True]
    if dtype.is_float:
        return SPECIAL + EXTREME
    info = np.iinfo(dtype.numpy)
    small = (0, 1, 2, 3, 7, 31, 63, 64, -1, -2, -7)
    numbers = {v for v in (*small, info.min, info.max) if info.min <= v <= info.max}
    return list(np.array(sorted(numbers), dtype.numpy))


def expected(op: str, dtype: DType, values: list[Array]) -> Array:
    """The float64 result, or the exact integer one."""
    if dtype.is_float:
        return np.asarray(NUMPY[op](*(v.astype(np.float64) for v in values)))
    if dtype is not DType.BOOL and op in INTEGER:
        width = 8 * dtype.itemsize
        wide = [[int(v) for v in column] for column in values]
        exact = [INTEGER[op](*row, width) for row in zip(*wide, strict=True)]
        return (
            np.array([v % 2**width for v in exact], dtype=object)
            .astype(f"uint{width}")
            .astype(dtype.numpy)
        )
    return np.asarray(NUMPY[op](*values))


def _truncated(a: int, b: int, _: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int, width: int) -> int:
    return a - _truncated(a, b, width) * b if b else 0


def _floor(a: int, b: int, _: int) -> int:
    return a // b if b else 0


def _modulo(a: int, b: int, _: int) -> int:
    return a % b if b else 0


def _left(a: int, b: int, width: int) -> int:
    return a << b if 0 <= b < width else 0


def _right(a: int, b: int, width: int) -> int:
    return a >> (b if 0 <= b < width else width)  # beyond the width: the sign, as ONNX's tests want


def _power(a: int, b: int, width: int) -> int:
    if b >= 0:
        return int(pow(a, b, 2**width))
    return 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0


def _magnitude(a: int, _: int) -> int:
    return abs(a)


INTEGER: dict[str, Callable[..., int]] = {
    "div": _truncated, "fmod": _remainder, "floordiv": _floor, "floormod": _modulo,
    "shift_left": _left, "shift_right": _right, "pow": _power, "abs": _magnitude,
}  # fmt: skip


def operators_of(dtype: DType, arity: int) -> list[str]:
    """Return the operators of one signature: one kernel computes them all."""
    return [op for op, d in CASES if d is dtype and SCALARS[op].arity == arity]


def operator_kernel(dtype: DType, arity: int) -> Kernel:
    """For each operator: OP[i] = op(x0[i], x1[i], ...) over n elements."""
    operands = tuple(Load(f"x{k}", Var("i"), dtype) for k in range(arity))
    values = {f"o_{op}": Call(op, operands) for op in operators_of(dtype, arity)}
    return _map_kernel(f"ops{arity}_{dtype.value}", dtype, arity, values)


def cast_kernel(source: DType) -> Kernel:
    """For each dtype: TO[i] = cast(x0[i])."""
    values = {f"o_{to.value}": Cast(to, Load("x0", Var("i"), source)) for to in SUFFIXES}
    return _map_kernel(f"casts_{source.value}", source, 1, values)


def _map_kernel(name: str, dtype: DType, arity: int, values: Mapping[str, Call | Cast]) -> Kernel:
    n, i = Var("n"), Var("i")
    inputs = [Buffer(f"x{k}", dtype, Role.IN, n) for k in range(arity)]
    outputs = [Buffer(out, dtype_of(value), Role.OUT, n) for out, value in values.items()]
    loops = (For("i", n, (Store(out, i, value),), LoopKind.VECTOR) for out, value in values.items())
    outer = For("chunk", Const(1), tuple(loops), LoopKind.PARALLEL)
    return Kernel(name, (*inputs, *outputs), ("n",), (outer,))


SIGNATURES = sorted({(d, SCALARS[op].arity) for op, d in CASES}, key=str)
OPERATORS = {signature: operator_kernel(*signature) for signature in SIGNATURES}
CONVERSIONS = {source: cast_kernel(source) for source in SUFFIXES}
KERNELS = [*OPERATORS.values(), *CONVERSIONS.values()]


@pytest.fixture(autouse=True)
def numpy_is_quiet() -> Iterator[None]:
    """The edge values overflow and divide by zero on purpose."""
    with np.errstate(all="ignore"):
        yield


class Results:
    """What one target computes; each kernel runs once on all its operands."""

    def __init__(self, program: CProgram | OpenCLProgram) -> None:
        self.program = program
        self.known: dict[str, dict[str, Array]] = {}

    def of(self, kernel: Kernel, values: list[Array]) -> dict[str, Array]:
        """Return the outputs of `kernel` by name."""
        if kernel.name not in self.known:
            self.known[kernel.name] = self.run(kernel, values)
        return self.known[kernel.name]

    def run(self, kernel: Kernel, values: list[Array]) -> dict[str, Array]:
        """Run `kernel` on `values`."""
        size = values[0].size
        arrays = {f"x{k}": np.ascontiguousarray(v) for k, v in enumerate(values)}
        written = [b for b in kernel.buffers if b.role is Role.OUT]
        outputs = {b.name: np.zeros(size, b.dtype.numpy) for b in written}
        self.program.run(kernel, {**arrays, **outputs}, n=size)
        return outputs


@pytest.fixture(scope="module")
def in_c() -> Results:
    return Results(CProgram(KERNELS))


@pytest.fixture(scope="module")
def in_opencl() -> Results:
    return Results(OpenCLProgram(KERNELS))


def assert_operator(results: Results, op: str, dtype: DType) -> None:
    values = operands(SCALARS[op].arity, dtype)
    got = results.of(OPERATORS[dtype, SCALARS[op].arity], values)[f"o_{op}"]
    want = expected(op, dtype, values)
    if got.dtype.kind != "f" and got.dtype.name != "bfloat16":
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    keep = [i for i in range(got.size) if comparable(op, *(float(v[i]) for v in values))]
    assert_close(got[keep], want[keep], tolerance(op, dtype))


def tolerance(op: str, dtype: DType) -> float:
    """Units in the last place; the 16-bit floats hide all errors but those of rounding."""
    if dtype in (DType.FLOAT16, DType.BFLOAT16):
        return 1.01
    if op in LIBRARY or (op in ULPS and dtype is DType.FLOAT64):
        return LIBRARY_ULPS
    return ULPS.get(op, 0.5) + 1e-6


def comparable(op: str, *values: float) -> bool:
    """Leave out where float64 and a narrower machine rightly part: huge quotients and angles."""
    if op in ("floormod", "fmod"):
        a, b = values
        return (
            math.isfinite(a) and math.isfinite(b) and b != 0 and abs(a / b) < 1e3 and abs(b) > 1e-30
        )
    if op in ("sin", "cos", "tan"):
        return not 1e4 < abs(values[0]) < math.inf
    return True


def assert_close(got: Array, want: Array, ulps: float) -> None:
    """Compare with float64 results in units in the last place of the result's dtype."""
    dtype = DType.of(got.dtype)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype).astype(np.float64)
    found = got.astype(np.float64)
    special = ~np.isfinite(rounded) | ~np.isfinite(found)
    largest = {DType.FLOAT64: 1.7e308, DType.FLOAT16: 65504.0}.get(dtype, 3.38e38)
    overflowing = np.isfinite(want) & (np.abs(want) > largest * 0.999)
    np.testing.assert_array_equal(found[special & ~overflowing], rounded[special & ~overflowing])
    digits, low = {
        DType.FLOAT64: (53, -1074), DType.FLOAT32: (24, -149),
        DType.FLOAT16: (11, -24), DType.BFLOAT16: (8, -133),
    }[dtype]  # fmt: skip
    _, exponent = np.frexp(np.where(special, 1.0, want))
    unit = np.ldexp(1.0, np.maximum(exponent - digits, low))
    error = np.abs(np.where(special, 0, found - want)) / unit
    assert error.max(initial=0) <= ulps, (error.argmax(), got[error.argmax()], want[error.argmax()])


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o}-{d.value}" for o, d in CASES])
def test_operator_in_c(in_c: Results, op: str, dtype: DType) -> None:
    assert_operator(in_c, op, dtype)


@pytest.mark.opencl
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o}-{d.value}" for o, d in CASES])
def test_operator_in_opencl(in_opencl: Results, op: str, dtype: DType) -> None:
    assert_operator(in_opencl, op, dtype)


def assert_cast(results: Results, source: DType, to: DType) -> None:
    """Compare where ONNX defines the result: in range if an integer is asked for."""
    values = np.array(edge_values(source)).astype(source.numpy)
    got = results.of(CONVERSIONS[source], [values])[f"o_{to.value}"]
    keep = np.ones(values.shape, bool)
    if source.is_float and to.is_integer:
        info, wide = np.iinfo(to.numpy), values.astype(np.float64)
        keep = (wide > float(info.min) - 1) & (wide < min(float(info.max), 2.0**62))
    want = values.astype(to.numpy).astype(np.float64)
    np.testing.assert_array_equal(got[keep].astype(np.float64), want[keep])


CAST_IDS = [f"{a.value}-{b.value}" for a, b in CASTS]


@pytest.mark.parametrize(("source", "to"), CASTS, ids=CAST_IDS)
def test_cast_in_c(in_c: Results, source: DType, to: DType) -> None:
    assert_cast(in_c, source, to)


@pytest.mark.opencl
@pytest.mark.parametrize(("source", "to"), CASTS, ids=CAST_IDS)
def test_cast_in_opencl(in_opencl: Results, source: DType, to: DType) -> None:
    assert_cast(in_opencl, source, to)


@pytest.mark.parametrize("to", [DType.INT8, DType.INT32, DType.INT64, DType.UINT64])
def test_cast_of_nan_and_infinity_is_a_fixed_number(in_c: Results, to: DType) -> None:
    values = np.array([math.nan, math.inf, -math.inf], np.float32)
    got = in_c.run(CONVERSIONS[DType.FLOAT32], [values])[f"o_{to.value}"]
    lowest = {DType.INT8: 0, DType.UINT64: 2**63}.get(to)
    assert set(got.tolist()) == {int(np.iinfo(to.numpy).min) if lowest is None else lowest}


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16], ids=lambda d: d.value)
def test_every_16_bit_float_survives_a_round_trip(in_c: Results, dtype: DType) -> None:
    values = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    wide = in_c.run(CONVERSIONS[dtype], [values])[f"o_{DType.FLOAT32.value}"]
    np.testing.assert_array_equal(wide, values.astype(np.float32))
    back = in_c.run(CONVERSIONS[DType.FLOAT32], [wide])[f"o_{dtype.value}"]
    np.testing.assert_array_equal(back.astype(np.float32), wide)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16], ids=lambda d: d.value)
def test_rounding_to_16_bits_is_to_nearest_even(in_c: Results, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    halfway = (bits[:1000] & 0xFFFF0000) | 0x8000
    values = np.concatenate([bits, halfway, (bits[:1000] & 0xFFFFE000) | 0x1000]).view(np.float32)
    with np.errstate(all="ignore"):
        want = values.astype(dtype.numpy).astype(np.float32)
    got = in_c.run(CONVERSIONS[DType.FLOAT32], [values])[f"o_{dtype.value}"]
    np.testing.assert_array_equal(got.astype(np.float32), want)


def test_strings_are_refused() -> None:
    with pytest.raises(CompileError, match="string"):
        class_of(DType.STRING)
