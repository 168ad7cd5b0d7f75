"""Verification at the numbers that a rule speaks of: at, beside and between them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from egraph_fusion import rulesets
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_numbers import values_near, values_near_zero
from egraph_fusion.rulesets.verify_report import as_junit, as_text, summary, verdict
from egraph_fusion.rulesets.verify_result import Checked
from egraph_fusion.rulesets.verify_search import settings_of

a, b = rulesets.tensors("a b")
less, equal, where = ops.less, ops.equal, ops.where
float_of = ops.cast
WRONG = {
    "equal to 7": rule("r", where(equal(a, 7.0), 0.0, a), a),
    "equal to 12345": rule("r", where(equal(a, 12345.0), 0.0, a), a),
    "equal to a tenth": rule("r", where(equal(a, 0.1), 0.0, a), a),
    "equal, bit for bit": rule("r", where(equal(a, 7.0), a * 0.0, a), a, level="exact"),
    "two thresholds": rule("r", less(a, 0.3), less(a, 0.31)),
    "large thresholds": rule("r", less(a, 1e6), less(a, 2e6)),
    "at a threshold": rule("r", less(a, 100.25), ops.less_or_equal(a, 100.25)),
    "at a small threshold": rule("r", less(a, 1e-5), ops.less_or_equal(a, 1e-5)),
    "integers": rule("r", less(a, 77), ops.less_or_equal(a, 77), dtypes="int"),
    "equal integers": rule("r", where(equal(a, 77), a * 0, a), a, dtypes="int"),
    "remainders": rule("r", ops.mod(a, 17), ops.mod(a, 34), dtypes="int"),
    "casts": rule(
        "r", float_of(equal(a, 7.0), to="float32"), float_of(equal(a, 8.0), to="float32")
    ),
    "bounds": rule("r", ops.clip(a, -3.0, 100.25), ops.clip(a, -3.0, 100.5)),
    "attributes": rule(
        "r", ops.thresholded_relu(a, alpha=57.0), ops.thresholded_relu(a, alpha=57.5)
    ),
    "sums": rule("r", where(less(a + b, 500.0), a, b), where(less(a + b, 501.0), a, b)),
    "between decimal fractions": rule(
        "r", where(ops.and_(less(712.3, a), less(a, 712.4)), a * 2.0, a), a
    ),
    "between them, of the second": rule(
        "r", where(ops.and_(less(31.2, b), less(b, 31.3)), a * 2.0, a + b * 0.0), a + b * 0.0
    ),
    "between them, bit for bit": rule(
        "r", where(ops.and_(less(712.3, a), less(a, 712.4)), -a, a), a, level="exact"
    ),
    "half a number": rule("r", ops.min(a * 2.0, 1000.0), ops.min(a, 700.0) * 2.0),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", range(4))
def test_wrong_rules_fall(name: str, seed: int) -> None:
    found = verify(WRONG[name], seed=seed, shrink=False, check_guards=False)
    assert found.counterexample is not None, str(found)


RIGHT = {
    "a bound of the sum": rule("r", ops.min(a + 0.1, 40.1), ops.min(a, 40.0) + 0.1),
    "the same threshold": rule("r", less(a, 0.3), ops.greater(0.3, a)),
    "halves": rule("r", less(a * 2.0, 77.0), less(a, 38.5)),
    "integers": rule("r", less(a, 78), ops.less_or_equal(a, 77), dtypes="int"),
    "beyond float16": rule("r", ops.min(a, 65536.0) * 2.0, ops.min(a * 2.0, 131072.0)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_stand(name: str) -> None:
    found = verify(RIGHT[name], max_examples=80, check_guards=False)
    assert found.ok, str(found)


relu = ops.relu
ROUNDED_TWICE = {
    "quarters": rule("r", (a * 0.25) * 0.25, a * 0.0625, level="exact"),
    "quotients": rule("r", a / 4.0 / 4.0, a / 16.0, level="exact"),
    "up and down": rule("r", a / 8.0 * 2.0, a / 4.0, level="exact"),
    "eighths": rule("r", (a * 0.125) * 4.0, a * 0.5, level="exact"),
    "a sum": rule("r", a * 0.5 + b * 0.5, (a + b) * 0.5, level="exact"),
    "between them": rule("r", relu(a * 0.25) * 0.25, relu(a) * 0.0625, level="exact"),
    "of one tensor of numbers": rule(
        "r", ops.gather(a * 0.25, b) * 0.25, ops.gather(a * 0.0625, b), level="exact"
    ),
}
NOT_ROUNDED = {
    "fourfold": rule("r", a * 2.0 * 2.0, a * 4.0, level="exact"),
    "halves": rule("r", a * 0.5 * 0.5, a * 0.25, level="exact"),  # both ties go to even
    "signs": rule("r", (a * -1.0) * 0.25, (a * 0.25) * -1.0, level="exact"),
    "integers": rule("r", a * 2 + a * 2, a * 4, level="exact", dtypes="int"),
    "mixed": rule(
        "r", ops.where(b, a * 0.25, a * 0.5), ops.where(b, 0.25 * a, 0.5 * a), (), "exact"
    ),
}


@pytest.mark.parametrize("name", ROUNDED_TWICE)
@pytest.mark.parametrize("seed", range(6))
def test_rounding_twice_near_zero_refutes(name: str, seed: int) -> None:
    found = verify(ROUNDED_TWICE[name], seed=seed, shrink=False, check_guards=False)
    assert found.counterexample is not None, str(found)


@pytest.mark.parametrize("name", NOT_ROUNDED)
@pytest.mark.parametrize("seed", range(2))
def test_exact_products_stand_near_zero(name: str, seed: int) -> None:
    found = verify(NOT_ROUNDED[name], max_examples=60, seed=seed, check_guards=False)
    assert found.ok, str(found)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64])
def test_values_near_zero_are_multiples_of_the_smallest(dtype: DType) -> None:
    found = np.asarray(values_near_zero((0.25, 3.0), dtype)).astype(dtype.numpy).astype(np.float64)
    smallest = float(np.nextafter(np.zeros((), dtype.numpy), np.ones((), dtype.numpy)))
    counts = found / smallest
    assert (counts == np.rint(counts)).all()
    assert {*range(1, 33), 4 * 5, 16 * 7, 16 * 32} <= {*counts.astype(int).tolist()}


def test_values_near_a_number() -> None:
    found = values_near((0.25, 100.0), DType.FLOAT32)
    up = float(np.nextafter(np.float32(100), np.float32(math.inf)))
    down = float(np.nextafter(np.float32(100), np.float32(-math.inf)))
    assert found[:2] == (0.25, 100.0)
    assert {up, down, 99.0, 101.0, -100.0, 50.0, 200.0, 50.125, 400.0, 25.0} <= {*found}


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.UINT8])
def test_values_are_those_of_their_dtype(dtype: DType) -> None:
    found = values_near((-3.0, 0.1, 127.0, 65536.0), dtype)
    assert found
    assert np.asarray(found).astype(dtype.numpy).astype(np.float64).tolist() == [*found]


def test_numbers_of_both_sides_and_of_attributes_are_known() -> None:
    r = rule("r", ops.celu(a, alpha=2.5) + 4.0, 4.0 + ops.max(a, 7.0))
    assert all(s.numbers == (2.5, 4.0, 7.0) for s in settings_of(r))


def test_numbers_that_a_dtype_does_not_hold_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = verify(RIGHT["beyond float16"], max_examples=40, check_guards=False)
        wrong = verify(rule("r", a * 65536.0, a + 65536.0), max_examples=40)
    assert found.ok
    assert "65536.0" in str(wrong.counterexample)


OPEN = rule("r", less(ops.exp(a) * ops.exp(a), ops.exp(a * 2.0)), less(a, a))


def test_a_rule_that_most_examples_leave_open_is_not_ok() -> None:
    found = verify(OPEN, check_guards=False)
    assert found.counterexample is None
    assert not found.ok
    assert found.status == "undecided"
    decided, tried = found.checked.examples, sum(found.checked.outcomes.values())
    assert found.note == f"only {decided} of {tried} examples decided anything"
    assert str(found).startswith("r: undecided, only")


@pytest.mark.parametrize(
    ("outcomes", "doubtful"),
    [
        ({"reals": 101, "undecided": 99}, False),
        ({"floats": 99, "undecided": 101}, True),
        ({"bits": 7, "not applicable": 193}, True),
        ({"reals": 25, "floats": 25, "not applicable": 150}, False),
        ({}, False),
    ],
)
def test_doubt_is_a_matter_of_shares(outcomes: dict[str, int], doubtful: bool) -> None:
    assert bool(Checked(outcomes, 1, 1, 0.0).doubt) == doubtful


def test_reports_count_undecided_rules() -> None:
    row = verdict(OPEN, 200, 0, None)
    assert row.status == "undecided"
    assert row.to_dict()["outcomes"]["undecided"] > 20
    assert summary([row])["undecided"] == 1
    assert not summary([row])["all_ok"]
    assert 'failures="1"' in as_junit([row])
    assert as_text(row).startswith("undecided r: only")
