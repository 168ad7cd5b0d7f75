"""The whole egglog program of one saturation: language, analyses, rules and facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TypeVar

from egraph_fusion.egraph import analyses, uniform
from egraph_fusion.egraph.demand import Demand, interned_commands, num_demand, out_demand
from egraph_fusion.egraph.facts import Loaded
from egraph_fusion.egraph.language import (
    DECLARATIONS,
    FACTS,
    OPAQUE,
    RULES,
    Constructor,
    rule_line,
)
from egraph_fusion.egraph.rule_text import (
    RuleText,
    checks_of,
    constructors_of,
    dtype_guards,
    dtype_pairs,
    groups,
    indexed_operators,
    rule_text,
)
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.rulesets.pattern import Apply, walk
from egraph_fusion.rulesets.rule import LENGTHS, LEVELS, Rule

N = TypeVar("N", int, float)
LONGEST = 64
"""Most operands that a `many` variable stands for."""
ASSUMED = "?"
"""Ends the names of rules whose guards on values were taken for granted."""


@dataclass(frozen=True)
class Program:
    """Commands to run once, the rules, and who answers which table of questions.

    `numerics` is the level that the rules keep to.
    """

    numerics: str
    commands: tuple[str, ...]
    rules: tuple[RuleText, ...]
    constructors: frozenset[Constructor]
    demands: dict[str, Demand]

    @property
    def tables(self) -> list[str]:
        """The constructors' tables, whose rows are e-nodes."""
        return sorted(c.name for c in self.constructors)


def program(loaded: Loaded, rules: Sequence[Rule], numerics: str) -> Program:
    """Return the program for a loaded graph.

    Rules above the level `numerics`, or over operators that can't occur, are left out.
    """
    admitted = [r for r in rules if LEVELS.index(r.level) <= LEVELS.index(numerics)]
    lengths = lengths_in(loaded)
    directed = [d for r in admitted for d in _directions(r, numerics == "real", lengths)]
    texts, constructors = _closure(loaded, directed, numerics)
    interner = loaded.interner
    demands = [out_demand(interner), num_demand(interner)]
    ordered = sorted(constructors, key=str)
    for c in ordered:
        demands += analyses.demands(interner, c)
    uniforms = [c for c in ordered if uniform.computes(c)]
    demands += [uniform.uniform_demand(interner, c, numerics == "exact") for c in uniforms]
    for t in texts:
        demands += t.demands
    by_want = {d.want: d for d in demands}
    pairs = dtype_guards(texts)
    commands = [
        *DECLARATIONS.strip().splitlines(),
        uniform.DECLARATION,
        *(line for d in by_want.values() for line in d.declaration()),
        *(line for c in ordered for line in c.declaration()),
        *FACTS.strip().splitlines(),
        f"(set (ty (Absent)) {interner.types(())})",
        *(rule_line(*row) for row in RULES),
        *(line for c in ordered for line in analyses.rules(c, bool(loaded.graph.constants))),
        *(line for c in uniforms for line in uniform.uniform_rules(c)),
        uniform.RULE,
        *(f"(relation dtypes-{g.name} (i64 i64))" for g in pairs),
        *(line for t in texts for line in t.commands),
        *groups(interner),
        *(line for g in pairs for line in dtype_pairs(interner, g)),
    ]
    return Program(
        numerics,
        (*commands, *loaded.commands, *interned_commands(interner)),
        tuple(texts),
        frozenset(constructors),
        by_want,
    )


def lengths_in(loaded: Loaded) -> tuple[int, ...]:
    """Return how many operands `many` variables are to stand for in a graph.

    They are those that its n-ary operators have, all or all but one or two, besides LENGTHS.
    """
    arities = {c.arity for c in loaded.constructors if c.op != OPAQUE and _is_nary(c.op)}
    found = {n - beside for n in arities for beside in (0, 1, 2)}
    return tuple(sorted({*LENGTHS, *(n for n in found if LENGTHS[-1] < n <= LONGEST)}))


def _is_nary(op: str) -> bool:
    return OPERATORS[op].arity[1] is None


@dataclass(frozen=True, slots=True)
class _Directed:
    """An instance of one direction of a rule; operators of its left side, and indexed ones."""

    rule: Rule
    operators: frozenset[str]
    indexed: tuple[str, ...]


def assuming(r: Rule) -> Rule:
    """Return the rule without its guards on values, which level "real" takes for granted."""
    proven = tuple(g for g in r.when if g not in r.value_guards)
    return replace(r, name=r.name + ASSUMED, when=proven)


def family_name(instance: str) -> str:
    """Return the name of the rule that an instance or reverse direction belongs to."""
    plain = instance.split("[")[0].split("/")[0].removesuffix(ASSUMED)
    return plain.removesuffix("-reverse")


def by_family(counts: Mapping[str, N]) -> dict[str, N]:
    """Sum over the instances and directions of each rule, the most first."""
    found: dict[str, N] = {}
    for name, n in counts.items():
        family = family_name(name)
        found[family] = found[family] + n if family in found else n
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


@lru_cache(maxsize=4096)
def _directions(r: Rule, real: bool, lengths: tuple[int, ...]) -> tuple[_Directed, ...]:
    """Return a rule's directions, instantiated; kept, since every graph asks for the same rules."""
    directions = r.directions()
    if real:
        directions += tuple(assuming(d) for d in directions if d.value_guards)
    return tuple(
        _Directed(
            instance,
            frozenset(p.op for p in walk(instance.lhs) if isinstance(p, Apply)),
            tuple(sorted(indexed_operators(instance.lhs) | indexed_operators(instance.rhs))),
        )
        for direction in directions
        for instance in direction.instances(lengths)
    )


def _closure(
    loaded: Loaded, rules: Sequence[_Directed], numerics: str
) -> tuple[list[RuleText], set[Constructor]]:
    """Return the rules whose left sides can occur, and every constructor that can."""
    constructors = set(loaded.constructors)
    texts: dict[str, RuleText] = {}
    seen: set[str] = set()
    grown = True
    while grown:
        grown = False
        present = {c.op for c in constructors}
        for directed in rules:
            if not directed.operators <= present:
                continue
            r = directed.rule
            for name, outputs in _output_counts(directed, constructors):
                if name in seen or not constructors_of(r.lhs, outputs) <= constructors:
                    continue
                seen.add(name)
                for checks in checks_of(r, None if numerics == "real" else loaded.kinds):
                    n = len(texts)
                    texts[name + checks.mark] = rule_text(r, n, outputs, loaded.interner, checks)
                constructors |= constructors_of(r.rhs, outputs)
                present = {c.op for c in constructors}
                grown = True
    return list(texts.values()), constructors


def _output_counts(
    directed: _Directed, present: set[Constructor]
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the ways to read a rule's indexed operators, one for every number of outputs."""
    counts = [
        sorted({c.outputs for c in present if c.op == op and c.outputs}) for op in directed.indexed
    ]
    for combination in product(*counts):
        outputs = dict(zip(directed.indexed, combination, strict=True))
        tail = "".join(f"/{n}" for n in combination)
        yield directed.rule.name + tail, outputs
