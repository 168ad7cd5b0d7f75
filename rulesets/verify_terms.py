"""A side of a rule made ready to run: operators in order, attributes resolved, types inferred."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egraph_fusion.errors import REFUSALS, RuleError
from egraph_fusion.ir.graph import Array, AttrValue
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import normalized
from egraph_fusion.ir.ops.reading import types_of
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.exact_groups import Group
from egraph_fusion.rulesets.exact_operators import apply_exactly, round_exactly
from egraph_fusion.rulesets.functions import call
from egraph_fusion.rulesets.guards_index import has_all
from egraph_fusion.rulesets.number_leaves import as_written
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Number,
    Output,
    Pattern,
    Scalar,
)
from egraph_fusion.rulesets.term_dtypes import Source, number_source, source

INDICES = {("Gather", 1), ("GatherElements", 1), ("GatherND", 1)}
"""Operands that say where others are read."""

Attributes = dict[str, Any]
"""Attribute variables: a value, or for a `rest` variable the values by name."""
Choose = Callable[[str, Sequence[TensorType], Mapping[str, Any]], Mapping[str, AttrValue]]
"""Chooses all attributes of an operator, given its operands' types and what is already fixed."""
ScalarsOf = Callable[[DType], Group]
"""The scalar operators by which a step of a floating-point dtype is read."""


class IllTypedError(RuleError):
    """A side of a rule cannot be applied to operands of these types."""


class NoAttributeError(RuleError):
    """A right side cannot compute an attribute, so that the rule does not fire."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operator: where its operands stand among the earlier values, and its attributes."""

    op: str
    operands: tuple[int, ...]
    attrs: Mapping[str, AttrValue]
    output: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A rank-0 constant."""

    value: float
    dtype: DType


@dataclass(frozen=True)
class Program:
    """The steps of a term; values are the leaves, then one for each step."""

    leaves: tuple[Pattern, ...]
    steps: tuple[Step | Literal, ...]
    types: tuple[TensorType, ...]
    places: Mapping[Pattern, int]
    root: int
    dtype: DType
    attributes: Attributes

    @property
    def type(self) -> TensorType:
        """The result's type."""
        return self.types[self.root]

    def run(self, arrays: Mapping[Pattern, Array]) -> list[Array]:
        """Return every value, in the operands' own dtypes."""
        values = [arrays[p] for p in self.leaves]
        with warnings.catch_warnings():  # numpy warns of means of nothing, and of overflow
            warnings.simplefilter("ignore", RuntimeWarning)
            for s in self.steps:
                values.append(self._evaluated(s, values))
        return values

    def _evaluated(self, s: Step | Literal, values: Sequence[Array]) -> Array:
        if isinstance(s, Literal):
            return np.asarray(s.value).astype(s.dtype.numpy)
        operands = [values[i] for i in s.operands]
        return OPERATORS[s.op].evaluate(operands, s.attrs)[s.output]

    def run_exactly(self, scalars_of: ScalarsOf, arrays: Mapping[Pattern, Any]) -> list[Any]:
        """Return every value over exact numbers, or over those of each step's dtype."""
        values = [arrays[p] for p in self.leaves]
        for s, t in zip(self.steps, self.types[len(self.leaves) :], strict=True):
            of = () if isinstance(s, Literal) else s.operands
            used = (d for d in (t.dtype, *(self.types[i].dtype for i in of)) if d.is_float)
            values.append(self._exactly(s, scalars_of(next(used, self.dtype)), values))
        return values

    def rounds(self, s: Step) -> bool:
        """Whether a step converts to floating-point numbers that do not hold all it is given."""
        if s.op != "Cast":
            return False
        to = DType(s.attrs["to"])
        return to.is_float and not has_all(to, self.types[s.operands[0]].dtype)

    def _exactly(self, s: Step | Literal, scalars: Group, values: Sequence[Any]) -> Any:
        if isinstance(s, Literal):
            return scalar_array(scalars.const(s.value))
        if self.rounds(s):
            return round_exactly(scalars, values[s.operands[0]], DType(s.attrs["to"]))
        operands = [values[i] for i in s.operands]
        return apply_exactly(scalars, s.op, operands, s.attrs)[s.output]


@dataclass
class Compiler:
    """Turns the sides of one rule into programs, binding attribute variables on the way."""

    leaf_types: Mapping[Pattern, TensorType]
    dtype: DType
    choose: Choose
    attributes: Attributes = field(default_factory=dict[str, Any])
    known: dict[Pattern, TensorType] = field(default_factory=dict[Pattern, TensorType])
    lhs: Pattern | None = None

    def left(self, p: Pattern) -> Program:
        """Return the program of the left side; IllTypedError if its types do not fit."""
        return self._program(p, binding=True)

    def right(self, p: Pattern) -> Program:
        """Return the program of the right side.

        Raises IllTypedError if its types do not fit, and NoAttributeError if the rule does not fire
        because an attribute cannot be computed.
        """
        return self._program(p, binding=False)

    def _program(self, p: Pattern, binding: bool) -> Program:
        build = _Build(self, binding)
        root = build.place(p, source(self.lhs, self.known) if self.lhs is not None else None)
        if binding:
            self.lhs = p
            self.known.update({q: build.types[i] for q, i in build.places.items()})
        return build.program(root)

    def argument(self, a: Pattern | AttrTerm) -> Any:
        """Return what a guard or function sees of an argument: a shape, or an attribute's value."""
        if isinstance(a, Pattern):
            return self.known[a].shape
        if isinstance(a, Attribute):
            return self.attributes[a.name]
        if isinstance(a, Computed):
            return self.computed(a)
        return a

    def computed(self, f: Computed) -> AttrValue:
        """Return the attribute that a function computes; NoAttributeError if it cannot."""
        try:
            return call(f.function, tuple(map(self.argument, f.args)))
        except REFUSALS as e:
            raise NoAttributeError(f"{f}: {e}") from e


