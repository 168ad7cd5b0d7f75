"""Structural rules: identities, no-ops, constants into weights; they do not count among the 149."""

from __future__ import annotations

from egraph_fusion.rulesets.functions import (
    composed,
    doubled,
    flat,
    flipped,
    leading,
    padded_more,
    shape_of,
    summed,
    vector_of,
    zeros_around,
)
from egraph_fusion.rulesets.guards import (
    all_zero,
    along_last,
    broadcasts_into,
    constant,
    different,
    forwards,
    identity_perm,
    in_range_of,
    integer,
    lies_within,
    nonneg,
    nonzero,
    pads_space_only,
    per_channel,
    positive,
    rank_at_least,
    same_batch,
    same_dtype,
    same_except,
    same_shape,
    sizes_of,
    stays_cut,
    varying,
)
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Apply, Attribute, Computed, Tensor
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.schemas import operators

a, b, c, k, w, x, y, bias = (Tensor(n) for n in ["a", "b", "c", "k", "w", "x", "y", "bias"])
p, q, perm, axes, shape = (Attribute(n) for n in ["p", "q", "perm", "axes", "shape"])

rounding = operators("rounding", "rounding")

IDENTITIES = (
    rule("add-zero",      a + 0.0,                        a),
    rule("sub-zero",      a - 0.0,                        a,            level="exact"),
    rule("sub-from-zero", 0.0 - a,                        -a),
    rule("mul-one",       a * 1.0,                        a,            level="exact"),
    rule("div-one",       a / 1.0,                        a,            level="exact"),
    rule("pow-one",       a ** 1.0,                       a,            level="exact"),
    rule("pow-two",       a ** 2.0,                       a * a),
    rule("pow-half",      a ** 0.5,                       ops.sqrt(a)),
    rule("mul-minus-one", a * -1.0,                       -a,           level="exact"),
    rule("neg-neg",       ops.neg(-a),                          a,            level="exact"),
    rule("relu-relu",     ops.relu(ops.relu(a)),          ops.relu(a),  level="exact"),
    rule("abs-abs",       ops.abs(ops.abs(a)),            ops.abs(a),   level="exact"),
    rule("relu-nonneg",   ops.relu(a),                    a,            [nonneg(a)]),
    rule("abs-nonneg",    ops.abs(a),                     a,            [nonneg(a)]),
    rule("reciprocal-twice", ops.reciprocal(ops.reciprocal(a)), a,      [nonzero(a)]),
    rule("rounding-integer", rounding(a),                 a,      [integer(a)], level="exact"),
    rule("sub-neg",       a - (-b),                       a + b,        level="exact"),
    rule("add-neg",       a + (-b),                       a - b,        level="exact"),
    rule("neg-sub",       -(a - b),                       b - a),
    rule("not-not",       ops.not_(ops.not_(a)),          a,          level="exact", dtypes="bool"),
    rule("identity",      ops.identity(a),               a,            level="exact", dtypes="any"),
    rule("sum-less",      (a + b) - b,                    a,            [broadcasts_into(b, a)]),
    rule("difference-plus", (a - b) + b,                  a,            [broadcasts_into(b, a)]),
    rule("difference-of-sum", a - (a + b),                -b,           [broadcasts_into(a, b)]),
    rule("log-exp",       ops.log(ops.exp(a)),            a),
    rule("exp-log",       ops.exp(ops.log(a)),            a,            [positive(a)]),
    rule("int-add-zero",  a + 0.0,                       a,            level="exact", dtypes="int"),
    rule("int-mul-one",   a * 1.0,                       a,            level="exact", dtypes="int"),
)  # fmt: skip

axis = Attribute("axis")
narrow = ops.cast(a, attrs=p)
parted = ops.split(ops.concat(a, b, axis=axis), axis=axis, split=p)

