"""Equalities published for tensor graphs: true, verified, and they follow from our rules."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from taso_derivation import derived, distinct, joined
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
def test_its_right_side_is_reached_from_its_left_side(pair: Pair) -> None:
    assert derived(pair)


def test_the_page_of_rules_says_how_many_follow_and_from_which_sides() -> None:
    page = Path(__file__).parent.parent / "docs" / "rules.md"
    text = " ".join(page.read_text().split())
    forward = sum(map(derived, COUNTED))
    back = sum(derived(p, backwards=True) for p in COUNTED)
    assert f"Of the {len(ALL)} equalities published" in text
    assert f"{len(COUNTED)} differ by more than names" in text
    assert f"right sides of {forward} of those ({100 * forward / len(COUNTED):.0f} %)" in text
    assert f"left sides of {back} ({100 * back / len(COUNTED):.0f} %)" in text


@EACH
def test_both_sides_together_end_in_one_class(pair: Pair) -> None:
    assert pair.same_term or joined(pair)
