"""All rules by name, and how a caller picks some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from egraph_fusion.errors import RuleError, UnknownRuleError, suggested
from egraph_fusion.rulesets import associative, commutative, distributive, structural
from egraph_fusion.rulesets.associative import ASSOCIATIVE
from egraph_fusion.rulesets.commutative import COMMUTATIVE
from egraph_fusion.rulesets.distributive import DISTRIBUTIVE
from egraph_fusion.rulesets.expansions import EXPANSIONS
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.rule_files import rules_in_file

__all__ = ["ALL", "FOUNDATION", "STRUCTURAL", "default_rules", "rules_in_file", "select"]

ALL: tuple[Rule, ...] = (*ASSOCIATIVE, *DISTRIBUTIVE, *COMMUTATIVE)
"""The rules that the paper's 149 are counted from."""
STRUCTURAL: tuple[Rule, ...] = (*structural.STRUCTURAL, *EXPANSIONS)
"""The rules that are not counted: identities, changes of layout, and laws read from right to left.
"""
PRINTED: tuple[Rule, ...] = tuple(r for r in ALL if r.source.startswith("DNNFusion"))
"""The ten that the paper prints."""
FOUNDATION: frozenset[str] = frozenset(
    r.name
    for rules in (
        structural.STRUCTURAL,
        PRINTED,
        *(m.CONSTANTS for m in (associative, distributive, commutative)),
    )
    for r in rules
)
"""Names of the rules to saturate first: the structural and the printed ones, and those that gather
constants and move them into weights.  Their result bounds what all together may cost."""


def default_rules() -> tuple[Rule, ...]:
    """Return every rule of ours: the structural ones first."""
    return (*STRUCTURAL, *ALL)


def _named_sets() -> dict[str, tuple[Rule, ...]]:
    families = {
        "associative": ASSOCIATIVE,
        "distributive": DISTRIBUTIVE,
        "commutative": COMMUTATIVE,
    }
    with_structural = {"paper": PRINTED, **families}
    return {
        "all": default_rules(),
        **{name: (*STRUCTURAL, *rules) for name, rules in with_structural.items()},
        "structural": STRUCTURAL,
        "none": (),
    }


NAMED_SETS: dict[str, tuple[Rule, ...]] = _named_sets()
"""Rule sets to compare; "paper" and the families come with the structural rules."""


def select(
    rules: Sequence[Rule | str] | Rule | str | Path, without: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """Return the rules that `rules` names (rules, names of ours, or a Python file), less `without`.

    One rule alone stands for itself.

    Raises RuleError for a name that no rule has, a name used twice, or an unusable file.
    """
    if isinstance(rules, str | Path):
        rules = rules_in_file(Path(rules))
    if isinstance(rules, Rule) or not isinstance(cast("object", rules), Iterable):
        rules = (cast("Rule", rules),)
    ours = {r.name: r for r in default_rules()}
    found = [_rule(ours, r) for r in cast("Iterable[object]", rules)]
    names = [r.name for r in found]
    for name in names:
        if names.count(name) > 1:
            raise RuleError(f"two rules are called {name!r}")
    dropped = set(without)
    for name in sorted(dropped - set(names)):
        raise _unknown(name, names)
    return tuple(r for r in found if r.name not in dropped)


def find(name: str) -> Rule:
    """Return the rule of ours called `name`; RuleError lists names like it if there is none."""
    return _named({r.name: r for r in default_rules()}, name)


def _rule(ours: dict[str, Rule], given: object) -> Rule:
    if isinstance(given, str):
        return _named(ours, given)
    if not isinstance(given, Rule):
        raise RuleError(f"rules are rules, names of ours or a file's path, got {given!r}")
    return given


def _named(ours: dict[str, Rule], name: str) -> Rule:
    if name not in ours:
        raise _unknown(name, ours)
    return ours[name]


def _unknown(name: str, known: Iterable[str]) -> UnknownRuleError:
    hint = suggested(name, known, "`rules list` shows those there are")
    return UnknownRuleError(f"no rule is called {name!r}; {hint}")
