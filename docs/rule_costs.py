"""FLOPs of both sides of a rule, where the verifier tries it on the most work."""

from __future__ import annotations

from egraph_fusion.ir.dims import nominal
from egraph_fusion.ir.graph import frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.tracing import node_flops
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.verify_search import settings_of
from egraph_fusion.rulesets.verify_terms import Literal, Program


def flops(rule: Rule) -> tuple[int, int]:
    """Return the FLOPs of the left and the right side, equal terms counted once.

    Of a schema, the first operator counts.  What is computed of constants alone costs nothing.
    """
    first = next(rule.instances())
    constants = {p for g in first.when if g.name == "constant" for p in g.patterns}
    costs = [
        (_flops(s.left, constants), _flops(s.right, constants))
        for s in settings_of(first)
        if s.right is not None and not s.hollow
    ]
    return max(costs, key=lambda pair: pair[0])


def _flops(side: Program, constants: set[Pattern]) -> int:
    """Return the FLOPs of the steps that depend on something else than constants."""
    known = [p in constants for p in side.leaves]
    total = 0
    for place, step in enumerate(side.steps, len(side.leaves)):
        if isinstance(step, Literal):
            known.append(True)
            continue
        given = [known[i] for i in step.operands]
        known.append(bool(given) and all(given))
        if not known[-1]:
            ins = [side.types[i] for i in step.operands]
            operator, attrs = OPERATORS[step.op], frozen_attrs(dict(step.attrs))
            total += nominal(node_flops(operator, ins, [side.types[place]], attrs, given))
    return total
