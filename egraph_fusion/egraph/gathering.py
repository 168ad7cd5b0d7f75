"""What keeps constants from growing: one form of gathered ones, whatever the order."""

from __future__ import annotations

from egraph_fusion.rulesets.pattern import Apply, Pattern, Tensor, operators_of, walk
from egraph_fusion.rulesets.rule import Rule


def gathers(r: Rule) -> bool:
    """Whether a rule regroups constants so that fewer nodes read a variable tensor.

    It regroups one operator's operands, or takes constants past others into the outermost one's.
    Then the matched node is subsumed, that is kept but not matched again: a chain of n constants
    ends as one form of each of its values, where all groupings are exponentially many.
    """
    known = {a for g in r.when if g.name == "constant" for a in g.patterns}
    if r.growing or not known or not (_one_operator(r) or _one_variable(r, known)):
        return False
    return _varying_nodes(r.rhs, known) < _varying_nodes(r.lhs, known)


def exchanges(r: Rule) -> bool:
    """Whether a rule only changes the order of one node's operands.

    It then holds of constants too, which others leave alone since they are folded in the end:
    c + d and d + c are one class, or a chain of sums would double its constants at each step.
    """
    left, right = r.lhs, r.rhs
    if not isinstance(left, Apply) or not isinstance(right, Apply) or left.op != right.op:
        return False
    leaves = all(isinstance(a, Tensor) for a in left.args)
    return leaves and left.args != right.args and set(left.args) == set(right.args)


def _one_operator(r: Rule) -> bool:
    return len(operators_of(r.lhs) | operators_of(r.rhs)) == 1


def _one_variable(r: Rule, known: set[Pattern]) -> bool:
    """Whether all operands but one are constants, and the outermost operator stays."""
    same = isinstance(r.lhs, Apply) and isinstance(r.rhs, Apply) and r.lhs.op == r.rhs.op
    variable = {q for q in walk(r.lhs) if isinstance(q, Tensor) and q not in known}
    return same and len(variable) == 1


def _varying_nodes(p: Pattern, known: set[Pattern]) -> int:
    nodes = {q for q in walk(p) if isinstance(q, Apply)}
    return sum(any(isinstance(t, Tensor) and t not in known for t in walk(q)) for q in nodes)
