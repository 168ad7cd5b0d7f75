"""The running search for operands that refute a rule."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException, HypothesisWarning

from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.strategies import Environment, drawable, environments_in
from egraph_fusion.rulesets.verify_check import Trial, tried, values_guarded
from egraph_fusion.rulesets.verify_environments import (
    REMIXES,
    certain,
    evaluable,
    filled,
    placed,
    remixed,
)
from egraph_fusion.rulesets.verify_result import Counterexample
from egraph_fusion.rulesets.verify_search import unreached
from egraph_fusion.rulesets.verify_settings import Setting
from egraph_fusion.rulesets.verify_shrink import shrunk
from egraph_fusion.rulesets.verify_storage import private_storage
from egraph_fusion.rulesets.verify_turns import in_turn, turns_of

CHECKS = cast("list[HealthCheck]", list(HealthCheck))
"""What hypothesis may complain of: none of it matters where a search is cut off anyhow."""
SMALL, SMALL_SETTINGS, SMALL_EXAMPLES = 6, 6, 40
"""Elements, settings and examples of the search for a smaller counterexample."""
ROUNDS = 10
"""How often settings are tried of a rule that has only vast ones."""


class _RefutedError(Exception):
    """The property that hypothesis is given does not hold."""


class _LateError(Exception):
    """The time limit is over."""


@dataclass
class Search:
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
    cut: bool = False
    """Whether the clock stopped it before each setting had its turn."""

    def late(self) -> bool:
        """Whether the time limit is over."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.timed_out = True
        return self.timed_out

    def refuted(self, rule: Rule, found: Sequence[Setting], examples: int, seed: int) -> bool:
        """Try one instance; keep the counterexample if there is one."""
        found = [s for s in found if not s.refusal or evaluable(rule, s)]
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
            self._certain(certain(rule, found, seed + n))
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
        if self.found is None:
            self._certain(placed(rule, found, seed))
        if self.found is not None and self.shrink:
            self._shrink(self.found, found)
        return self.found is not None

    def _in_turn(self, rule: Rule, found: Sequence[Setting], count: int, seed: int) -> None:
        """Try every setting, as far as `count` goes."""
        with suppress(_RefutedError):
            for n, e in enumerate(in_turn(rule, found, count, seed)):
                if self.late():
                    self.cut = self.cut or n < len(found)
                    break
                self._attempt(e)

    def _shrink(self, first: Counterexample, found: Sequence[Setting]) -> None:
        """Make a counterexample smaller that hypothesis did not find."""

        def fails(e: Environment) -> bool:
            return not self.late() and self._violates(e) and tried(e).problem is not None

        e = shrunk(first.environment, _small(first, found), fails)
        self.found = Counterexample(first.rule, e, tried(e).problem or first.reason)

    def _certain(self, environments: Iterable[Environment]) -> None:
        """Try what random examples may leave out."""
        for e in environments:
            if not self._violates(e):
                continue
            trial = tried(e)
            if trial.problem is not None:
                self.found = Counterexample(e.rule, e, trial.problem)
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
