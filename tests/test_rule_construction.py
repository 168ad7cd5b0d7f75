"""What can stand in a rule: terms and numbers that float64 holds; all else is refused at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.pattern import Number, pattern

a, b = rulesets.tensors("a b")
UNCHECKED: Any = a


@pytest.mark.parametrize(
    "number", [3, 0.1, True, np.float32(2), np.int64(-7), np.array(2.5), 2**60]
)
def test_numbers_become_constants(number: Any) -> None:
    found = pattern(number)
    assert isinstance(found, Number)
    assert found.value == float(number)
    assert (number * a).args[0] == found  # numpy leaves the multiplication to the pattern


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, np.int64(2**53 + 1), 2**63 - 1])
def test_integers_that_float64_does_not_hold_are_refused(number: Any) -> None:
    x = ef.tensor("x", (2,), "int64")
    for term in (a, x):
        with pytest.raises(RuleError, match=f"which {number} is not"):
            term + number


@pytest.mark.parametrize("other", ["s", b"s", None, 1j, np.array([1.0, 2.0]), [1], 10**400])
def test_other_operands_are_refused(other: Any) -> None:
    for build in (lambda: UNCHECKED + other, lambda: ops.add(a, other), lambda: other / UNCHECKED):
        with pytest.raises(RuleError):
            build()


def test_matrices_are_not_multiplied_by_numbers() -> None:
    for left, right in ((UNCHECKED, 2.0), (2.0, UNCHECKED), (UNCHECKED, None)):
        with pytest.raises(RuleError):
            left @ right


def test_a_number_may_be_the_base_of_a_power() -> None:
    assert str(2.0**a) == "(2.0 ** a)"
