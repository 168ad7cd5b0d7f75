"""What keeps constants from growing: one form of gathered ones, whatever the order."""

from __future__ import annotations

from egraph_fusion.rulesets.pattern import Apply, Pattern, Tensor, walk
from egraph_fusion.rulesets.rule import Rule


def gathers(r: Rule) -> bool:
    """Whether a rule regroups one operator's operands so that fewer nodes read a variable tensor.

    Then the matched node is subsumed, that is kept but not matched again: a chain of n constants
    ends as one form of each of its values, where all groupings are exponentially many.
    """
    known = {a for g in r.when if g.name == "constant" for a in g.patterns}
    operators = {q.op for p in (r.lhs, r.rhs) for q in walk(p) if isinstance(q, Apply)}
    if r.growing or not known or len(operators) > 1:
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


def _varying_nodes(p: Pattern, known: set[Pattern]) -> int:
    nodes = {q for q in walk(p) if isinstance(q, Apply)}
    return sum(any(isinstance(t, Tensor) and t not in known for t in walk(q)) for q in nodes)
