"""Scalar expressions for the elements of a block's values: the pull model.

`Elements.at(value, index)` is the element of `value` at a logical index: loads where the value is
stored, otherwise the operands' elements combined as the registry says. Nothing is simplified here
but constants; loops and their ranges are not known at this level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.loops import Call, Cast, Const, Expr, Load, Select, constant, dtype_of
from egraph_fusion.codegen.scalars import SCALARS
from egraph_fusion.ir.graph import Node
from egraph_fusion.ir.ops.operator import Kind, Piece
from egraph_fusion.ir.tensors import DType

Index = tuple[Expr, ...]
Source = Callable[[Index], Expr]
Simplify = Callable[[Expr], Expr]

_SPELLING = {"mod": "floormod", "shl": "shift_left", "shr": "shift_right"}
"""The registry's names of scalar operators that the loop IR spells otherwise."""


class LoopScalars:
    """Builds loop IR for an operator's scalar meaning; literals take `dtype`."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def const(self, value: float) -> Expr:
        """Return a literal."""
        return constant(value, self.dtype)

    def cast(self, to: str, x: Expr) -> Expr:
        """Convert to the dtype named `to`."""
        return x if dtype_of(x) is DType(to) else Cast(DType(to), x)

    def select(self, cond: Expr, yes: Expr, no: Expr) -> Expr:
        """Return `yes` where `cond` holds, else `no`."""
        return Select(cond, yes, no)

    def relu(self, x: Expr) -> Expr:
        """Return max(x, 0)."""
        return Call("max", (x, constant(0, dtype_of(x))))

    def pow(self, x: Expr, y: Expr) -> Expr:
        """Return x to the power y; small constant powers become products and roots."""
        dtype = dtype_of(x)
        known = float(y.value) if isinstance(y, Const) else None
        if known is not None and known in (1.0, 2.0, 3.0):
            return _product(x, int(known))
        if dtype.is_float:
            if known in (0.5, -1.0):
                return Call("sqrt" if known == 0.5 else "reciprocal", (x,))
            return Call("pow", (x, self.cast(dtype.value, y)))
        wide = _power_dtype(dtype, dtype_of(y))
        power = Call("pow", (self.cast(wide.value, x), self.cast(wide.value, y)))
        return power if wide is dtype else Cast(dtype, power)

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        """Return the constructor of the scalar operator `name`."""
        spelled = _SPELLING.get(name, name)
        if spelled not in SCALARS:
            raise AttributeError(f"no scalar operator is called {name!r}")

        def build(*operands: Expr) -> Expr:
            return Call(spelled, operands)

        return build


def _power_dtype(base: DType, exponent: DType) -> DType:
    """Return the dtype in which an integer is raised to a power.

    Integers wrap around, so the wider of two gives the narrower's result.
    """
    if exponent.is_float:
        return DType.FLOAT64
    return base if base.itemsize > exponent.itemsize else exponent


def _product(x: Expr, count: int) -> Expr:
    return x if count == 1 else Call("mul", (x, _product(x, count - 1)))


@dataclass(frozen=True)
class LoopIndices:
    """Builds index expressions for an operator's pull map; operands of `node` are loaded."""

    elements: Elements
    node: Node

    def lt(self, a: Any, b: Any) -> Expr:
        """Return the condition a < b."""
        return Call("lt", (as_index(a), as_index(b)))

    def ge(self, a: Any, b: Any) -> Expr:
        """Return the condition a >= b."""
        return Call("ge", (as_index(a), as_index(b)))

    def both(self, a: Any, b: Any) -> Expr:
        """Return the conjunction of two conditions."""
        return Call("logical_and", (a, b))

    def clamp(self, a: Any, low: Any, high: Any) -> Expr:
        """Return min(max(a, low), high)."""
        return Call("min", (Call("max", (as_index(a), as_index(low))), as_index(high)))

    def load(self, operand: int, index: Sequence[Any]) -> Expr:
        """Return the integer that operand number `operand` holds at `index`."""
        where = tuple(as_index(i) for i in index)
        found = self.elements.at(self.node.inputs[operand], where)
        return found if dtype_of(found) is DType.INT64 else Cast(DType.INT64, found)


def as_index(value: Any) -> Expr:
    """Return a Python integer or an expression as an int64 expression."""
    return Const(int(value)) if isinstance(value, int) else value


