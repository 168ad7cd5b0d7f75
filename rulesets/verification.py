"""Property-based verification of rules: ok, or the smallest operands that refute the claim."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException, HypothesisWarning

from egraph_fusion.arguments import bounded, checked
from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.catalogue import find
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import Apply, Many, walk
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.strategies import Environment, drawable, environments_in
from egraph_fusion.rulesets.verify_check import Trial, tried, values_guarded
from egraph_fusion.rulesets.verify_environments import REMIXES, certain, filled, remixed
from egraph_fusion.rulesets.verify_result import Checked, Counterexample, Verification
from egraph_fusion.rulesets.verify_search import settings_like, settings_of, unreached
from egraph_fusion.rulesets.verify_settings import TYPED, Setting
from egraph_fusion.rulesets.verify_shrink import shrunk
from egraph_fusion.rulesets.verify_storage import private_storage
from egraph_fusion.rulesets.verify_turns import in_turn, turns_of

CHECKS = cast("list[HealthCheck]", list(HealthCheck))
"""What hypothesis may complain of: none of it matters where a search is cut off anyhow."""
LEAST = 25
"""Examples that each operator of a schema gets at least (if that many are asked for at all)."""
MANY, ENOUGH = 4, 15
"""More instances than `MANY` share their shapes, if more than `ENOUGH` of those fit."""
SMALL, SMALL_SETTINGS, SMALL_EXAMPLES = 6, 6, 40
"""Elements, settings and examples of the search for a smaller counterexample."""
ROUNDS = 10
"""How often settings are tried of a rule that has only vast ones."""
LEAST_WITHOUT = 100
"""Examples that must fail to refute a rule without a guard before the guard is called unneeded."""


class _RefutedError(Exception):
    """The property that hypothesis is given does not hold."""


class _LateError(Exception):
    """The time limit is over."""


@dataclass
class _Search:
    """The running search for a counterexample of one rule."""

    rule: Rule
    deadline: float | None
    shrink: bool
    violating: Guard | None = None
    outcomes: Counter[str] = field(default_factory=Counter[str])
    instances: int = 0
    settings: int = 0
    unreached: tuple[int, ...] = ()
    found: Counterexample | None = None
    timed_out: bool = False

    def late(self) -> bool:
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.timed_out = True
        return self.timed_out

    def refuted(self, rule: Rule, found: Sequence[Setting], examples: int, seed: int) -> bool:
        """Try one instance; keep the counterexample if there is one."""
        if not found:
            return False
        self.instances += 1
        self.settings += len(found)
        for s in found:
            if s.refusal:
                self.found = Counterexample(rule, filled(rule, s), s.refusal)
                return True
        self.unreached += unreached(rule, found)
        usual = drawable(found)
        for n in range(1 if usual else ROUNDS):
            self._certain(rule, found, seed + n)
            if self.found is not None:
                break
        if usual and self.found is None:
            turns = turns_of(usual, examples)
            self._random(rule, usual, examples - turns, seed)
            if self.found is not None and self.shrink:
                self._smaller(self.found, found, seed)
            if self.found is not None:
                return True
            self._in_turn(rule, usual, turns, seed)
        if self.found is not None and self.shrink:
            self._shrink(self.found, found)
        return self.found is not None

    def _in_turn(self, rule: Rule, found: Sequence[Setting], count: int, seed: int) -> None:
        """Try every setting, as far as `count` goes."""
        with suppress(_RefutedError):
            for e in in_turn(rule, found, count, seed):
                if self.late():
                    break
                self._attempt(e)

    def _shrink(self, first: Counterexample, found: Sequence[Setting]) -> None:
        """Make a counterexample smaller that hypothesis did not find."""

        def fails(e: Environment) -> bool:
            return not self.late() and self._violates(e) and tried(e).problem is not None

        e = shrunk(first.environment, _small(first, found), fails)
        self.found = Counterexample(first.rule, e, tried(e).problem or first.reason)

    def _certain(self, rule: Rule, found: Sequence[Setting], seed: int) -> None:
        """Try what random examples may leave out."""
        for e in certain(rule, found, seed):
            if not self._violates(e):
                continue
            trial = tried(e)
            if trial.problem is not None:
                self.found = Counterexample(rule, e, trial.problem)
                return
            if e.setting.vast:  # what is not drawn is counted here
                self._count(trial)

    def _smaller(self, first: Counterexample, found: Sequence[Setting], seed: int) -> None:
        """Look for a counterexample in the smallest settings, which hypothesis rarely gets to."""
        for s in _small(first, found):
            self._random(first.rule, [s], SMALL_EXAMPLES, seed)
            if self.found is not first:
                return

    def _random(self, rule: Rule, found: Sequence[Setting], examples: int, seed: int) -> None:
        phases = [Phase.generate, *([Phase.shrink] if self.shrink else [])]

        @seeded(seed)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=CHECKS,
        )
        @given(environments_in(rule, found))
        def holds(e: Environment) -> None:
            if self.late():
                self._stop()
            else:
                self._attempt(e)

        # What was found is kept; a search that the clock cuts short looks flaky to hypothesis,
        # which also warns of how long the text of a failing environment is.
        expected = suppress(_RefutedError, _LateError, HypothesisException)
        with private_storage(), warnings.catch_warnings(), expected:
            warnings.simplefilter("ignore", HypothesisWarning)
            holds()

    def _attempt(self, e: Environment) -> None:
        if self._violates(e):
            trial = tried(e)
            self._note(e, trial)
            if trial.how == "bits":
                self._remixed(e)

    def _remixed(self, e: Environment) -> None:
        for number in range(REMIXES):
            other = remixed(e, number + REMIXES * sum(self.outcomes.values()))
            trial = tried(other)
            if trial.problem is not None and self._violates(other):
                self._note(other, trial)

    def _stop(self) -> None:
        """End the search for a counterexample, or else the search for smaller ones."""
        if self.found is None:
            raise _LateError

    def _violates(self, e: Environment) -> bool:
        g = self.violating
        return g is None or g.kind.form is not Form.VALUE or not values_guarded(e, [g])

    def _note(self, e: Environment, trial: Trial) -> None:
        if trial.problem is not None:
            self.found = Counterexample(e.rule, e, trial.problem)
            raise _RefutedError(trial.problem)
        if self.found is None:
            self._count(trial)

    def _count(self, trial: Trial) -> None:
        self.outcomes[trial.how.partition(":")[0]] += 1


def _small(first: Counterexample, found: Sequence[Setting]) -> Sequence[Setting]:
    size = first.environment.setting.size
    small = [s for s in found if s.size[0] <= SMALL and s.left.type.size and s.size < size]
    return small[:SMALL_SETTINGS]


@checked(RuleError, least={"max_examples": 1, "time_limit": 0, "least": 1})
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
    )
    if search.found is not None:
        return Verification(rule, False, search.found, counted)
    if not counted.examples:
        note = "out of time" if search.timed_out else _vacuous(search)
        return Verification(rule, False, None, counted, note=note)
    if counted.doubt:
        return Verification(rule, False, None, counted, note=counted.doubt)
    loose = _unneeded(rule, max_examples, seed, deadline) if check_guards else ()
    return Verification(rule, True, None, replace(counted, timed_out=search.timed_out), loose)


def _vacuous(search: _Search) -> str:
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
) -> _Search:
    search = _Search(rule, deadline, shrink, violating)
    instances = [list(d.instances()) for d in rule.directions()]
    each = max(min(least, max_examples), max_examples // sum(map(len, instances)))
    shaped = violating if violating and violating.kind.form in TYPED else None
    pairs = (pair for some in instances for pair in _with_settings(some, seed, shaped))
    for instance, found in pairs:
        if search.late() or search.refuted(instance, found, each, seed):
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
