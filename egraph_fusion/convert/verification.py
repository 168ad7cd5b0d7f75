"""Verification of rules by an executor: each rule in a process of its own, here or on a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from egraph_fusion.convert.executors.memory import machine_memory
from egraph_fusion.convert.executors.tasks import Executor, Limits, Outcome, StageReporter, Task
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.verify_report import Row, named_rules, verdict

FUNCTION = "egraph_fusion.convert.verification:verify_rule"
LONGEST = 3600.0
"""Seconds for a rule whose search has no time limit of its own."""
GRACE = 120.0


def verify_on(
    executor: Executor,
    names: Sequence[str] = (),
    max_examples: int = 200,
    seed: int = 0,
    time_limit: float | None = None,
) -> Iterator[Row]:
    """Yield the verdict on each rule that `names` name, in order, as `verify_all` gives it.

    A rule that crashes, hangs or fills the memory has status "error".  Raises RuleError for a name
    that no rule has and for an unusable file.
    """
    sources = _sources(names)
    rules = [(s, i, r) for s in sources for i, r in enumerate(named_rules(s))]
    seconds = LONGEST if time_limit is None else time_limit + GRACE
    limits = Limits(seconds, machine_memory() // executor.slots)
    asked = {"max_examples": max_examples, "seed": seed, "time_limit": time_limit}
    tasks = [
        Task(str(n), FUNCTION, {**asked, "names": list(s), "number": i}, limits)
        for n, (s, i, _) in enumerate(rules)
    ]
    found: dict[int, Row] = {}
    given = 0
    for event in executor.run(tasks, threading.Event()):
        if isinstance(event, Outcome):
            found[int(event.task)] = _row(event, rules[int(event.task)][2])
        while given in found:
            yield found.pop(given)
            given += 1


def verify_rule(request: Mapping[str, Any], stage: StageReporter) -> dict[str, Any]:
    """Verify one rule: an executor's function."""
    number: int = request["number"]
    rule = _rules(tuple(request["names"]))[number]
    stage(f"verifying {rule.name}")
    row = verdict(rule, request["max_examples"], request["seed"], request["time_limit"])
    return {**row.to_dict(), "seconds": row.seconds}


@cache
def _rules(names: tuple[str, ...]) -> tuple[Rule, ...]:
    return named_rules(names)


def _sources(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what to ask `named_rules` for, one source at a time; files by absolute paths."""
    is_file = [n.endswith(".py") or "/" in n for n in names]
    whole = [str(Path(n).absolute()) if f else n for n, f in zip(names, is_file, strict=True)]
    return [(n,) for n in whole] or [()]


def _row(outcome: Outcome, rule: Rule) -> Row:
    if outcome.reply is None:
        return Row(rule.name, str(rule), "error", outcome.seconds, "", reason=outcome.message)
    plain: dict[str, Any] = {k: v for k, v in outcome.reply.items() if k != "ok"}
    plain["unneeded_guards"] = tuple(plain["unneeded_guards"])
    return Row(**plain)