MOVEMENT = (
    rule("transpose-twice",
         ops.transpose(ops.transpose(a, perm=p), perm=q), ops.transpose(a, perm=composed(q, p)),
         level="exact", dtypes="any"),
    rule("transpose-none", ops.transpose(a, perm=p),      a, [identity_perm(p)],
         level="exact", dtypes="any"),
    rule("reshape-twice",
         ops.reshape(ops.reshape(a, attrs=q), attrs=p),
         ops.reshape(a, shape=shape_of(ops.reshape(ops.reshape(a, attrs=q), attrs=p))),
         level="exact", dtypes="any"),
    rule("reshape-none",   ops.reshape(a, attrs=p),     a, [same_shape(ops.reshape(a, attrs=p), a)],
         level="exact", dtypes="any"),
    rule("expand-none",    ops.expand(a, attrs=p),       a, [same_shape(ops.expand(a, attrs=p), a)],
         level="exact", dtypes="any"),
    rule("cast-none",      ops.cast(a, attrs=p),          a, [same_dtype(ops.cast(a, attrs=p), a)],
         level="exact", dtypes="any"),
    rule("cast-back",      ops.cast(narrow, attrs=q),     a,
         [integer(a), in_range_of(a, narrow), same_dtype(ops.cast(narrow, attrs=q), a)]),
    rule("slice-none",     ops.slice(a, steps=q, attrs=p), a,
         [same_shape(ops.slice(a, steps=q, attrs=p), a), forwards(q)], level="exact", dtypes="any"),
    rule("pad-none",       ops.pad(a, pads=q, attrs=p),   a, [all_zero(q)],
         level="exact", dtypes="any"),
    rule("pad-zero", ops.pad(a, 0.0, pads=p, mode="constant"), ops.pad(a, pads=p, mode="constant"),
         level="exact", dtypes="numeric"),
    rule("pad-twice",
         ops.pad(ops.pad(a, pads=p, mode="constant"), pads=q, mode="constant"),
         ops.pad(a, pads=summed(p, q), mode="constant"), [stays_cut(p, q)],
         level="exact", dtypes="any"),
    rule("split-concat-first",  parted[0], a, [sizes_of(p, a, b, axis)],
         level="exact", dtypes="any"),
    rule("split-concat-second", parted[1], b, [sizes_of(p, a, b, axis)],
         level="exact", dtypes="any"),
    rule("squeeze-unsqueeze",
         ops.squeeze(ops.unsqueeze(a, axes=axes), axes=axes), a, level="exact", dtypes="any"),
    rule("unsqueeze-squeeze",
         ops.unsqueeze(ops.squeeze(a, axes=axes), axes=axes), a, level="exact", dtypes="any"),
    rule("reshape-squeeze",
         ops.reshape(ops.squeeze(a, attrs=q), attrs=p),
         ops.reshape(a, shape=shape_of(ops.reshape(ops.squeeze(a, attrs=q), attrs=p))),
         level="exact", dtypes="any"),
    rule("reshape-unsqueeze",
         ops.reshape(ops.unsqueeze(a, attrs=q), attrs=p),
         ops.reshape(a, shape=shape_of(ops.reshape(ops.unsqueeze(a, attrs=q), attrs=p))),
         level="exact", dtypes="any"),
    rule("split-one",      ops.split(a, attrs=p)[0],      a,
         [same_shape(ops.split(a, attrs=p)[0], a)], level="exact", dtypes="any"),
    rule("reshape-flatten",
         ops.reshape(ops.flatten(a, attrs=q), attrs=p),
         ops.reshape(a, shape=shape_of(ops.reshape(ops.flatten(a, attrs=q), attrs=p))),
         level="exact", dtypes="any"),
    rule("concat-one",     ops.concat(a, attrs=p),        a, level="exact", dtypes="any"),
    rule("sum-one",        ops.sum(a),                    a, level="exact"),
    rule("max-one",        ops.max(a),                    a, level="exact"),
    rule("min-one",        ops.min(a),                    a, level="exact"),
)  # fmt: skip

