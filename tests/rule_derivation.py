"""Whether a rule follows from others: its left side saturated without it, its right side found.

`python tests/rule_derivation.py [NAME...]` prints the verdict on every rule of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np
from rule_graphs import left_side_and_leaves
from rule_meaning import Environment, attributes_of, evaluate
from rule_sampling import Sampler

from egraph_fusion import rulesets
from egraph_fusion.egraph.language import Constructor, attr_ids
from egraph_fusion.egraph.saturate import Limits, Saturation, saturate
from egraph_fusion.errors import EgraphFusionError, RuleError
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.rulesets.pattern import Apply, Number, Pattern, Scalar, Tensor
from egraph_fusion.rulesets.rule import Rule

ITERATIONS = 3
INSTANCES = 6
"""Operators of a schema that are tried: one that does not follow is enough to keep the rule."""
PLACES = 2
"""Operand shapes that each instance is tried on."""


def derivable(r: Rule, others: Sequence[Rule], iterations: int = ITERATIONS) -> bool:
    """Whether every instance of `r` that is tried follows from `others` within `iterations`.

    A rule that works both ways follows if it does from left to right: the reverse is no gain.
    """
    rest = [replace(o, growing=True) for o in others if o.name != r.name]
    forward = replace(r, both=False)
    cases = [c for i in islice(forward.instances(), INSTANCES) for c in _cases(i)]
    return bool(cases) and all(_follows(i, env, rest, iterations) for i, env in cases)


def fires(r: Rule) -> bool:
    """Whether `r` alone makes its right side out of its left side: a control of `derivable`."""
    instance = next(iter(replace(r, both=False).instances()))
    alone = [replace(instance, growing=True)]
    return any(_follows(i, env, alone, 1) for i, env in _cases(instance))


def _cases(instance: Rule) -> Iterator[tuple[Rule, Environment]]:
    """Yield the instance with operands: nothing empty, and something larger than one element."""
    seen = 0
    for seed in range(40):
        env = Sampler(np.random.default_rng(seed)).environment(instance)
        if env is None or any(v.size < 2 and v.ndim for v in env.tensors.values()):
            continue
        if all(v.ndim == 0 for v in env.tensors.values()) or _trivial(env):
            continue
        yield instance, env
        seen += 1
        if seen == PLACES:
            return


def _trivial(env: Environment) -> bool:
    """Whether an axis list is empty or a permutation is the identity: the operator does nothing."""
    lists = [v for v in env.attrs.values() if isinstance(v, tuple)]
    return any(v == () for v in lists) or any(
        name in ("p", "perm") and v == tuple(range(len(v))) and len(v) > 1
        for name, v in env.attrs.items()
        if isinstance(v, tuple)
    )


def _follows(r: Rule, env: Environment, others: Sequence[Rule], iterations: int) -> bool:
    graph, leaves = left_side_and_leaves(r, env)
    found = saturate(graph, others, "finite", Limits(20_000, iterations, 30.0))
    if not found.states:
        return False
    root = found.states[-1].of_value[found.loaded.values[graph.outputs[0]]]
    try:
        return root in Lookup(env, found, leaves).classes(r.rhs)
    except (RuleError, EgraphFusionError):
        return False


@dataclass
class Lookup:
    """Finds terms in the last state of a saturation."""

    env: Environment
    found: Saturation
    leaves: dict[str, str]

    def __post_init__(self) -> None:
        state = self.found.states[-1]
        self.by_key = {
            (n.constructor, n.children, n.attrs): c for c, ns in state.classes.items() for n in ns
        }

    def classes(self, p: Pattern) -> set[int]:
        """Return the classes that hold the term `p`."""
        match p:
            case Tensor(name):
                return {self._value(name)}
            case Number(value):
                return self._numbers(value)
            case Scalar():
                return self._numbers(float(evaluate(p, self.env)))
            case Apply():
                return set(self._applications(p))
            case _:
                raise RuleError(f"{p} cannot be looked up")

    def _value(self, name: str) -> int:
        loaded, state = self.found.loaded, self.found.states[-1]
        return state.of_value[loaded.values[self.leaves[name]]]

    def _numbers(self, value: float) -> set[int]:
        interner, graph = self.found.loaded.interner, self.found.loaded.graph
        state = self.found.states[-1]
        wanted = interner.number(value)
        made = {c for (k, _, a), c in self.by_key.items() if k == "Num" and a[0] == wanted}
        given = {
            state.of_value[self.found.loaded.values[v]]
            for v, c in graph.constants.items()
            if v in self.found.loaded.values and bool((c.array == value).all())
        }
        return made | given

    def _applications(self, p: Apply) -> Iterator[int]:
        types = types_of([evaluate(a, self.env) for a in p.args])
        attrs = normalized(OPERATORS[p.op], types, attributes_of(p, self.env))
        c = Constructor(p.op, len(p.args), 0)
        ids = tuple(attr_ids(self.found.loaded.interner, c, dict(attrs)))
        for children in product(*(self.classes(a) for a in p.args)):
            if (c, children, ids) in self.by_key:
                yield self.by_key[c, children, ids]


def main(names: Sequence[str]) -> None:
    """Print the verdict on the rules of these names, or on all."""
    ours = rulesets.default_rules()
    for r in rulesets.ALL:
        if not names or r.name in names:
            print(f"{r.name}: {'follows' if derivable(r, ours) else 'needed'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
