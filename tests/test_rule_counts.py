"""There are 149 rules, as many of each family as promised, and none follows from the others."""

from __future__ import annotations

from collections import Counter

import pytest
from rule_derivation import derivable, fires

from egraph_fusion import rulesets
from egraph_fusion.rulesets.rule import Rule

FAMILIES = {"associative": 45, "distributive": 38, "commutative": 66}
PRINTED = {
    "recip-recip-product",
    "sqrt-shared-product",
    "abs-around-product",
    "sum-shared-product",
    "mul-over-add",
    "add-own-multiple",
    "square-less-multiple",
    "mul-order",
    "sum-shift-left",
    "prod-exp",
}
"""The rules of the paper's Table 4, exempt from the promise that no rule follows from others."""
OURS = [r for r in rulesets.ALL if r.name not in PRINTED]
SAMPLE = OURS[::17]
EACH = pytest.mark.parametrize("r", OURS, ids=lambda r: r.name)


@pytest.mark.parametrize("family", FAMILIES)
def test_family_has_the_promised_number_of_rules(family: str) -> None:
    assert Counter(r.family for r in rulesets.ALL)[family] == FAMILIES[family]


def test_there_are_149_rules() -> None:
    assert len(rulesets.ALL) == 149


def test_no_two_rules_share_a_name() -> None:
    names = [r.name for r in rulesets.default_rules()]
    assert [n for n, times in Counter(names).items() if times > 1] == []


def test_no_two_rules_share_a_formula() -> None:
    formulas = [(r.lhs, r.rhs) for r in rulesets.default_rules() if r.dtypes == "float"]
    assert len(set(formulas)) == len(formulas)


def test_the_printed_rules_name_their_source() -> None:
    assert {r.name for r in rulesets.ALL if r.source.startswith("DNNFusion, Table 4")} == PRINTED


def test_the_misprint_is_said() -> None:
    corrected = {r.name for r in rulesets.ALL if "misprint corrected" in r.source}
    assert corrected == {"mul-over-add"}


@pytest.mark.parametrize("r", rulesets.ALL, ids=lambda r: r.name)
def test_a_left_side_saturated_under_its_own_rule_holds_the_right_side(r: Rule) -> None:
    assert fires(r)


@EACH
def test_rule_does_not_follow_from_the_others(r: Rule) -> None:
    assert not derivable(r, rulesets.default_rules())


@pytest.mark.parametrize("r", SAMPLE, ids=lambda r: r.name)
def test_rule_of_a_sample_is_verified(r: Rule) -> None:
    result = rulesets.verify(r, max_examples=25)
    assert result.ok, str(result)
