"""Settings in which a rule is tried: shapes, attributes and both sides ready to run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    Number,
    Output,
    Pattern,
    Tensor,
)
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.verify_attributes import choose_attributes
from egraph_fusion.rulesets.verify_terms import (
    REFUSALS,
    Attributes,
    Compiler,
    IllTypedError,
    NoAttributeError,
    Program,
    Step,
    leaf_dtypes,
    leaf_patterns,
)

SETTINGS = 80
"""How many settings of a rule are looked for."""
TRIES = 1500
LARGEST = 36
"""Elements that an operand may have, and a third of those that a result may have."""

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Setting:
    """Operand shapes and attributes of one application of a rule, with both sides ready to run.

    `refusal` says why the right side does not fit although the left side does.
    """

    shapes: Mapping[Pattern, Sizes]
    attributes: Attributes
    dtype: DType
    left: Program
    right: Program | None
    refusal: str = ""
    index_limits: Mapping[Pattern, int] = field(default_factory=dict[Pattern, int])

    def violates(self, g: Guard) -> bool:
        """Whether a guard on types and attributes does not hold."""
        types = {p: self.left.types[i] for p, i in self.left.places.items()}
        return not _holds(g, Compiler({}, self.dtype, _refuse, self.attributes, types))

    @property
    def size(self) -> tuple[int, int]:
        """Elements of all operands, and their ranks: what smaller counterexamples have less of."""
        return (
            sum(math.prod(s) for s in self.shapes.values()),
            sum(len(s) for s in self.shapes.values()),
        )


@lru_cache(maxsize=4096)
def settings_of(
    rule: Rule, seed: int = 0, count: int = SETTINGS, violating: Guard | None = None
) -> tuple[Setting, ...]:
    """Return up to `count` settings of a rule without variables for operators, smallest first.

    With `violating`, only settings in which that guard does not hold.  They are the same for the
    same seed; none if no operands satisfy the left side and the guards.
    """
    rng = Random(f"{seed} settings")
    dtype = dtypes_of(rule)[0]
    found: dict[str, Setting] = {}
    for _ in range(TRIES):
        setting = _tried(rule, rng, dtype)
        if setting is not None and (violating is None or setting.violates(violating)):
            found.setdefault(str((list(setting.shapes.values()), setting.attributes)), setting)
        if len(found) >= count:
            break
    return tuple(sorted(found.values(), key=lambda s: s.size))


def settings_like(rule: Rule, found: Sequence[Setting], seed: int = 0) -> tuple[Setting, ...]:
    """Return settings with the shapes of `found`, for the same rule with another operator.

    What an operator variable leaves open of its attributes is chosen anew.
    """
    rng = Random(f"{seed} like")
    again: list[Setting] = []
    for s in found:
        kept = {n: v for n, v in s.attributes.items() if not n.endswith("_attrs")}
        setting = prepared(rule, s.shapes, s.dtype, rng, kept)
        if setting is not None:
            again.append(setting)
    return tuple(again)


def dtypes_of(rule: Rule) -> tuple[DType, ...]:
    """Return the dtypes in which a rule is tried."""
    floats = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)
    ints = (DType.INT32, DType.INT64, DType.INT8)
    uints = (DType.UINT8, DType.UINT32, DType.UINT64)
    return {
        "float": floats,
        "int": ints,
        "uint": uints,
        "bool": (DType.BOOL,),
        "numeric": (*floats, *ints, *uints),
        "any": (DType.FLOAT32, DType.INT64, DType.BOOL, DType.FLOAT16),
    }[rule.dtypes]


def setting_in(rule: Rule, setting: Setting, dtype: DType) -> Setting | None:
    """Return the same setting for other dtypes; None if the left side does not take them."""
    if dtype is setting.dtype:
        return setting
    return prepared(rule, setting.shapes, dtype, Random(0), setting.attributes)


def _tried(rule: Rule, rng: Random, dtype: DType) -> Setting | None:
    shapes = Shapes(rng).fit(rule.lhs)
    if any(math.prod(s) > LARGEST for s in shapes.values()):
        return None
    return prepared(rule, shapes, dtype, rng, {})


def prepared(
    rule: Rule, shapes: Mapping[Pattern, Sizes], dtype: DType, rng: Random, attributes: Attributes
) -> Setting | None:
    """Return the setting with these shapes; None if the left side or a guard refuses them."""
    if not dtype.is_float and any(isinstance(p, Number) and p.value % 1 for p in shapes):
        return None
    dtypes = leaf_dtypes(rule.lhs, dtype)
    types = {p: TensorType(dtypes[p], s) for p, s in shapes.items()}
    c = Compiler(types, dtype, lambda *a: choose_attributes(rng, *a), dict(attributes))
    try:
        left = c.left(rule.lhs)
        holds = _unenlarged(rule, types, left, c) and _guards_hold(rule, c)
    except REFUSALS:
        return None
    if not holds or any(math.prod(t.static_shape or ()) > 3 * LARGEST for t in left.types):
        return None
    limits = _index_limits(left)
    if any(d == 0 and math.prod(shapes[p]) for p, d in limits.items()):
        return None
    try:
        right = c.right(rule.rhs)
    except NoAttributeError:
        return None
    except IllTypedError as e:
        return Setting(shapes, c.attributes, dtype, left, None, f"right side: {e}", limits)
    refusal = ""
    if left.type != right.type:
        refusal = f"the left side has type {left.type} and the right side {right.type}"
    return Setting(shapes, c.attributes, dtype, left, right, refusal, limits)


def _unenlarged(
    rule: Rule, types: Mapping[Pattern, TensorType], left: Program, c: Compiler
) -> bool:
    """Whether the numbers of the left side do not enlarge its result by their shapes."""
    if not any(isinstance(p, Number) and t.shape for p, t in types.items()):
        return True
    bare = {p: TensorType(t.dtype, ()) if isinstance(p, Number) else t for p, t in types.items()}
    small = Compiler(bare, c.dtype, c.choose, dict(c.attributes))
    return small.left(rule.lhs).type == left.type


def _refuse(op: str, _types: Sequence[TensorType], _given: Mapping[str, Any]) -> Any:
    raise IllTypedError(f"{op}: attributes are chosen already")


TYPED = (Form.TYPE, Form.DTYPE)
"""Forms of guards that settings decide, whatever the elements."""


def _guards_hold(rule: Rule, c: Compiler) -> bool:
    return all(_holds(g, c) for g in rule.when if g.kind.form in TYPED)


def _holds(g: Guard, c: Compiler) -> bool:
    if g.kind.form is Form.DTYPE:
        return g.kind.test(*(c.known[p].dtype for p in g.patterns))
    return g.kind.test(*map(c.argument, g.args))


def _index_limits(left: Program) -> dict[Pattern, int]:
    """Return the extent that each operand of indices points into."""
    limits: dict[Pattern, int] = {}
    for s in left.steps:
        if isinstance(s, Step) and s.op in ("Gather", "GatherElements"):
            data, at = s.operands
            extent = (left.types[data].static_shape or ())[int(str(s.attrs["axis"]))]
            if at < len(left.leaves):
                p = left.leaves[at]
                limits[p] = min(extent, limits.get(p, extent))
    return limits


class Shapes:
    """Random operand shapes that mostly fit a term: every operator passes down what it needs."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.found: dict[Pattern, Sizes] = {}
        self.operands: dict[str, Sizes] = {}
        self.one_size = rng.randrange(1, 4) if rng.random() < 0.25 else None

    def fit(self, p: Pattern) -> dict[Pattern, Sizes]:
        """Return a shape for each leaf of `p`."""
        self._fit(p, self.random_shape())
        return {leaf: self.found[leaf] for leaf in leaf_patterns(p)}

    def dim(self) -> int:
        """Return a random extent."""
        if self.one_size is not None:
            return self.rng.choice((1, self.one_size))
        return self.rng.choices((0, 1, 2, 3), (1, 4, 7, 4))[0]

    def random_shape(self, low: int = 0, high: int = 4) -> Sizes:
        """Return a random shape of rank `low` to `high`."""
        weights = [1, 3, 4, 3, 2][low : high + 1]
        rank = self.rng.choices(range(low, high + 1), weights)[0]
        return tuple(self.dim() for _ in range(rank))

    def _fit(self, p: Pattern, wanted: Sizes) -> None:
        if isinstance(p, Tensor | Number):
            self.found.setdefault(p, wanted)
        elif isinstance(p, Output):
            self._fit(p.of, wanted)
        elif isinstance(p, Apply):
            self._fit_apply(p, wanted)

    def _fit_apply(self, p: Apply, wanted: Sizes) -> None:
        if p.op in ROLES:
            shapes: Sequence[Sizes] = self._role(p, wanted)
        elif OPERATORS[p.op].kind is Kind.ELEMENTWISE:
            shapes = [self.narrowed(wanted, a) for a in p.args]
        else:
            shapes = [self._operand(p, wanted)] * len(p.args)
        for a, s in zip(p.args, shapes, strict=True):
            self._fit(a, s)

    def narrowed(self, wanted: Sizes, p: Pattern | None = None) -> Sizes:
        """Return `wanted`, or a shape that broadcasts into it."""
        rng = self.rng
        kind = rng.random()
        if isinstance(p, Number):
            kind = 0.95 if kind < 0.7 else kind
        if kind < 0.5:
            return wanted
        if kind < 0.6:
            return (1,) * len(wanted)
        if kind < 0.9:
            cut = wanted[rng.randrange(len(wanted) + 1) :] if rng.random() < 0.6 else wanted
            return tuple(1 if rng.random() < 0.4 else d for d in cut)
        return ()

    def _operand(self, p: Apply, wanted: Sizes) -> Sizes:
        """Return the shape for an operand of a reduction or movement: the same for siblings."""
        key = f"{p.op} {p.attrs} {p.rest} {wanted}"
        if key not in self.operands:
            grown = tuple(self.dim() if d == 1 else d for d in wanted)
            shape = self.rng.choice((wanted, grown, self.random_shape()))
            low = 3 if OPERATORS[p.op].kind is Kind.POOLING else 0
            while len(shape) < low:
                shape = (*shape, self.dim())
            self.operands[key] = shape
        found = self.operands[key]
        return found if self.rng.random() < 0.85 else self.flattened(found)

    def flattened(self, shape: Sizes) -> Sizes:
        """Return `shape` with some sizes turned to 1."""
        return tuple(1 if self.rng.random() < 0.4 else d for d in shape)

    def _role(self, p: Apply, wanted: Sizes) -> Sequence[Sizes]:
        key = f"{p.op} {p.attrs} {p.rest} {wanted if p.op == 'MatMul' else ''}"
        shared = self.operands.setdefault(f"{key} inner", (max(0, self.dim()),))
        found = ROLES[p.op](self, wanted, shared[0], p)
        return found[: len(p.args)]


