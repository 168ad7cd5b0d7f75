"""Verification of many rules at once: in parallel, and reported as text, JSON or JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.catalogue import default_rules, find
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.rule_files import rules_in_file
from egraph_fusion.rulesets.verification import verify

STATUSES = ("ok", "wrong", "undecided", "void", "error")
"""Undecided: too few examples decided anything; void: none could; error: it cannot be tried."""


@dataclass(frozen=True, slots=True)
class Row:
    """The verdict on one rule, as plain data: `status` is one of STATUSES.

    `outcomes` are examples by outcome, as in `Checked`; `detail` is the counterexample as a Python
    snippet, or why there is no verdict.
    """

    name: str
    rule: str
    status: str
    seconds: float
    checked: str
    unneeded_guards: tuple[str, ...] = ()
    reason: str = ""
    detail: str = ""
    outcomes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def ok(self) -> bool:
        """Whether the rule stood."""
        return self.status == "ok"

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a dictionary."""
        return {
            "name": self.name,
            "rule": self.rule,
            "status": self.status,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "checked": self.checked,
            "outcomes": dict(self.outcomes),
            "unneeded_guards": list(self.unneeded_guards),
            "reason": self.reason,
            "detail": self.detail,
        }


def named_rules(names: Sequence[str]) -> tuple[Rule, ...]:
    """Return rules of ours by name, and those in Python files; no name stands for all of ours.

    Raises RuleError for a name that no rule has and for an unusable file.
    """
    if not names:
        return default_rules()
    found: list[Rule] = []
    for name in names:
        is_file = name.endswith(".py") or "/" in name
        found += rules_in_file(Path(name)) if is_file else [find(name)]
    return tuple(found)


def verify_all(
    rules: Sequence[Rule],
    max_examples: int = 200,
    seed: int = 0,
    time_limit: float | None = None,
) -> Iterator[Row]:
    """Yield the verdict on each rule, in order; `time_limit` (seconds) is for each rule."""
    return (verdict(rule, max_examples, seed, time_limit) for rule in rules)


def verdict(rule: Rule, max_examples: int, seed: int, time_limit: float | None) -> Row:
    """Return the verdict on one rule as plain data."""
    try:
        v = verify(rule, max_examples, seed, time_limit)
    except RuleError as e:
        return Row(rule.name, str(rule), "error", 0.0, "", reason=str(e))
    found = v.counterexample
    return Row(
        rule.name,
        str(rule),
        v.status,
        v.checked.seconds,
        str(v.checked),
        v.unneeded_guards,
        v.note if found is None else found.reason,
        "" if found is None else str(found),
        v.checked.outcomes,
    )


def as_text(row: Row) -> str:
    """Return a verdict as text: one line, and the snippet of a counterexample below it."""
    guards = "".join(f"; holds without {g}" for g in row.unneeded_guards)
    reason = f": {row.reason}" if row.reason else ""
    head = f"{row.status:5} {row.name}{reason} ({row.checked}, {row.seconds:.1f} s){guards}"
    return f"{head}\n{row.detail}" if row.detail else head


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the counts by status, and whether all rules stood."""
    counts = {s: sum(r.status == s for r in rows) for s in STATUSES}
    return {"rules": len(rows), **counts, "all_ok": all(r.ok for r in rows)}


def as_junit(rows: Sequence[Row]) -> str:
    """Return the verdicts as a JUnit XML document: a test case for each rule."""
    suite = ElementTree.Element(
        "testsuite",
        name="rules verify",
        tests=str(len(rows)),
        failures=str(sum(r.status not in ("ok", "error") for r in rows)),
        errors=str(sum(r.status == "error" for r in rows)),
        time=f"{sum(r.seconds for r in rows):.3f}",
    )
    for r in rows:
        case = ElementTree.SubElement(
            suite, "testcase", classname="rules", name=r.name, time=f"{r.seconds:.3f}"
        )
        if not r.ok:
            kind = "error" if r.status == "error" else "failure"
            ElementTree.SubElement(case, kind, message=r.reason).text = r.detail or r.rule
        ElementTree.SubElement(case, "system-out").text = as_text(r)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