class _Build:
    """The steps of one side so far."""

    def __init__(self, compiler: Compiler, binding: bool) -> None:
        self.c, self.binding = compiler, binding
        self.leaves: tuple[Pattern, ...] = tuple(compiler.leaf_types)
        self.types = list(compiler.leaf_types.values())
        self.places: dict[Pattern, int] = {p: i for i, p in enumerate(self.leaves)}
        self.steps: list[Step | Literal] = []

    def program(self, root: int) -> Program:
        c = self.c
        places = (self.leaves, tuple(self.steps), tuple(self.types), self.places)
        return Program(*places, root, c.dtype, c.attributes)

    def place(self, p: Pattern, above: Source = None) -> int:
        """Return where `p` stands; `above` is what gives it its dtype if it is a number."""
        if p not in self.places or (isinstance(p, Number | Scalar) and not self.binding):
            self.places[p] = self._made(p, above)
            if self.binding:
                self.places.setdefault(as_written(p), self.places[p])
        return self.places[p]

    def _made(self, p: Pattern, above: Source) -> int:
        match p:
            case Number(value):
                return self._literal(value, above)
            case Scalar(value):
                return self._literal(float(self.c.attributes[value.name]), above)
            case Apply():
                return self._apply(p, 0, above)
            case Output(of, index) if isinstance(of, Apply):
                return self._apply(of, index, above)
            case _:
                raise RuleError(f"{p} cannot be evaluated")

    def _literal(self, value: float, above: Source) -> int:
        known = self.c.known.get(above) if isinstance(above, Pattern) else None
        dtype = self.c.dtype if known is None else known.dtype
        dtype = above if isinstance(above, DType) else dtype
        if not dtype.is_float and value % 1:
            raise IllTypedError(f"{value} is no {dtype.value}")
        return self._add(Literal(value, dtype), TensorType(dtype, ()))

    def _add(self, step: Step | Literal, t: TensorType) -> int:
        self.steps.append(step)
        self.types.append(t)
        return len(self.types) - 1

    def _apply(self, p: Apply, output: int, above: Source = None) -> int:
        operands = tuple(
            self.place(a, number_source(p, i, above, self.c.known)) for i, a in enumerate(p.args)
        )
        types = [self.types[i] for i in operands]
        operator = OPERATORS[p.op]
        try:
            attrs = normalized(operator, types, self._attributes(p, types))
            found = operator.infer(types, attrs)
            result = found[output]
        except NoAttributeError:
            raise
        except REFUSALS as e:
            raise IllTypedError(f"{p}: {e}") from e
        if self.binding:
            self._bind(p, attrs)
        return self._add(Step(p.op, operands, attrs, output), result)

    def _attributes(self, p: Apply, types: Sequence[TensorType]) -> dict[str, AttrValue]:
        given: dict[str, Any] = {}
        free = p.rest is not None and p.rest.name not in self.c.attributes
        for name, term in p.attrs:
            if isinstance(term, Attribute) and term.name not in self.c.attributes:
                free = True
            else:
                given[name] = self.c.argument(term)
        if p.rest is not None and p.rest.name in self.c.attributes:
            given = {**self.c.attributes[p.rest.name], **given}
        if free and self.binding:
            given = {**self._chosen(p, types, given), **given}
        return given

    def _chosen(
        self, p: Apply, types: Sequence[TensorType], given: Mapping[str, Any]
    ) -> Mapping[str, AttrValue]:
        chosen = self.c.choose(p.op, types, given)
        if p.rest is not None:
            return chosen
        wanted = {n for n, t in p.attrs if isinstance(t, Attribute)}
        return {n: v for n, v in chosen.items() if n in wanted}

    def _bind(self, p: Apply, attrs: Mapping[str, AttrValue]) -> None:
        for name, term in p.attrs:
            if isinstance(term, Attribute) and name in attrs:
                self.c.attributes.setdefault(term.name, attrs[name])
        if p.rest is not None:
            named = {n for n, _ in p.attrs}
            rest = {n: v for n, v in attrs.items() if n not in named}
            self.c.attributes.setdefault(p.rest.name, rest)


def scalar_array(value: Any) -> Any:
    """Return a rank-0 object array."""
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def failure(program: Program, arrays: Mapping[Pattern, Array]) -> str:
    """Return why a side cannot be evaluated (an index outside, say); empty if it can."""
    try:
        with np.errstate(all="ignore"):
            program.run(arrays)
    except REFUSALS as e:
        return f"{e}" or type(e).__name__
    return ""


def apply(op: str, *operands: Array, output: int = 0, **attrs: AttrValue) -> Array:
    """Apply a declared operator to arrays; attributes that are not given have their default."""
    operator = OPERATORS[op]
    filled = normalized(operator, types_of(operands), attrs)
    with np.errstate(all="ignore"):
        return operator.evaluate(operands, filled)[output]
