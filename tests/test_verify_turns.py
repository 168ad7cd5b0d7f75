"""Every setting is tried, and what is found that way is made small."""

from __future__ import annotations

import math

import numpy as np
import pytest

from egraph_fusion import rulesets
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.rule import rule
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_check import Trial
from egraph_fusion.rulesets.verify_search import settings_of
from egraph_fusion.rulesets.verify_settings import dtypes_of
from egraph_fusion.rulesets.verify_shrink import shrunk
from egraph_fusion.rulesets.verify_turns import in_turn, turns_of

a, b = rulesets.tensors("a b")
p = rulesets.attrs("p")[0]
SUMS = rule("r", ops.reduce_sum(a, axes=p) * b, b * ops.reduce_sum(a, axes=p))


def test_every_setting_has_its_turn_and_then_another_dtype() -> None:
    found = settings_of(SUMS)
    turns = list(in_turn(SUMS, found, 2 * len(found), seed=0))
    tried = [(str(e.setting.shapes), str(e.setting.attributes)) for e in turns]
    assert len({*tried}) == len(found)
    assert tried[: len(found)] == tried[len(found) :]
    pairs = {(*t, e.setting.dtype) for t, e in zip(tried, turns, strict=True)}
    assert len(pairs) == 2 * len(found)
    assert {e.setting.dtype for e in turns} == {*dtypes_of(SUMS)}


def test_turns_are_the_same_for_the_same_seed() -> None:
    first, again, other = (
        [*map(str, in_turn(SUMS, settings_of(SUMS), 20, seed))] for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(("examples", "turns"), [(1, 0), (2, 1), (20, 15), (100, 75), (400, 200)])
def test_at_least_half_of_the_examples_are_turns(examples: int, turns: int) -> None:
    assert turns_of(settings_of(SUMS)[:80], examples) == turns


def test_operands_are_of_their_setting_and_satisfy_guards() -> None:
    roots = rule("r", ops.sqrt(a) + b, b + ops.sqrt(a), [guards.positive(a)])
    for e in in_turn(roots, settings_of(roots), 100, seed=3):
        assert {q: v.shape for q, v in e.arrays.items()} == e.setting.shapes
        assert {DType.of(v.dtype) for v in e.arrays.values()} == {e.setting.dtype}
        assert (e.tensors["a"] > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_every_setting_is_tried(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: set[str] = set()

    def noted(e: Environment) -> Trial:
        tried.add(str((list(e.setting.shapes.values()), e.setting.attributes)))
        return Trial(None, "reals")

    monkeypatch.setattr("egraph_fusion.rulesets.verify_running.tried", noted)
    verify(SUMS, 200, seed, check_guards=False)
    assert len(tried) == len(settings_of(SUMS, seed)) >= 80


def test_what_fails_is_shrunk_to_the_elements_that_matter() -> None:
    doubled = rule("r", a + b, a + b * 1.0)
    settings = settings_of(doubled)
    large = max(settings, key=lambda s: min(map(math.prod, s.shapes.values())))
    first = next(in_turn(doubled, [large], 1, 0))
    values = np.arange(first.arrays[a].size, dtype=np.float32).reshape(first.arrays[a].shape)
    first = Environment(doubled, first.setting, {**first.arrays, a: values})
    last = float(values.max())
    one = [s for s in settings if s.size[0] == len(s.shapes)]

    def fails(e: Environment) -> bool:
        return bool((e.arrays[a] == last).any())

    alone = shrunk(first, [], fails).arrays[a]
    assert sorted({*alone.reshape(-1).tolist()}) == [1.0, last]
    assert (alone == last).sum() == 1
    smallest = shrunk(first, one, fails)
    assert smallest.arrays[a].reshape(-1).tolist() == [last]


@pytest.mark.parametrize("seed", range(4))
def test_counterexamples_are_small(seed: int) -> None:
    between = ops.and_(ops.less(712.3, a), ops.less(a, 712.4))
    found = verify(rule("r", ops.where(between, a * 2.0, a), a), seed=seed).counterexample
    assert found is not None
    assert [v.size for v in found.arrays.values()] == [1]
