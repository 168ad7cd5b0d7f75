"""Commutative rules: order of operands, and order of application of two operators."""

from __future__ import annotations

from egraph_fusion.rulesets.functions import (
    axes_before,
    beyond_channels,
    by_input,
    column,
    counted_from,
    flat,
    flipped,
    in_rank_of,
    inverse,
    leading,
    perm_reduced,
    shape_of,
    turned_back,
)
from egraph_fusion.rulesets.guards import (
    along_last,
    broadcasts_into,
    constant,
    dropped_among,
    fits_between,
    fits_reduced,
    has_positions,
    inserted_among,
    keeps_axes,
    keeps_last,
    nonneg,
    nonzero,
    one_element,
    per_channel,
    pointwise,
    rank_at_least,
    rank_is,
    same_beside,
    same_rank,
    same_shape,
    scales_inputs,
    size_one_along,
    swaps_last_two,
    varying,
)
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Apply, Attribute, Pattern, Tensor
from egraph_fusion.rulesets.rule import Rule, family_rule
from egraph_fusion.rulesets.schemas import operator_pairs, operators

a, b, k, i, w, x, bias = (Tensor(n) for n in ["a", "b", "k", "i", "w", "x", "bias"])
p, q, keep, axis, axes = (Attribute(n) for n in ["p", "q", "keep", "axis", "axes"])
group, pads, strides = (Attribute(n) for n in ["group", "pads", "strides"])
rule = family_rule("commutative")
PAPER = "DNNFusion, Table 4"
f = operators("f", "unary")
g = operators("g", "binary")
joint = operators("joint", "gathering")
rising = operators("rising", "increasing")
odd, even = operators("odd", "odd"), operators("even", "even")
reduction = operators("reduction", "associative")
additive, extremal = operators("additive", "additive"), operators("extremal", "extremal")
pick, plus = operators("pick", "selecting"), operators("plus", "adding")
logic = operators("logic", "logical")
low, high = Tensor("low"), Tensor("high")
peaking = operators("peaking", "peaking")
below, above = operator_pairs("compared", "orders")
peak, floor = operator_pairs("extreme", "extrema")

OPERANDS = (
    rule("mul-order",     a * b,               b * a,               level="exact", dtypes="numeric",
         source=PAPER),
    rule("add-order",     a + b,              b + a,               level="exact", dtypes="numeric"),
    rule("extremum-order", pick(a, b),         pick(b, a),          dtypes="numeric",
         schema="maximum or minimum"),
    rule("equal-order",   ops.equal(a, b),    ops.equal(b, a),     level="exact", dtypes="numeric"),
    rule("logical-order", logic(a, b),         logic(b, a),         level="exact", dtypes="any",
         schema="logical"),
    rule("compare-order",  below(a, b),       above(b, a),
         level="exact", both=True, dtypes="numeric", schema="comparison"),
)  # fmt: skip

SIGNS = (
    rule("neg-mul",       (-a) * b,            -(a * b),       level="exact", dtypes="numeric"),
    rule("odd-neg",       odd(-a),             -odd(a),             schema="odd"),
    rule("even-neg",      even(-a),            even(a),             schema="even"),
)  # fmt: skip


total, mean = ops.reduce_sum, ops.reduce_mean
prod = ops.reduce_prod
across = [fits_reduced(k, a, axes, keep)]
K = {"axes": axes, "keepdims": keep}

