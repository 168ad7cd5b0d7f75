"""What one declaration of an operator says, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any, Literal, Protocol

from egraph_fusion.ir.dims import Dim
from egraph_fusion.ir.graph import Array, Attrs, AttrValue, Node
from egraph_fusion.ir.ops.reading import TypeRuleError, Types, normal_axis
from egraph_fusion.ir.tensors import DType, TensorType


class MappingType(Enum):
    """How an operator's output elements relate to its input elements (DNNFusion, Table 2)."""

    ONE_TO_ONE = "One-to-One"
    REORGANIZE = "Reorganize"
    SHUFFLE = "Shuffle"
    ONE_TO_MANY = "One-to-Many"
    MANY_TO_MANY = "Many-to-Many"


class Law(Flag):
    """Algebraic laws of an operator, over the reals unless a rule says more.

    INTEGER (every result is one) and INTEGER_PRESERVING (of integers, attributes among them, it is
    one) hold in floats, too, but for what overflows: there every number that is too large to have a
    fraction is an integer, so that a sum or product of integers is rounded to one.
    """

    NONE = 0
    COMMUTATIVE = auto()
    ASSOCIATIVE = auto()
    INCREASING = auto()
    DECREASING = auto()
    ODD = auto()
    EVEN = auto()
    ZERO_PRESERVING = auto()
    IDEMPOTENT = auto()
    INVOLUTION = auto()
    INTEGER = auto()
    INTEGER_PRESERVING = auto()


class Kind(Enum):
    """The family of an operator: what lowering and the generated rules may assume of it."""

    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    MOVEMENT = "movement"
    CONTRACTION = "contraction"
    POOLING = "pooling"
    NORMALIZATION = "normalization"
    LOOKUP = "lookup"
    OTHER = "other"


