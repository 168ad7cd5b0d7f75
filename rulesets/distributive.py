"""Distributive rules: one operator over another, taken out or carried in."""

from __future__ import annotations

from egraph_fusion.rulesets.functions import (
    after_channels,
    after_first,
    by_input,
    column,
    last_but_one,
    zeros_around,
)
from egraph_fusion.rulesets.guards import (
    all_zero,
    along_last,
    among,
    broadcasts_into,
    constant,
    copies_no_more,
    for_gain,
    lies_within,
    nonneg,
    nonzero,
    rank_at_least,
    same_along,
    same_batch,
    same_except,
    same_shape,
    scales_inputs,
)
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Apply, Attribute, Many, Scalar, Tensor
from egraph_fusion.rulesets.rule import Rule, family_rule
from egraph_fusion.rulesets.schemas import operator_pairs, operators

a, b, c, w, x, y, z = (Tensor(n) for n in "abcwxyz")
s, bias, mean, variance = (Tensor(n) for n in ("s", "bias", "mean", "variance"))
xs, ys, before = Many("xs"), Many("ys", least=1), Many("before", least=1)
p, q, k, d, axis, eps = (Attribute(n) for n in ["p", "q", "k", "d", "axis", "eps"])
rule = family_rule("distributive")
SIGNED, EXTREMUM = "sum or difference", "maximum or minimum"
PAPER = "DNNFusion, Table 4"
PAPER_CORRECTED = "DNNFusion, Table 4, misprint corrected"
f = operators("f", "unary")
g = operators("g", "binary")
rising = operators("rising", "increasing")
pick = operators("pick", "selecting")
bits = operators("bits", "bitwise")
up, low = operator_pairs("up", "lattices")
extreme, chosen = operator_pairs("extreme", "selections")
total, joined = operator_pairs("total", "accumulations")
plus = operators("plus", "adding")
additive = operators("additive", "additive")
averaging = operators("averaging", "averaging")

PRINTED = (
    rule("mul-over-add",       a * b + a * c,             a * (b + c),
         dtypes="numeric", source=PAPER_CORRECTED),
    rule("add-own-multiple",   a + a * b,                 a * (b + 1.0),
         dtypes="numeric", source=PAPER),
    rule("square-less-multiple", (a + b) * (a + b) - (a + b) * c, (a + b) * ((a + b) - c),
         dtypes="numeric", source=PAPER),
)  # fmt: skip

PRODUCTS = (
    rule("mul-over-sub",       a * b - a * c,             a * (b - c), dtypes="numeric"),
    rule("sub-own-multiple",   a - a * b,                 a * (1.0 - b), dtypes="numeric"),
    rule("multiple-less-own",  a * b - a,                 a * (b - 1.0), dtypes="numeric"),
    rule("div-over-add",       plus(a / c, b / c),        plus(a, b) / c,   schema=SIGNED),
    rule("add-self",           a + a,                     a * 2.0, dtypes="numeric"),
    rule("square-difference",  a * a - b * b,             (a + b) * (a - b),
         both=True, growing=True, dtypes="numeric"),
    rule("extremum-over-add",  pick(a + c, b + c),        pick(a, b) + c,   schema=EXTREMUM),
    rule("extremum-over-mul",  pick(a * c, b * c),        pick(a, b) * c,   [nonneg(c)],
         schema=EXTREMUM),
    rule("lattice-over",       up(low(a, b), low(a, c)),  low(a, up(b, c)),
         schema="lattice", dtypes="any"),
    rule("extremum-over-clip", pick(ops.clip(a, x, y), ops.clip(b, x, y)),
         ops.clip(pick(a, b), x, y), schema=EXTREMUM, dtypes="numeric"),
    rule("extremum-over-increasing", pick(rising(a), rising(b)), rising(pick(a, b)),
         schema="increasing"),
    rule("bitwise-over-shift", bits(ops.bit_shift(a, c, attrs=p), ops.bit_shift(b, c, attrs=p)),
         ops.bit_shift(bits(a, b), c, attrs=p), schema="bitwise", dtypes="uint", level="exact"),
)  # fmt: skip