REDUCTIONS = (
    rule("sum-shift-left", total(ops.bit_shift(a, k, direction="LEFT"), **K),
         ops.bit_shift(total(a, **K), k, direction="LEFT"), across, dtypes="uint", source=PAPER),
    rule("prod-exp",    prod(ops.exp(a), **K),        ops.exp(total(a, **K)),     source=PAPER),
    rule("sum-neg",     total(-a, **K),               -total(a, **K),             dtypes="numeric"),
    rule("sum-scale",   total(a * k, **K),            total(a, **K) * k,  across, dtypes="numeric"),
    rule("mean-scale",  mean(a * k, **K),             mean(a, **K) * k,           across),
    rule("reduce-divide", additive(a / k, **K), additive(a, **K) / k, [*across, nonzero(k)],
         schema="additive reduction"),
    rule("mean-shift",  mean(plus(a, k), **K),        plus(mean(a, **K), k),      across,
         schema="sum or difference"),
    rule("extremum-shift", extremal(a + k, **K),      extremal(a, **K) + k,       across,
         schema="extremal reduction"),
    rule("extremum-scale", extremal(a * k, **K), extremal(a, **K) * k, [*across, nonneg(k)],
         schema="extremal reduction"),
    rule("extremum-increasing", extremal(rising(a), **K), rising(extremal(a, **K)),
         schema="extremal reduction"),
    rule("extremum-neg", peak(-a, **K),               -floor(a, **K),
         schema="extremal reduction"),
    rule("cumsum-scale", ops.cum_sum(a * k, axis=axis, attrs=p),
         ops.cum_sum(a, axis=axis, attrs=p) * k, [size_one_along(k, a, axis)], dtypes="numeric"),
    rule("sum-abs",     total(ops.abs(a), **K),       ops.reduce_l1(a, **K),      dtypes="numeric"),
    rule("sum-square",  total(a * a, **K),       ops.reduce_sum_square(a, **K), dtypes="numeric"),
    rule("reduce-transposed",
         reduction(ops.transpose(a, perm=p), **K),
         ops.transpose(reduction(a, axes=axes_before(axes, p), keepdims=keep),
                       perm=perm_reduced(p, axes, keep)),
         growing=True, schema="reduction", dtypes="numeric"),
)  # fmt: skip

MOVEMENT = (
    rule("transpose-unary", f(ops.transpose(a, attrs=q)), ops.transpose(f(a), attrs=q),
         level="exact", growing=True, both=True, schema="movement past elementwise"),
    rule("reshape-unary",   f(ops.reshape(a, attrs=q)), ops.reshape(f(a), attrs=q),
         level="exact", growing=True, both=True, schema="movement past elementwise"),
    rule("flatten-unary",   f(ops.flatten(a, attrs=q)), ops.flatten(f(a), attrs=q),
         level="exact", growing=True, both=True, schema="movement past elementwise"),
    rule("squeeze-unary",   f(ops.squeeze(a, attrs=q)), ops.squeeze(f(a), attrs=q),
         level="exact", growing=True, both=True, schema="movement past elementwise"),
    rule("unsqueeze-unary", f(ops.unsqueeze(a, attrs=q)), ops.unsqueeze(f(a), attrs=q),
         level="exact", growing=True, both=True, schema="movement past elementwise"),
    rule("expand-unary",    f(ops.expand(a, attrs=q)), ops.expand(f(a), attrs=q),
         level="exact", schema="movement past elementwise"),
    rule("slice-unary",     ops.slice(f(a), attrs=q), f(ops.slice(a, attrs=q)),
         level="exact", schema="movement past elementwise"),
    rule("gather-unary",    ops.gather(f(a), i, attrs=q), f(ops.gather(a, i, attrs=q)),
         level="exact", growing=True, both=True, schema="movement past elementwise"),
    rule("transpose-binary",
         g(ops.transpose(a, perm=p), ops.transpose(b, perm=p)), ops.transpose(g(a, b), perm=p),
         level="exact", dtypes="numeric", schema="movement past elementwise"),
    rule("reshape-binary",
         g(ops.reshape(a, attrs=q), ops.reshape(b, attrs=q)), ops.reshape(g(a, b), attrs=q),
         [same_shape(a, b)], level="exact", dtypes="numeric", schema="movement past elementwise"),
    rule("transpose-matmul",
         ops.transpose(a @ b, perm=p),
         ops.transpose(b, perm=p) @ ops.transpose(a, perm=p),
         [swaps_last_two(p), same_rank(a, b)], growing=True, dtypes="numeric"),
)  # fmt: skip

