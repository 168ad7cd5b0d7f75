"""Associative rules: regrouping within one operator, and homomorphisms between two."""

from __future__ import annotations

from egraph_fusion.rulesets.functions import reduced_twice, unsqueezed_twice
from egraph_fusion.rulesets.guards import (
    broadcasts_into,
    nonneg,
    nonzero,
    one_consumer,
    positive,
    rank_at_least,
    varying,
)
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Apply, Attribute, Pattern, Tensor
from egraph_fusion.rulesets.rule import Rule, family_rule
from egraph_fusion.rulesets.schemas import operators

a, b, c, i, j = (Tensor(n) for n in "abcij")
p, q, k, axis = (Attribute(n) for n in ["p", "q", "k", "axis"])
sqrt, exp, log, recip = ops.sqrt, ops.exp, ops.log, ops.reciprocal
rule = family_rule("associative")
PAPER = "DNNFusion, Table 4"


def _total(x: Pattern) -> Apply:
    return ops.reduce_sum(x, axes=p, keepdims=1)


PRINTED = (
    rule("recip-recip-product", recip(a) * recip(a * b), (recip(a) * recip(a)) * recip(b),
         growing=True, source=PAPER),
    rule("sqrt-shared-product", (a * sqrt(b)) * (sqrt(b) * c), (a * b) * c, [nonneg(b)],
         source=PAPER),
    rule("abs-around-product",  (ops.abs(a) * b) * ops.abs(c), ops.abs(a * c) * b, source=PAPER),
    rule("sum-shared-product",  (a * _total(b)) * (_total(b) * c),
         (a * (_total(b) * _total(b))) * c, source=PAPER),
)  # fmt: skip

REGROUPING = (
    rule("add-regroup", (a + b) + c, a + (b + c),
         [one_consumer(a + b), varying(a), varying(b), varying(c)], growing=True,
         dtypes="numeric"),
    rule("mul-regroup", (a * b) * c, a * (b * c), [one_consumer(a * b)], growing=True,
         dtypes="numeric"),
    rule("max-regroup", ops.max(ops.max(a, b), c), ops.max(a, ops.max(b, c)),
         [one_consumer(ops.max(a, b))], growing=True, dtypes="numeric"),
    rule("min-regroup", ops.min(ops.min(a, b), c), ops.min(a, ops.min(b, c)),
         [one_consumer(ops.min(a, b))], growing=True, dtypes="numeric"),
    rule("and-regroup", ops.and_(ops.and_(a, b), c), ops.and_(a, ops.and_(b, c)),
         [one_consumer(ops.and_(a, b))], growing=True, dtypes="bool", level="exact"),
    rule("or-regroup",  ops.or_(ops.or_(a, b), c), ops.or_(a, ops.or_(b, c)),
         [one_consumer(ops.or_(a, b))], growing=True, dtypes="bool", level="exact"),
    rule("matmul-regroup", (a @ b) @ c, a @ (b @ c),
         [rank_at_least(a, 2), rank_at_least(b, 2), rank_at_least(c, 2)], growing=True, both=True),
    rule("concat-nested", ops.concat(ops.concat(a, b, axis=axis), c, axis=axis),
         ops.concat(a, b, c, axis=axis), level="exact", dtypes="any"),
    rule("unsqueeze-nested", ops.unsqueeze(ops.unsqueeze(a, axes=p), axes=q),
         ops.unsqueeze(a, axes=unsqueezed_twice(a, p, q)), level="exact", dtypes="any"),
    rule("gather-nested", ops.gather(ops.gather(a, i, axis=axis), j, axis=axis),
         ops.gather(a, ops.gather(i, j, axis=0), axis=axis), [rank_at_least(i, 1)],
         level="exact", dtypes="any"),
)  # fmt: skip

HOMOMORPHISMS = (
    rule("sqrt-product",     sqrt(a) * sqrt(b),         sqrt(a * b),      [nonneg(a), nonneg(b)]),
    rule("sqrt-quotient",    sqrt(a) / sqrt(b),         sqrt(a / b),      [nonneg(a), positive(b)]),
    rule("exp-product",      exp(a) * exp(b),           exp(a + b)),
    rule("exp-quotient",     exp(a) / exp(b),           exp(a - b)),
    rule("log-sum",         log(a) + log(b),          log(a * b),       [positive(a), positive(b)]),
    rule("log-difference",   log(a) - log(b),         log(a / b),       [positive(a), positive(b)]),
    rule("abs-product",      ops.abs(a) * ops.abs(b),   ops.abs(a * b)),
    rule("abs-quotient",     ops.abs(a) / ops.abs(b),   ops.abs(a / b)),
    rule("recip-product",    recip(a) * recip(b),       recip(a * b)),
    rule("pow-power",        (a ** b) ** c,             a ** (b * c),     [positive(a)]),
    rule("pow-product",      (a ** b) * (a ** c),       a ** (b + c),     [positive(a)]),
    rule("pow-same-exponent", (a ** c) * (b ** c),    (a * b) ** c,     [positive(a), positive(b)]),
    rule("sqrt-exp",         sqrt(exp(a)),              exp(a * 0.5)),
    rule("recip-exp",        recip(exp(a)),             exp(-a)),
    rule("sqrt-square",      sqrt(a * a),               ops.abs(a)),
    rule("log-exp",          log(exp(a)),               a),
    rule("exp-log",          exp(log(a)),               a,                [positive(a)]),
)  # fmt: skip

CHAINS = (
    rule("mul-recip",        a * recip(b),              a / b),
    rule("div-recip",        a / recip(b),              a * b,            [nonzero(b)]),
    rule("div-div",          (a / b) / c,               a / (b * c)),
    rule("div-quotient",     a / (b / c),               (a * c) / b,      [nonzero(c)]),
    rule("recip-quotient-of", recip(a / b),             b / a,            [nonzero(b)]),
    rule("quotient-times",   (a / b) * b,             a,       [nonzero(b), broadcasts_into(b, a)]),
    rule("product-over",     (a * b) / b,             a,       [nonzero(b), broadcasts_into(b, a)]),
    rule("sum-less",         (a + b) - b,               a,                [broadcasts_into(b, a)]),
    rule("difference-plus",  (a - b) + b,               a,                [broadcasts_into(b, a)]),
    rule("difference-of-sum", a - (a + b),              -b,               [broadcasts_into(a, b)]),
)  # fmt: skip


def _nested(name: str, reduce: object) -> Rule:
    assert callable(reduce)
    inner = reduce(a, axes=p, keepdims=k)
    return rule(
        name,
        reduce(inner, axes=q, keepdims=k),
        reduce(a, axes=reduced_twice(a, p, q, k), keepdims=k),
        schema="nested reduction",
    )


REDUCTIONS = (
    _nested("reduce-of-reduce", operators("reduction", "associative")),
    _nested("l1-of-l1", ops.reduce_l1),
    _nested("l2-of-l2", ops.reduce_l2),
    _nested("logsumexp-of-logsumexp", ops.reduce_log_sum_exp),
)

ASSOCIATIVE: tuple[Rule, ...] = (*PRINTED, *REGROUPING, *HOMOMORPHISMS, *CHAINS, *REDUCTIONS)
