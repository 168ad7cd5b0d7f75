"""`why` and `why_not`: chains that are replayed step by step, and the nearest misses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from expression_values import applies, close, inputs_of, terms, value

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.experiment import misses
from egraph_fusion.experiment.conditions import unmet
from egraph_fusion.experiment.explanation import Explanation, fewest
from egraph_fusion.experiment.expressions import graph_of
from egraph_fusion.experiment.leaves import Leaf
from egraph_fusion.frontend.example_models import example_path, materialize
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.pattern import Pattern
from egraph_fusion.rulesets.rule import Rule

A = ef.tensor("a", (4, 6), lo=0.0)
B = ef.tensor("b", (4, 6), lo=0.0)
C = ef.tensor("c", (4, 6))
LEAVES = (A, B, C)
x, y, z = rulesets.tensors("x y z")


def check(
    why: Explanation, first: Pattern, second: Pattern, leaves: Sequence[Leaf] = LEAVES
) -> None:
    """Each step is one rule at one place, no value changes, and the ends are what was asked."""
    feeds = inputs_of(*leaves)
    wanted = value(first, feeds)
    assert str(why.start) == str(first)
    chain = [why.start, *(s.after for s in why.steps)]
    assert str(chain[-1]) == str(second)
    for s, before in zip(why.steps, chain, strict=False):
        assert s.before == before
        assert applies(s), str(s)
        assert close(value(s.after, feeds), wanted), str(s)
    assert len(set(map(str, chain))) == len(chain)
    assert set(why.rules) <= set(why.needed)


EQUAL = [
    (ops.sqrt(A) * ops.sqrt(B), ops.sqrt(A * B)),
    (A * C + B * C, (A + B) * C),
    (A * C + B * C + C, C * ((A + B) + 1.0)),
    (ops.neg(-C), C),
    (A - (-C), C + A),
    (ops.relu(ops.relu(C)), ops.relu(C)),
    (
        ops.transpose(A + C, perm=(1, 0)),
        ops.transpose(A, perm=(1, 0)) + ops.transpose(C, perm=(1, 0)),
    ),
    (ops.reduce_sum(A + C, axes=(1,)), ops.reduce_sum(A, axes=(1,)) + ops.reduce_sum(C, axes=(1,))),
    (ops.sqrt(A) * ops.sqrt(A), A),
]


@pytest.mark.parametrize(("first", "second"), EQUAL, ids=lambda p: str(p))
def test_the_chain_leads_from_one_term_to_the_other(first: Pattern, second: Pattern) -> None:
    check(ef.explore(first).why(first, second), first, second)


def test_the_other_way_round_works_as_well() -> None:
    first, second = ops.sqrt(A * B), ops.sqrt(A) * ops.sqrt(B)
    found = ef.explore(second)
    why = found.why(first, second)
    check(why, first, second)
    assert [s.forward for s in why.steps] == [False]


@pytest.mark.parametrize("seed", range(4))
def test_chains_between_terms_that_saturation_joined(seed: int) -> None:
    p = terms(3, LEAVES, np.random.default_rng(seed))
    found = ef.explore(p, node_limit=600, iter_limit=4)
    wide = sorted(found.classes, key=lambda c: -len(c.expressions))[:2]
    for c in wide:
        for other in c.expressions[1:4]:
            check(found.why(c.expressions[0], other), c.expressions[0], other)


def test_only_needed_rules_are_named_and_each_is_needed() -> None:
    first, second = A * C + B * C + C, ((A + B) + 1.0) * C
    why = ef.explore(first).why(first, second)
    assert why.minimal
    named = [rulesets.find(n) for n in why.needed]
    assert ef.explore([first, second], rules=named).equal(first, second)
    for r in named:
        rest = [other for other in named if other != r]
        assert not ef.explore(first, rules=rest).equal(first, second), r.name


def test_an_explanation_lists_its_rules() -> None:
    first, second = ops.sqrt(A) * ops.sqrt(B), ops.sqrt(B * A)
    mine = rulesets.rule(
        "my-sqrt", ops.sqrt(x) * ops.sqrt(y), ops.sqrt(x * y), [guards.nonneg(x), guards.nonneg(y)]
    )
    why = ef.explore(first, rules=[mine, "mul-order"]).why(first, second)
    assert list(why) == ["my-sqrt", "mul-order"] or list(why) == ["mul-order", "my-sqrt"]
    assert "my-sqrt" in why
    assert len(why) == 2
    text = str(why)
    assert text.splitlines()[0].startswith("(sqrt(a) * sqrt(b)) = sqrt((b * a)) by ")
    assert "by my-sqrt" in text


def test_one_term_needs_no_rule() -> None:
    why = ef.explore(A + B).why(A + B, A + B)
    assert why.rules == ()
    assert why.steps == ()
    assert "no rule" in str(why)


def test_two_rules_that_meet_in_a_third_term() -> None:
    halve = rulesets.rule("halve", x + x, x * 2.0)
    spread = rulesets.rule("spread", x + x, ops.sum(x, x), growing=True)
    found = ef.explore(A + A, rules=[halve, spread])
    why = found.why(A * 2.0, ops.sum(A, A))
    assert [(s.rule, s.forward) for s in why.steps] == [("halve", False), ("spread", True)]


def test_unequal_terms_have_no_explanation() -> None:
    with pytest.raises(ef.OptimizeError, match=r"\(a \+ b\) and \(a \+ c\) are not equal"):
        ef.explore(A + B).why(A + B, A + C)


def test_a_rule_above_the_level_explains_nothing() -> None:
    loose = rulesets.rule("loose", ops.exp(ops.log(x)), x, level="real")
    with pytest.raises(ef.OptimizeError):
        ef.explore(ops.exp(ops.log(C)), rules=[loose]).why(ops.exp(ops.log(C)), C)
    found = ef.explore(ops.exp(ops.log(C)), rules=[loose], numerics="real")
    assert found.why(ops.exp(ops.log(C)), C).rules == ("loose",)


def test_a_model_explains_its_own_tensors() -> None:
    found = ef.explore(materialize(example_path("squeezenet1.1")))
    parts = [found.tensor(f"/features/features.3/expand{k}x{k}/Conv_output_0") for k in (1, 3)]
    joined = ops.relu(ops.concat(*parts, axis=1))
    why = found.why("/features/features.3/Concat_output_0", joined)
    assert why.rules == ("concat-over-unary",)
    assert applies(why.steps[0])
    assert str(why.steps[-1].after) == str(joined)


def test_a_term_over_tensors_that_the_model_computes() -> None:
    graph = graph_of([ops.relu(A * C + B * C)]).graph
    found = ef.explore(graph)
    first, second = (found.tensor(n.outputs[0]) for n in graph.nodes if n.op == "Mul")
    why = found.why(graph.nodes[2].outputs[0], second + first)
    assert why.rules == ("add-order",)
    assert applies(why.steps[0])
    whole = found.why(graph.outputs[0], ops.relu((A + B) * C))
    assert "mul-over-add" in whole.rules


def test_fewest_keeps_what_the_property_needs() -> None:
    rules = list(rulesets.ALL[:20])
    wanted = {rules[3].name, rules[11].name, rules[12].name}

    def enough(some: Sequence[Rule]) -> bool:
        return wanted <= {r.name for r in some}

    kept, minimal = fewest(rules, enough, float("inf"))
    assert {r.name for r in kept} == wanted
    assert minimal
    kept, minimal = fewest(rules, enough, 0.0)
    assert not minimal
    assert enough(kept)


def test_why_not_names_the_guard_and_what_is_known() -> None:
    found = ef.explore(ops.sqrt(C) * ops.sqrt(B))
    miss = found.why_not("sqrt-product")
    assert miss
    assert miss.kind == "guard"
    assert miss.node == "(sqrt(c) * sqrt(b))"
    assert miss.reasons == ("nonneg(a) is not known: c has no known bounds",)
    assert "did not fire; nearest at (sqrt(c) * sqrt(b)): nonneg(a) is not known" in str(miss)


def test_why_not_names_the_operand() -> None:
    mine = rulesets.rule("mine", ops.exp(x) * ops.exp(y), ops.exp(x + y))
    miss = ef.explore(ops.exp(A) * ops.tanh(B), rules=[mine]).why_not(mine)
    assert miss.kind == "operand"
    assert miss.reasons == ("the rule wants exp(y) where tanh(b) stands",)


def test_why_not_names_a_constant_an_attribute_and_a_repeated_operand() -> None:
    half = rulesets.rule("half", x * 0.5, x / 2.0)
    miss = ef.explore(A * 0.25, rules=[half]).why_not(half)
    assert miss.reasons == ("the rule wants the constant 0.5 where 0.25 stands",)
    rows = rulesets.rule("rows", ops.reduce_sum(x, axes=(0,)), ops.reduce_sum(x, axes=(0,)) + 0.0)
    miss = ef.explore(ops.reduce_sum(A, axes=(1,)), rules=[rows]).why_not(rows)
    assert miss.reasons == ("axes is (1,), the rule wants (0,)",)
    square = rulesets.rule("square", x * x, ops.pow(x, 2.0))
    miss = ef.explore(A * B, rules=[square]).why_not(square)
    assert miss.reasons == ("x stands twice in the rule, and here for a and b",)


def test_why_not_names_shapes_dtypes_levels_and_absence() -> None:
    same = rulesets.rule("same", x + y, y + x, when=[guards.same_shape(x, y)])
    miss = ef.explore(A + ef.tensor("r", (6,)), rules=[same]).why_not(same)
    assert miss.reasons == ("same_shape(x, y) does not hold: x is a of [4,6], y is r of [6]",)
    miss = ef.explore(ef.tensor("i", (2,), "int32") + 1.0).why_not(same)
    assert "the rule is for float tensors, and i is int32[2]" in miss.reasons
    loose = rulesets.rule("loose", ops.exp(ops.log(x)), x, level="real")
    miss = ef.explore(ops.exp(ops.log(C)), rules=[loose]).why_not(loose)
    assert miss.kind == "level"
    assert "its level is 'real', the run admits up to 'finite'" in str(miss)
    assert ef.explore(A + B).why_not(loose).kind == "level"
    miss = ef.explore(A + B).why_not("sqrt-product")
    assert miss.kind == "absent"


def test_why_not_of_a_rule_that_fired_counts_its_matches() -> None:
    miss = ef.explore(A + B).why_not("add-order")
    assert not miss
    assert miss.hits > 0
    assert "fired" in str(miss)


def test_the_search_for_the_nearest_place_ends_by_a_count_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = ef.explore(sum((ef.tensor(f"x{i}", (4,)) for i in range(1, 7)), ef.tensor("x0", (4,))))
    first, second = found.why_not("add-constants-past"), found.why_not("add-constants-past")
    assert first == second
    assert first.kind == "guard"
    assert first.reasons[-1] == "the search ended after 50000 steps, another place may be nearer"
    assert "the search ended" not in str(found.why_not("conv-add"))
    tried: list[Rule] = []

    def counted(view: Any, r: Rule, *given: Any, **more: Any) -> Any:
        tried.append(r)
        return unmet(view, r, *given, **more)

    monkeypatch.setattr(misses, "unmet", counted)
    assert found.why_not("add-constants-past") == first
    assert 100 < len(tried) <= misses.STEPS // misses.TRIAL + 1
    assert first in found.near_misses()
    monkeypatch.setattr(misses, "STEPS", 0)
    nothing = found.why_not("add-constants-past")
    assert (nothing.kind, nothing.node) == ("operand", "")
    assert nothing.reasons == ("the search ended after 0 steps, another place may be nearer",)


def test_near_misses_put_guards_first() -> None:
    kinds = [m.kind for m in ef.explore(ops.sqrt(C) * ops.sqrt(B)).near_misses()]
    assert kinds[0] == "guard"
    assert kinds == sorted(kinds, key=lambda k: k != "guard")


def test_numbers_that_rules_make_and_fold_are_in_chains() -> None:
    i = ef.tensor("i", (2,), "int64")
    read = ops.gather(ef.tensor("v", (4,)), i + 1)
    at = rulesets.rule("at", ops.gather(x, y + 1) + 0.0, ops.gather(x, y + 1))
    for first, second, rules in (
        (A * 2.0, A + A, None),
        (A * 2.0 * 2.0, A * 4.0, None),
        (A + A + A, A * 3.0, None),
        (read + 0.0, read, [at]),
    ):
        why = ef.explore(first, rules=rules).why(first, second)
        assert why.steps, str(why)
        assert str(why.steps[-1].after) == str(second)
        assert "constant folding" not in why.rules


def test_why_not_says_that_a_rule_was_left_out() -> None:
    miss = ef.explore(A * B, rules=["add-order"]).why_not("mul-order")
    assert miss.kind == "left out"
    assert "it was not among the rules of this run" in miss.reasons[0]


def test_terms_deeper_than_python_recurses_have_chains() -> None:
    deep: Pattern = C
    for _ in range(700):
        deep = ops.tanh(deep)
    why = ef.explore(deep + A, rules=["add-order"]).why(deep + A, A + deep)
    assert [s.rule for s in why.steps] == ["add-order"]
