"""What can stand in a rule: terms and numbers that float64 holds; all else is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.errors import OptimizeError, RuleError
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.pattern import Number, pattern
from egraph_fusion.rulesets.rule import rule

a, b = rulesets.tensors("a b")
UNCHECKED: Any = a


def untyped(value: Any) -> Any:
    """Pass a value that the types would refuse."""
    return value


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
            pattern(term + number)


@pytest.mark.parametrize("other", ["s", b"s", None, 1j, np.array([1.0, 2.0]), [1], 10**400])
def test_other_operands_are_refused(other: Any) -> None:
    for build in (lambda: UNCHECKED + other, lambda: ops.add(a, other), lambda: other / UNCHECKED):
        with pytest.raises(RuleError):
            build()


def test_matrices_are_not_multiplied_by_numbers() -> None:
    cases: list[tuple[Any, Any]] = [(UNCHECKED, 2.0), (2.0, UNCHECKED), (UNCHECKED, None)]
    for left, right in cases:
        with pytest.raises(RuleError):
            pattern(left @ right)


def test_a_number_may_be_the_base_of_a_power() -> None:
    assert str(2.0**a) == "(2.0 ** a)"


def deep() -> Any:
    term: Any = a
    for _ in range(2000):
        term = ops.exp(term)
    return term


MALFORMED: dict[str, Callable[[], object]] = {
    "no right side": lambda: rule("r", a + b, untyped(None)),
    "a guard's name": lambda: rule("r", a + b, b + a, untyped(["nonneg"])),
    "text for guards": lambda: rule("r", a + b, b + a, untyped("nonneg")),
    "a depth of 2000": lambda: rule("r", deep(), a),
    "a dtype": lambda: rule("r", ops.cast(a, to="flot"), a),
    "text for axes": lambda: rule("r", ops.reduce_sum(a, axes="x"), a),
    "one axis for several": lambda: rule("r", ops.reduce_sum(a, axes=0), a),
    "an output too many": lambda: rule("r", ops.split(a, split=(1, 1))[5], a),
    "outputs without sizes": lambda: rule("r", ops.split(a, axis=0)[5], a),
    "a second output": lambda: rule("r", ops.exp(a)[1], a),
    "an output from the back": lambda: rule("r", ops.split(a, split=(1, 1))[-1], a),
    "an output of a tensor": lambda: rule("r", a + b, a[0]),
    "text for a rank": lambda: rule("r", a + b, b + a, [guards.rank_at_least(a, "x")]),
    "a number for a shape": lambda: rule("r", a + b, b + a, [guards.same_shape(a, 3)]),
    "no name": lambda: rule("", a + b, b + a),
    "a number for a name": lambda: rule(untyped(5), a + b, b + a),
    "a quote in a name": lambda: rule('x"', a + b, b + a),
    "a line in a name": lambda: rule("x\n", a + b, b + a),
    "a variable's name": lambda: rulesets.tensors("1x"),
    "two variables for one": lambda: rulesets.many("x y"),
    "no rule": lambda: rulesets.select(untyped([3])),
    "no rules": lambda: rulesets.select(untyped(3)),
    "no examples": lambda: rulesets.verify("add-order", max_examples=0),
    "a name of no rule": lambda: rulesets.verify("nope"),
    "rule sets without names": lambda: ef.compare_rulesets(untyped([[]]), "m"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused(name: str) -> None:
    with pytest.raises(RuleError):
        MALFORMED[name]()


@pytest.mark.parametrize("price", [1.5, None, -1])
def test_a_cost_that_is_no_integer_is_refused(price: Any) -> None:
    x = ef.tensor("x", (2,))
    with pytest.raises(OptimizeError, match="a cost is an integer"):
        ef.explore(x + x).extract(cost=lambda _: price)


def test_what_is_meant_is_taken() -> None:
    one = rule("s", a + a, a * 2.0, guards.nonneg(a))
    assert one.when == (guards.nonneg(a),)
    assert rulesets.select(one) == (one,)
    assert rulesets.tensors("a, b") == (a, b)
    assert rulesets.verify("add-order", 5, check_guards=False).ok
    x = ef.tensor("x", (2,))
    (row,) = ef.compare_rulesets({"sum": ["add-order"]}, untyped(x + x)).rows
    assert row.model == "(x + x)"


def test_guards_on_ranks_and_axes() -> None:
    assert guards.GUARDS["scalar"].test(())
    assert not guards.GUARDS["scalar"].test((1,))
    assert guards.GUARDS["disjoint"].test((0, 2), (1,))
    assert not guards.GUARDS["disjoint"].test((0, 2), (2, 3))
    x = ef.tensor("x", (2, 3))
    axes, others = rulesets.attrs("axes others")
    inner = ops.reduce_sum(ops.reduce_max(a, axes=axes), axes=others)
    r = rule("r", inner * b, b * inner, [guards.disjoint(axes, others), guards.scalar(b)])
    for first, fires in ((0, True), (1, False)):
        term = ops.reduce_sum(ops.reduce_max(x, axes=(first,)), axes=(1,)) * ef.tensor("s", ())
        assert bool(ef.explore(term, rules=[r]).hits) is fires


def test_a_split_without_sizes_is_named_with_what_it_needs() -> None:
    with pytest.raises(RuleError, match=r"^rule 'halves': split\(a, axis=0\)\[1\]: Split needs"):
        rule("halves", ops.split(a, axis=0)[1], a)
    split, p = rulesets.attrs("s p")
    assert rule("r", ops.split(a, split=split)[1], a)
    assert rule("r", ops.split(a, attrs=p)[1], a)
