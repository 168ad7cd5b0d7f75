"""Which of the equalities published with TENSAT follow from our rules.

`python tests/taso_derivation.py` prints those that do not, and the rate.

An equality follows if its right side is in the class of its left side, which alone is loaded, after
saturation by all our rules within the default limits.  Counted are equalities that differ by more
than the names of operands and the grouping and order of sums and products, and whose two sides are
not one term in our notation.  Printed too is in how many the two sides, both loaded, end in one
class, and in how many the left side appears where the right one is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from random import Random

import numpy as np
from rule_derivation import Lookup
from rule_meaning import Environment
from taso_rules import Pair, pairs
from taso_terms import Expr

from egraph_fusion import rulesets
from egraph_fusion.egraph.saturate import Saturation, saturate
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.pattern import Apply, Attribute, Computed, Pattern, Tensor

EXTENTS = (2, 3, 4, 5, 7)
"""Extents of operands: 1 would let broadcasts and squeezed axes prove more than the equality."""
DRAWS = 1000


def distinct() -> tuple[Pair, ...]:
    """Return the equalities that count: the first of those that say the same."""
    found: dict[tuple[str, str], Pair] = {}
    for pair in pairs():
        left, right = _canonical(pair)
        if left != right and not pair.same_term:
            found.setdefault((left, right), pair)
    return tuple(found.values())


def _canonical(pair: Pair) -> tuple[str, str]:
    """Return both sides with sums and products flattened and sorted, under the least naming."""
    names = pair.left.variables
    namings = (dict(zip(names, p, strict=True)) for p in permutations("abcdef"[: len(names)]))
    return min((_flat(pair.left, n), _flat(pair.right, n)) for n in namings)


def _flat(e: Expr, names: Mapping[str, str]) -> str:
    if not e.operands:
        return names[e.op]
    if e.op not in ("ewadd", "ewmul"):
        return f"({e.op} {e.numbers} {' '.join(_flat(o, names) for o in e.operands)})"
    return f"({e.op} {' '.join(sorted(_flat(o, names) for o in _operands(e, e.op)))})"


def _operands(e: Expr, op: str) -> Iterator[Expr]:
    if e.op != op:
        yield e
        return
    for o in e.operands:
        yield from _operands(o, op)


@cache
def joined(pair: Pair) -> bool:
    """Whether both sides, loaded together, end in one class."""
    found, _ = _saturated(pair, (pair.rule.lhs, pair.rule.rhs))
    left, right = found.loaded.graph.outputs
    return _class(found, left) == _class(found, right)


@cache
def derived(pair: Pair, backwards: bool = False) -> bool:
    """Whether the right side appears in the class of the left one, the only side that is loaded."""
    start, goal = pair.rule.lhs, pair.rule.rhs
    return _reached(pair, goal, start) if backwards else _reached(pair, start, goal)


def _reached(pair: Pair, start: Pattern, goal: Pattern) -> bool:
    found, leaves = _saturated(pair, (start,))
    shapes = _shapes(pair)
    env = Environment({v: np.zeros(s) for v, s in shapes.items()}, {}, {}, np.dtype(np.float64))
    (root,) = found.loaded.graph.outputs
    try:
        return _class(found, root) in Lookup(env, found, leaves).classes(goal)
    except EgraphFusionError:
        return False


@cache
def _shapes(pair: Pair) -> dict[str, tuple[int, ...]]:
    """Return operand shapes; kernels to be joined have filters enough for joining to pay."""
    kernels = _joined_kernels(pair)
    for seed in range(DRAWS if kernels else 0):
        shapes = pair.shapes(Random(seed), EXTENTS)
        if min(shapes[k][0] for k in kernels) >= sum(shapes[k][1] for k in kernels):
            return shapes
    return pair.shapes(Random(0), EXTENTS)


def _joined_kernels(pair: Pair) -> set[str]:
    """Return the kernels of convolutions that are added up, or would be."""
    convs = [e for e in pair.left.walk() if e.op == "conv2d"]
    leaves = {leaf.op for e in convs for leaf in e.operands[1].walk() if not leaf.operands}
    apart = pair.left.op == "ewadd" or any(
        w.op == "concat" and w.numbers[0] == 1 for w in (e.operands[1] for e in convs)
    )
    return leaves if apart and len(leaves) > 1 else set()


def _class(found: Saturation, value: str) -> int:
    return found.states[-1].of_value[found.loaded.values[value]]


def _saturated(pair: Pair, sides: Sequence[Pattern]) -> tuple[Saturation, dict[str, str]]:
    b = GraphBuilder("pair", opset=21)
    shapes = _shapes(pair)
    leaves = {v: b.add_input(v, TensorType(DType.FLOAT32, s)) for v, s in shapes.items()}
    for side in sides:
        b.output(_built(b, side, {Tensor(v): name for v, name in leaves.items()}))
    return saturate(b.build(), rulesets.default_rules()), leaves


def _built(b: GraphBuilder, p: Pattern, done: dict[Pattern, str]) -> str:
    """Add a side's nodes: equal terms of one side are one node."""
    if p not in done:
        assert isinstance(p, Apply), p
        operands = [_built(b, a, done) for a in p.args]
        attrs = {k: v for k, v in p.attrs if not isinstance(v, Attribute | Computed)}
        done[p] = b.node(p.op, operands, 1, **attrs)[0]
    return done[p]


def _share(count: int) -> str:
    return f"{count} ({count / len(distinct()):.1%})"


def main() -> None:
    """Print the equalities that do not follow, and the rate."""
    counted = distinct()
    for p in counted:
        if not derived(p):
            print(f"does not follow: {p}")
    print(f"{len(counted)} distinct of {len(pairs())} equalities")
    print(f"{_share(sum(map(derived, counted)))} right sides are reached from the left side alone")
    print(f"{_share(sum(derived(p, True) for p in counted))} left sides from the right side alone")
    print(f"{_share(sum(map(joined, counted)))} follow where both sides are loaded together")


if __name__ == "__main__":
    main()
