"""What one result element of a reduction, pooling or contraction combines, and how."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.loops import (
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    constant,
    dtype_of,
    subexpressions,
)
from egraph_fusion.codegen.lower_elements import Elements, Index, LoopScalars
from egraph_fusion.ir.graph import Attrs, Node
from egraph_fusion.ir.ops.contraction import einsum_terms
from egraph_fusion.ir.ops.operator import Reduction
from egraph_fusion.ir.tensors import DType

Term = Callable[[Elements, Index, Index], Expr]
Guard = Callable[[Index, Index], tuple[Expr, ...]]
Finish = Callable[[Elements, Expr, Index], Expr]


@dataclass(frozen=True)
class Terms:
    """Result element `i` = finish(combine over reduced index `r`, where `guard(i, r)`, of term(i, r)).

    `extents` bounds the reduced index, outermost first; `accumulator` is the dtype of the terms.
    `operands` lists the values that the terms read, the widest first.
    """

    node: Node
    extents: tuple[int, ...]
    combine: str
    accumulator: DType
    term: Term
    guard: Guard
    finish: Finish
    operands: tuple[str, ...]

    @property
    def result(self) -> str:
        """The value that is computed."""
        return self.node.outputs[0]

    @property
    def identity(self) -> Const:
        """What the combination starts from."""
        return identity_of(self.combine, self.accumulator)

    def combined(self, total: Expr, term: Expr) -> Expr:
        """Return the next total; products summed in float32 and wider use one rounding."""
        if self.combine == "add" and isinstance(term, Call) and term.op == "mul":
            if self.accumulator in (DType.FLOAT32, DType.FLOAT64) and len(self.operands) == 2:
                return Call("fma", (*term.args, total))
        return Call(self.combine, (total, term))


def identity_of(combine: str, dtype: DType) -> Const:
    """Return the neutral element of `add`, `mul`, `max` or `min`."""
    if combine in ("add", "mul"):
        return constant(0 if combine == "add" else 1, dtype)
    if dtype is DType.BOOL:
        return Const(combine == "min", dtype)
    if dtype.is_float:
        return constant(-math.inf if combine == "max" else math.inf, dtype)
    limits = np.iinfo(dtype.numpy)
    return constant(int(limits.min if combine == "max" else limits.max), dtype)


def accumulator_of(dtype: DType) -> DType:
    """Return the dtype that sums of `dtype` are kept in: 16-bit floats in float32."""
    return DType.FLOAT32 if dtype in (DType.FLOAT16, DType.BFLOAT16) else dtype


def terms_of(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of a node that is not pointwise; LoweringError if it has no such form."""
    operator = fragment.operator(n)
    if operator.reduction is not None:
        return _reduction(fragment, n, operator.reduction)
    if n.op not in _TERMS:
        raise LoweringError(f"{n.label()}: no kernel is generated for this operator")
    return _TERMS[n.op](fragment, n)


