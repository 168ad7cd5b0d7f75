"""Rules as tables for people and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from egraph_fusion import terminal

if TYPE_CHECKING:
    from egraph_fusion.rulesets.rule import Rule


def rules_data(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """Return the rules' fields as plain data."""
    return [
        {
            "name": r.name,
            "family": r.family or "structural",
            "schema": r.schema,
            "lhs": str(r.lhs),
            "rhs": str(r.rhs),
            "guards": [str(g) for g in r.guards],
            "dtypes": str(r.dtypes),
            "level": r.level,
            "source": r.source,
        }
        for r in rules
    ]


def rules_table(rules: Sequence[Rule]) -> RenderableType:
    """Return a table for each family, one row a rule."""
    families: dict[str, list[tuple[str, str, str]]] = {}
    for d in rules_data(rules):
        row = (d["name"], f"{d['lhs']} => {d['rhs']}", d["level"])
        families.setdefault(d["family"], []).append(row)
    columns = ("name", "formula", "level")
    return Group(*(terminal.table(f"{len(r)} {f} rules", columns, r) for f, r in families.items()))


def rule_data(rule: Rule) -> dict[str, Any]:
    """Return one rule's fields as plain data, its witness among them."""
    return {**rules_data([rule])[0], "witness": rule.witness}


def rule_text(rule: Rule) -> str:
    """Return one rule, a field a line, then its witness."""
    data = rules_data([rule])[0] | {"guards": ", ".join(map(str, rule.guards)) or "none"}
    fields = [f"{k}: {v}" for k, v in data.items() if v]
    return "\n".join([*fields, *(["witness:", rule.witness.rstrip()] if rule.witness else [])])
