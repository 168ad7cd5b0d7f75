"""Equality saturation of one graph: phases, budgets, and the states worth extracting from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from egraph_fusion.egraph.budgets import Limits, Turns
from egraph_fusion.egraph.demand import interned_commands
from egraph_fusion.egraph.facts import Loaded, load_graph
from egraph_fusion.egraph.program import Program, family_name, program
from egraph_fusion.egraph.ranges import Facts
from egraph_fusion.egraph.rule_text import RuleText
from egraph_fusion.egraph.session import EXCLUSIVE, Worker, WorkerStoppedError, worker
from egraph_fusion.egraph.state import FACTS, EState, read_state, table_names
from egraph_fusion.ir.graph import Graph
from egraph_fusion.rulesets.rule import Rule

__all__ = ["Limits", "Saturation", "saturate"]

INTERVAL_ROUNDS = 8
"""Rounds in which intervals are refined per iteration: refinement alone need not end."""
EXPANDED, EXPANSIONS, APART = 100, 2, 500
"""E-nodes up to which sums are taken apart, how often (a sum in a sum takes two), and the e-nodes
that may come of it: terms that cancel would grow without end."""
REFUSALS = "(run-schedule (run refusals))"
FORGET = "(run-schedule (run forgetting))"
SETTLE = "(run-schedule (saturate (run types)) (repeat 2 (run facts)) (run asks))"


@dataclass(frozen=True)
class Saturation:
    """What saturation left: the program, the states, each part of the next, and how it went.

    `hits` says how often each rule was applied: how many of its matches gave two terms of one type,
    which are then equal, whether they were before or not; a place where a class has changed since
    is matched again.  `seconds` (of an observed run) says how long each rule was searched for and
    applied, `growth` how many e-nodes there were after each iteration.  `early` is the state in
    which the rules to be run first left the e-graph.  `memory` is the most the worker ever held, in
    bytes; `note` says what went wrong if the worker was stopped.
    """

    loaded: Loaded
    rules: tuple[Rule, ...]
    program: Program
    states: tuple[EState, ...]
    iterations: int
    stop_reason: str
    hits: dict[str, int]
    growth: tuple[int, ...]
    seconds: dict[str, float]
    early: EState | None = None
    memory: int = 0
    note: str = ""


@dataclass
class _Run:
    """One saturation under way."""

    loaded: Loaded
    program: Program
    worker: Worker
    limits: Limits
    deadline: float
    observed: bool
    states: list[EState] = field(default_factory=list[EState])
    hits: dict[str, int] = field(default_factory=dict[str, int])
    growth: list[int] = field(default_factory=list[int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    iterations: int = 0
    early: EState | None = None
    loaded_nodes: int = 0
    changed: bool = True
    memory: int = 0

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        reply = self.worker.ask(request, self.deadline)
        self.memory = reply["memory"]
        return reply

    def size(self) -> int:
        """Return the number of e-nodes."""
        return int(self.ask({"size": self.program.tables})["size"])


def saturate(
    graph: Graph,
    rules: Sequence[Rule],
    numerics: str = "finite",
    limits: Limits | None = None,
    assumed: Mapping[str, Facts] | None = None,
    observed: bool = False,
    first: Collection[str] = (),
) -> Saturation:
    """Saturate `graph` under `rules` and return what can be extracted from.

    The rules named by `first` are run to their end before the others join them.  `assumed` says
    what is claimed of inputs.  With `observed`, rules are timed and states hold facts.  The result
    has no state if the worker was stopped before the first one.  Raises OptimizeError if the
    engine refuses the program.
    """
    bounds = limits or Limits()
    deadline = bounds.deadline()
    loaded = load_graph(graph, assumed, stepwise=numerics == "exact")
    admitted = [r for r in rules if not r.expanding or len(graph.nodes) <= EXPANDED]
    text = program(loaded, admitted, numerics)
    note = ""
    with EXCLUSIVE:
        run = _Run(loaded, text, worker(), bounds, deadline, observed)
        try:
            reason = _phases(run, first)
        except WorkerStoppedError as stopped:
            reason, note = stopped.reason, str(stopped)
    return Saturation(
        loaded,
        tuple(rules),
        text,
        tuple(run.states),
        run.iterations,
        reason,
        run.hits,
        tuple(run.growth),
        run.seconds,
        run.early,
        run.memory,
        note,
    )


def _phases(run: _Run, first: Collection[str]) -> str:
    """Run the first rules, then all; each time those that simplify before those that grow."""
    run.ask({"new": True, "run": "\n".join(run.program.commands)})
    _settle(run)
    run.loaded_nodes = run.size()
    rules = [t for t in run.program.rules if not t.rule.expanding]
    early = [t for t in rules if family_name(t.rule.name) in first]
    if early and len(early) < len(rules):
        reason = _pair_of_phases(run, early)
        run.early = run.states[-1]
        if reason == "nodes":
            return reason
    reason = _pair_of_phases(run, rules)
    return _expanded(run, rules) if reason == "saturated" else reason


def _pair_of_phases(run: _Run, texts: list[RuleText]) -> str:
    directed = [t for t in texts if not t.rule.growing]
    reason = _iterate(run, directed, run.limits.directed)
    _keep_state(run)
    if len(directed) == len(texts) or reason == "nodes":
        return reason
    reason = _iterate(run, texts, run.limits.iterations)
    _keep_state(run)
    return reason


def _expanded(run: _Run, rules: list[RuleText]) -> str:
    """Take sums apart in a small e-graph that is saturated, and run all rules again for a while."""
    expanding = [t for t in run.program.rules if t.rule.expanding]
    allowed = min(APART, run.limits.enodes(run.loaded_nodes))
    for _ in range(EXPANSIONS if expanding else 0):
        if run.size() > EXPANDED:
            break
        if not _iteration(run, expanding, Turns(expanding, run.loaded_nodes)):
            break
        _iterate(run, rules, run.limits.iterations, allowed)
        _keep_state(run)
    return "saturated"


def _iterate(run: _Run, texts: Sequence[RuleText], limit: int, allowed: int | None = None) -> str:
    turns = Turns(texts, run.loaded_nodes)
    allowed = allowed or run.limits.enodes(run.loaded_nodes)
    size = run.growth[-1] if run.growth else run.loaded_nodes
    for _ in range(limit):
        active, pausing = turns.active, turns.pausing
        changed = _iteration(run, active, turns)
        before, size = size, run.growth[-1]
        if size > allowed or size * size > 2 * allowed * before:  # as the next step would
            return "nodes"
        if not changed and not pausing:
            return "matches" if turns.retired else "saturated"
        if size > 2 * (run.states[-1].n_nodes if run.states else run.loaded_nodes):
            _keep_state(run)
    return "iterations"


def _iteration(run: _Run, active: list[RuleText], turns: Turns) -> bool:
    """Apply rules once and settle; return whether anything changed."""
    changed, matches = _step(run, active, turns) if active else (False, {})
    run.iterations += 1
    settled = _settle(run)
    _note_hits(run, active, matches)
    run.changed = run.changed or changed or settled
    run.growth.append(run.size())
    return changed or settled


def _step(run: _Run, active: list[RuleText], turns: Turns) -> tuple[bool, dict[str, int]]:
    """Apply rules once; return whether anything changed, and the matches of each by label."""
    reply = _timed(run, active) if run.observed else run.ask({"run": _schedule(active)})
    matches: dict[str, int] = reply["matches"]
    turns.note(matches)
    return bool(reply["updated"]), matches


def _note_hits(run: _Run, active: list[RuleText], matches: Mapping[str, int]) -> None:
    """Count the matches of one iteration, less those whose two terms have not the same type."""
    refused = _refused(run, matches)
    for t in active:
        found = matches.get(t.label, 0) - refused.get(t.label, 0)
        if found > 0:
            run.hits[t.rule.name] = run.hits.get(t.rule.name, 0) + found


def _refused(run: _Run, matches: Mapping[str, int]) -> dict[str, int]:
    """Return how many terms that each rule just made differ in type from what they rewrite.

    They are all its matches where no term that it made ever had the right type.  They are
    forgotten, so that they count again where the rule matches again.
    """
    if not run.ask({"run": REFUSALS})["matches"]:
        return {}
    rows = run.ask({"rows": ["refused", "applied"]})["rows"]
    run.ask({"run": FORGET})
    fired = {row[0] for row in rows["applied"]}
    found: dict[str, int] = {}
    for k, n in Counter(int(row[0]) for row in rows["refused"]).items():
        label = run.program.rules[k].label
        found[label] = n if k in fired else matches.get(label, 0)
    return found


def _schedule(texts: Sequence[RuleText]) -> str:
    return f"(run-schedule {' '.join(f'(run {t.ruleset})' for t in texts)})"


def _timed(run: _Run, texts: list[RuleText]) -> dict[str, Any]:
    """Run the rules one by one; the result is the same, and it takes up to twice the time."""
    reply = run.ask({"steps": [_schedule([t]) for t in texts]})
    for t, seconds in zip(texts, reply["seconds"], strict=True):
        run.seconds[t.rule.name] = run.seconds.get(t.rule.name, 0.0) + seconds
    return reply


def _settle(run: _Run) -> bool:
    """Type everything and answer every question; return whether anything changed."""
    wants = list(run.program.demands)
    answers: list[str] = []
    changed = False
    for round_number in range(10_000):
        text = "\n".join([*answers, SETTLE])
        reply = run.ask({"run": text, "fresh": wants})
        changed = changed or bool(reply["updated"])
        answers = _answers(run, reply["fresh"], round_number < INTERVAL_ROUNDS)
        if not answers:
            break
    return changed


def _answers(run: _Run, fresh: dict[str, list[list[Any]]], intervals: bool) -> list[str]:
    lines: list[str] = []
    for want in sorted(fresh):
        if want.startswith("want-iv-") and not intervals:
            continue
        demand = run.program.demands[want]
        for row in fresh[want]:
            lines += demand.answer(tuple(row))
    return interned_commands(run.loaded.interner) + lines


def _keep_state(run: _Run) -> None:
    """Read the state out, unless it is the last one still."""
    if run.states and not run.changed:
        return
    names = table_names(run.program.constructors)
    reply = run.ask({"rows": [*names, *FACTS] if run.observed else names})
    run.states.append(read_state(reply["rows"], run.program.constructors, run.loaded))
    run.changed = False
