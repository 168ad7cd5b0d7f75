"""What may be rewritten: the rules, as tables, and the notation they are written in."""

from __future__ import annotations


from egraph_fusion.rulesets import functions, guards
from egraph_fusion.rulesets.catalogue import ALL, STRUCTURAL, default_rules, find, select
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Attribute, Many, Scalar, Tensor
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.schemas import operators

__all__ = [
    "ALL",
    "STRUCTURAL",
    "Rule",
    "Scalar",
    "attrs",
    "default_rules",
    "find",
    "functions",
    "guards",
    "many",
    "operators",
    "ops",
    "rule",
    "select",
    "tensors",
]


def tensors(names: str) -> tuple[Tensor, ...]:
    """Return pattern tensors: `a, b = tensors("a b")`."""
    return tuple(map(Tensor, names.split()))


def attrs(names: str) -> tuple[Attribute, ...]:
    """Return attribute variables: `axes, k = attrs("axes k")`."""
    return tuple(map(Attribute, names.split()))


def many(name: str) -> Many:
    """Return a variable for one or more operands of an n-ary operator."""
    return Many(name)
