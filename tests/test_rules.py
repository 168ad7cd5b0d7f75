"""Every rule is sound on random operands, fires and prints; malformed ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rule_check import check
from rule_graphs import left_side
from rule_sampling import Sampler

from egraph_fusion import rulesets
from egraph_fusion.egraph.saturate import saturate
from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import Graph
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.guards import GUARDS, Guard, nonneg, rank_at_least, same_shape
from egraph_fusion.rulesets.rule import Rule, rule

RULES = rulesets.default_rules()
EACH = pytest.mark.parametrize("r", RULES, ids=lambda r: r.name)
a, b, c = rulesets.tensors("a b c")
axes, k = rulesets.attrs("axes k")


@EACH
def test_rule_is_sound(r: Rule) -> None:
    result = check(r)
    assert result.ok, str(result.counterexample)
    assert result.checked >= 10


@EACH
def test_rule_fires_on_its_own_left_side(r: Rule) -> None:
    for direction in r.directions():
        instance = next(iter(direction.instances()))
        assert _fires(instance), f"{instance} does not fire"


def _fires(instance: Rule) -> bool:
    for seed in range(20):
        env = Sampler(np.random.default_rng(seed)).environment(instance)
        if env is None or any(0 in v.shape for v in env.tensors.values()):
            continue
        if _rewritten(instance, left_side(instance, env)):
            return True
    return False


def _rewritten(instance: Rule, graph: Graph) -> bool:
    """Whether the class of the left side holds what the rule makes, too."""
    result = saturate(graph, [instance])
    state = result.states[-1]
    root = state.of_value[result.loaded.values[graph.outputs[0]]]
    return len(state.classes[root]) > 1 or root in state.joined


def test_names_are_unique() -> None:
    assert len({r.name for r in RULES}) == len(RULES)


def test_the_ten_printed_rules_are_there() -> None:
    assert sum(r.source.startswith("DNNFusion") for r in rulesets.ALL) == 10


def test_families_are_the_three_of_the_paper() -> None:
    assert {r.family for r in rulesets.ALL} == {"associative", "distributive", "commutative"}


@EACH
def test_rule_prints_its_name_and_both_sides(r: Rule) -> None:
    text = str(r)
    assert text.startswith(f"{r.name}: ")
    assert str(r.lhs) in text
    assert str(r.rhs) in text


WRONG = (
    rule("wrong-distribution", a * (b + c), a * b + c),
    rule("wrong-misprint", a * c + a * b, (a + b) * c),
    rule("wrong-recip", ops.reciprocal(a) * ops.reciprocal(a * b), ops.reciprocal(a) * b),
    rule("wrong-domain", ops.sqrt(a) * ops.sqrt(b), ops.sqrt(a * b)),
    rule("wrong-shape", a * 0.0, 0.0),
    rule("wrong-mean", ops.reduce_sum(a, axes=axes), ops.reduce_mean(a, axes=axes)),
    rule("wrong-exact", (a + b) - b, a, level="exact"),
    rule("wrong-sign", ops.reduce_max(-a, axes=axes), -ops.reduce_max(a, axes=axes)),
)


@pytest.mark.parametrize("r", WRONG, ids=lambda r: r.name)
def test_wrong_rule_is_refuted(r: Rule) -> None:
    assert not check(r, 200).ok


def test_counterexample_prints_values_and_both_results() -> None:
    found = check(WRONG[0]).counterexample
    assert found is not None
    assert "a = np.array" in str(found)
    assert "left = " in str(found)


MALFORMED: dict[str, Callable[[], object]] = {
    "uses c": lambda: rule("r", a + b, a + c),
    "attribute k": lambda: rule("r", ops.relu(a), ops.reduce_sum(a, axes=k)),
    "operands": lambda: rule("r", ops.relu(a), ops.sqrt(a, b)),
    "no operator is called": lambda: ops.no_such_operator(a),
    "has no attribute 'axis'": lambda: rule("r", ops.reduce_sum(a, axis=1), a),
    "not part of the left side": lambda: rule("r", ops.relu(a), a, [nonneg(b)]),
    "attribute axes is not bound": lambda: rule("r", ops.relu(a), a, [rank_at_least(a, axes)]),
    "takes 2 arguments": lambda: same_shape(a),
    "no guard is called": lambda: rule("r", ops.relu(a), a, [Guard("huge", (a,))]),
    "must apply an operator": lambda: rule("r", a, -a),
    "level 'fast'": lambda: rule("r", ops.relu(a), a, level="fast"),  # type: ignore[arg-type]
    "dtypes 'half'": lambda: rule("r", ops.relu(a), a, dtypes="half"),  # type: ignore[arg-type]
    "no class of operators": lambda: rulesets.operators("f", "wobbly"),
}


@pytest.mark.parametrize("message", MALFORMED)
def test_malformed_rule_is_refused(message: str) -> None:
    with pytest.raises(RuleError, match=message):
        MALFORMED[message]()


def test_malformed_rule_is_named() -> None:
    with pytest.raises(RuleError, match="'my-rule'"):
        rule("my-rule", a + b, a + c)


def test_patterns_print_as_python() -> None:
    assert str(ops.reduce_sum(a * 2.0 + b, axes=(0,))) == "reduce_sum(((a * 2.0) + b), axes=(0,))"


def test_operator_functions_are_listed() -> None:
    assert {"matmul", "reduce_sum", "layer_normalization", "gemm", "conv"} <= set(dir(ops))


def test_select_by_name_and_without() -> None:
    assert [r.name for r in rulesets.select(["mul-order", "add-order"], ["add-order"])] == [
        "mul-order"
    ]


def test_select_refuses_unknown_names() -> None:
    with pytest.raises(RuleError, match="no rule is called 'nope'"):
        rulesets.select(["nope"])


def test_without_refuses_unknown_names() -> None:
    with pytest.raises(RuleError, match="no rule is called 'nope'"):
        rulesets.select(rulesets.default_rules(), ["nope"])


def test_rules_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from egraph_fusion import rulesets\n"
        "a, b = rulesets.tensors('a b')\n"
        "mine = rulesets.rule('mine', a - (a - b), b)\n"
    )
    assert [r.name for r in rulesets.select(path)] == ["mine"]


def test_file_without_rules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    with pytest.raises(RuleError, match="defines no rule"):
        rulesets.select(path)


@pytest.mark.parametrize("name", sorted(GUARDS))
def test_every_guard_is_documented(name: str) -> None:
    assert GUARDS[name].test.__doc__
