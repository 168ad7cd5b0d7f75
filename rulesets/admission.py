"""Rules of others are verified before they are used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from egraph_fusion.errors import RuleError, UnverifiedRuleError
from egraph_fusion.rulesets.catalogue import default_rules
from egraph_fusion.rulesets.rule import Rule

EXAMPLES = 100
"""Examples that a rule must stand."""
SECONDS = 60.0
"""Seconds in which it is tried."""
ADVICE = "fix it, or use it unverified (verify=False, --no-verify)"


def admit(rules: Iterable[Rule]) -> None:
    """Verify every rule that is not one of ours.

    Raises RuleError for the first that is wrong, with a snippet that shows it, or that cannot be
    tried.  A rule is verified once in a process.
    """
    ours = frozenset(default_rules())
    for r in rules:
        if r not in ours:
            message, snippet = _problem(r)
            if message:
                raise UnverifiedRuleError(message, ADVICE, snippet)


@lru_cache(maxsize=1024)
def _problem(rule: Rule) -> tuple[str, str]:
    """Return in a line what is wrong, and a program that shows it; both empty for a good rule."""
    from egraph_fusion.rulesets.verification import verify  # it loads hypothesis

    try:
        found = verify(rule, EXAMPLES, time_limit=SECONDS, check_guards=False)
    except RuleError as e:
        return f"rule {rule.name!r} cannot be verified: {e}", ""
    wrong = found.counterexample
    if wrong is not None:
        return f"rule {rule.name!r} is wrong: {' '.join(wrong.reason.split())}", str(wrong)
    return ("", "") if found.ok else (f"rule {rule.name!r} cannot be verified: {found.note}", "")