class Scalars(Protocol):
    """Builds scalar expressions: numpy values in evaluation, loop IR in lowering.

    Every name of `egraph_fusion.codegen.scalars` is a method, e.g. `b.add(x, y)`; `b.const(2.0)` is
    a literal of the operands' dtype.
    """

    def const(self, value: float) -> Any:
        """Return a literal of the dtype that the expression computes in."""
        ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the constructor of the scalar operator `name`."""
        ...


class Builder(Protocol):
    """Builds nodes of declared operators; values are names, "" an absent operand."""

    def op(self, name: str, *inputs: str, **attrs: AttrValue) -> str:
        """Apply a one-output operator and return its value."""
        ...

    def const(self, array: Array) -> str:
        """Return a constant value."""
        ...

    def type_of(self, value: str) -> TensorType:
        """Return the type of a value."""
        ...


TypeRule = Callable[[Types, Attrs], tuple[TensorType, ...]]
FlopRule = Callable[[Types, Sequence[TensorType], Attrs], Dim]
Scalar = Callable[[Scalars, Sequence[Any], Attrs], Any]
Evaluate = Callable[[Sequence[Array | None], Attrs], tuple[Array, ...]]
MappingRule = Callable[[Types, Sequence[TensorType], Sequence[bool], Attrs], MappingType]
Body = Callable[["Builder", Sequence[str], Attrs], tuple[str, ...]]
Complete = Callable[["Types", dict[str, AttrValue]], dict[str, AttrValue]]
ResultDType = DType | Literal["operands", "other"]
Asides = tuple[tuple[int, DType], ...]
Interval = tuple[float, float]
IntervalRule = Callable[[Sequence[Interval], Attrs], Interval]


class Indices(Protocol):
    """Builds index expressions: Python integers in evaluation, loop IR in lowering.

    Indices themselves support + - * // % with one another and with integers.
    """

    def lt(self, a: Any, b: Any) -> Any:
        """Return the condition a < b."""
        ...

    def ge(self, a: Any, b: Any) -> Any:
        """Return the condition a >= b."""
        ...

    def both(self, a: Any, b: Any) -> Any:
        """Return the conjunction of two conditions."""
        ...

    def clamp(self, a: Any, low: Any, high: Any) -> Any:
        """Return min(max(a, low), high)."""
        ...

    def load(self, operand: int, index: Sequence[Any]) -> Any:
        """Return the integer that operand number `operand` holds at `index` (Gather)."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Where an output element of a movement operator comes from.

    Operand number and index in it (operand None: the literal `value`), if condition `when` holds
    (None: always).  Of several pieces the first whose condition holds gives the element; its index
    is only evaluated then.
    """

    operand: int | None
    index: tuple[Any, ...]
    when: Any | None = None
    value: float = 0.0


Pull = Callable[
    [Indices, int, Sequence[Any], Types, Sequence[TensorType], Attrs], tuple[Piece, ...]
]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction: post(combine over the group of pre(x)).

    `combine` is the scalar operator `add`, `mul`, `max` or `min`; `n` passed to `post` is the
    group's size as a scalar.
    """

    combine: str
    pre: Callable[[Scalars, Any], Any] | None = None
    post: Callable[[Scalars, Any, Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Attr:
    """A normalised attribute; `kind` is int, float, str, ints, floats or strs.

    `axis_of` marks axes, stored non-negative once the rank is known: "operand" counts the first
    operand's dimensions, "result" those of the result (Unsqueeze, OneHot).  `values` are those that
    are admitted, the usual one first, or, where many are, some that differ in what they mean;
    none where the operands decide (axes, shapes, windows) and for floats, of which all are.
    """

    name: str
    kind: str
    default: AttrValue | None = None
    axis_of: Literal["", "operand", "result"] = ""
    values: tuple[AttrValue, ...] = ()

    @property
    def switch(self) -> bool:
        """Whether the values are no and yes."""
        return set(self.values) == {0, 1}


def switch(name: str, default: int = 0) -> Attr:
    """Return the declaration of an attribute that is 0 or 1."""
    return Attr(name, "int", default, values=(0, 1))


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: everything the importer, e-graph, cost model, planner and lowering ask of it.

    `arity` bounds the tensor operands (None: any number).  `infer` gives the output types or raises
    TypeRuleError.  `flops` counts as the design says: 1 per scalar operation and output element,
    n - 1 per reduced group, 2 per multiply-add, 0 for movement.  `evaluate` is the numpy meaning.
    Beside it stands the meaning that lowering uses, by family: `scalar` (elementwise), `pull`
    (movement: output element number and index to operand elements), `reduction`, or `body`
    (composites: the same function written with other declared operators).  `outputs` is the number
    of outputs, None where the node says it.  `complete` supplies attributes whose default depends
    on the operands (all axes, reversed perm, strides of 1, auto_pad resolved to pads).  `result` is
    the dtype of the first output: always this one, that of the operands, or what an attribute or
    one operand says.  `asides` are the operands with a dtype of their own, by place: indices (as
    int64) and conditions.  `keeps_rank`: the first output has as many dimensions as operand 0.
    `takes` says which dtypes operands other than asides may have (None: `infer` decides).
    """

    name: str
    kind: Kind
    arity: tuple[int, int | None]
    infer: TypeRule
    evaluate: Evaluate
    mapping: MappingRule
    flops: FlopRule
    attrs: tuple[Attr, ...] = ()
    laws: Law = Law.NONE
    scalar: Scalar | None = None
    interval: IntervalRule | None = None
    pull: Pull | None = None
    reduction: Reduction | None = None
    body: Body | None = None
    outputs: int | None = 1
    complete: Complete | None = None
    result: ResultDType = "operands"
    asides: Asides = ()
    keeps_rank: bool = False
    takes: Callable[[DType], bool] | None = None

    @property
    def preserves_integers(self) -> bool:
        """Whether results are integers if all operands and `factors` are."""
        moves = self.kind in (Kind.MOVEMENT, Kind.LOOKUP)  # and changes no element
        return moves or Law.INTEGER_PRESERVING in self.laws

    @property
    def factors(self) -> tuple[str, ...]:
        """The attributes that are numbers to compute with: floats."""
        return tuple(a.name for a in self.attrs if a.kind == "float")

    def aside(self, place: int) -> DType | None:
        """Return the dtype of its own that the operand at `place` has, if any."""
        return dict(self.asides).get(place)

    def attr(self, name: str) -> Attr:
        """Return the declaration of the attribute `name`."""
        return next(a for a in self.attrs if a.name == name)

    def with_defaults(self, attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
        """Return `attrs` with declared defaults filled in; TypeRuleError for unknown names."""
        names = {a.name for a in self.attrs}
        extra = sorted(set(attrs) - names)
        if extra:
            raise TypeRuleError(
                f"{self.name} has no attribute {extra[0]!r}; it has {sorted(names)}"
            )
        filled = {a.name: a.default for a in self.attrs if a.default is not None}
        return {**filled, **attrs}


OPERATORS: dict[str, Operator] = {}


def register(operator: Operator) -> Operator:
    """Enter `operator` in the table; a second declaration of a name is an error."""
    if operator.name in OPERATORS:
        raise TypeRuleError(f"operator {operator.name} is declared twice")
    OPERATORS[operator.name] = operator
    return operator


def declared(n: Node) -> Operator | None:
    """Return the declaration that applies to `n`, or None for an opaque node."""
    return None if n.opaque else OPERATORS.get(n.op)


def normalized(
    operator: Operator, types: Types, attrs: Mapping[str, AttrValue]
) -> dict[str, AttrValue]:
    """Return `attrs` in the registry's form: defaults filled, axes counted from the front.

    Raises TypeRuleError for unknown names and for axes outside the rank; axes of an operand of
    unknown rank stay as they are.
    """
    filled = operator.with_defaults(attrs)
    if operator.complete is not None:
        filled = operator.complete(types, filled)
    shape = types[0].shape if types and types[0] is not None else None
    for attr in operator.attrs:
        if attr.axis_of and attr.name in filled and shape is not None:
            filled[attr.name] = _counted(attr, filled[attr.name], len(shape), operator.name)
    return filled


def _counted(attr: Attr, value: AttrValue, rank: int, op: str) -> AttrValue:
    if isinstance(value, int):
        extra = 1 if attr.axis_of == "result" else 0
        return normal_axis(value, rank + extra, op)
    if isinstance(value, str | bytes | float):
        raise TypeRuleError(f"{op}: {attr.name} must hold integers, got {value!r}")
    extra = len(value) if attr.axis_of == "result" else 0
    axes = tuple(normal_axis(int(v), rank + extra, op) for v in value)
    if len(set(axes)) != len(axes):
        raise TypeRuleError(f"{op}: {attr.name} {value} names an axis twice")
    return axes


def fixed_mapping(mapping: MappingType) -> MappingRule:
    """Return the rule of an operator whose mapping type does not depend on its operands."""

    def rule(
        _ins: Types, _outs: Sequence[TensorType], _constant: Sequence[bool], _attrs: Attrs
    ) -> MappingType:
        return mapping

    return rule


def no_flops(_ins: Types, _outs: Sequence[TensorType], _attrs: Attrs) -> Dim:
    """Movement costs no operation."""
    return 0
