"""What bounds saturation: e-nodes, iterations, seconds, and how often a rule may match."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from egraph_fusion.arguments import bounded
from egraph_fusion.egraph.rule_text import RuleText

MATCH_LIMIT = 2000
"""Matches of a rule in one iteration after which it pauses: BAN iterations, then twice that, ..."""
BAN = 2
MATCHES_PER_NODE = 8
"""Matches of a rule in one phase, per e-node of the loaded graph, after which it retires."""
LEAST_MATCHES = 30_000
"""Matches that a rule may have in one phase however small the graph is."""
LEAST_NODES = 10_000
"""E-nodes that are allowed however small the graph is."""
DIRECTED = 24
"""Iterations of rules that only simplify; they shrink terms, so they hardly ever need them."""


@dataclass(frozen=True)
class Limits:
    """Budgets: e-nodes and iterations are deterministic, `seconds` is a safety net.

    There are `iterations` of all rules, and before them twice as many (at most DIRECTED) of those
    that only simplify: a graph stays as it is where there are none.  There may be `nodes` e-nodes,
    or `growth` times as many as the graph has if that is less (LEAST_NODES for a small one): what a
    graph can gain shows long before.
    """

    nodes: int = 100_000
    iterations: int = 12
    seconds: float = 60.0
    growth: int = 10

    @property
    def directed(self) -> int:
        """Iterations of rules that only simplify."""
        return min(DIRECTED, 2 * self.iterations)

    def deadline(self) -> float:
        """Return when a run that starts now is over, in monotonic seconds."""
        return time.monotonic() + bounded(self.seconds)

    def enodes(self, loaded: int) -> int:
        """Return the e-nodes allowed for a graph of `loaded` ones."""
        return min(self.nodes, max(LEAST_NODES, self.growth * loaded))


@dataclass
class Turns:
    """Whose turn it is in one phase: rules that match too often pause, and in the end retire.

    egglog can't be stopped inside a step, so a rule also retires when its next step, grown as its
    last one did, would pass the limit.
    """

    rules: Sequence[RuleText]
    loaded: int
    iteration: int = 0
    paused: dict[str, int] = field(default_factory=dict[str, int])
    pauses: dict[str, int] = field(default_factory=dict[str, int])
    last: dict[str, int] = field(default_factory=dict[str, int])
    total: dict[str, int] = field(default_factory=dict[str, int])
    retired: set[str] = field(default_factory=set[str])

    @property
    def active(self) -> list[RuleText]:
        """The rules that fire in this iteration."""
        return [t for t in self._remaining if self.paused.get(t.ruleset, -1) < self.iteration]

    @property
    def pausing(self) -> bool:
        """Whether a rule will fire again later that doesn't fire now."""
        return len(self.active) < len(self._remaining)

    @property
    def _remaining(self) -> list[RuleText]:
        return [t for t in self.rules if t.ruleset not in self.retired]

    def note(self, matches: Mapping[str, int]) -> None:
        """Take the matches of this iteration by label, and begin the next."""
        for t in self.active:
            self._note(t.ruleset, matches.get(t.label, 0))
        self.iteration += 1

    def _note(self, rule: str, found: int) -> None:
        total = self.total[rule] = self.total.get(rule, 0) + found
        last = self.last.get(rule, 0)
        self.last[rule] = found
        expected = found * found // last if last else 0
        if total + expected > max(LEAST_MATCHES, MATCHES_PER_NODE * self.loaded):
            self.retired.add(rule)
        elif found > MATCH_LIMIT:
            times = self.pauses[rule] = self.pauses.get(rule, 0) + 1
            self.paused[rule] = self.iteration + BAN * times
