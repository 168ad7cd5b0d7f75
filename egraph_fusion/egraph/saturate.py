"""Equality saturation of one graph: phases, budgets, and the states worth extracting from."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from egraph_fusion.egraph.demand import type_commands
from egraph_fusion.egraph.facts import Loaded, load_graph
from egraph_fusion.egraph.program import Program, program
from egraph_fusion.egraph.ranges import Facts
from egraph_fusion.egraph.rule_text import RuleText
from egraph_fusion.egraph.session import EXCLUSIVE, Worker, WorkerStoppedError, worker
from egraph_fusion.egraph.state import FACTS, EState, read_state, table_names
from egraph_fusion.ir.graph import Graph
from egraph_fusion.rulesets.rule import Rule

__all__ = ["Limits", "Saturation", "saturate"]

INTERVAL_ROUNDS = 8
"""Rounds in which intervals are refined per iteration: refinement alone need not end."""
MATCH_LIMIT = 2000
"""Matches of a rule in one iteration after which it pauses: BAN iterations, then twice that, ..."""
BAN = 2
DIRECTED_LIMIT = 24
"""Iterations of the directed phase; it shrinks terms, so it hardly ever needs them."""
SETTLE = "(run-schedule (saturate (run types)) (repeat 2 (run facts)) (run asks))"


@dataclass(frozen=True)
class Limits:
    """Budgets: e-nodes and iterations are deterministic, `seconds` is a safety net."""

    nodes: int = 100_000
    iterations: int = 12
    seconds: float = 60.0


@dataclass(frozen=True)
class Saturation:
    """What saturation left: the program, the states (directed phase first) and how it went.

    `hits` says how often each rule matched, `seconds` (of an observed run) how long it was searched
    for and applied, `growth` how many e-nodes there were after each iteration.
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
    banned: dict[str, int] = field(default_factory=dict[str, int])
    bans: dict[str, int] = field(default_factory=dict[str, int])
    iterations: int = 0

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return self.worker.ask(request, self.deadline)


def saturate(
    graph: Graph,
    rules: Sequence[Rule],
    numerics: str = "finite",
    limits: Limits | None = None,
    assumed: Mapping[str, Facts] | None = None,
    observed: bool = False,
) -> Saturation:
    """Saturate `graph` under `rules` and return what can be extracted from.

    `assumed` says what is claimed of inputs.  With `observed`, rules are timed and states hold
    facts.  The result has no state if the worker was stopped before the first one.  Raises
    OptimizeError if the engine refuses the program.
    """
    bounds = limits or Limits()
    deadline = time.monotonic() + bounds.seconds
    loaded = load_graph(graph, assumed)
    text = program(loaded, rules, numerics)
    with EXCLUSIVE:
        run = _Run(loaded, text, worker(), bounds, deadline, observed)
        try:
            reason = _phases(run)
        except WorkerStoppedError as stopped:
            reason = stopped.reason
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
    )


def _phases(run: _Run) -> str:
    run.ask({"new": True, "run": "\n".join(run.program.commands)})
    _settle(run)
    directed = [t for t in run.program.rules if not t.rule.growing]
    reason = _iterate(run, directed, DIRECTED_LIMIT)
    _keep_state(run)
    growing = [t for t in run.program.rules if t.rule.growing]
    if not growing or reason == "nodes":
        return reason
    reason = _iterate(run, list(run.program.rules), run.limits.iterations)
    _keep_state(run)
    return reason


def _iterate(run: _Run, texts: list[RuleText], limit: int) -> str:
    for i in range(limit):
        active = [t for t in texts if run.banned.get(t.ruleset, -1) < i]
        changed = _step(run, active, i) if active else False
        run.iterations += 1
        settled = _settle(run)
        size = run.ask({"size": run.program.tables})["size"]
        run.growth.append(size)
        if not changed and not settled and len(active) == len(texts):
            return "saturated"
        if size > run.limits.nodes:
            return "nodes"
        if size > 2 * run.states[-1].n_nodes if run.states else False:
            _keep_state(run)
    return "iterations"


def _step(run: _Run, texts: list[RuleText], iteration: int) -> bool:
    reply = _timed(run, texts) if run.observed else run.ask({"run": _schedule(texts)})
    matches: dict[str, int] = reply["matches"]
    for t in texts:
        found = matches.get(t.rule.name, 0)
        if found:
            run.hits[t.rule.name] = run.hits.get(t.rule.name, 0) + found
        if found > MATCH_LIMIT:
            times = run.bans[t.ruleset] = run.bans.get(t.ruleset, 0) + 1
            run.banned[t.ruleset] = iteration + BAN * times
    return bool(reply["updated"])


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
    return type_commands(run.loaded.interner) + lines


def _keep_state(run: _Run) -> None:
    names = table_names(run.program.constructors)
    reply = run.ask({"rows": [*names, *FACTS] if run.observed else names})
    run.states.append(read_state(reply["rows"], run.program.constructors, run.loaded))
