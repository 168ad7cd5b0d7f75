"""Equalities published for tensor graphs: true, verified, and nine in ten follow from our rules."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from taso_derivation import UNDERIVED, derived, distinct, from_one_side
from taso_rules import Pair, pairs
from taso_terms import parsed, value

from egraph_fusion import rulesets

ALL = pairs()
COUNTED = distinct()
EXAMPLES = 10
EACH = pytest.mark.parametrize("pair", ALL, ids=lambda p: str(p.line))
EACH_COUNTED = pytest.mark.parametrize("pair", COUNTED, ids=lambda p: str(p.line))


def _gap(pair: Pair, shapes: dict[str, tuple[int, ...]], seed: int) -> float:
    """Return the largest relative difference of both sides in float64; inf for unlike shapes."""
    rng = np.random.default_rng(seed)
    leaves = {v: rng.normal(size=s) for v, s in shapes.items()}
    left, right = value(pair.left, leaves), value(pair.right, leaves)
    if left.shape != right.shape:
        return float("inf")
    return float(np.abs(left - right).max() / np.abs(left).max(initial=1.0))


def test_the_file_is_read_whole() -> None:
    assert len(ALL) == 120
    assert len(COUNTED) == 67


def test_an_expression_prints_as_it_was_written() -> None:
    text = "(conv2d 1 1 0 2 a (concat 1 4 b c))"
    assert str(parsed(text)) == text


@EACH
def test_both_sides_have_one_value_in_float64(pair: Pair) -> None:
    for seed in range(6):
        assert _gap(pair, pair.shapes(Random(seed)), seed) < 1e-12


@pytest.mark.parametrize("pair", [p for p in ALL if p.grouped], ids=lambda p: str(p.line))
def test_groups_of_unlike_filters_are_wrong_as_published(pair: Pair) -> None:
    """TASO types them: an even number of filters, but not the same number in both convolutions."""
    for seed in range(200):
        shapes = pair.shapes(Random(seed), sizes=(1, 3), even_groups=False)
        first, second = (shapes[o.operands[1].op][0] for o in pair.left.operands)
        if first != second:
            assert _gap(pair, shapes, seed) > 1e-3
            return
    pytest.fail("no unlike filters were drawn")


def test_only_groups_need_more_than_shapes_that_fit() -> None:
    assert [p.line for p in ALL if p.grouped] == [92, 93, 118, 119]


@EACH_COUNTED
def test_our_verifier_accepts_it(pair: Pair) -> None:
    result = rulesets.verify(pair.rule, max_examples=EXAMPLES, check_guards=False)
    assert result.ok, str(result)


@EACH_COUNTED
def test_it_follows_from_our_rules_or_the_reason_is_said(pair: Pair) -> None:
    assert derived(pair) == (pair.line not in UNDERIVED)


def test_nine_in_ten_follow() -> None:
    follow = [p for p in COUNTED if p.line not in UNDERIVED]
    assert len(follow) >= 0.9 * len(COUNTED)


def test_the_page_of_rules_says_how_many_follow_and_from_which_sides() -> None:
    page = Path(__file__).parent.parent / "docs" / "rules.md"
    text = " ".join(page.read_text().split())
    follow = sum(map(derived, COUNTED))
    onward, either = from_one_side()

    def share(count: int) -> str:
        return f"({100 * count / len(COUNTED):.0f} %)"

    assert f"Of the {len(ALL)} equalities published" in text
    assert f"{len(COUNTED)} differ by more than names" in text
    assert f"{follow} of those {share(follow)} follow" in text
    assert f"from the left side alone, {onward} right sides {share(onward)} appear" in text
    assert f"the other one of {either} {share(either)}" in text


@pytest.mark.parametrize("pair", [p for p in ALL if p not in COUNTED], ids=lambda p: str(p.line))
def test_what_is_not_counted_follows_too(pair: Pair) -> None:
    assert pair.same_term or derived(pair)
