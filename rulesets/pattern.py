"""Patterns: terms over tensor variables, written with ordinary Python operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import SupportsFloat

from egraph_fusion.errors import RuleError
from egraph_fusion.ir.graph import AttrValue

Operand = "Pattern | float | int"


class Pattern:
    """A term that stands for a tensor; arithmetic on patterns builds patterns."""

    __slots__ = ()

    def __add__(self, other: Pattern | float) -> Apply:
        """Add."""
        return binary("Add", self, other)

    def __radd__(self, other: float) -> Apply:
        """Add."""
        return binary("Add", other, self)

    def __sub__(self, other: Pattern | float) -> Apply:
        """Sub."""
        return binary("Sub", self, other)

    def __rsub__(self, other: float) -> Apply:
        """Sub."""
        return binary("Sub", other, self)

    def __mul__(self, other: Pattern | float) -> Apply:
        """Mul."""
        return binary("Mul", self, other)

    def __rmul__(self, other: float) -> Apply:
        """Mul."""
        return binary("Mul", other, self)

    def __truediv__(self, other: Pattern | float) -> Apply:
        """Div."""
        return binary("Div", self, other)

    def __rtruediv__(self, other: float) -> Apply:
        """Div."""
        return binary("Div", other, self)

    def __pow__(self, other: Pattern | float) -> Apply:
        """Pow."""
        return binary("Pow", self, other)

    def __rpow__(self, other: float) -> Apply:
        """Pow."""
        return binary("Pow", other, self)

    def __matmul__(self, other: Pattern) -> Apply:
        """MatMul."""
        return _product(self, other)

    def __rmatmul__(self, other: object) -> Apply:
        """MatMul."""
        return _product(other, self)

    def __neg__(self) -> Apply:
        """Neg."""
        return Apply("Neg", (self,))

    def __getitem__(self, index: int) -> Output:
        """Return output number `index` of an operator with several outputs."""
        return Output(self, index)

    __iter__ = None  # a pattern is not a sequence, although it can be indexed
    __array_ufunc__ = None  # numpy's numbers leave arithmetic with patterns to them


@dataclass(frozen=True, slots=True)
class Tensor(Pattern):
    """A variable that stands for any tensor."""

    name: str

    def __str__(self) -> str:
        """Print the name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Many(Pattern):
    """A variable that stands for `least` or more operands of an n-ary operator.

    An operator that takes few operands is applied to each.
    """

    name: str
    least: int = 2

    def __iter__(self) -> Iterator[Pattern]:  # type: ignore[override]
        """Yield itself, so that it can be written as it is printed."""
        yield self

    def __str__(self) -> str:
        """Print as `*xs`."""
        return f"*{self.name}"