SELECTION = (
    rule("where-over-unary", ops.where(c, f(a), f(b)), f(ops.where(c, a, b)),
         level="exact", schema="any unary", dtypes="numeric"),
    rule("where-over-left",  ops.where(c, g(a, x), g(b, x)), g(ops.where(c, a, b), x),
         level="exact", schema="any binary", dtypes="numeric"),
    rule("where-over-right", ops.where(c, g(x, a), g(x, b)), g(x, ops.where(c, a, b)),
         level="exact", schema="any binary"),
)  # fmt: skip


def _conv(image: Tensor, kernel: Tensor | Apply, pads: Attribute) -> Apply:
    return ops.conv(image, kernel, pads=pads, dilations=d, auto_pad="NOTSET", attrs=p)


CONTRACTIONS = (
    rule("matmul-over-add-right", plus(a @ b, a @ c),     a @ plus(b, c),
         [rank_at_least(b, 2), rank_at_least(c, 2)], schema=SIGNED, dtypes="numeric"),
    rule("matmul-over-add-left",  plus(a @ c, b @ c),     plus(a, b) @ c,
         [rank_at_least(a, 2), rank_at_least(b, 2)], schema=SIGNED, dtypes="numeric"),
    rule("conv-over-add-weights",
         _conv(x, w, q) + _conv(x, y, k),
         _conv(x, w + ops.pad(y, pads=zeros_around(k, q, d), mode="constant"), q),
         [lies_within(y, w, k, q, d)]),
    rule("conv-over-add-inputs",
         ops.conv(x, w, attrs=p) + ops.conv(y, w, attrs=p), ops.conv(x + y, w, attrs=p),
         [same_shape(x, y)]),
)  # fmt: skip

REDUCTIONS = (
    rule("reduce-over-add",
         plus(additive(a, axes=q, keepdims=k), additive(b, axes=q, keepdims=k)),
         additive(plus(a, b), axes=q, keepdims=k), [same_shape(a, b)], schema="additive reduction"),
    rule("reduce-over-concat",
         total(ops.concat(a, ys, axis=axis), axes=q, keepdims=k),
         joined(total(a, axes=q, keepdims=k), total(ops.concat(ys, axis=axis), axes=q, keepdims=k)),
         [among(axis, q)], schema="reduction of joined parts", dtypes="numeric", growing=True),
    rule("reduce-over-extremum",
         chosen(extreme(a, axes=q, keepdims=k), extreme(b, axes=q, keepdims=k)),
         extreme(chosen(a, b), axes=q, keepdims=k), [same_shape(a, b)],
         schema=EXTREMUM, dtypes="numeric"),
    rule("cumsum-over-add",
         plus(ops.cum_sum(a, attrs=p), ops.cum_sum(b, attrs=p)), ops.cum_sum(plus(a, b), attrs=p),
         [same_shape(a, b)], schema=SIGNED, dtypes="numeric"),
    rule("pad-over-add",
         plus(ops.pad(a, pads=q, mode="constant"), ops.pad(b, pads=q, mode="constant")),
         ops.pad(plus(a, b), pads=q, mode="constant"), [same_shape(a, b)],
         schema=SIGNED, dtypes="numeric"),
    rule("average-pool-over-add",
         averaging(a) + averaging(b), averaging(a + b), [same_shape(a, b)], schema="pooling"),
)  # fmt: skip