def _matmul(s: Shapes, wanted: Sizes, inner: int, _p: Apply) -> list[Sizes]:
    while len(wanted) < 2:
        wanted = (s.dim(), *wanted)
    if s.rng.random() < 0.1:
        return [wanted[-2:-1] if s.rng.random() < 0.5 else (inner,), (inner,)]
    batch, (rows, columns) = wanted[:-2], wanted[-2:]
    return [
        (*s.narrowed(batch), rows, inner),
        (*s.narrowed(batch), inner, columns),
    ]


def _gemm(s: Shapes, wanted: Sizes, inner: int, p: Apply) -> list[Sizes]:
    while len(wanted) < 2:
        wanted = (s.dim(), *wanted)
    rows, columns = wanted[-2:]
    turned = dict(p.attrs)
    left = (inner, rows) if _is_set(s, turned.get("transA", 0)) else (rows, inner)
    right = (columns, inner) if _is_set(s, turned.get("transB", 0)) else (inner, columns)
    return [left, right, s.narrowed((rows, columns))]


def _is_set(s: Shapes, value: Any) -> bool:
    return s.rng.random() < 0.5 if isinstance(value, Attribute) else bool(value)


def _conv(s: Shapes, _wanted: Sizes, _inner: int, p: Apply) -> list[Sizes]:
    rng, key = s.rng, f"conv {p.rest}"
    if key not in s.operands:
        rank = rng.choice((1, 1, 2))
        group, channels = rng.choice((1, 1, 1, 2)), rng.randrange(1, 3)
        spatial = tuple(rng.randrange(1, 5 - rank) for _ in range(rank))
        x = (rng.randrange(1, 3), channels * group, *spatial)
        w = (group * rng.randrange(1, 3), channels, *(rng.randrange(1, 3) for _ in range(rank)))
        s.operands |= {key: x, f"{key} w": w}
    x, w = s.operands[key], s.operands[f"{key} w"]
    if rng.random() < 0.2:
        x, w = (s.flattened(x), w) if rng.random() < 0.5 else (x, s.flattened(w))
    return [x, w, w[:1]]


