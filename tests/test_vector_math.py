"""The vector functions stay within their stated bounds, keep special values, and vectorise."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from egraph_fusion.codegen import build

BOUNDS = {"exp": 1.1, "log": 1.0, "tanh": 2.0, "erf": 2.5, "sigmoid": 3.0, "softplus": 3.0}
FOLDER = files("egraph_fusion.codegen")
PRELUDE = "\n".join((FOLDER / n).read_text() for n in ("scalar_ops.h", "vector_math.h"))
LOOP = """
void v_{0}(const float *x, float *y, int64_t n) {{
    _Pragma("omp simd")
    for (int64_t i = 0; i < n; ++i) y[i] = ef_{0}_f32(x[i]);
}}
"""
SOURCE = PRELUDE + "".join(LOOP.format(name) for name in BOUNDS)
# One float in 1021, all exponents and both signs, NaNs and infinities among them.
SAMPLE = np.arange(0, 2**32, 1021, dtype=np.uint32).view(np.float32)
DENSE = np.linspace(-20, 20, 400_001, dtype=np.float32)


@pytest.fixture(scope="module", params=["native", "generic"])
def library(request: pytest.FixtureRequest) -> build.Library:
    """The functions with the machine's instructions, and without fused multiply-add."""
    declarations = "".join(f"void v_{n}(const float *x, float *y, int64_t n);" for n in BOUNDS)
    march = None if request.param == "native" else build.baseline_march()
    return build.build([build.Unit("vector math", SOURCE)], declarations, march=march)


def apply(library: build.Library, name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = np.ascontiguousarray(x, np.float32)
    y = np.empty_like(x)
    pointers = (library.ffi.cast("float *", a.ctypes.data) for a in (x, y))
    library.function(f"v_{name}")(*pointers, x.size)
    return y


def reference(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float64 results, good to a small part of a float32 ulp."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        small = np.exp(-np.abs(wide))
        match name:
            case "erf":
                return np.array([math.erf(v) for v in wide])
            case "sigmoid":
                return np.asarray(np.where(wide < 0, small, 1) / (1 + small))
            case "softplus":
                return np.asarray(np.maximum(wide, 0) + np.log1p(small))
            case _:
                return np.asarray(getattr(np, name)(wide))


def worst_ulp(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    finite = np.isfinite(got) & np.isfinite(want.astype(np.float32))
    _, exponent = np.frexp(want[finite])
    unit = np.ldexp(1.0, np.maximum(exponent - 24, -149))
    return float((np.abs(got[finite].astype(np.float64) - want[finite]) / unit).max())


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("points", [SAMPLE, DENSE], ids=["all", "dense"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_error_bound(library: build.Library, name: str, points: np.ndarray[Any, Any]) -> None:
    x = points[:: 8 if name == "erf" else 1]
    assert worst_ulp(apply(library, name, x), reference(name, x)) <= BOUNDS[name]


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
def test_special_values(library: build.Library, name: str) -> None:
    """NaN stays NaN, infinities give the limits, and nothing else turns into either."""
    got = apply(library, name, SAMPLE).astype(np.float64)
    want = reference(name, SAMPLE[::64]).astype(np.float32)
    assert np.array_equal(np.isnan(got[::64]), np.isnan(want))
    x = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    np.testing.assert_array_equal(apply(library, name, x)[:3], reference(name, x)[:3])


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_keep_the_sign_of_zero(library: build.Library, name: str) -> None:
    got = apply(library, name, np.array([0.0, -0.0], np.float32))
    assert np.signbit(got).tolist() == [False, True]


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_results_stay_within_one(library: build.Library, name: str) -> None:
    got = apply(library, name, SAMPLE[np.isfinite(SAMPLE)])
    assert np.abs(got).max() == 1.0


def test_exp_underflows_gradually_and_overflows_to_infinity(library: build.Library) -> None:
    x = np.array([-103.9, -104.1, -87.5, 88.72, 88.73], np.float32)
    got = apply(library, "exp", x)
    want = [exactly(mpmath.exp, float(v)) for v in x]
    np.testing.assert_array_equal(got[[1, 4]], np.array([0, np.inf], np.float32))
    np.testing.assert_allclose(got[[2, 3]], np.array(want)[[2, 3]], rtol=2e-7)
    assert got[0] == np.float32(1e-45)


def exactly(function: Callable[[Any], Any], x: float) -> float:
    """Evaluate with 40 digits."""
    with mpmath.workdps(40):
        return float(function(mpmath.mpf(x)))


def exact_sigmoid(v: Any) -> Any:
    return 1 / (1 + mpmath.exp(-v))


def exact_softplus(v: Any) -> Any:
    return mpmath.log1p(mpmath.exp(v))


EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp, "log": mpmath.log, "tanh": mpmath.tanh, "erf": mpmath.erf,
    "sigmoid": exact_sigmoid, "softplus": exact_softplus,
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_reference_agrees_with_many_digits(name: str) -> None:
    """The float64 oracle of this file, at points spread over its range, against mpmath."""
    points = np.array([-30.5, -3.25, -1e-3, 1e-7, 0.4, 0.95, 2.5, 17.0], np.float32)
    x = np.abs(points) if name == "log" else points
    want = [exactly(EXACT[name], float(v)) for v in x]
    np.testing.assert_allclose(reference(name, x), want, rtol=1e-14)


@pytest.mark.parametrize("name", BOUNDS)
def test_loops_vectorise(name: str, tmp_path: Path) -> None:
    """GCC reports a vector loop for each function (it tells; clang is not asked)."""
    if shutil.which("gcc") is None:
        pytest.skip("asks gcc for its report")
    source = tmp_path / "loop.c"
    source.write_text(PRELUDE + LOOP.format(name))
    flags = [*build.FLAGS, *build.target_flags(None), "-fopt-info-vec-optimized"]
    command = ["gcc", *flags, "-c", str(source), "-o", str(tmp_path / "loop.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "loop vectorized" in done.stderr
