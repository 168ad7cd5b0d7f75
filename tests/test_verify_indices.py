"""Verification of rules that read elements at indices: inside, from the end, and outside."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from egraph_fusion import rulesets
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.exact_functions import RealFunctions
from egraph_fusion.rulesets.exact_numbers import UNKNOWN, from_array
from egraph_fusion.rulesets.exact_operators import apply_exactly
from egraph_fusion.rulesets.pattern import Apply
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_result import Counterexample
from egraph_fusion.rulesets.verify_search import settings_of

a, b, c = rulesets.tensors("a b c")
p = rulesets.attrs("p")[0]
read, at = ops.gather, ops.gather_elements
LOOKED_UP = read(ops.cast(b, to="int64"), c)
WRONG = {
    "negated": rule("r", read(a, b, axis=p), read(a, -b, axis=p)),
    "doubled": rule("r", read(a, b, axis=p), read(a, b + b, axis=p)),
    "always the first": rule("r", read(a, b, axis=p), read(a, b - b, axis=p)),
    "from the start": rule("r", read(a, b, axis=p), read(a, ops.abs(b), axis=p)),
    "negated, bit for bit": rule("r", read(a, b), read(a, -b), level="exact"),
    "elements": rule("r", at(a, b, axis=p), at(a, -b, axis=p)),
    "tuples": rule("r", ops.gather_nd(a, b), ops.gather_nd(a, -b)),
    "other position": rule("r", read(a, ops.arg_max(a)), read(a, ops.arg_min(a))),
    "one of two": rule("r", read(a, b) * read(a, b + b), read(a, b) * read(a, b)),
    "one of two, the other side": rule("r", read(a, b) * read(a, b), read(a, b) * read(a, b + b)),
    "hot along another axis": rule("r", ops.hardmax(a, axis=-1), ops.hardmax(a, axis=0)),
}
RIGHT = {
    "looked up": rule("r", read(a, LOOKED_UP) * 2.0, read(a * 2.0, LOOKED_UP)),
    "past an operator": rule("r", read(a, b, axis=p) * 2.0, read(a * 2.0, b, axis=p)),
    "position of what is doubled": rule("r", read(a, ops.arg_max(a)), read(a, ops.arg_max(a + a))),
    "elements": rule("r", ops.exp(at(a, b, axis=p)), at(ops.exp(a), b, axis=p)),
    "tuples": rule("r", -ops.gather_nd(a, b), ops.gather_nd(-a, b)),
    "twice the same": rule("r", read(a, b) + read(a, b), read(a + a, b)),
    "hot": rule("r", ops.hardmax(a * 2.0, axis=-1), ops.hardmax(a, axis=-1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_indices_fall(name: str) -> None:
    found = verify(WRONG[name], check_guards=False)
    assert found.counterexample is not None, str(found)


@pytest.mark.parametrize("name", RIGHT)
def test_right_indices_stand(name: str) -> None:
    found = verify(RIGHT[name], max_examples=80, check_guards=False)
    assert found.ok, str(found)
    assert found.checked.examples >= 60


def _outside() -> Counterexample:
    found = verify(WRONG["from the start"], check_guards=False).counterexample
    assert found is not None
    return found


def test_indices_outside_refute_and_the_snippet_runs() -> None:
    found = _outside()
    assert "only the right side fails" in found.reason
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(str(found), {})
    assert "the right side fails: IndexError" in printed.getvalue()


@pytest.mark.parametrize("term", [at(a, b, axis=0), read(a, b), ops.gather_nd(a, b)], ids=str)
def test_indices_are_drawn_inside(term: Apply) -> None:
    for s in settings_of(rule("r", term, term)):
        limit = s.index_limits[b]
        assert limit or 0 in s.shapes[b]
        assert limit in (s.shapes[a] if term.op == "GatherND" else s.shapes[a][:1])


def test_an_index_that_is_not_decided_gives_what_is_not_known() -> None:
    scalars = RealFunctions()
    data = from_array(np.arange(3.0))
    unknown = from_array(np.array([np.nan, 1.0]))
    assert list(apply_exactly(scalars, "Gather", [data, unknown], {"axis": 0})[0]) == [UNKNOWN] * 2
    known = apply_exactly(scalars, "Gather", [data, from_array(np.array([-1.0]))], {"axis": 0})[0]
    assert list(known) == [2]


def test_indices_are_moved_as_numbers() -> None:
    indices = np.array([[2, 0]], dtype=DType.INT64.numpy)
    turned = apply_exactly(RealFunctions(), "Transpose", [indices], {"perm": (1, 0)})[0]
    assert turned.tolist() == [[2], [0]]


@pytest.mark.parametrize(
    "r",
    [
        rule("r", ops.arg_max(a, axis=0, keepdims=0), ops.arg_max(a, axis=-1, keepdims=0)),
        rule("r", read(read(a, b, axis=0), c, axis=0), read(a, read(c, b, axis=0), axis=0)),
        rule("r", ops.hardmax(a, axis=-1), ops.hardmax(a, axis=0)),
        rule("r", ops.reduce_max(a, axes=p), ops.cast(ops.arg_max(a, axis=-1), to="float32")),
    ],
    ids=["positions", "indices of indices", "hot", "types"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_snippets_run_on_empty_operands_too(r: Rule, seed: int) -> None:
    found = verify(r, seed=seed, max_examples=60, check_guards=False).counterexample
    assert found is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), np.errstate(all="ignore"):
        exec(str(found), {})
    assert printed.getvalue().strip()