scale = [one_element(k)]
matrices = [*scale, rank_at_least(a, 2), rank_at_least(b, 2)]
SCALES = (
    rule("matmul-scale-left",  (a * k) @ b,   (a @ b) * k,   [*matrices, varying(b)],
         dtypes="numeric", both=True),
    rule("matmul-scale-right", a @ (b * k),   (a @ b) * k,   [*matrices, varying(b)],
         dtypes="numeric"),
    rule("conv-scale-input",   ops.conv(x * k, w, attrs=p), ops.conv(x, w, attrs=p) * k,
         [*scale, broadcasts_into(k, x)]),
    rule("conv-scale-weights", ops.conv(x, w * k, attrs=p), ops.conv(x, w, attrs=p) * k,
         [*scale, broadcasts_into(k, w)]),
    rule("relu-scale",         ops.relu(a * k),             ops.relu(a) * k, [nonneg(k)]),
    rule("max-pool-clip", peaking(ops.clip(a, low, high)), ops.clip(peaking(a), low, high),
         schema="pooling"),
    rule("max-pool-increasing", peaking(rising(a)), rising(peaking(a)), schema="pooling"),
)  # fmt: skip

by_first, by_vector = ops.reshape(k, shape=leading(k, w)), ops.reshape(k, shape=flat(k))
conv, conv_bias = ops.conv(x, w, attrs=p), ops.conv(x, w, bias, attrs=p)

CONSTANTS = (
    rule("conv-scale", conv * k, ops.conv(x, w * by_first, attrs=p),
         [constant(w), constant(k), per_channel(k, conv)], schema="scale of a contraction"),
    rule("conv-bias-scale", conv_bias * k, ops.conv(x, w * by_first, bias * by_vector, attrs=p),
         [constant(w), constant(bias), constant(k), per_channel(k, conv_bias)],
         schema="scale of a contraction"),
    rule("matmul-scale-columns", (x @ w) * k, x @ (w * by_vector),
         [constant(w), constant(k), rank_at_least(w, 2), along_last(k, x @ w)],
         schema="scale of a contraction"),
)  # fmt: skip

c = Tensor("c")
branch = ops.expand(c, attrs=p)
reshaped, totals = ops.reshape(a, attrs=q), reduction(a, axes=axes, keepdims=0)
INDEXING = (
    rule("gather-unsqueeze", ops.unsqueeze(ops.gather(a, i, axis=axis), axes=axes),
         ops.gather(a, ops.unsqueeze(i, axes=counted_from(axes, axis)), axis=axis),
         [inserted_among(i, axis, axes)], level="exact", dtypes="any"),
    rule("gather-squeeze", ops.squeeze(ops.gather(a, i, axis=axis), axes=axes),
         ops.gather(a, ops.squeeze(i, axes=counted_from(axes, axis)), axis=axis),
         [dropped_among(i, axis, axes)], level="exact", dtypes="any"),
    rule("squeeze-transpose", ops.squeeze(ops.transpose(a, perm=p), axes=q),
         ops.transpose(ops.squeeze(a, axes=axes_before(q, p)), perm=perm_reduced(p, q, 0)),
         level="exact", dtypes="any"),
    rule("where-not", ops.where(ops.not_(c), a, b), ops.where(c, b, a),
         level="exact", dtypes="any"),
    rule("where-expand", ops.where(branch, a, b), ops.where(c, a, b),
         [fits_between(branch, a, b)], level="exact", dtypes="any"),
    rule("reshape-beside", g(reshaped, k), ops.reshape(g(a, k), attrs=q),
         [same_beside(k, a, reshaped)], level="exact", dtypes="numeric",
         schema="movement past elementwise"),
    rule("flatten-average", ops.flatten(ops.global_average_pool(a), axis=1),
         ops.reduce_mean(a, axes=beyond_channels(a), keepdims=0)),
    rule("reduce-kept", ops.reshape(totals, attrs=p), reduction(a, axes=axes, keepdims=1),
         [keeps_axes(ops.reshape(totals, attrs=p), a, axes)], level="exact", dtypes="numeric"),
    rule("shape-binary", ops.shape(g(a, b), attrs=q), ops.shape(a, attrs=q),
         [same_shape(g(a, b), a)], level="exact"),
    rule("neg-conv", -ops.conv(x, w, bias, attrs=p), ops.conv(x, -w, -bias, attrs=p),
         [constant(w), constant(bias)]),
)  # fmt: skip

