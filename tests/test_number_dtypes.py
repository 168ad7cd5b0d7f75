"""Numbers of rules take the dtype of the operand beside them: verified, and made in the e-graph."""

from __future__ import annotations

import pytest
from hypothesis import find

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.rulesets import guards, ops, strategies
from egraph_fusion.rulesets.pattern import Number, Pattern
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.verification import verify

a, b, c = rulesets.tensors("a b c")
x, i, n = ef.tensor("x", (4,)), ef.tensor("i", (2,), "int64"), ef.tensor("n", (4,), "int32")


def whole(p: Pattern) -> Pattern:
    return ops.cast(p, to="int64")


def real(p: Pattern) -> Pattern:
    return ops.cast(p, to="float32")


def read(p: Pattern, at: Pattern) -> Pattern:
    return ops.gather(p, at + 1, axis=0)


EQUAL: dict[str, tuple[Rule, Pattern, Pattern]] = {
    "made beside a cast": (
        rule("r", whole(a) + whole(a), whole(a) * 2),
        whole(x) + whole(x),
        whole(x) * 2,
    ),
    "matched beside a cast": (rule("r", real(a) * 1.5, real(a) * 0.5 + real(a), dtypes="int"),
        real(n) * 1.5, real(n) * 0.5 + real(n)),
    "in an index": (rule("r", read(a, b) + 0.0, read(a, b)), read(x, i) + 0.0, read(x, i)),
    "made in an index": (
        rule("r", ops.gather(a, b + b, axis=0), ops.gather(a, b * 2, axis=0)),
        ops.gather(x, i + i, axis=0),
        ops.gather(x, i * 2, axis=0),
    ),
    "beside a position": (
        rule("r", ops.arg_max(a, axis=0) + ops.arg_max(a, axis=0), ops.arg_max(a, axis=0) * 2),
        ops.arg_max(x, axis=0) + ops.arg_max(x, axis=0),
        ops.arg_max(x, axis=0) * 2,
    ),
    "of two dtypes": (
        rule("r", read(a, b) + 1, 1 + read(a, b)),
        read(x, i) + 1,
        1 + read(x, i),
    ),
    "numbers alone": (
        rule("r", whole(a) * 6, whole(a) * (ops.neg(2.0) * -3.0)),
        whole(x) * 6,
        whole(x) * (ops.neg(2) * -3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_the_verifier_the_e_graph_and_explanations_agree(name: str) -> None:
    r, left, right = EQUAL[name]
    assert verify(r, 60, check_guards=False).ok
    found = ef.explore(left, rules=[r])
    if name != "numbers alone":  # an expression's own numbers know of no operand further out
        assert found.equal(left, right)


TWICE = ops.gather(a, b + 1.0, axis=0) + 1.0


def test_a_number_of_two_dtypes_is_two_operands() -> None:
    assert verify(rule("r", TWICE, 1.0 + ops.gather(a, 1.0 + b, axis=0)), 60).ok
    wrong = verify(rule("r", TWICE, ops.gather(a, b + 1.0, axis=0) + 2.0), 60)
    assert wrong.counterexample is not None
    dtypes = {v.dtype.name for v in wrong.counterexample.environment.arrays.values()}
    assert "int64" in dtypes
    assert {"float16", "float32", "float64", "bfloat16"} & dtypes
    printed = str(wrong.counterexample)
    assert len({line for line in printed.splitlines() if line.startswith("number_")}) == 2


def test_guards_and_right_sides_know_the_terms_of_placed_numbers() -> None:
    at = b + 1.0
    kept = rule("r", TWICE, 1.0 + ops.gather(a, at, axis=0), [guards.rank_is(at, 1)])
    found = verify(kept, 60)
    assert found.status == "ok", str(found)


def test_environments_have_a_number_of_two_dtypes_twice() -> None:
    r = rule("r", TWICE, 1.0 + ops.gather(a, b + 1.0, axis=0))
    e = find(strategies.environments(r), lambda e: e.tensors["a"].size > 0)
    assert len([p for p in e.arrays if isinstance(p, Number)]) == 2


def test_a_fraction_is_no_integer() -> None:
    found = verify(rule("r", a * 2, a / 0.5, dtypes="int"), 60, check_guards=False)
    assert found.counterexample is not None
    assert "0.5 is no int32" in found.counterexample.reason


def test_a_condition_lends_a_number_no_dtype() -> None:
    both = ops.where(c, a, 0.0) + ops.where(c, 0.0, a)
    assert verify(rule("r", both, a * 1.0, [guards.broadcasts_into(c, a)]), 60).ok


def test_a_number_beside_a_product_of_bytes_has_the_dtype_of_its_sums() -> None:
    rows, columns = ef.tensor("rows", (2, 3), "int8"), ef.tensor("columns", (3, 2), "int8")
    r = rule(
        "r",
        ops.mat_mul_integer(a, b) + ops.mat_mul_integer(a, b),
        ops.mat_mul_integer(a, b) * 2,
        dtypes="int",
    )
    found, doubled = ops.mat_mul_integer(rows, columns), ops.mat_mul_integer(rows, columns) * 2
    assert ef.explore(found + found, rules=[r]).equal(found + found, doubled)