@dataclass(frozen=True)
class Elements:
    """Builds elements of a fragment's values; `sources` tell how stored values are read."""

    fragment: Fragment
    sources: Mapping[str, Source]
    simplify: Simplify
    memo: dict[tuple[str, Index], Expr] = field(
        default_factory=dict[tuple[str, tuple[Expr, ...]], Expr]
    )

    def within(self, simplify: Simplify) -> Elements:
        """Return the same elements under another knowledge of the loop variables."""
        return replace(self, simplify=simplify, memo={})

    def given(self, sources: Mapping[str, Source]) -> Elements:
        """Return the elements with further stored values."""
        return replace(self, sources={**self.sources, **sources}, memo={})

    def at(self, value: str, index: Sequence[Expr]) -> Expr:
        """Return the element of `value` at a logical index."""
        where = tuple(self.simplify(i) for i in index)
        key = (value, where)
        if key not in self.memo:
            self.memo[key] = self._build(value, where)
        return self.memo[key]

    def _build(self, value: str, index: Index) -> Expr:
        if value in self.sources:
            return self._stored(self.sources[value](index))
        literal = self._literal(value)
        if literal is not None:
            return literal
        n = self.fragment.producers.get(value)
        if n is None:
            raise LoweringError(f"nothing in the block defines {value!r}")
        operator = self.fragment.operator(n)
        if operator.scalar is not None:
            return self._elementwise(n, index)
        if operator.pull is not None:
            return self._moved(n, n.outputs.index(value), index)
        raise LoweringError(f"{n.label()}: its elements are no function of single operand elements")

    def _stored(self, element: Expr) -> Expr:
        if isinstance(element, Load):
            return Load(element.buffer, self.simplify(element.index), element.dtype)
        return element

    def _literal(self, value: str) -> Const | None:
        found = self.fragment.constants.get(value)
        if found is None or found.array.size != 1:
            return None
        dtype = self.fragment.types[value].dtype
        number = found.array.reshape(()).astype(
            "float64" if dtype is DType.BFLOAT16 else found.array.dtype
        )
        return constant(number.item(), dtype)

    def _elementwise(self, n: Node, index: Index) -> Expr:
        operator = self.fragment.operator(n)
        assert operator.scalar is not None
        present = [self._operand(v, index) if v else None for v in n.inputs]
        built = operator.scalar(LoopScalars(self._literal_dtype(n)), present, n.attrs)
        wanted = self.fragment.types[n.outputs[0]].dtype
        return built if dtype_of(built) is wanted else Cast(wanted, built)

    def _literal_dtype(self, n: Node) -> DType:
        dtypes = [self.fragment.types[v].dtype for v in n.inputs if v]
        return next((d for d in dtypes if d.is_float), dtypes[0])

    def _operand(self, value: str, index: Index) -> Expr:
        return self.at(value, broadcast_index(index, self.fragment.shape(value)))

    def _moved(self, n: Node, output: int, index: Index) -> Expr:
        operator = self.fragment.operator(n)
        assert operator.pull is not None
        types = self.fragment.types
        ins = tuple(types[v] if v else None for v in n.inputs)
        outs = tuple(types[v] for v in n.outputs if v)
        pieces = operator.pull(LoopIndices(self, n), output, index, ins, outs, n.attrs)
        dtype = types[n.outputs[output]].dtype
        return self._first_of(n, pieces, dtype)

    def _first_of(self, n: Node, pieces: Sequence[Piece], dtype: DType) -> Expr:
        conditions = [None if p.when is None else self.simplify(_condition(p.when)) for p in pieces]
        chosen: Expr | None = None
        for piece, when in reversed(list(zip(pieces, conditions, strict=True))):
            if isinstance(when, Const) and not when.value:
                continue
            element = self._piece(n, piece, dtype)
            if when is None or isinstance(when, Const) or chosen is None:
                chosen = element
            else:
                chosen = Select(when, element, chosen)
        if chosen is None:
            raise LoweringError(f"{n.label()}: no piece gives the element")
        return chosen

    def _piece(self, n: Node, piece: Piece, dtype: DType) -> Expr:
        if piece.operand is None:
            return constant(piece.value, dtype)
        return self.at(n.inputs[piece.operand], tuple(as_index(i) for i in piece.index))


def _condition(value: Any) -> Expr:
    return Const(value, DType.BOOL) if isinstance(value, bool) else value


def broadcast_index(index: Index, shape: Sequence[int]) -> Index:
    """Return where a broadcast operand of `shape` is read for a result at `index`."""
    aligned = index[len(index) - len(shape) :]
    return tuple(Const(0) if d == 1 else i for i, d in zip(aligned, shape, strict=True))


def load_source(buffer: str, dtype: DType, strides: Sequence[int], start: int = 0) -> Source:
    """Return the reader of a stored value: `buffer` at the strided offset from `start`."""

    def source(index: Index) -> Expr:
        place = offset(index, strides)
        return Load(buffer, place + start if start else place, dtype)

    return source


def offset(index: Sequence[Expr], strides: Sequence[int]) -> Expr:
    """Return the flat offset of a logical index; literal zeros and unit strides leave no trace."""
    total: Expr | None = None
    for i, stride in zip(index, strides, strict=True):
        if isinstance(i, Const) and i.value == 0:
            continue
        term = i if stride == 1 else Call("mul", (i, Const(stride)))
        total = term if total is None else Call("add", (total, term))
    return Const(0) if total is None else total


def is_pointwise(fragment: Fragment, n: Node) -> bool:
    """Whether each element of `n` is a function of single operand elements."""
    operator = fragment.operator(n)
    return operator.scalar is not None or operator.pull is not None


def is_reduction(fragment: Fragment, n: Node) -> bool:
    """Whether `n` is a plain reduction over axes."""
    operator = fragment.operator(n)
    return operator.kind is Kind.REDUCTION and operator.reduction is not None