turned = ops.transpose(a, perm=p)
squeezed = ops.squeeze(a, axes=axes)
alike = ops.reshape(
    ops.transpose(ops.reshape(k, shape=in_rank_of(k, a)), perm=inverse(p)),
    shape=turned_back(k, a, p),
)
PAST_BROADCAST = (
    rule("transpose-broadcast", joint(turned, k), ops.transpose(joint(a, alike), perm=p),
         [constant(k), broadcasts_into(k, turned)],
         level="exact", dtypes="numeric", schema="movement past elementwise"),
    rule("squeeze-broadcast", joint(squeezed, k),
         ops.squeeze(joint(a, ops.unsqueeze(k, axes=axes)), axes=axes),
         [constant(k), same_rank(k, squeezed)],
         level="exact", dtypes="numeric", schema="movement past elementwise"),
)  # fmt: skip

flipped_left, flipped_right = ops.transpose(a, perm=(1, 0)), ops.transpose(b, perm=(1, 0))
PAST_PRODUCTS = (
    rule("matmul-reshaped", reshaped @ w, ops.reshape(a @ w, shape=shape_of(reshaped @ w)),
         [rank_is(w, 2), keeps_last(a, reshaped)], dtypes="numeric"),
    rule("matmul-scale-rows", (x * k) @ w, x @ (ops.reshape(k, shape=column(k)) * w),
         [constant(k), constant(w), rank_at_least(w, 2), along_last(k, x)]),
    rule("gemm-transposed-left", ops.gemm(flipped_left, b, transA=p, attrs=q),
         ops.gemm(a, b, transA=flipped(p), attrs=q)),
    rule("gemm-transposed-right", ops.gemm(a, flipped_right, transB=p, attrs=q),
         ops.gemm(a, b, transB=flipped(p), attrs=q)),
    rule("gemm-transposed", ops.transpose(ops.gemm(a, b, transA=p, transB=keep, attrs=q),
                                          perm=(1, 0)),
         ops.gemm(b, a, transA=flipped(keep), transB=flipped(p), attrs=q)),
)  # fmt: skip


def _mixed(*operands: Pattern) -> Apply:
    """Return a convolution that `pointwise` finds to combine channels only."""
    return ops.conv(*operands, strides=strides, pads=pads, auto_pad="NOTSET", attrs=p)


def _pooled(x: Pattern) -> Apply:
    """Return an average pool; with ceil_mode its result may be empty, which no Conv takes."""
    return ops.average_pool(x, ceil_mode=0, attrs=q)


by_channel = ops.reshape(k, shape=by_input(k, w, group))
transposed = ops.conv_transpose(x, w, bias, group=1, attrs=p)
alone = [pointwise(w, strides, pads)]
CHANNELS = (
    rule("average-pool-pointwise", _pooled(_mixed(x, w)), _mixed(_pooled(x), w),
         [*alone, has_positions(x)],
         growing=True, both=True),
    rule("global-pool-pointwise", ops.global_average_pool(_mixed(x, w)),
         _mixed(ops.global_average_pool(x), w), alone),
    rule("conv-scale-rows", ops.conv(x * k, w, bias, group=group, attrs=p),
         ops.conv(x, w * by_channel, bias, group=group, attrs=p),
         [constant(w), constant(k), scales_inputs(k, x, w, group)]),
    rule("conv-transpose-scale", transposed * k,
         ops.conv_transpose(x, w * ops.reshape(k, shape=by_input(k, w, 1)),
                            bias * ops.reshape(k, shape=flat(k)), group=1, attrs=p),
         [constant(w), constant(bias), constant(k), per_channel(k, transposed)]),
)  # fmt: skip

COMMUTATIVE: tuple[Rule, ...] = (
    *OPERANDS,
    *SIGNS,
    *REDUCTIONS,
    *MOVEMENT,
    *SCALES,
    *CONSTANTS,
    *INDEXING,
    *PAST_BROADCAST,
    *PAST_PRODUCTS,
    *CHANNELS,
)
