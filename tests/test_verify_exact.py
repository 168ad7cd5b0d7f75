"""The exact meaning of operators: against the registry's numbers, and against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import SAMPLES, Sample

from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.exact_functions import RealFunctions
from egraph_fusion.rulesets.exact_numbers import UNDEFINED, Interval, Rounding, Value, from_array
from egraph_fusion.rulesets.exact_operators import NoMeaningError, apply_exactly

REALS = RealFunctions()
FLOAT32 = RealFunctions(rounding=Rounding.of(DType.FLOAT32))
LARGEST = 200
WITHOUT = ("DequantizeLinear", "QuantizeLinear", "DynamicQuantizeLinear", "Cast", "IsInf")
"""Operators whose samples convert to other dtypes or hold infinities."""


def _usable(s: Sample) -> bool:
    floats = [o for o in s.operands if o is not None and o.dtype.kind == "f"]
    elements = sum(o.size for o in s.operands if o is not None)
    finite = all(np.isfinite(o).all() for o in floats)
    one_dtype = len({o.dtype for o in floats}) == 1
    return one_dtype and finite and elements <= LARGEST and s.op not in WITHOUT


def _exactly(scalars: RealFunctions, s: Sample, attrs: Any) -> tuple[Any, ...]:
    operands = [o if o is None or o.dtype.kind in "iu" else from_array(o) for o in s.operands]
    return apply_exactly(scalars, s.op, operands, attrs)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if _usable(s)], ids=str)
def test_float_results_lie_in_their_enclosures(sample: Sample) -> None:
    attrs = normalized(OPERATORS[sample.op], types_of(sample.operands), sample.attrs)
    try:
        found = _exactly(FLOAT32, sample, attrs)
    except NoMeaningError:
        pytest.skip("no meaning over the reals")
    for want, got in zip(OPERATORS[sample.op].evaluate(sample.operands, attrs), found, strict=True):
        assert want.shape == got.shape
        for value, around in zip(want.reshape(-1).tolist(), got.reshape(-1), strict=True):
            if isinstance(around, Interval):
                assert around.lo <= value <= around.hi
            elif isinstance(around, Fraction | bool):
                assert value == around


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "erf", "sigmoid", "sin", "atan"])
def test_reals_are_enclosed_to_a_hundred_digits(name: str) -> None:
    mpmath: Any = import_module("mpmath")
    with mpmath.workdps(200):
        x = mpmath.mpf("0.7")
        truth = 1 / (1 + mpmath.exp(-x)) if name == "sigmoid" else getattr(mpmath, name)(x)
        found = getattr(REALS, name)(Fraction(7, 10))
        assert found.lo <= truth <= found.hi
        assert found.hi - found.lo < mpmath.mpf("1e-110")


@given(st.fractions(-4, 4), st.fractions(-4, 4))
def test_arithmetic_is_exact(x: Fraction, y: Fraction) -> None:
    assert REALS.add(x, y) == x + y
    assert REALS.mul(x, y) == x * y
    assert REALS.div(x, y) == (x / y if y else UNDEFINED)


@given(st.floats(-100, 100, width=32), st.floats(-100, 100, width=32))
def test_enclosures_hold_what_floats_give(x: float, y: float) -> None:
    a, b = np.float32(x), np.float32(y)
    for name, value in (("add", a + b), ("sub", a - b), ("mul", a * b)):
        found = getattr(FLOAT32, name)(Fraction(x), Fraction(y))
        around = FLOAT32.interval(found)
        assert around.lo <= float(value) <= around.hi


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("sqrt", (-1,)),
        ("log", (0,)),
        ("log", (-2,)),
        ("div", (1, 0)),
        ("reciprocal", (0,)),
        ("acos", (2,)),
        ("acosh", (0,)),
        ("atanh", (1,)),
        ("pow", (0, -1)),
        ("pow", (-1, Fraction(1, 2))),
    ],
)
def test_partial_operators_are_undefined(name: str, operands: tuple[Any, ...]) -> None:
    assert getattr(REALS, name)(*map(Fraction, operands)) is UNDEFINED


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceMean"])
def test_reductions_of_nothing_are_undefined(op: str) -> None:
    attrs: dict[str, AttrValue] = {"axes": (0,), "keepdims": 0}
    (found,) = apply_exactly(REALS, op, [from_array(np.zeros((0, 2)))], attrs)
    assert list(found) == [UNDEFINED, UNDEFINED]


@pytest.mark.parametrize(("x", "rounded"), [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2)])
def test_ties_round_to_even(x: float, rounded: int) -> None:
    assert REALS.round(Fraction(x)) == rounded


def test_the_first_of_equal_elements_is_the_largest() -> None:
    attrs: dict[str, AttrValue] = {"axis": 0, "keepdims": 0, "select_last_index": 0}
    (found,) = apply_exactly(REALS, "ArgMax", [from_array(np.array([1.0, 3.0, 3.0]))], attrs)
    assert found[()] == 1


def test_a_selected_value_does_not_depend_on_the_other() -> None:
    assert REALS.select(True, Fraction(1), UNDEFINED) == 1


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT32, DType.FLOAT64])
def test_rounding_facts_are_those_of_numpy(dtype: DType) -> None:
    info, found = np.finfo(dtype.numpy), Rounding.of(dtype)
    assert float(found.unit) == float(info.eps) / 2
    assert float(found.tiny) == float(info.smallest_subnormal)
    assert found.holds(Fraction(float(info.max)))
    assert not found.holds(1 + Fraction(float(info.eps)) / 2)


def _enclosed(x: Value) -> Interval:
    assert isinstance(x, Interval)
    return x


def test_equal_irrational_numbers_are_equal_to_a_hundred_digits() -> None:
    two, three = Fraction(2), Fraction(3)
    product = REALS.mul(REALS.sqrt(two), REALS.sqrt(three))
    assert REALS.compare(product, REALS.sqrt(Fraction(6))) is True
    assert REALS.compare(product, REALS.sqrt(6 + Fraction(1, 10**95))) is False
    assert math.isclose(float(_enclosed(product).lo), math.sqrt(6))
