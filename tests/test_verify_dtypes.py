"""Verification in the dtypes that operators have a meaning for."""

from __future__ import annotations

from dataclasses import replace

import onnx.defs

from egraph_fusion import rulesets
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.term_dtypes import FLOATS_ONLY
from egraph_fusion.rulesets.verification import verify

a, b, c = rulesets.tensors("a b c")


def test_float_functions_are_those_that_onnx_defines_for_floats_alone() -> None:
    for op in FLOATS_ONLY:
        types = onnx.defs.get_schema(op).inputs[0].types
        assert "tensor(float)" in types
        assert not [t for t in types if "int" in t], op


def test_float_functions_are_not_tried_on_integers() -> None:
    r = rule("r", ops.acos(a), ops.acos(a), level="exact", dtypes="int")
    assert verify(r, 20).status == "void"
    both = rule("r", ops.where(c, ops.acos(a), ops.acos(b)), ops.acos(ops.where(c, a, b)))
    claimed = replace(both, level="exact", dtypes="numeric")
    assert all(verify(claimed, 200, seed, check_guards=False).ok for seed in range(3))
    wrong = verify(rule("r", a * 1.0, ops.floor(a), dtypes="int"), 20)
    assert wrong.counterexample is not None
    assert "Floor takes floating-point numbers" in wrong.counterexample.reason
