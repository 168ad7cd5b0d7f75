"""Property-based verification of rules: ok, or the smallest operands that refute the claim."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from egraph_fusion.arguments import bounded, checked
from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.catalogue import find
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import Apply, Many, walk
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.verify_result import Checked, Verification
from egraph_fusion.rulesets.verify_running import Search
from egraph_fusion.rulesets.verify_search import settings_like, settings_of
from egraph_fusion.rulesets.verify_settings import TYPED, Setting

LEAST = 25
"""Examples that each operator of a schema gets at least (if that many are asked for at all)."""
MANY, ENOUGH = 4, 15
"""More instances than `MANY` share their shapes, if more than `ENOUGH` of those fit."""
LEAST_WITHOUT = 100
"""Examples that must fail to refute a rule without a guard before the guard is called unneeded."""


@checked(RuleError, least={"max_examples": 1, "seed": 0, "time_limit": 0, "least": 1})
def verify(
    rule: Rule | str,
    max_examples: int = 200,
    seed: int = 0,
    time_limit: float | None = None,
    shrink: bool = True,
    check_guards: bool = True,
    least: int = LEAST,
) -> Verification:
    """Try to refute the claim that `rule`, or the rule of ours of that name, makes.

    Examples are shared out over the operators and arities that the rule stands for, `least` for
    each at the least (if `max_examples` is not less).  The same seed
    gives the same result unless `time_limit` (seconds) cuts the search short.  `check_guards` also
    reports guards without which the rule holds.  Raises RuleError for a rule with an operator that
    has no meaning over the reals, unless its level is exact or its dtypes are integers, and for
    arguments of another type or numbers that cannot be: there is at least one example.
    """
    rule = find(rule) if isinstance(rule, str) else rule
    # Hypothesis and Random take no integers of numpy.
    max_examples, seed, least = int(max_examples), int(seed), int(least)
    start = time.monotonic()
    deadline = None if time_limit is None else start + bounded(time_limit)
    search = _searched(rule, max_examples, seed, deadline, shrink, least=least)
    counted = Checked(
        dict(search.outcomes),
        search.instances,
        search.settings,
        time.monotonic() - start,
        search.timed_out,
        tuple(sorted({*search.unreached})),
        search.cut,
    )
    if search.found is not None:
        return Verification(rule, False, search.found, counted)
    if not counted.examples:
        note = "out of time" if search.cut else _vacuous(search)
        return Verification(rule, False, None, counted, note=note)
    if counted.doubt:
        return Verification(rule, False, None, counted, note=counted.doubt)
    loose = _unneeded(rule, max_examples, seed, deadline) if check_guards else ()
    return Verification(rule, True, None, replace(counted, timed_out=search.timed_out), loose)


def _vacuous(search: Search) -> str:
    if not search.instances:
        return "no operands satisfy the left side and the guards"
    return "no example decided anything"


def _searched(
    rule: Rule,
    max_examples: int,
    seed: int,
    deadline: float | None,
    shrink: bool,
    violating: Guard | None = None,
    least: int = LEAST,
) -> Search:
    search = Search(rule, deadline, shrink, violating)
    instances = [list(d.instances()) for d in rule.directions()]
    each = max(min(least, max_examples), max_examples // sum(map(len, instances)))
    shaped = violating if violating and violating.kind.form in TYPED else None
    pairs = (pair for some in instances for pair in _with_settings(some, seed, shaped))
    for instance, found in pairs:
        if search.late():
            search.cut = True
            break
        if search.refuted(instance, found, each, seed):
            break
    return search


def _with_settings(
    instances: Sequence[Rule], seed: int, violating: Guard | None
) -> Iterator[tuple[Rule, Sequence[Setting]]]:
    """Yield each instance with settings; many instances share the shapes of the first."""
    first: Sequence[Setting] = ()
    for instance in instances:
        alike = settings_like(instance, first[::2], seed) if len(instances) > MANY else ()
        fresh = len(alike) <= ENOUGH or violating is not None
        found = settings_of(instance, seed, violating=violating) if fresh else alike
        first = first or found
        yield instance, found


def _unneeded(rule: Rule, max_examples: int, seed: int, deadline: float | None) -> tuple[str, ...]:
    loose: list[str] = []
    for g in rule.when:
        if _droppable(g) and holds_without(rule, g, max_examples, seed, deadline):
            loose.append(str(g))
    return tuple(loose)


def _droppable(g: Guard) -> bool:
    """Whether a guard is about operands, not gain, and the same for every operator of a schema."""
    inside = [q for p in g.patterns for q in walk(p)]
    schematic = any(
        isinstance(q, Many) or (isinstance(q, Apply) and q.op.startswith("?")) for q in inside
    )
    return g.kind.form is not Form.GRAPH and not g.gain and not schematic


def holds_without(
    rule: Rule, g: Guard, max_examples: int, seed: int, deadline: float | None = None
) -> bool:
    """Whether a rule stands without its guard `g`, tried only where `g` does not hold."""
    weaker = replace(rule, when=tuple(other for other in rule.when if other != g))
    examples = max(max_examples, LEAST_WITHOUT)
    search = _searched(weaker, examples, seed, deadline, shrink=False, violating=g)
    return search.found is None and not search.timed_out
