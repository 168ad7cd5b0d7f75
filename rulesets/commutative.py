"""Commutative rules: order of operands, and order of application of two operators."""

from __future__ import annotations

from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Tensor
from egraph_fusion.rulesets.rule import Rule, rule

a, b = Tensor("a"), Tensor("b")

OPERANDS = (
    rule("add-commute", a + b, b + a, level="exact", dtypes="numeric", family="commutative"),
    rule("mul-commute", a * b, b * a, level="exact", dtypes="numeric", family="commutative"),
)
COMMUTATIVE: tuple[Rule, ...] = OPERANDS
