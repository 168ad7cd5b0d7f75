"""Rules of others are verified before they are used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.catalogue import default_rules
from egraph_fusion.rulesets.rule import Rule

EXAMPLES = 100
"""Examples that a rule must stand."""
SECONDS = 20.0
"""Seconds in which it is tried."""


def admit(rules: Iterable[Rule]) -> None:
    """Verify every rule that is not one of ours.

    Raises RuleError for the first that is wrong, with a snippet that shows it, or that cannot be
    tried.  A rule is verified once in a process.
    """
    ours = frozenset(default_rules())
    for r in rules:
        if r not in ours:
            problem = _problem(r)
            if problem:
                raise RuleError(problem)


@lru_cache(maxsize=1024)
def _problem(rule: Rule) -> str:
    from egraph_fusion.rulesets.verification import verify  # it loads hypothesis

    skip = "fix it, or use it unverified (verify=False, --no-verify)"
    try:
        found = verify(rule, EXAMPLES, time_limit=SECONDS, check_guards=False)
    except RuleError as e:
        return f"rule {rule.name!r} cannot be verified: {e}; {skip}"
    if found.counterexample is not None:
        return f"rule {rule.name!r} is wrong; {skip}:\n{found.counterexample}"
    return "" if found.ok else f"rule {rule.name!r} cannot be verified: {found.note}; {skip}"
