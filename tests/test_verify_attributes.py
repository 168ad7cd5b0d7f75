"""Whatever a pattern leaves open is drawn: attributes, outputs, sizes, ranks and unlike shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from egraph_fusion import rulesets
from egraph_fusion.ir.ops import OPERATORS, Operator
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets import guards, ops
from egraph_fusion.rulesets.pattern import Apply, Attribute, Pattern, Tensor, children
from egraph_fusion.rulesets.prove import prove
from egraph_fusion.rulesets.rule import Rule, rule
from egraph_fusion.rulesets.verification import verify
from egraph_fusion.rulesets.verify_search import settings_of

a, b, x, y, w, k = rulesets.tensors("a b x y w k")
p, n = rulesets.attrs("p n")
SEEDS = range(12)

ONE_VALUE = {
    "kernel_shape of Conv": "the weights say it",
    "kernel_shape of ConvInteger": "the weights say it",
    "kernel_shape of ConvTranspose": "the weights say it",
    "output_shape of ConvTranspose": "turned into pads",
    "auto_pad of Conv": "turned into pads",
    "auto_pad of ConvInteger": "turned into pads",
    "auto_pad of ConvTranspose": "turned into pads",
    "auto_pad of MaxPool": "turned into pads",
    "auto_pad of AveragePool": "turned into pads",
    "auto_pad of LpPool": "turned into pads",
    "training_mode of BatchNormalization": "training is not computed on",
    "block_size of QuantizeLinear": "blocked scales are not computed on",
    "block_size of DequantizeLinear": "blocked scales are not computed on",
    "precision of QuantizeLinear": "the operands decide it",
}
"""Attributes that have one value in the form in which nodes are rewritten."""


def _open(o: Operator) -> Rule:
    """Return a rule that leaves all attributes of an operator open."""
    least = {"Einsum": 2, "Gemm": 3}.get(o.name, max(1, o.arity[0]))
    operands: tuple[Pattern, ...] = tuple(Tensor(c) for c in "abcdefgh"[:least])
    if o.name == "DequantizeLinear":
        operands = (ops.cast(a, to="int8"), b)
    side = Apply(o.name, operands, (), Attribute("p"))
    whole = o.name == "ConvInteger" or (o.takes is not None and not o.takes(DType.FLOAT32))
    return rule("r", side, side, dtypes="uint" if whole else "float", level="exact")


def _drawn(o: Operator) -> Mapping[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for s in settings_of(_open(o)):
        for name, value in s.attributes["p"].items():
            found[name].add(repr(value))
    return found


@pytest.mark.parametrize("o", [o for o in OPERATORS.values() if o.attrs], ids=lambda o: o.name)
def test_every_attribute_takes_several_values(o: Operator) -> None:
    found = _drawn(o)
    single = {f"{q.name} of {o.name}" for q in o.attrs if len(found[q.name]) < 2}
    assert single == {q for q in ONE_VALUE if q.endswith(f" of {o.name}")}


@pytest.mark.parametrize("o", [o for o in OPERATORS.values() if o.attrs], ids=lambda o: o.name)
def test_values_of_the_registry_are_all_drawn(o: Operator) -> None:
    found = _drawn(o)
    for q in o.attrs:
        if q.values and f"{q.name} of {o.name}" not in ONE_VALUE:
            assert {repr(v) for v in q.values} <= found[q.name], q.name


WITHOUT_EFFECT = {
    "stash_type": "the dtype of sums is ours to choose",
    "momentum": "of training",
    "saturate": "of 8-bit floats",
    "storage_order": "of the second output",
}


@pytest.mark.parametrize("o", [o for o in OPERATORS.values() if o.attrs], ids=lambda o: o.name)
def test_no_attribute_is_taken_for_its_default(o: Operator) -> None:
    single = {q.partition(" ")[0] for q in ONE_VALUE if q.endswith(f" of {o.name}")}
    same = _open(o)
    for q in o.attrs:
        if q.default is None or q.name in single:
            continue
        sides = [Apply(o.name, children(same.lhs), ((q.name, v),), p) for v in (n, q.default)]
        claim = replace(same, lhs=sides[0], rhs=sides[1])
        for seed in range(3):
            found = verify(claim, seed=seed, shrink=False, check_guards=False)
            assert (found.counterexample is None) == (q.name in WITHOUT_EFFECT), (q.name, seed)


def _cut(end: int) -> Apply:
    return ops.slice(a, axes=(0,), starts=(0,), ends=(end,), steps=(1,))


def _total(of: Pattern) -> Apply:
    return ops.reduce_sum(of, axes=(0,), keepdims=0)


def _same(of: Apply, name: str, value: object) -> Rule:
    """Return the claim that an attribute has a value, whatever it is."""
    others = tuple((q, v) for q, v in of.attrs if q != name)
    given = Apply(of.op, of.args, (*others, (name, value)), of.rest)  # type: ignore[arg-type]
    exact = OPERATORS[of.op].name in ("DepthToSpace", "EyeLike", "IsInf", "LpPool")
    return rule("r", of, given, level="exact" if exact else "finite")


halves = ops.split(a, split=n, axis=0)
conv, mean = ops.conv, ops.average_pool
WRONG: dict[str, Rule] = {
    "Trilu, k": _same(ops.trilu(a, k=n, attrs=p), "k", 0),
    "Trilu, upper": _same(ops.trilu(a, upper=n, k=0), "upper", 1),
    "Gelu": _same(ops.gelu(a, approximate=n), "approximate", "none"),
    "LpNormalization": _same(ops.lp_normalization(a, p=n, attrs=p), "p", 2),
    "LpNormalization, rest": rule(
        "r", ops.lp_normalization(a, attrs=p) * 1.0, ops.lp_normalization(a, p=2, axis=-1)
    ),
    "LpPool": _same(ops.lp_pool(a, p=n, attrs=p), "p", 2),
    "GlobalLpPool": _same(ops.global_lp_pool(a, p=n), "p", 2),
    "IsInf": _same(ops.is_inf(a, detect_negative=n, attrs=p), "detect_negative", 1),
    "DepthToSpace": _same(ops.depth_to_space(a, mode=n, attrs=p), "mode", "DCR"),
    "Shape": _same(ops.shape(a, start=n), "start", 0),
    "EyeLike": _same(ops.eye_like(a, k=n), "k", 0),
    "GatherND": _same(ops.gather_nd(a, b, batch_dims=n), "batch_dims", 0),
    "ConvTranspose": _same(ops.conv_transpose(a, b, group=n, attrs=p), "group", 1),
    "Resize": rule("r", ops.resize(a, mode=n, attrs=p), ops.resize(a, mode="nearest", attrs=p)),
    "Pad": _same(ops.pad(a, mode=n, pads=p), "mode", "constant"),
    "Mod": rule("r", ops.mod(a, b, fmod=n), ops.mod(a, b, fmod=0), dtypes="int"),
    "Mod, rest": rule(
        "r",
        ops.relu(ops.mod(a, b, attrs=p)),
        ops.mod(a, b, attrs=p),
        [guards.positive(b)],
        dtypes="numeric",
    ),
    "Mod of a sum": rule(
        "r",
        ops.mod(a, b, attrs=p),
        ops.mod(ops.mod(a, b, attrs=p) + b, b, attrs=p),
        [guards.positive(b)],
        dtypes="int",
    ),
    "more parts than are named": rule(
        "r", _total(halves[0] * k) + _total(halves[1] * k), _total(a) * k, [guards.scalar(k)]
    ),
    **{f"up to {m}": rule("r", _cut(m), a, dtypes="any") for m in (130, 200, 300, 5000, 9000)},
    "images of unlike shapes": rule(
        "r", conv(x, w, attrs=p) + conv(y, w, attrs=p), conv(x + y, w, attrs=p)
    ),
    "kernels of unlike shapes": rule(
        "r", conv(x, w, attrs=p) + conv(x, y, attrs=p), conv(x, w + y, attrs=p),
        [guards.broadcasts_into(y, w)],
    ),
    "images of size 1": rule(
        "r", conv(x, w, attrs=p) + conv(y, w, attrs=p), conv(x + y, w, attrs=p),
        [guards.broadcasts_into(y, x)],
    ),
    "pools of unlike shapes": rule(
        "r", mean(a, attrs=p) + mean(b, attrs=p), mean(a + b, attrs=p)
    ),
    "the last of five axes": rule(
        "r", ops.softmax(a, axis=-1), ops.softmax(a, axis=3), [guards.rank_at_least(a, 4)]
    ),
    "the first of six axes": rule(
        "r", _total(a), ops.reduce_sum(a, axes=(-5,), keepdims=0), [guards.rank_at_least(a, 5)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_fall_at_every_seed_and_are_never_proven(name: str) -> None:
    for seed in SEEDS:
        found = verify(WRONG[name], seed=seed, shrink=False, check_guards=False)
        assert found.counterexample is not None, seed
        assert prove(WRONG[name], seed=seed) is None, seed


def test_a_rule_is_not_proven_at_sizes_below_those_that_it_names() -> None:
    assert prove(rule("r", _cut(100_000), a)) is None


@pytest.mark.parametrize("pool", [ops.max_pool, ops.average_pool], ids=["max", "average"])
def test_pads_say_what_auto_pad_said(pool: Callable[..., Apply]) -> None:
    r = rule("r", pool(a, auto_pad=n, attrs=p), pool(a, auto_pad="NOTSET", attrs=p))
    assert verify(r, check_guards=False).ok


def test_right_rules_stand_with_more_parts_and_axes() -> None:
    part = rule("r", -ops.split(a, attrs=p)[1], ops.split(-a, attrs=p)[1])
    first = rule("r", ops.softmax(a, axis=-4), ops.softmax(a, axis=0), [guards.rank_is(a, 4)])
    for r in (part, first):
        found = verify(r, check_guards=False)
        assert found.ok, str(found)


@pytest.mark.parametrize("seed", range(3))
def test_pads_that_a_pattern_names_are_those_of_the_node(seed: int) -> None:
    padded = ops.pad(a, pads=(0, 0, 1, 1, 0, 0, 1, 1), mode="constant")
    left = ops.conv(padded, b, pads=(0, 0, 0, 0), attrs=p)
    r = rule("r", left, ops.conv(a, b, pads=(1, 1, 1, 1), attrs=p))
    found = verify(r, seed=seed, check_guards=False)
    assert found.ok, str(found)
