"""`explore`: what is equal, what is there, what is cheapest, how it grew; checked by numpy."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expression_values import close, inputs_of, reference, terms, value
from onnx import TensorProto, helper
from small_models import dense, dense_inputs, saved, with_opaque

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.experiment.exploration import Exploration
from egraph_fusion.experiment.expressions import graph_of
from egraph_fusion.experiment.leaves import ABSENT
from egraph_fusion.extract.cost import Features
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.pattern import Pattern

A = ef.tensor("a", (4, 6), lo=0.0)
B = ef.tensor("b", (4, 6), lo=0.0)
C = ef.tensor("c", (4, 6))
LEAVES = (A, B, C)
x, y = rulesets.tensors("x y")
SQRT = rulesets.rule(
    "sqrt-mul",
    ops.sqrt(x) * ops.sqrt(y),
    ops.sqrt(x * y),
    when=[guards.nonneg(x), guards.nonneg(y)],
)


@pytest.fixture(scope="module")
def roots() -> Exploration:
    return ef.explore(ops.sqrt(A) * ops.sqrt(B), rules=[SQRT])


def test_a_rule_makes_its_sides_equal(roots: Exploration) -> None:
    assert roots.equal(ops.sqrt(A) * ops.sqrt(B), ops.sqrt(A * B))
    assert not roots.equal(ops.sqrt(A), ops.sqrt(B))
    assert roots.saturated


def test_contains_says_what_the_e_graph_holds(roots: Exploration) -> None:
    assert roots.contains(ops.sqrt(A * B))
    assert roots.contains(A * B)
    assert roots.contains("a")
    assert not roots.contains(B * A)
    assert not roots.contains(ef.tensor("elsewhere", (2,)))


def test_a_term_outside_the_e_graph_is_explored_with_it(roots: Exploration) -> None:
    both = ef.explore(ops.sqrt(A) * ops.sqrt(B), rules=[SQRT, "mul-order"])
    assert not roots.equal(ops.sqrt(A * B), ops.sqrt(B * A) + 0.0)
    assert both.equal(ops.sqrt(A * B) + C, ops.sqrt(B * A) + C)
    assert not both.contains(ops.sqrt(B * A) + C)


def test_without_the_claim_the_guard_holds_the_rule_back() -> None:
    found = ef.explore(ops.sqrt(C) * ops.sqrt(B), rules=[SQRT])
    assert not found.equal(ops.sqrt(C) * ops.sqrt(B), ops.sqrt(C * B))
    assert found.hits == {}


def test_a_name_stands_for_its_value_and_near_names_are_told(roots: Exploration) -> None:
    assert roots.equal("a", A)
    assert roots.tensor("a") == A
    with pytest.raises(ef.ModelError, match="no tensor called 'aa'; did you mean a"):
        roots.contains("aa")
    with pytest.raises(ef.ModelError, match=r"'a' is float32\[4,6\].*float32\[2\] here"):
        roots.contains(ops.exp(ef.tensor("a", (2,))))


def test_hits_time_and_growth_are_counted(roots: Exploration) -> None:
    assert roots.hits["sqrt-mul"] > 0
    assert roots.seconds["sqrt-mul"] > 0
    assert len(roots.growth) == roots.iterations > 0
    assert roots.growth[-1] == 5  # two roots, their product; the other product, its root
    assert roots.enodes == 5 + 3  # a, b and the absent operand
    assert list(roots.growth) == sorted(roots.growth)
    assert len(roots.classes) <= roots.eclasses


def test_classes_print_with_types_bounds_and_terms(roots: Exploration) -> None:
    text = "\n".join(map(str, roots.classes))
    assert "float32[4,6] in [0, inf] = (sqrt(a) * sqrt(b)) | sqrt((a * b))" in text
    assert "(sqrt(a) * sqrt(b))" in str(roots)


def test_the_cheapest_term_has_fewer_flops_and_the_same_value(roots: Exploration) -> None:
    best = roots.extract()
    assert str(best.expression) == "sqrt((a * b))"
    assert best.cost == best.flops == 2 * 24
    assert best.gap == 0
    assert best.uses == {"sqrt-mul": 2}
    assert "48 FLOPs, 2 operators (proven cheapest in the e-graph)" in str(best)


@pytest.mark.parametrize("extractor", ["tree", "greedy-dag", "exact", "auto"])
@pytest.mark.parametrize("cost", ["flops", "bytes"])
def test_every_extractor_gives_an_equal_graph(extractor: str, cost: str) -> None:
    p = A * C + B * C + C
    found = ef.explore(p)
    best = found.extract(cost=cost, extractor=extractor)
    feeds = inputs_of(*LEAVES)
    assert close(value(best.expression, feeds), value(p, feeds))
    (result,) = reference(best.graph, feeds)
    assert np.allclose(result, value(p, feeds), rtol=1e-4, atol=1e-4)
    if cost == "flops":
        assert best.cost == best.flops <= 3 * 24


def test_a_cost_model_of_ones_own_decides() -> None:
    def adds_only(features: Features) -> int:
        return features.blocks + 5 * features.flops

    found = ef.explore(A * C + B * C)
    assert found.extract(cost=adds_only).totals.ops == 2


class SpeechlessError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ZeroDivisionError("none"), "ZeroDivisionError: none"),
        (ef.ModelError("mine"), "ModelError: mine"),
        (KeyError(), "KeyError"),
        (SpeechlessError(), r"SpeechlessError: \(its text cannot be shown\)"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_a_cost_function_raises_is_told_with_its_name(
    roots: Exploration, error: Exception, text: str
) -> None:
    def my_cost(_: Features) -> int:
        raise error

    with pytest.raises(ef.OptimizeError, match=f"my_cost raised {text} for Features") as caught:
        roots.extract(cost=my_cost)
    assert caught.value.__cause__ is error
    with pytest.raises(ef.OptimizeError, match=r"integer from 0 on; .*<lambda> gives 1.5"):
        roots.extract(cost=lambda _: 1.5)  # type: ignore[arg-type, return-value]


def test_unknown_options_are_named(roots: Exploration) -> None:
    with pytest.raises(ef.OptimizeError, match="no cost model is called 'watts'"):
        roots.extract(cost="watts")
    with pytest.raises(ef.OptimizeError, match="no extractor is called 'luck'"):
        roots.extract(extractor="luck")
    with pytest.raises(ef.OptimizeError, match="no numerics level is called 'sloppy'"):
        ef.explore(A + B, numerics="sloppy")
    with pytest.raises(ef.RuleError, match="no rule is called 'sqrt-mull'"):
        ef.explore(A + B, rules=["sqrt-mull"])
    with pytest.raises(ef.OptimizeError, match="2 outputs"):
        ef.explore([A + B, A - B]).extract().expression  # noqa: B018


@pytest.mark.parametrize("seed", range(6))
def test_all_terms_of_a_class_have_one_value(seed: int) -> None:
    p = terms(4, LEAVES, np.random.default_rng(seed))
    found = ef.explore(p, node_limit=2000, iter_limit=5)
    feeds = inputs_of(*LEAVES, seed=seed)
    compared = 0
    for c in found.classes:
        results = [value(e, feeds) for e in c.expressions]
        first = np.broadcast_to(results[0], c.type.static_shape or ())
        for other in results[1:]:
            compared += 1
            assert close(first, np.broadcast_to(other, first.shape)), (c.id, c.terms)
        low, high = c.interval
        assert first.size == 0 or (first.min() >= low - 1e-9 and first.max() <= high + 1e-9)
    assert compared or len(found.classes) < 4


@pytest.mark.parametrize("seed", range(4))
def test_equal_agrees_with_classes(seed: int) -> None:
    p = terms(3, LEAVES, np.random.default_rng(100 + seed))
    found = ef.explore(p, node_limit=1000, iter_limit=4)
    firsts = [c.expressions[0] for c in found.classes][:6]
    for e, f in itertools.combinations(firsts, 2):
        # A number that rules made and the graph's own constant are two classes.
        assert found.equal(e, f) is (e == f)
    for c in found.classes:
        assert all(found.contains(e) for e in c.expressions)


def test_several_expressions_share_one_e_graph() -> None:
    found = ef.explore([A * C + B * C, (A + B) * C], rules=["mul-over-add", "mul-order"])
    assert found.equal(A * C + B * C, (A + B) * C)
    assert len(found.extract().expressions) <= 2


def test_a_model_is_explored_by_path_proto_and_graph(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path / "m.onnx")
    for source in (path, str(path), dense(), ef.load(dense())):
        found = ef.explore(source)
        w = found.tensor("w")
        assert found.equal("m", found.tensor("x") @ w)
        assert w.value is not None
        best = found.extract().graph
        wanted = reference(ef.load(dense()), dense_inputs())
        for r, s in zip(reference(best, dense_inputs()), wanted, strict=True):
            assert np.allclose(r, s, rtol=1e-5, atol=1e-5)


def test_an_opaque_node_is_a_value_by_itself() -> None:
    found = ef.explore(with_opaque())
    assert found.contains("y")
    assert "places" in str(found) or "y" in str(found.classes)
    assert found.extract().graph.nodes


def test_what_cannot_be_explored_is_named(tmp_path: Path) -> None:
    with pytest.raises(ef.ModelError, match="what is an empty list"):
        ef.explore([])
    with pytest.raises(
        ef.ModelError, match=r"explore: what is .*3\] \(list\); expected Pattern, a list of Pattern"
    ):
        ef.explore([A, 3])  # type: ignore[list-item]  # what a caller may get wrong
    with pytest.raises(ef.ModelError, match=r"none\.onnx"):
        ef.explore(tmp_path / "none.onnx")


def test_an_integer_that_no_float_holds_stays_a_constant() -> None:
    i = ef.tensor("i", (3,), "int64")
    big = ef.constant("big", np.array(2**53 + 1, np.int64))
    found = ef.explore(i + big)
    assert found.equal(i + big, big + i)
    assert "(i + big)" in str(found)
    (expression,) = found.extract().expressions
    assert str(expression) in ("(i + big)", "(big + i)")


def test_a_run_that_ends_before_its_first_state_says_so() -> None:
    with pytest.raises(ef.OptimizeError, match="ended by its time_limit of 0 s"):
        ef.explore(A * C + B * C, time_limit=0.0)


def test_limits_end_the_run_with_what_was_found() -> None:
    p: Pattern = C
    for i in range(12):
        p = p + ef.tensor(f"t{i}", (4, 6))
    found = ef.explore(p, node_limit=60, iter_limit=6)
    assert found.stop_reason in ("nodes", "iterations", "matches")
    assert found.extract().totals.ops <= 12


def test_a_constant_that_overflows_when_folded_is_left_to_run_time() -> None:
    k = ef.constant("k", np.array([1000, 1], np.float32))
    x = ef.tensor("x", (2,))
    found = ef.explore(x * ops.exp(k), rules=[]).extract()
    assert str(found.expression) == "(x * exp(k))"
    squared = ef.explore(
        x + ops.exp(ef.constant("h", np.array([80, 1], np.float32))) ** 2.0
    ).extract()
    assert "folded" not in str(squared.expression)


wrong = rulesets.rule("sums", ops.abs(x), ops.reduce_sum(ops.abs(x), axes=(0,)))
halves = rulesets.rule("one-row", ops.tanh(x), ops.reduce_sum(ops.tanh(x), axes=(0,)))
squares = rulesets.rule("untyped", ops.sin(x), ops.matmul(ops.sin(x), ops.sin(x)))
dropped = rulesets.rule("dropped", (x - x) + y, y)
ROW = ef.tensor("row", (6,))


@pytest.mark.parametrize(
    ("term", "rule", "reason"),
    [
        (ops.abs(A), wrong, "float32[1,6], and its left side float32[4,6]"),
        (ops.abs(ops.abs(A)), wrong, "float32[1,6], and its left side float32[4,6]"),
        (ops.sin(A), squares, "of no type, and its left side float32[4,6]"),
        ((A - A) + ROW, dropped, "float32[6], and its left side float32[4,6]"),
        (ROW * ef.constant("ones", np.ones((4, 6), np.float32)), "mul-one", "enlarges nothing"),
    ],
    ids=str,
)
def test_a_rule_whose_sides_have_two_types_hits_nothing(
    term: Pattern, rule: rulesets.Rule | str, reason: str
) -> None:
    found = ef.explore(term, rules=[rule])
    assert found.hits == {}
    miss = found.why_not(rule)
    assert (miss.kind, miss.hits) == ("guard", 0)
    assert reason in miss.reasons[0]
    assert ef.optimize(graph_of([term]).graph, [rule], verify=False).report.rule_hits == {}


def test_only_rewrites_between_two_terms_of_one_type_are_hits() -> None:
    one = ef.tensor("one", (1, 6))
    both = ef.explore([ops.tanh(A), ops.tanh(one)], rules=[halves])
    assert both.hits == {"one-row": 1}
    ones = ef.constant("ones", np.ones((4, 6), np.float32))
    fine, two = A * ones, [A * ones, ROW * ones]
    assert ef.explore(two, rules=["mul-one"]).hits == ef.explore(fine, rules=["mul-one"]).hits != {}


def test_a_rewrite_to_what_is_there_already_is_a_hit() -> None:
    found = ef.explore([A * B, B * A], rules=["mul-order"])
    assert found.hits["mul-order"] >= 2
    assert found.growth[-1] == found.growth[0] == 2


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        (C * 0.1 * 10.0, "identity(c)"),  # 10 times the float nearest to 0.1 is a float above 1
        (C * 0.7 * (1 / 0.7), "identity(c)"),
        (C * 0.1 * -10.0, "-c"),
        (C / 10.0 / 0.1, "identity(c)"),
        (C + 0.5 + -0.5, "identity(c)"),
        (C + 0.1 + 0.2 - (0.1 + 0.2), "(c + "),  # the float nearest to the sum is not the sum
        (C * 0.1 * 3.0, "(c * 0.3"),
    ],
    ids=str,
)
def test_neutral_numbers_that_folding_makes_are_left_out(term: Pattern, wanted: str) -> None:
    best = ef.explore(term).extract()
    assert str(best.expression).startswith(wanted)
    graph = graph_of([term]).graph
    optimized = ef.optimize(graph)
    assert optimized.report.flops_after == best.flops
    feeds = inputs_of(C)
    for made in (best.graph, optimized.graph):
        assert np.allclose(reference(made, feeds)[0], value(term, feeds), rtol=1e-5, atol=1e-6)


def test_what_rounds_to_one_is_not_one() -> None:
    almost = ef.constant("k", np.float32(0.1)) * 10.0
    found = ef.explore([C * almost, C + (almost - 1.0) * 1e8])
    assert found.equal(C * almost, C)
    assert not found.contains(C + 0.0)
    last = found.extract().expressions[1]
    feeds = inputs_of(C)
    excess = (10 * float(np.float32(0.1)) - 1.0) * 1e8
    assert abs(excess - 1.49) < 0.01
    assert np.allclose(value(last, feeds), feeds["c"] + excess, rtol=1e-5)


def test_an_absent_operand_is_part_of_a_term() -> None:
    top = ef.constant("top", np.float32(1))
    found = ef.explore(ops.neg(ops.clip(C, ABSENT, top)))
    assert found.contains(ops.clip(C, ABSENT, top))
    assert not found.contains(ops.clip(C, top))
    for c in found.classes:
        assert all(found.contains(e) for e in c.expressions)


def test_opaque_nodes_of_one_name_keep_their_own_outputs() -> None:
    nodes = [
        helper.make_node("NonZero", [v], [f"at_{v}"], name="where") for v in ("first", "second")
    ]
    ins = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [4]) for v in ("first", "second")]
    outs = [helper.make_tensor_value_info(f"at_{v.name}", TensorProto.INT64, [1, "n"]) for v in ins]
    graph = helper.make_graph(nodes, "two", ins, outs)
    found = ef.explore(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    assert found.expressions == ("at_first", "at_second")


def test_what_is_asked_is_a_term_a_name_or_a_rule(roots: Exploration) -> None:
    anything: Any = roots
    for wrong in (3, None, [A], np.ones(2)):
        for ask in (anything.contains, anything.tensor, partial(anything.equal, A)):
            with pytest.raises(ef.ModelError, match=r"(x|y|name) is .*; expected"):
                ask(wrong)
        with pytest.raises(ef.RuleError, match=r"why_not: rule is .*; expected Rule or str"):
            anything.why_not(wrong)
    tensor: Any = ef.tensor
    for bound in ("3", True, [1.0], object()):
        with pytest.raises(ef.ModelError, match=r"tensor 't': hi is .*; expected a number"):
            tensor("t", (2,), hi=bound)


def test_a_rule_on_outputs_of_several_counts_is_counted_once() -> None:
    at = rulesets.attrs("p")[0]
    first = rulesets.rule(
        "abs-first", ops.abs(ops.split(x, attrs=at)[0]), ops.split(ops.abs(x), attrs=at)[0]
    )
    parts = [ops.split(v, axis=0, split=sizes) for v, sizes in ((A, (2, 2)), (C, (1, 1, 2)))]
    both = [ops.abs(p[0]) for p in parts]
    alone = [ef.explore(t, rules=[first]).hits["abs-first"] for t in both]
    assert ef.explore(both, rules=[first]).hits["abs-first"] == sum(alone)
