"""What may be rewritten: the rules, as tables, and the notation they are written in."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from egraph_fusion.arguments import fits
from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets import functions, guards
from egraph_fusion.rulesets.catalogue import (
    ALL,
    FOUNDATION,
    STRUCTURAL,
    default_rules,
    find,
    select,
)
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Attribute, Many, Scalar, Tensor
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.schemas import operator_pairs, operators

if TYPE_CHECKING:
    from egraph_fusion.rulesets import strategies
    from egraph_fusion.rulesets.verification import verify

__all__ = [
    "ALL",
    "FOUNDATION",
    "STRUCTURAL",
    "Rule",
    "Scalar",
    "attrs",
    "default_rules",
    "find",
    "functions",
    "guards",
    "many",
    "operator_pairs",
    "operators",
    "ops",
    "rule",
    "select",
    "strategies",
    "tensors",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import the verifier when it is first used, since it loads hypothesis."""
    if name == "verify":
        return import_module("egraph_fusion.rulesets.verification").verify
    if name == "strategies":
        return import_module("egraph_fusion.rulesets.strategies")
    raise AttributeError(f"module 'egraph_fusion.rulesets' has no attribute {name!r}")


def tensors(names: str) -> tuple[Tensor, ...]:
    """Return pattern tensors, one for each name: `"a b"` gives two."""
    return tuple(map(Tensor, _identifiers(names)))


def attrs(names: str) -> tuple[Attribute, ...]:
    """Return attribute variables, one for each name."""
    return tuple(map(Attribute, _identifiers(names)))


def many(name: str, least: int = 1) -> Many:
    """Return a variable for `least` or more operands of an n-ary operator.

    An operator that is not n-ary is applied to each.  A rule with such a variable is tried on as
    many operands as operators of the graph have, up to 64, and verified for up to four.
    """
    found = _identifiers(name)
    if len(found) != 1:
        raise RuleError(f"many takes the name of one variable, got {name!r}")
    if not fits(least, int) or least < 1:
        raise RuleError(f"many stands for 1 or more operands, got {least!r}")
    return Many(found[0], least)


def _identifiers(names: str) -> list[str]:
    found = names.replace(",", " ").split()
    for name in found:
        if not (name.isidentifier() and name.isascii()):
            raise RuleError(f"a variable is a word of letters, digits and _, got {name!r}")
    return found