def ints(attrs: Attrs, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Return an attribute of integers, or `default` where it is absent or empty."""
    found = attrs.get(name) or ()
    assert isinstance(found, tuple)
    return tuple(int(v) for v in found) or tuple(default)


def _unguarded(_i: Index, _r: Index) -> tuple[Expr, ...]:
    return ()


def _cast(dtype: DType, value: Expr) -> Expr:
    return value if dtype_of(value) is dtype else Cast(dtype, value)


def _to_result(fragment: Fragment, n: Node) -> Finish:
    dtype = fragment.types[n.outputs[0]].dtype
    return lambda _elements, total, _i: _cast(dtype, total)


def _reduction(fragment: Fragment, n: Node, form: Reduction) -> Terms:
    x = n.inputs[0]
    shape = fragment.shape(x)
    axes = ints(n.attrs, "axes", ())
    dtype = fragment.types[x].dtype
    wide = accumulator_of(dtype)
    scalars = LoopScalars(wide)
    keepdims = bool(n.attrs.get("keepdims", 1))

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        kept = iter(i if not keepdims else [v for d, v in enumerate(i) if d not in axes])
        moved = dict(zip(axes, r, strict=True))
        where = tuple(moved[d] if d in moved else next(kept) for d in range(len(shape)))
        element = _cast(wide, elements.at(x, where))
        return element if form.pre is None else form.pre(scalars, element)

    def finish(_elements: Elements, total: Expr, _i: Index) -> Expr:
        count = constant(prod(shape[a] for a in axes), wide)
        done = total if form.post is None else form.post(scalars, total, count)
        return _cast(dtype, done)

    extents = tuple(shape[a] for a in axes)
    return Terms(n, extents, form.combine, wide, term, _unguarded, finish, (x,))


@dataclass(frozen=True)
class Window:
    """How spatial positions of a convolution or pooling relate: per spatial dimension."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    ends: tuple[int, ...]
    dilations: tuple[int, ...]
    inside: tuple[int, ...]

    def positions(self, out: Sequence[Expr], tap: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the input position that each output position reads at a tap."""
        rows = zip(out, tap, self.strides, self.dilations, self.pads, strict=True)
        return tuple(o * s + t * d - p for o, t, s, d, p in rows)

    def conditions(self, out: Sequence[Expr], tap: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the conditions under which the position lies inside the input."""
        rows = zip(self.positions(out, tap), self.inside, strict=True)
        return tuple(c for p, n in rows for c in (p >= 0, p < n))


def window_of(attrs: Attrs, kernel: Sequence[int], inside: Sequence[int]) -> Window:
    """Return the window that normalised ONNX attributes describe."""
    rank = len(kernel)
    pads = ints(attrs, "pads", (0,) * 2 * rank)
    return Window(
        tuple(kernel),
        ints(attrs, "strides", (1,) * rank),
        pads[:rank],
        pads[rank:],
        ints(attrs, "dilations", (1,) * rank),
        tuple(inside),
    )


def _pooling(fragment: Fragment, n: Node) -> Terms:
    x = n.inputs[0]
    shape = fragment.shape(x)
    dtype = fragment.types[x].dtype
    wide = accumulator_of(dtype)
    window = window_of(n.attrs, ints(n.attrs, "kernel_shape", shape[2:]), shape[2:])
    power = float(n.attrs.get("p", 2)) if n.op == "LpPool" else 0.0  # type: ignore[arg-type]
    scalars = LoopScalars(wide)

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        element = _cast(wide, elements.at(x, (*i[:2], *window.positions(i[2:], r))))
        if n.op != "LpPool":
            return element
        return scalars.pow(Call("abs", (element,)), scalars.const(power))

    def guard(i: Index, r: Index) -> tuple[Expr, ...]:
        return window.conditions(i[2:], r)

    def finish(elements: Elements, total: Expr, i: Index) -> Expr:
        if n.op == "AveragePool":
            include = bool(n.attrs.get("count_include_pad", 0))
            count = elements.simplify(_window_size(window, i[2:], include))
            exact = constant(count.value, wide) if isinstance(count, Const) else Cast(wide, count)
            total = Call("div", (total, exact))
        if n.op == "LpPool":
            total = scalars.pow(total, scalars.const(1.0 / power))
        return _cast(dtype, total)

    combine = "max" if n.op == "MaxPool" else "add"
    return Terms(n, window.kernel, combine, wide, term, guard, finish, (x,))


def _window_size(window: Window, out: Sequence[Expr], include: bool) -> Expr:
    """Return how many taps of a window count: those inside the input, or inside its padding."""
    total: Expr = Const(1)
    for d, o in enumerate(out):
        start = o * window.strides[d] - window.pads[d]
        step, taps = window.dilations[d], Const(window.kernel[d])
        limit = window.inside[d] + (window.ends[d] if include else 0)
        last = Call("min", (taps, (Const(limit) - start + (step - 1)) // step))
        first = Const(0) - (start // step)  # ceil(-start / step): the first tap at or past 0
        count = last if include else last - Call("max", (Const(0), first))
        total = total * Call("max", (count, Const(0)))
    return total


def _conv(fragment: Fragment, n: Node) -> Terms:
    x, w = n.inputs[:2]
    shape, weights = fragment.shape(x), fragment.shape(w)
    window = window_of(n.attrs, weights[2:], shape[2:])
    group = int(n.attrs.get("group", 1))  # type: ignore[arg-type]
    inner, outer = weights[1], weights[0] // group
    dtype = fragment.types[n.outputs[0]].dtype
    wide = accumulator_of(dtype)

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        channel = r[0] if group == 1 else (i[1] // outer) * inner + r[0]
        a = elements.at(x, (i[0], channel, *window.positions(i[2:], r[1:])))
        b = elements.at(w, (i[1], r[0], *r[1:]))
        return Call("mul", (_cast(wide, a), _cast(wide, b)))

    def guard(i: Index, r: Index) -> tuple[Expr, ...]:
        return window.conditions(i[2:], r[1:])

    extents = (inner, *window.kernel)
    return Terms(n, extents, "add", wide, term, guard, _biased(fragment, n, 1), (x, w))


def _conv_transpose(fragment: Fragment, n: Node) -> Terms:
    x, w = n.inputs[:2]
    shape, weights = fragment.shape(x), fragment.shape(w)
    window = window_of(n.attrs, weights[2:], shape[2:])
    group = int(n.attrs.get("group", 1))  # type: ignore[arg-type]
    inner, outer = shape[1] // group, weights[1]
    wide = accumulator_of(fragment.types[n.outputs[0]].dtype)

    def sources(i: Index, r: Index) -> list[Expr]:
        rows = zip(i[2:], r[1:], window.pads, window.dilations, strict=True)
        return [o + p - t * d for o, t, p, d in rows]

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        channel = (i[1] // outer) * inner + r[0]
        where = [s // step for s, step in zip(sources(i, r), window.strides, strict=True)]
        a = elements.at(x, (i[0], channel, *where))
        b = elements.at(w, (channel, i[1] % outer, *r[1:]))
        return Call("mul", (_cast(wide, a), _cast(wide, b)))

    def guard(i: Index, r: Index) -> tuple[Expr, ...]:
        found: list[Expr] = []
        for s, step, size in zip(sources(i, r), window.strides, window.inside, strict=True):
            found += [Call("eq", (s % step, Const(0))), s >= 0, s < size * step]
        return tuple(found)

    extents = (inner, *window.kernel)
    return Terms(n, extents, "add", wide, term, guard, _biased(fragment, n, 1), (x, w))


def _biased(fragment: Fragment, n: Node, axis: int) -> Finish:
    dtype = fragment.types[n.outputs[0]].dtype

    def finish(elements: Elements, total: Expr, i: Index) -> Expr:
        if len(n.inputs) > 2 and n.inputs[2]:
            bias = elements.at(n.inputs[2], (i[axis],))
            total = Call("add", (total, _cast(dtype_of(total), bias)))
        return _cast(dtype, total)

    return finish


def _matmul(fragment: Fragment, n: Node) -> Terms:
    a, b = n.inputs[:2]
    left, right = fragment.shape(a), fragment.shape(b)
    wide = accumulator_of(fragment.types[n.outputs[0]].dtype)
    rows, columns = int(len(left) > 1), int(len(right) > 1)

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        outer = i[: len(i) - rows - columns]
        row, column = i[len(outer) : len(outer) + rows], i[len(i) - columns :]
        x = elements.at(a, (*_aligned(outer, left[:-2]), *row, *r))
        y = elements.at(b, (*_aligned(outer, right[:-2]), *r, *column))
        return Call("mul", (_cast(wide, x), _cast(wide, y)))

    return Terms(n, (left[-1],), "add", wide, term, _unguarded, _to_result(fragment, n), (a, b))


def _aligned(index: Index, shape: Sequence[int]) -> Index:
    """Return the batch index of an operand whose batch dimensions are `shape`."""
    used = index[len(index) - len(shape) :]
    return tuple(Const(0) if d == 1 else v for v, d in zip(used, shape, strict=True))


def _gemm(fragment: Fragment, n: Node) -> Terms:
    a, b = n.inputs[:2]
    flip_a, flip_b = bool(n.attrs.get("transA", 0)), bool(n.attrs.get("transB", 0))
    alpha, beta = (float(n.attrs.get(k, 1.0)) for k in ("alpha", "beta"))  # type: ignore[arg-type]
    dtype = fragment.types[n.outputs[0]].dtype
    wide = accumulator_of(dtype)
    depth = fragment.shape(a)[0 if flip_a else 1]

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        x = elements.at(a, (r[0], i[0]) if flip_a else (i[0], r[0]))
        y = elements.at(b, (i[1], r[0]) if flip_b else (r[0], i[1]))
        return Call("mul", (_cast(wide, x), _cast(wide, y)))

    def finish(elements: Elements, total: Expr, i: Index) -> Expr:
        if alpha != 1.0:
            total = Call("mul", (total, constant(alpha, wide)))
        if len(n.inputs) > 2 and n.inputs[2]:
            c = n.inputs[2]
            shape = fragment.shape(c)
            where = _aligned(i, shape)
            addend = _cast(wide, elements.at(c, where))
            scaled = addend if beta == 1.0 else Call("mul", (addend, constant(beta, wide)))
            total = Call("add", (total, scaled))
        return _cast(dtype, total)

    return Terms(n, (depth,), "add", wide, term, _unguarded, finish, (a, b))


def _cumsum(fragment: Fragment, n: Node) -> Terms:
    """Each prefix is summed anew: quadratic along the axis, and independent of it."""
    x = n.inputs[0]
    shape = fragment.shape(x)
    axis = int(n.attrs.get("axis", 0))  # type: ignore[arg-type]
    reverse, exclusive = bool(n.attrs.get("reverse", 0)), bool(n.attrs.get("exclusive", 0))
    wide = accumulator_of(fragment.types[x].dtype)
    compare = {(0, 0): "le", (0, 1): "lt", (1, 0): "ge", (1, 1): "gt"}[reverse, exclusive]

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        return _cast(wide, elements.at(x, (*i[:axis], r[0], *i[axis + 1 :])))

    def guard(i: Index, r: Index) -> tuple[Expr, ...]:
        return (Call(compare, (r[0], i[axis])),)

    finish = _to_result(fragment, n)
    return Terms(n, (shape[axis],), "add", wide, term, guard, finish, (x,))


def _einsum(fragment: Fragment, n: Node) -> Terms:
    """Letters of the result are its index; the others are reduced. No letter repeats in a term."""
    shapes = [fragment.shape(v) for v in n.inputs]
    parts, right = einsum_terms(str(n.attrs["equation"]), [len(s) for s in shapes])
    sizes: dict[str, int] = {}
    for part, shape in zip(parts, shapes, strict=True):
        for letter, size in zip(part, shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    summed = tuple(c for c in sizes if c not in right)
    wide = accumulator_of(fragment.types[n.outputs[0]].dtype)

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        at = {**dict(zip(right, i, strict=True)), **dict(zip(summed, r, strict=True))}
        found = [
            _cast(wide, elements.at(v, _aligned(tuple(at[c] for c in part), shape)))
            for part, v, shape in zip(parts, n.inputs, shapes, strict=True)
        ]
        total = found[0]
        for factor in found[1:]:
            total = Call("mul", (total, factor))
        return total

    extents = tuple(sizes[c] for c in summed)
    return Terms(
        n, extents, "add", wide, term, _unguarded, _to_result(fragment, n), tuple(n.inputs)
    )


_TERMS: Mapping[str, Callable[[Fragment, Node], Terms]] = {
    "MaxPool": _pooling,
    "AveragePool": _pooling,
    "LpPool": _pooling,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "CumSum": _cumsum,
    "Einsum": _einsum,
}


def guarded(conditions: Sequence[Expr], value: Expr, otherwise: Expr) -> Expr:
    """Return `value` where every condition holds, else `otherwise`."""
    return value if not conditions else Select(conjunction(conditions), value, otherwise)


def conjunction(conditions: Sequence[Expr]) -> Expr:
    """Return the conjunction of at least one condition."""
    total = conditions[0]
    for c in conditions[1:]:
        total = Call("logical_and", (total, c))
    return total


def loads(expr: Expr) -> list[Load]:
    """Return the distinct loads of an expression."""
    return list(dict.fromkeys(e for e in subexpressions(expr) if isinstance(e, Load)))
