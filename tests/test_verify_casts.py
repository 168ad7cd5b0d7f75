"""Verification of conversions: a narrower floating-point dtype rounds, overflows and vanishes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egraph_fusion import rulesets
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.exact_functions import RealFunctions
from egraph_fusion.rulesets.exact_numbers import UNDEFINED, UNKNOWN, Interval, Rounding
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.verification import verify

a, b, c = rulesets.tensors("a b c")
cast = ops.cast
REALS = RealFunctions()
FLOATS = [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64]


def _half(x: rulesets.Pattern) -> rulesets.Pattern:
    return cast(x, to="float16")


WRONG: dict[str, Rule] = {
    "through float16": rule("r", cast(_half(a), to="float32"), cast(a, to="float32")),
    "through float32": rule(
        "r", cast(cast(a, to="float32"), to="float64"), cast(a, to="float64"), level="finite"
    ),
    "at level real": rule("r", cast(_half(a), to="float32"), cast(a, to="float32"), level="real"),
    "sums": rule("r", _half(a + b), _half(a) + _half(b)),
    "doubles, where subnormal": rule("r", _half(a * 0.5), _half(a) * 0.5),
    "of functions": rule(
        "r", cast(_half(ops.exp(a)), to="float32"), cast(ops.exp(a), to="float32")
    ),
    "overflow": rule("r", cast(_half(a), to="float32") * 0.0, cast(a, to="float32") * 0.0),
    "integers": rule(
        "r", cast(cast(cast(a, to="int64"), to="float16"), to="int64"), cast(a, to="int64")
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", [0, 1])
def test_wrong_rules_fall(name: str, seed: int) -> None:
    found = verify(WRONG[name], seed=seed, max_examples=100, check_guards=False)
    assert found.counterexample is not None, str(found)


RIGHT: dict[str, Rule] = {
    "through float64": rule("r", cast(cast(a, to="float64"), to="float32"), cast(a, to="float32")),
    "twice": rule("r", _half(cast(_half(a), to="float32")), _half(a)),
    "signs": rule("r", _half(-a), -_half(a)),
    "selection": rule("r", _half(ops.where(c, a, b)), ops.where(c, _half(a), _half(b))),
    "orders": rule(
        "r",
        _half(ops.max(a, b)),
        ops.max(_half(a), _half(b)),
        [guards.nonneg(a), guards.nonneg(b)],
    ),
    "of functions": rule("r", _half(ops.exp(a + b)), _half(ops.exp(b + a))),
    "arithmetic of float16": rule(
        "r", _half(a) * _half(c) + _half(b) * _half(c), (_half(a) + _half(b)) * _half(c)
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_stand(name: str) -> None:
    found = verify(RIGHT[name], max_examples=100, check_guards=False)
    assert found.ok, str(found)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.value)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_is_that_of_numpy(dtype: DType, x: float) -> None:
    if dtype is DType.BFLOAT16:  # whose library rounds float64 to float32 first
        x = float(np.clip(x, -1e38, 1e38).astype(np.float32))
    with np.errstate(all="ignore"):
        want = float(np.asarray(x).astype(dtype.numpy))
    found = REALS.rounded(dtype, Fraction(x))
    assert found == (Fraction(want) if math.isfinite(want) else UNDEFINED)


def test_halfway_numbers_go_to_the_even_one() -> None:
    one, ulp = Fraction(1), Fraction(1, 2**10)
    half = Rounding.of(DType.FLOAT16)
    assert half.nearest(one + ulp / 2) == one
    assert half.nearest(one + ulp * 3 / 2) == one + 2 * ulp
    assert half.nearest(half.tiny / 2) == 0
    assert half.nearest(half.tiny * 3 / 2) == 2 * half.tiny
    assert half.nearest(Fraction(65504)) == half.nearest(Fraction(65519)) == half.largest == 65504
    assert half.nearest(Fraction(-65520)) is None


def test_intervals_are_rounded_at_both_ends() -> None:
    def around(lo: str, hi: str) -> Interval:
        return Interval(REALS.mp.mpf(lo), REALS.mp.mpf(hi))

    assert REALS.rounded(DType.FLOAT16, around("1.1", "1.1000001")) == Fraction(
        float(np.float16(1.1))
    )
    wide = REALS.rounded(DType.FLOAT16, around("1.1", "1.2"))
    assert isinstance(wide, Interval)
    assert (float(wide.lo), float(wide.hi)) == (float(np.float16(1.1)), float(np.float16(1.2)))
    assert REALS.rounded(DType.FLOAT16, around("1e400", "1e9000")) is UNDEFINED
    assert REALS.rounded(DType.FLOAT16, around("-1e9", "1e9")) is UNKNOWN
    assert REALS.rounded(DType.FLOAT64, around("-1e-5000", "1e-400")) == 0