conv, conv_bias = ops.conv(x, w, attrs=p), ops.conv(x, w, bias, attrs=p)
gemm, gemm_t = ops.gemm(x, w, transA=q), ops.gemm(x, w, transA=q, transB=1)
gemm_bias = ops.gemm(x, w, bias, transA=q)
gemm_t_bias = ops.gemm(x, w, bias, transA=q, transB=1)
by_first, by_vector = ops.reshape(k, shape=leading(k, w)), ops.reshape(k, shape=flat(k))

WEIGHTS = (
    rule("sub-constant",  a - c, a + (-c), [constant(c)], level="exact"),
    # Sound without `nonzero` as well, but then 1 / 0 would be folded to an infinity.
    rule("div-constant",  a / c, a * ops.reciprocal(c), [constant(c), nonzero(c)]),
    rule("conv-add-past", (conv + y) + k,
         ops.conv(x, w, ops.expand(by_vector, shape=vector_of(w)), attrs=p) + y,
         [constant(k), varying(y), per_channel(k, conv)]),
    rule("conv-bias-add-past", (conv_bias + y) + k,
         ops.conv(x, w, bias + by_vector, attrs=p) + y,
         [constant(bias), constant(k), varying(y), per_channel(k, conv_bias)]),
    rule("gemm-scale", gemm * k, ops.gemm(x, w * by_vector, transA=q),
         [constant(w), constant(k), along_last(k, gemm)]),
    rule("gemm-transposed-scale", gemm_t * k, ops.gemm(x, w * by_first, transA=q, transB=1),
         [constant(w), constant(k), along_last(k, gemm_t)]),
    rule("gemm-bias-scale", gemm_bias * k, ops.gemm(x, w * by_vector, bias * by_vector, transA=q),
         [constant(w), constant(bias), constant(k), along_last(k, gemm_bias)]),
    rule("gemm-transposed-bias-scale", gemm_t_bias * k,
         ops.gemm(x, w * by_first, bias * by_vector, transA=q, transB=1),
         [constant(w), constant(bias), constant(k), along_last(k, gemm_t_bias)]),
    rule("gemm-add", ops.gemm(x, w, attrs=p, beta=1.0) + k, ops.gemm(x, w, k, attrs=p, beta=1.0),
         [constant(k), broadcasts_into(k, ops.gemm(x, w, attrs=p, beta=1.0))]),
    rule("gemm-bias-add", ops.gemm(x, w, bias, attrs=p, beta=1.0) + k,
         ops.gemm(x, w, bias + k, attrs=p, beta=1.0),
         [constant(bias), constant(k),
          broadcasts_into(k, ops.gemm(x, w, bias, attrs=p, beta=1.0))]),
)  # fmt: skip

k1, k2 = Tensor("k1"), Tensor("k2")
known = [constant(k1), constant(k2)]
apart = [*known, varying(a), varying(b)]  # a constant is not taken apart: 8 = 2 * 4 = 4 * 2 = ...
GATHERING = (
    rule("add-constants",        (a + k1) + k2,       a + (k1 + k2),       known, dtypes="numeric"),
    rule("add-constants-past",   ((a + k1) + b) + k2, (a + b) + (k1 + k2), apart, dtypes="numeric"),
    rule("mul-constants",        (a * k1) * k2,       a * (k1 * k2),       known, dtypes="numeric"),
    rule("mul-constants-across", (a * k1) * (b * k2), (a * b) * (k1 * k2), apart, dtypes="numeric"),
)  # fmt: skip

m, n, v, other = Tensor("m"), Tensor("n"), Tensor("v"), Tensor("other")
i, j, g = Attribute("i"), Attribute("j"), Attribute("g")


def _conv(*operands: Tensor | Apply, group: int | Attribute | Computed = 1) -> Apply:
    return ops.conv(*operands, group=group, attrs=p)


def _joined(*parts: Tensor | Apply, axis: int) -> Apply:
    return ops.concat(*parts, axis=axis)


