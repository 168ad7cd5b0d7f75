"""Associative rules: regrouping within one operator, and homomorphisms between two."""

from __future__ import annotations

from egraph_fusion.rulesets.functions import (
    as_matrix,
    filters,
    flat,
    padded_more,
    reduced_twice,
    second,
    shape_of,
    unsqueezed_twice,
    vector_of,
)
from egraph_fusion.rulesets.guards import (
    broadcasts_into,
    constant,
    cuts_nothing_off,
    holds_all_of,
    nonneg,
    nonzero,
    one_consumer,
    pads_space_only,
    per_channel,
    pointwise,
    positive,
    rank_at_least,
    varying,
)
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Apply, Attribute, Many, Pattern, Tensor
from egraph_fusion.rulesets.rule import Rule, family_rule
from egraph_fusion.rulesets.schemas import operators

a, b, c, i, j, w, x, y = (Tensor(n) for n in "abcijwxy")
k1, k2, bias = Tensor("k1"), Tensor("k2"), Tensor("bias")
xs = Many("xs")
p, q, k, axis = (Attribute(n) for n in ["p", "q", "k", "axis"])
sqrt, exp, log, recip = ops.sqrt, ops.exp, ops.log, ops.reciprocal
rule = family_rule("associative")
pick = operators("pick", "selecting")
logic = operators("logic", "logical")
image = operators("image", "multiplicative")
reduce = operators("reduce", "nesting")
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
    rule("extremum-regroup", pick(pick(a, b), c), pick(a, pick(b, c)), [one_consumer(pick(a, b))],
         growing=True, dtypes="numeric", schema="maximum or minimum"),
    rule("logical-regroup", logic(logic(a, b), c), logic(a, logic(b, c)),
         [one_consumer(logic(a, b))], growing=True, dtypes="any", level="exact", schema="logical"),
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
    rule("sqrt-quotient",    sqrt(a) / sqrt(b),         sqrt(a / b),      [positive(b)]),
    rule("exp-product",      exp(a) * exp(b),           exp(a + b)),
    rule("exp-quotient",     exp(a) / exp(b),           exp(a - b)),
    rule("log-sum",         log(a) + log(b),          log(a * b),       [positive(a)]),
    rule("log-difference",   log(a) - log(b),         log(a / b),       [positive(b)]),
    rule("product-of-images", image(a) * image(b),      image(a * b),     schema="multiplicative"),
    rule("abs-quotient",     ops.abs(a) / ops.abs(b),   ops.abs(a / b)),
    rule("pow-power",        (a ** b) ** c,             a ** (b * c),     [positive(a)]),
    rule("pow-product",      (a ** b) * (a ** c),       a ** (b + c),     [positive(a)]),
    rule("pow-same-exponent", (a ** c) * (b ** c),    (a * b) ** c,     [positive(a)]),
    rule("sqrt-exp",         sqrt(exp(a)),              exp(a * 0.5)),
    rule("recip-exp",        recip(exp(a)),             exp(-a)),
    rule("sqrt-square",      sqrt(a * a),               ops.abs(a)),
)  # fmt: skip

CHAINS = (
    rule("mul-recip",        a * recip(b),              a / b),
    rule("div-recip",        a / recip(b),              a * b,            [nonzero(b)]),
    rule("div-div",          (a / b) / c,               a / (b * c)),
    rule("div-quotient",     a / (b / c),               (a * c) / b,      [nonzero(c)]),
    rule("recip-quotient-of", recip(a / b),             b / a,            [nonzero(b)]),
    rule("quotient-times",   (a / b) * b,             a,       [nonzero(b), broadcasts_into(b, a)]),
    rule("product-over",     (a * b) / b,             a,       [nonzero(b), broadcasts_into(b, a)]),
)  # fmt: skip

REDUCTIONS = (
    rule("reduce-of-reduce", reduce(reduce(a, axes=p, keepdims=k), axes=q, keepdims=k),
         reduce(a, axes=reduced_twice(a, p, q, k), keepdims=k), schema="nested reduction"),
)  # fmt: skip

