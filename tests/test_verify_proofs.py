"""Proofs and mutants: identities are proven, wrong ones never, and few wrong mutants survive."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egraph_fusion import rulesets
from egraph_fusion.rulesets import guards, mutation, ops
from egraph_fusion.rulesets.mutants import Mutant, mutants, sample
from egraph_fusion.rulesets.mutation import Outcome, judged, kill_rate
from egraph_fusion.rulesets.polynomials import Polynomial, Ratio, Symbolic, symbol
from egraph_fusion.rulesets.prove import prove
from egraph_fusion.rulesets.rule import Rule, rule

a, b, c, x, w = rulesets.tensors("a b c x w")
axes, p = rulesets.attrs("axes p")
NUMBERS = st.fractions(-3, 3, max_denominator=4)


def _value(p: Polynomial, at: dict[str, Fraction]) -> Fraction:
    total = Fraction(0)
    for monomial, coefficient in p.items():
        for name, power in monomial:
            coefficient *= at[name] ** power
        total += coefficient
    return total


@given(NUMBERS, NUMBERS, NUMBERS)
def test_normal_forms_keep_their_value(u: Fraction, v: Fraction, t: Fraction) -> None:
    s = Symbolic()
    found: Ratio = s.sub(
        s.mul(s.add(symbol("u"), symbol("v")), symbol("t")), s.pow(symbol("u"), Fraction(2))
    )
    at = {"u": u, "v": v, "t": t}
    assert _value(found.above, at) / _value(found.below, at) == (u + v) * t - u**2  # fmt: skip


PROVEN = {
    "distribution": rule("r", a * b + a * c, a * (b + c)),
    "difference of squares": rule("r", a * a - b * b, (a + b) * (a - b)),
    "reciprocals": rule("r", ops.reciprocal(a) * ops.reciprocal(b), ops.reciprocal(a * b)),
    "quotient": rule("r", (a / b) / c, a / (b * c)),
    "matmul": rule("r", a @ b + a @ c, a @ (b + c), [guards.same_shape(b, c)]),
    "conv": rule("r", ops.conv(x, w * 2.0, attrs=p), ops.conv(x, w, attrs=p) * 2.0),
    "mean": rule("r", ops.reduce_mean(-a, axes=axes), -ops.reduce_mean(a, axes=axes)),
    "mean of nothing": rule(
        "r", ops.reduce_mean(a, axes=axes) * 0.0, ops.reduce_mean(-a, axes=axes) * 0.0
    ),
    "integers bit for bit": rule("r", (a + b) * c, a * c + b * c, level="exact", dtypes="int"),
    "movement bit for bit": rule(
        "r",
        ops.transpose(ops.transpose(a, perm=p), perm=axes),
        ops.transpose(a, perm=rulesets.functions.composed(axes, p)),
        level="exact",
        dtypes="any",
    ),
    "movement": rule("r", ops.transpose(a * b, perm=p), ops.transpose(b * a, perm=p)),
}


@pytest.mark.parametrize("name", PROVEN)
def test_rational_rules_are_proven(name: str) -> None:
    found = prove(PROVEN[name], shapes=8)
    assert found is not None
    assert found.domain


UNPROVEN = {
    "wrong": rule("r", a * b + a * c, a * (b - c)),
    "wrong by a constant": rule("r", a * 2.0, a * 2.0000001),
    "no rational functions": rule("r", ops.exp(a) * ops.exp(b), ops.exp(a + b)),
    "wrong shape": rule("r", (a + b) - b, a),
    "integers are truncated": rule("r", a / b + c / b, (a + c) / b, dtypes="int"),
    "means of integers, too": rule(
        "r", ops.reduce_mean(a + a, axes=p), ops.reduce_mean(a, axes=p) * 2.0, dtypes="int"
    ),
    "mean of nothing": rule("r", ops.reduce_mean(a, axes=p) * 0.0, ops.reduce_sum(a, axes=p) * 0.0),
    "mean of no ones": rule(
        "r", ops.reduce_mean(a * 0.0 + 1.0, axes=p), ops.reduce_sum(a * 0.0, axes=p) + 1.0
    ),
    "rounding": rule("r", (a + b) + c, a + (b + c), level="exact"),
    "a smaller domain": rule("r", (a * a) / a, a),
    "a domain smaller by a sum": rule("r", (a + b) / (a + b), (a + b) * 0.0 + 1.0),
    "defined nowhere": rule("r", a / 0.0, a / (a * 0.0)),
    "indices that count up": rule("r", g := ops.gather(a, b, axis=0), a, [guards.same_shape(a, g)]),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_others_are_not_proven(name: str) -> None:
    assert prove(UNPROVEN[name], shapes=8) is None


def test_a_smaller_domain_is_noticed() -> None:
    more = a * a + 1.0
    found = prove(rule("r", b / more, (b * (a * a + 2.0)) / (more * (a * a + 2.0))), shapes=8)
    assert found is not None
    assert not found.domain


def test_elementwise_proofs_hold_for_every_shape() -> None:
    assert str(prove(PROVEN["quotient"], shapes=8)) == "proven for all values in every shape"


def test_there_are_a_thousand_mutants_of_every_kind() -> None:
    found = mutants()
    assert len(found) >= 1000
    assert {m.kind for m in found} == {
        "operator", "operands", "constant", "attribute", "sign", "variable",
        "guard", "level", "dtypes",
    }  # fmt: skip


def test_mutants_differ_from_their_rules() -> None:
    claims = {(r.lhs, r.rhs, r.when, r.level, r.dtypes) for r in rulesets.ALL}
    assert not any(
        (m.rule.lhs, m.rule.rhs, m.rule.when, m.rule.level, m.rule.dtypes) in claims
        for m in mutants()
    )


def test_wrong_mutants_are_refuted() -> None:
    outcomes: list[Outcome] = [judged(m, 60, 40) for m in sample(mutants(), 36, seed=7)]
    assert kill_rate(outcomes) >= 0.97
    assert sum(o.fate == "refuted" for o in outcomes) >= 20


def test_the_command_keeps_every_verdict_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "mutation.json"
    mutation.main(["--count", "9", "--seed", "7", "--jobs", "1", "--json", "--into", str(into)])
    *lines, totals = map(json.loads, capsys.readouterr().out.splitlines())
    kept = json.loads(into.read_text())
    assert (kept["seed"], kept["available"]) == (7, len(mutants()))
    assert kept["outcomes"] == lines
    assert len(lines) == totals["mutants"] == 9
    assert {o["kind"] for o in lines} == {m.kind for m in sample(mutants(), 9, seed=7)}


@pytest.mark.parametrize("r", [PROVEN["quotient"], PROVEN["distribution"]], ids=str)
def test_a_right_rule_is_not_refuted_as_a_mutant(r: Rule) -> None:

    assert judged(Mutant("none", r), 30, 30).fate == "equivalent"