@dataclass(frozen=True, slots=True)
class Number(Pattern):
    """A constant: left: a tensor whose elements all have this value; right: rank 0."""

    value: float

    def __str__(self) -> str:
        """Print the value."""
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A variable that stands for an attribute's value, or for all attributes of a node."""

    name: str

    def __str__(self) -> str:
        """Print the name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Computed:
    """An attribute that a named function computes from attributes and the shapes of tensors."""

    function: str
    args: tuple[Attribute | Pattern | AttrValue, ...]

    def __str__(self) -> str:
        """Print as a call."""
        return f"{self.function}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Scalar(Pattern):
    """The rank-0 tensor that holds the value of a numeric attribute (right sides only)."""

    value: Attribute

    def __str__(self) -> str:
        """Print as a call."""
        return f"scalar({self.value})"


AttrTerm = Attribute | Computed | AttrValue


@dataclass(frozen=True, slots=True)
class Apply(Pattern):
    """An operator applied to operands; attributes that are not given have their default.

    `rest` names a variable for every attribute that is not in `attrs`.  `op` may be the name of an
    operator variable (`rulesets.operators`), which starts with "?".
    """

    op: str
    args: tuple[Pattern, ...]
    attrs: tuple[tuple[str, AttrTerm], ...] = ()
    rest: Attribute | None = None

    def __str__(self) -> str:
        """Print as the Python expression that builds it."""
        if self.op in INFIX and len(self.args) == 2:
            return f"({self.args[0]} {INFIX[self.op]} {self.args[1]})"
        if self.op == "Neg":
            return f"-{self.args[0]}"
        words = [*map(str, self.args), *(f"{k}={_show(v)}" for k, v in self.attrs)]
        if self.rest is not None:
            words.append(f"attrs={self.rest}")
        return f"{snake(self.op)}({', '.join(words)})"


@dataclass(frozen=True, slots=True)
class Output(Pattern):
    """One output of an operator that has several."""

    of: Pattern
    index: int

    def __str__(self) -> str:
        """Print as indexing."""
        return f"{self.of}[{self.index}]"


INFIX = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Pow": "**", "MatMul": "@"}


def _show(value: AttrTerm) -> str:
    return str(value) if isinstance(value, Attribute | Computed) else repr(value)


def snake(op: str) -> str:
    """Return the snake_case name of an ONNX operator: ReduceSum → reduce_sum, MatMul → matmul."""
    if op.lower() in ("matmul", "prelu"):
        return op.lower()
    out = ""
    for i, letter in enumerate(op):
        before, after = op[i - 1 : i], op[i + 1 : i + 2]
        if letter.isupper() and i and (before.islower() or before.isdigit() or after.islower()):
            out += "_"
        out += letter.lower()
    return out


def pattern(value: object) -> Pattern:
    """Return a pattern as it is and a number as a constant.

    Raises RuleError for anything else, and for an integer that float64 does not hold.
    """
    if isinstance(value, Pattern):
        return value
    if isinstance(value, str | bytes) or not isinstance(value, SupportsFloat):
        raise RuleError(f"a term takes terms and numbers as operands, got {_named(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError) as e:
        raise RuleError(f"a term takes terms and numbers as operands, got {_named(value)}") from e
    except OverflowError as e:
        raise RuleError(f"{_named(value)} is larger than any float64") from e
    if isinstance(value, Integral) and int(value) != number:
        raise RuleError(f"the numbers of terms are held as float64, which {value} is not")
    return Number(number)


def _named(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def binary(op: str, left: Pattern | float, right: Pattern | float) -> Apply:
    """Apply a two-operand operator."""
    return Apply(op, (pattern(left), pattern(right)))


def _product(left: object, right: object) -> Apply:
    operands = pattern(left), pattern(right)
    for p in operands:
        if isinstance(p, Number):
            raise RuleError(f"@ multiplies matrices, not numbers, got {p}")
    return Apply("MatMul", operands)


def children(p: Pattern) -> tuple[Pattern, ...]:
    """Return the operands of a term."""
    match p:
        case Apply():
            return p.args
        case Output():
            return (p.of,)
        case _:
            return ()


def walk(p: Pattern) -> Iterator[Pattern]:
    """Yield a term and all its sub-terms, operands first."""
    for child in children(p):
        yield from walk(child)
    yield p


def tensor_names(p: Pattern) -> tuple[str, ...]:
    """Return the tensor variables of a term in order of appearance."""
    found = [q.name for q in walk(p) if isinstance(q, Tensor | Many)]
    return tuple(dict.fromkeys(found))


def attribute_terms(p: Pattern) -> Iterator[AttrTerm]:
    """Yield every attribute term that a pattern mentions."""
    for q in walk(p):
        if isinstance(q, Scalar):
            yield q.value
        if isinstance(q, Apply):
            yield from (v for _, v in q.attrs)
            if q.rest is not None:
                yield q.rest


def attribute_names(p: Pattern) -> tuple[str, ...]:
    """Return the attribute variables of a term that stand by themselves, not in calls."""
    found = [t.name for t in attribute_terms(p) if isinstance(t, Attribute)]
    return tuple(dict.fromkeys(found))


def operators_of(p: Pattern) -> frozenset[str]:
    """Return the names of the operators a term applies."""
    return frozenset(q.op for q in walk(p) if isinstance(q, Apply))
