"""Settings in which a rule is tried: shapes, attributes and both sides ready to run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from random import Random
from typing import Any

from egraph_fusion.errors import REFUSALS
from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.number_sizes import unsaid
from egraph_fusion.rulesets.pattern import Number, Pattern
from egraph_fusion.rulesets.rule import Rule
from egraph_fusion.rulesets.term_dtypes import leaf_dtypes, takes
from egraph_fusion.rulesets.verify_attributes import choose_attributes
from egraph_fusion.rulesets.verify_numbers import numbers_in
from egraph_fusion.rulesets.verify_sizes import DEEP, LONGEST, PLAIN, USUAL, USUAL_RANK
from egraph_fusion.rulesets.verify_terms import (
    INDICES,
    Attributes,
    Compiler,
    IllTypedError,
    NoAttributeError,
    Program,
    Step,
)

GROWTH = 3
"""How many times more elements than an operand a result may have."""

Sizes = tuple[int, ...]


def ranks_of(shapes: Mapping[Pattern, Sizes]) -> tuple[int, ...]:
    """Return the rank of each operand."""
    return tuple(map(len, shapes.values()))


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
        try:
            return not _holds(g, Compiler({}, self.dtype, _refuse, self.attributes, types))
        except REFUSALS:
            return True

    def dtype_of(self, p: Pattern) -> DType:
        """Return the element type of a part of the left side."""
        return self.left.types[self.left.places[p]].dtype

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that both sides speak of."""
        return numbers_in(self.left, self.right)

    @cached_property
    def hollow(self) -> bool:
        """Whether some result that is not empty comes from an empty operand (a sum of nothing)."""
        return any(map(_hollow, filter(None, (self.left, self.right))))

    @cached_property
    def deep(self) -> bool:
        """Whether the result lacks a long extent of the operands, as where long sums are made."""
        left = self.left.type.static_shape or ()
        extents = {d for shape in self.shapes.values() for d in shape}
        return any(d in extents and d not in left for d in DEEP.special)

    @cached_property
    def converts(self) -> bool:
        """Whether something is converted to another dtype that may not hold it."""
        sides = filter(None, (self.left, self.right))
        return any(isinstance(s, Step) and s.op == "Cast" for side in sides for s in side.steps)

    @cached_property
    def mixes_windows(self) -> bool:
        """Whether the left side moves the same kind of window over operands of unlike shapes."""
        steps = (s for s in self.left.steps if isinstance(s, Step) and "pads" in s.attrs)
        seen: dict[str, set[str]] = {}
        for s in steps:
            kinds = str([self.left.types[i].shape for i in s.operands])
            seen.setdefault(s.op, set()).add(kinds)
        return any(len(kinds) > 1 for kinds in seen.values())

    @cached_property
    def tall(self) -> bool:
        """Whether an operand has more dimensions than are usual."""
        return max(self.ranks, default=0) > USUAL_RANK

    @cached_property
    def long(self) -> bool:
        """Whether an operand has an extent that is larger than usual, since a rule names it."""
        return any(d > USUAL for shape in self.shapes.values() for d in shape)

    @cached_property
    def vast(self) -> bool:
        """Whether an operand has so large an extent that its elements are not drawn one by one."""
        return any(d > LONGEST for shape in self.shapes.values() for d in shape)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the operands."""
        return ranks_of(self.shapes)

    @cached_property
    def multiplies_vectors(self) -> bool:
        """Whether the left side has a matrix product of which an operand is a vector."""
        t = self.left.types
        products = (s for s in self.left.steps if isinstance(s, Step) and s.op == "MatMul")
        return any(len(t[i].static_shape or ()) == 1 for s in products for i in s.operands)

    @property
    def size(self) -> tuple[int, int]:
        """Elements of all operands, and their ranks: what smaller counterexamples have less of."""
        return (
            sum(math.prod(s) for s in self.shapes.values()),
            sum(self.ranks),
        )


def dtypes_of(rule: Rule) -> tuple[DType, ...]:
    """Return the dtypes in which a rule is tried, of those that it claims; all if none will do."""
    floats = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)
    ints = (DType.INT32, DType.INT64, DType.INT8)
    uints = (DType.UINT8, DType.UINT32, DType.UINT64)
    claimed = {
        "float": floats,
        "int": ints,
        "uint": uints,
        "bool": (DType.BOOL,),
        "numeric": (*floats, *ints, *uints),
        "any": (DType.FLOAT32, DType.INT64, DType.BOOL, DType.FLOAT16),
    }[rule.dtypes]
    return tuple(d for d in claimed if takes(rule.lhs, d)) or claimed


def setting_in(rule: Rule, setting: Setting, dtype: DType) -> Setting | None:
    """Return the same setting for other dtypes; None if the left side does not take them."""
    if dtype is setting.dtype:
        return setting
    return prepared(rule, setting.shapes, dtype, Random(0), setting.attributes)


def _hollow(side: Program) -> bool:
    sizes = [math.prod(t.static_shape or ()) for t in side.types]
    made = zip(side.steps, sizes[len(side.leaves) :], strict=True)
    empty = (n and isinstance(s, Step) and 0 in [sizes[i] for i in s.operands] for s, n in made)
    return bool(sizes[side.root]) and any(empty)


def prepared(
    rule: Rule, shapes: Mapping[Pattern, Sizes], dtype: DType, rng: Random, attributes: Attributes
) -> Setting | None:
    """Return the setting with these shapes; None if the left side or a guard refuses them."""
    dtypes = leaf_dtypes(rule.lhs, dtype)
    if any(isinstance(p, Number) and p.value % 1 and not dtypes[p].is_float for p in shapes):
        return None
    types = {p: TensorType(dtypes[p], s) for p, s in shapes.items()}
    c = Compiler(types, dtype, partial(choose_attributes, rng), dict(attributes))
    try:
        left = c.left(rule.lhs)
        holds = _guards_hold(rule, c)
    except REFUSALS:
        return None
    largest = GROWTH * max(PLAIN.largest, *(math.prod(s) for s in shapes.values()), 0)
    if not holds or any(math.prod(t.static_shape or ()) > largest for t in left.types):
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


def _refuse(op: str, _types: Sequence[TensorType], _given: Mapping[str, Any]) -> Any:
    raise IllTypedError(f"{op}: attributes are chosen already")


TYPED = (Form.TYPE, Form.DTYPE)
"""Forms of guards that settings decide, whatever the elements."""


def _guards_hold(rule: Rule, c: Compiler) -> bool:
    return all(_holds(g, c) for g in (*rule.when, *unsaid(rule.lhs)) if g.kind.form in TYPED)


def _holds(g: Guard, c: Compiler) -> bool:
    if g.kind.form is Form.DTYPE:
        return g.kind.holds(*(c.known[p].dtype for p in g.patterns))
    return g.kind.holds(*map(c.argument, g.args))


def _index_limits(left: Program) -> dict[Pattern, int]:
    """Return the extent that each operand points into that indices are, or are computed from."""
    limits: dict[Pattern, int] = {}
    for s in left.steps:
        if isinstance(s, Step) and (s.op, 1) in INDICES:
            extent = _extent(s, left.types[s.operands[0]], left.types[s.operands[1]])
            for p in _computed_from(left, s.operands[1]):
                limits[p] = min(extent, limits.get(p, extent))
    return limits


def _extent(s: Step, data: TensorType, at: TensorType) -> int:
    """Return how many positions an index may name."""
    sizes = data.static_shape or ()
    if s.op != "GatherND":
        return sizes[int(str(s.attrs["axis"]))]
    first = int(str(s.attrs["batch_dims"]))
    return min(sizes[first : first + (at.static_shape or (1,))[-1]])


def _computed_from(left: Program, place: int) -> Iterator[Pattern]:
    """Yield the operands that the elements of a value are, or are computed from one by one."""
    if place < len(left.leaves):
        p = left.leaves[place]
        if not isinstance(p, Number):
            yield p
        return
    s = left.steps[place - len(left.leaves)]
    kind = OPERATORS[s.op].kind if isinstance(s, Step) else None
    if isinstance(s, Step) and kind in (Kind.ELEMENTWISE, Kind.MOVEMENT, Kind.LOOKUP):
        for i in s.operands[:1] if kind is Kind.LOOKUP else s.operands:
            yield from _computed_from(left, i)