JOINING = (
    rule("concat-over-unary", ops.concat(f(xs), axis=axis), f(ops.concat(xs, axis=axis)),
         level="exact", schema="any unary"),
    rule("concat-over-binary",
         ops.concat(g(a, x), g(b, y), axis=axis),
         g(ops.concat(a, b, axis=axis), ops.concat(x, y, axis=axis)),
         [same_except(a, b, axis), same_except(x, y, axis),
          same_along(a, x, axis), same_along(b, y, axis)],
         level="exact", schema="any binary", both=True, dtypes="numeric"),
    rule("concat-over-matmul",
         ops.concat(a @ c, b @ c, axis=-2), ops.concat(a, b, axis=-2) @ c,
         [same_batch(a, b), rank_at_least(c, 2)], growing=True, dtypes="numeric"),
    rule("conv-over-concat",
         ops.conv(x, w, group=1, attrs=p) + ops.conv(y, z, group=1, attrs=p),
         ops.conv(ops.concat(x, y, axis=1), ops.concat(w, z, axis=1), group=1, attrs=p),
         [same_except(x, y, 1), same_except(w, z, 1), for_gain(copies_no_more(w, z))],
         growing=True),
)  # fmt: skip

deviation = ops.sqrt(variance + Scalar(eps))
gain = s / deviation
norm = ops.batch_normalization(x, s, bias, mean, variance, epsilon=eps, training_mode=0, attrs=p)

CONSTANTS = (
    rule("batch-norm-affine", norm,
         x * ops.unsqueeze(gain, axes=after_channels(x))
         + ops.unsqueeze(bias - mean * gain, axes=after_channels(x)),
         [constant(s), constant(bias), constant(mean), constant(variance)]),
)  # fmt: skip

i, j = Tensor("i"), Tensor("j")
INDEXING = (
    rule("concat-over-gather", ops.concat(ops.gather(a, xs, axis=axis), axis=axis),
         ops.gather(a, ops.concat(xs, axis=0), axis=axis), [rank_at_least(xs, 1)],
         level="exact", dtypes="any"),
    rule("concat-over-gather-last",
         ops.concat(before, ops.gather(a, i, axis=axis), ops.gather(a, j, axis=axis), axis=axis),
         ops.concat(before, ops.gather(a, ops.concat(i, j, axis=0), axis=axis), axis=axis),
         [rank_at_least(i, 1)], level="exact", dtypes="any"),
)  # fmt: skip

shift = ops.reduce_sum(ops.reshape(b, shape=column(b)) * w, axes=last_but_one(w), keepdims=1)
LINEAR = (
    rule("matmul-shift-rows", (x + b) @ w + c, x @ w + (shift + c),
         [constant(b), constant(w), constant(c), rank_at_least(x, 2), rank_at_least(w, 2),
          along_last(b, x)]),
)  # fmt: skip

bias, group = Tensor("bias"), Attribute("group")
shared = ops.reduce_sum(w * ops.reshape(c, shape=by_input(c, w, group)), axes=after_first(w),
                        keepdims=0)  # fmt: skip
CHANNELS = (
    rule("conv-affine-rows",
         ops.conv(x * y + c, w, bias, group=group, attrs=p),
         ops.conv(x + c / y, w * ops.reshape(y, shape=by_input(y, w, group)), bias,
                  group=group, attrs=p),
         [constant(w), constant(y), constant(c), nonzero(y), scales_inputs(y, x, w, group),
          broadcasts_into(c, x)]),
    rule("conv-shift-rows",
         ops.conv(x + c, w, bias, pads=k, group=group, auto_pad="NOTSET", attrs=p),
         ops.conv(x, w, bias + shared, pads=k, group=group, auto_pad="NOTSET", attrs=p),
         [constant(w), constant(bias), constant(c), all_zero(k), scales_inputs(c, x, w, group)]),
)  # fmt: skip

DISTRIBUTIVE: tuple[Rule, ...] = (
    *PRINTED,
    *CONSTANTS,
    *PRODUCTS,
    *SELECTION,
    *CONTRACTIONS,
    *REDUCTIONS,
    *JOINING,
    *INDEXING,
    *LINEAR,
    *CHANNELS,
)
