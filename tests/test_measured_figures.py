"""Figures that were measured once and are printed: counted again from what the runs wrote down."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from egraph_fusion import rulesets
from egraph_fusion.rulesets.mutants import mutants

DOCS = Path(__file__).parent.parent / "docs"
USES: dict[str, Any] = json.loads((DOCS / "rule_uses.json").read_text())
GROWTH: dict[str, Any] = json.loads((DOCS / "growth.json").read_text())
RULES_PAGE = (DOCS / "rules.md").read_text()
OURS = {r.name for r in rulesets.ALL}


def test_every_rule_with_a_use_is_one_of_ours() -> None:
    known = {r.name for r in rulesets.default_rules()}
    for model, counted in USES.items():
        assert set(counted) == {"made", "needed"}, model
        assert set(counted["made"]) <= known, model
        assert all(n > 0 for n in counted["made"].values()), model
        assert set(counted["needed"] or ()) <= known, model


def _counted() -> tuple[Counter[str], Counter[str]]:
    """Return in how many models each of the 149 has a use, and in how many a smallest set."""
    used, needed = Counter[str](), Counter[str]()
    for m in USES.values():
        in_set = OURS & set(m["needed"] or ())
        needed.update(in_set)
        used.update(in_set | (OURS & set(m["made"])))
    return used, needed


def test_forty_rules_and_more_have_uses_and_the_page_says_how_many() -> None:
    used, needed = _counted()
    assert len(used) >= 40
    small = sum(m["needed"] is not None for m in USES.values())
    text = " ".join(RULES_PAGE.split())
    assert f"in how many of the {len(USES)} models of the last count" in text
    assert f"in how many of the {small} models for which such a set was looked for" in text
    assert f"{len(used)} of the 149 rules have uses, {len(needed)} of them in a smallest" in text


def test_the_page_says_of_each_rule_in_how_many_models_it_has_uses() -> None:
    used, needed = _counted()
    rows = re.findall(r"^\| \[`([^`]+)`\].* \| ([^|]+) \| [^|]+ \|$", RULES_PAGE, re.MULTILINE)
    wanted = {n: f"{used[n]} ({needed[n]})" if used[n] else "-" for n in OURS}
    assert dict(rows) == wanted


def test_growth_was_measured_on_24_models() -> None:
    assert len(GROWTH) >= 24
    assert {"bert-base", "gpt2"} <= set(GROWTH)


@pytest.mark.parametrize("model", GROWTH)
def test_all_rules_are_nowhere_worse_than_the_printed_ones(model: str) -> None:
    printed, everything = GROWTH[model]["printed"], GROWTH[model]["all"]
    assert everything["flops"] <= printed["flops"]
    assert everything["blocks"] <= printed["blocks"]


@pytest.mark.parametrize("model", GROWTH)
def test_counts_ended_every_measured_run(model: str) -> None:
    for run in GROWTH[model].values():
        assert run["stop_reason"] in ("saturated", "iterations", "nodes", "matches")
        assert run["memory"] < 4 << 30


@pytest.mark.parametrize("model", ["bert-base", "gpt2"])
def test_transformers_end_within_half_a_minute(model: str) -> None:
    run = GROWTH[model]["all"]
    assert max(run["cpu"], run["seconds"]) < 30


def test_the_page_of_growth_has_what_was_measured() -> None:
    page = (DOCS / "growth.md").read_text()
    for model, runs in GROWTH.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {model} | "))
        cells = [c.strip() for c in row.strip("|").split("|")]
        figures = zip(("flops", "blocks"), cells[-2:], strict=True)
        for what, cell in figures:
            both = [f"{runs[which][what]:,}" for which in ("printed", "all")]
            assert cell == " / ".join(dict.fromkeys(both)), (model, what)


MUTATION: dict[str, Any] = json.loads((DOCS / "mutation.json").read_text())
FATES = Counter(o["fate"] for o in MUTATION["outcomes"])


def test_the_verdicts_are_on_a_thousand_mutants_of_every_kind() -> None:
    outcomes = MUTATION["outcomes"]
    assert len(outcomes) >= 1000
    assert set(FATES) <= {"refuted", "missed", "equivalent", "void", "error"}
    assert {o["kind"] for o in outcomes} == {
        "operator", "operands", "constant", "attribute", "sign", "variable",
        "guard", "level", "dtypes",
    }  # fmt: skip


def test_whatever_was_not_refuted_has_a_reason() -> None:
    assert all(o["reason"] for o in MUTATION["outcomes"])


def test_ninety_nine_in_a_hundred_wrong_mutants_are_refuted_and_the_page_says_so() -> None:
    wrong = FATES["refuted"] + FATES["missed"] + FATES["error"]
    rate = FATES["refuted"] / wrong
    assert rate >= 0.99
    text = " ".join((DOCS / "verification.md").read_text().split())
    count, available = len(MUTATION["outcomes"]), MUTATION["available"]
    assert f"Of {count:,} mutants (seed {MUTATION['seed']}; {available:,} can be made)" in text
    assert f"{FATES['refuted']} were refuted and {FATES['missed']} missed" in text
    assert f"a kill rate of {100 * rate:.1f} %" in text
    assert f"{FATES['equivalent']} were called equivalent" in text
    assert f"{FATES['void']} void" in text


def test_the_verdicts_are_on_mutants_of_the_rules_as_they_are_each_once() -> None:
    current = mutants()
    assert MUTATION["available"] == len(current)
    judged = Counter((o["kind"], o["rule"]) for o in MUTATION["outcomes"])
    assert judged <= Counter((m.kind, str(m.rule)) for m in current)  # dtypes are not in the text
