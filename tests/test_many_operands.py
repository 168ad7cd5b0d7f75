"""`many`: one rule for operators of any number of operands."""

from __future__ import annotations

import pytest

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.egraph.program import LONGEST
from egraph_fusion.rulesets import ops
from egraph_fusion.rulesets.pattern import Apply

(a,) = rulesets.tensors("a")
xs = rulesets.many("xs")
FACTOR = rulesets.rule("factor", ops.sum(xs * a), ops.sum(*xs) * a)


def _scaled(count: int) -> Apply:
    scale = ef.tensor("scale", (3,))
    return ops.sum(*(ef.tensor(f"t{i}", (3,)) * scale for i in range(count)))


@pytest.mark.parametrize("count", [1, 2, 5, 8, LONGEST])
def test_a_rule_fires_on_as_many_operands_as_there_are(count: int) -> None:
    leaves = [ef.tensor(f"t{i}", (3,)) for i in range(count)]
    found = ef.explore(_scaled(count), rules=[FACTOR])
    assert found.hits == {"factor": 1}
    assert found.contains(ops.sum(*leaves) * ef.tensor("scale", (3,)))


def test_beyond_the_longest_nothing_happens_and_why_not_says_how_many_there_are() -> None:
    found = ef.explore(_scaled(LONGEST + 1), rules=[FACTOR])
    assert not found.hits
    assert f"{LONGEST + 1} are here" in str(found.why_not("factor"))


def test_a_variable_can_be_written_as_it_is_printed() -> None:
    assert ops.max(*xs) == ops.max(xs)
    assert str(ops.max(*xs)) == "max(*xs)"


def test_no_operand_at_all_is_refused() -> None:
    with pytest.raises(ef.RuleError, match="1 or more"):
        rulesets.many("xs", 0)


def test_wide_joins_are_rewritten_by_the_rules_of_ours() -> None:
    parts = [ops.tanh(ef.tensor(f"t{i}", (2,))) for i in range(12)]
    found = ef.explore(ops.concat(*parts, axis=0))
    assert found.hits["concat-over-unary"] == 1
    joined = ops.concat(*(ef.tensor(f"t{i}", (2,)) for i in range(12)), axis=0)
    assert found.contains(ops.tanh(joined))