def _channels(s: Shapes, wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    while len(wanted) < 2:
        wanted = (*wanted, s.dim())
    return [wanted, *[wanted[1:2]] * 4]


def _gather(s: Shapes, wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    return [s.random_shape(1, 3) if s.rng.random() < 0.5 else wanted, s.random_shape(0, 2)]


def _concat(s: Shapes, wanted: Sizes, _inner: int, p: Apply) -> list[Sizes]:
    if not wanted:
        wanted = (s.dim(),)
    key = f"concat {wanted}"
    axis = s.operands.setdefault(key, (s.rng.randrange(len(wanted)),))[0]
    literal = dict(p.attrs).get("axis")
    axis = literal % len(wanted) if isinstance(literal, int) else axis
    return [(*wanted[:axis], s.dim(), *wanted[axis + 1 :]) for _ in p.args]


def _spatial_blocks(s: Shapes, _wanted: Sizes, _inner: int, _p: Apply) -> list[Sizes]:
    return [(1, s.rng.choice((1, 4)), s.rng.choice((1, 2)), 2)]


ROLES = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "BatchNormalization": _channels,
    "InstanceNormalization": _channels,
    "Gather": _gather,
    "Concat": _concat,
    "DepthToSpace": _spatial_blocks,
    "SpaceToDepth": _spatial_blocks,
}
"""Operators whose operands have shapes of their own."""