known = [constant(k1), constant(k2)]
apart = [*known, varying(a), varying(b)]  # a constant is not taken apart: 8 = 2 * 4 = 4 * 2 = ...
conv, conv_bias = ops.conv(x, w, attrs=p), ops.conv(x, w, bias, attrs=p)
vector = ops.reshape(k1, shape=flat(k1))
every_channel = ops.expand(vector, shape=vector_of(w))

low, high, below, above = (Tensor(n) for n in ["low", "high", "below", "above"])
CLIPS = (
    rule("clip-nested", ops.clip(ops.clip(a, low, high), below, above),
         ops.clip(a, ops.clip(low, below, above), ops.clip(high, below, above)), dtypes="numeric"),
)  # fmt: skip

CONSTANTS = (
    rule("add-constants-across", (a + k1) + (b + k2), (a + b) + (k1 + k2), apart, dtypes="numeric"),
    rule("conv-add", conv + k1, ops.conv(x, w, every_channel, attrs=p),
         [constant(k1), per_channel(k1, conv)], schema="bias of a convolution"),
    rule("conv-bias-add", conv_bias + k1, ops.conv(x, w, bias + vector, attrs=p),
         [constant(bias), constant(k1), per_channel(k1, conv_bias)],
         schema="bias of a convolution"),
)  # fmt: skip

view = operators("view", "viewing")
wide = ops.cast(a, attrs=p)
viewed = view(ops.reshape(a, attrs=q))
INDEXING = (
    rule("concat-nested-last", ops.concat(a, ops.concat(xs, axis=axis), axis=axis),
         ops.concat(a, xs, axis=axis), level="exact", dtypes="any"),
    # Sound without `cuts_nothing_off`, but for floats that no integer holds: ONNX defines none.
    rule("cast-nested", ops.cast(wide, attrs=q), ops.cast(a, attrs=q),
         [holds_all_of(wide, a), cuts_nothing_off(ops.cast(wide, attrs=q), wide)],
         level="exact", dtypes="any"),
    rule("view-of-reshape", viewed, ops.reshape(a, shape=shape_of(viewed)),
         level="exact", dtypes="any", schema="view"),
)  # fmt: skip

v = Tensor("v")
pads, strides = Attribute("pads"), Attribute("strides")
transposed = ops.conv_transpose(x, w, group=1, attrs=p)
transposed_bias = ops.conv_transpose(x, w, bias, group=1, attrs=p)
full = ops.expand(ops.reshape(c, shape=flat(c)), shape=second(w))
mixed = ops.reshape(ops.reshape(v, shape=as_matrix(v)) @ ops.reshape(w, shape=as_matrix(w)),
                    shape=filters(v, w))  # fmt: skip
around = Attribute("around")
padded = ops.pad(x, pads=around, mode="constant")
WINDOWS = (
    rule("conv-pad", ops.conv(padded, w, pads=pads, auto_pad="NOTSET", attrs=p),
         ops.conv(x, w, pads=padded_more(pads, around), auto_pad="NOTSET", attrs=p),
         [pads_space_only(around)]),
    rule("conv-regroup",
         ops.conv(ops.conv(x, w, bias, group=1, attrs=p), v, strides=strides, pads=pads, group=1,
                  auto_pad="NOTSET", attrs=q),
         ops.conv(x, mixed, ops.reshape(v, shape=as_matrix(v)) @ bias, group=1, attrs=p),
         [constant(w), constant(v), constant(bias), pointwise(v, strides, pads)], growing=True),
    rule("conv-transpose-add", transposed + c, ops.conv_transpose(x, w, full, group=1, attrs=p),
         [constant(c), per_channel(c, transposed)]),
    rule("conv-transpose-bias-add", transposed_bias + c,
         ops.conv_transpose(x, w, bias + ops.reshape(c, shape=flat(c)), group=1, attrs=p),
         [constant(bias), constant(c), per_channel(c, transposed_bias)]),
)  # fmt: skip

ASSOCIATIVE: tuple[Rule, ...] = (
    *PRINTED,
    *REGROUPING,
    *HOMOMORPHISMS,
    *CHAINS,
    *REDUCTIONS,
    *CLIPS,
    *CONSTANTS,
    *INDEXING,
    *WINDOWS,
)
