"""Verification in the dtypes that operators have a meaning for."""

from __future__ import annotations

from dataclasses import replace

import onnx.defs
import pytest

from egraph_fusion import rulesets
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.verification import verify

ONNX_NAMES = {"float32": "float", "float64": "double"}
a, b, c = rulesets.tensors("a b c")


@pytest.mark.parametrize("name", [n for n, o in OPERATORS.items() if o.takes])
def test_operators_take_the_dtypes_that_onnx_defines_them_for(name: str) -> None:
    takes = OPERATORS[name].takes
    assert takes is not None
    listed = {
        t.removeprefix("tensor(").rstrip(")") for t in onnx.defs.get_schema(name).inputs[0].types
    }
    names = {d: ONNX_NAMES.get(d.value, d.value) for d in DType if DType.named(d)}
    taken = {names[d] for d in names if takes(d)}
    assert listed <= taken
    assert taken - listed <= {"bfloat16"}  # some functions have not been defined for it yet


def test_float_functions_are_not_tried_on_integers() -> None:
    r = rule("r", ops.acos(a), ops.acos(a), level="exact", dtypes="int")
    assert verify(r, 20).status == "void"
    both = rule("r", ops.where(c, ops.acos(a), ops.acos(b)), ops.acos(ops.where(c, a, b)))
    claimed = replace(both, level="exact", dtypes="numeric")
    assert all(verify(claimed, 200, seed, check_guards=False).ok for seed in range(3))
    wrong = verify(rule("r", a * 1.0, ops.floor(a), dtypes="int"), 20)
    assert wrong.counterexample is not None
    assert "Floor of int32" in wrong.counterexample.reason