SIBLINGS = (
    rule("matmul-siblings", _joined(x @ w, x @ v, axis=-1), x @ _joined(w, v, axis=-1),
         [same_batch(w, v)], growing=True),
    rule("matmul-sum", x @ w + y @ v, _joined(x, y, axis=-1) @ _joined(w, v, axis=-2),
         [same_except(x, y, -1), same_except(w, v, -2)], growing=True),
    rule("matmul-own-multiple", (x + x @ w) @ v, x @ (v + w @ v),
         [same_shape(x, x @ w), rank_at_least(v, 2)], growing=True),
    rule("conv-siblings", _joined(_conv(x, w), _conv(x, v), axis=1),
         _conv(x, _joined(w, v, axis=0)), [same_except(w, v, 0)], growing=True),
    rule("conv-bias-siblings", _joined(_conv(x, w, bias), _conv(x, v, other), axis=1),
         _conv(x, _joined(w, v, axis=0), _joined(bias, other, axis=0)),
         [same_except(w, v, 0)], growing=True),
    rule("conv-batch", _joined(ops.conv(x, w, attrs=p), ops.conv(y, w, attrs=p), axis=0),
         ops.conv(_joined(x, y, axis=0), w, attrs=p), [same_except(x, y, 0)], growing=True),
    rule("conv-groups", _joined(_conv(x, w, group=g), _conv(y, v, group=g), axis=1),
         _conv(_joined(x, y, axis=1), _joined(w, v, axis=0), group=doubled(g)),
         [same_shape(x, y), same_shape(w, v)], growing=True),
    rule("concat-blocks", ops.concat(ops.concat(a, b, axis=i), ops.concat(m, n, axis=i), axis=j),
         ops.concat(ops.concat(a, m, axis=j), ops.concat(b, n, axis=j), axis=i),
         [different(i, j), same_except(a, m, j)],
         level="exact", dtypes="any", growing=True),
)  # fmt: skip

plain = {"alpha": 1.0, "beta": 1.0, "transA": 0}
around, inside, steps = Attribute("around"), Attribute("inside"), Attribute("steps")


def _padded(*operands: Tensor | Apply, pads: Attribute) -> Apply:
    return ops.conv(*operands, pads=pads, dilations=steps, auto_pad="NOTSET", attrs=p)


flipped_left, flipped_right = ops.transpose(x, perm=(1, 0)), ops.transpose(y, perm=(1, 0))
padded = ops.pad(x, pads=around, mode="constant")
BIASES = (
    rule("gemm-bias-transposed-left", ops.gemm(flipped_left, w, bias, transA=i, attrs=p),
         ops.gemm(x, w, bias, transA=flipped(i), attrs=p)),
    rule("gemm-bias-transposed-right", ops.gemm(x, flipped_right, bias, transB=i, attrs=p),
         ops.gemm(x, y, bias, transB=flipped(i), attrs=p)),
    rule("conv-bias-pad", ops.conv(padded, w, bias, pads=inside, auto_pad="NOTSET", attrs=p),
         ops.conv(x, w, bias, pads=padded_more(inside, around), auto_pad="NOTSET", attrs=p),
         [pads_space_only(around)]),
    rule("gemm-apart", ops.gemm(x, w, bias, transB=0, **plain), x @ w + bias, growing=True),
    rule("gemm-transposed-apart", ops.gemm(x, w, bias, transB=1, **plain),
         x @ ops.transpose(w, perm=(1, 0)) + bias, growing=True),
    rule("conv-bias-over-add-weights",
         _padded(x, w, bias, pads=around) + _padded(x, v, other, pads=inside),
         _padded(x, w + ops.pad(v, pads=zeros_around(inside, around, steps), mode="constant"),
                 bias + other, pads=around),
         [lies_within(v, w, inside, around, steps)]),
    rule("conv-bias-over-add-inputs",
         ops.conv(x, w, bias, attrs=p) + ops.conv(y, w, other, attrs=p),
         ops.conv(x + y, w, bias + other, attrs=p), [same_shape(x, y)]),
)  # fmt: skip

STRUCTURAL: tuple[Rule, ...] = IDENTITIES + MOVEMENT + WEIGHTS + GATHERING + SIBLINGS + BIASES
