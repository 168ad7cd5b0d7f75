"""The one form of all contractions that a register-tiled micro-kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.loops import Const, Expr
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_terms import ints
from egraph_fusion.codegen.lower_windows import Window, window_of
from egraph_fusion.ir.graph import Array, Node
from egraph_fusion.ir.tensors import DType

Left = Callable[[Elements, Index, Index, Index, Expr], Expr]
Right = Callable[[Elements, Index, Index, Expr, Expr], Expr]
Guard = Callable[[Index, Index], tuple[Expr, ...]]
Result = Callable[[Index, Index, Expr], Index]


@dataclass(frozen=True)
class Form:
    """C[b, m, n] = sum over taps t and depth k of A[b, m, t, k] * B[b, t, k, n].

    `batch`, `rows` and `taps` are shapes; `left(elements, b, m, t, k)` and
    `right(elements, b, t, k, n)` give operand elements, `guard(m, t)` says where A is not zero,
    `result(b, m, n)` is the index in the operator's result. `matrix` turns the right operand, if it
    is constant, into [batch, taps * depth, columns]. `window` is there for convolutions.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    taps: tuple[int, ...]
    depth: int
    columns: int
    left: Left
    right: Right
    guard: Guard
    result: Result
    matrix: Callable[[Array], Array]
    left_value: str
    right_value: str
    window: Window | None = None


def form_of(fragment: Fragment, n: Node) -> Form:
    """Return the form of a float32 MatMul, Gemm, dense Conv or ConvTranspose without overlap.

    Raises LoweringError for any other.
    """
    if n.op not in _FORMS:
        raise LoweringError(f"{n.label()} is no contraction of two operands")
    if any(fragment.types[v].dtype is not DType.FLOAT32 for v in n.inputs if v):
        raise LoweringError(f"{n.label()}: micro-kernels multiply float32 only")
    if 0 in (d for v in n.inputs if v for d in fragment.shape(v)):
        raise LoweringError(f"{n.label()}: an operand is empty")
    return _FORMS[n.op](fragment, n)


def _nowhere(_m: Index, _t: Index) -> tuple[Expr, ...]:
    return ()


def _matmul(fragment: Fragment, n: Node) -> Form:
    a, b = n.inputs
    left, right = fragment.shape(a), fragment.shape(b)
    if min(len(left), len(right)) < 2:
        raise LoweringError(f"{n.label()}: a vector operand")
    if prod(right[:-2]) == 1:
        return _shared_matrix(n, left, right)
    out = fragment.shape(n.outputs[0])
    batch = out[:-2]

    def read_left(elements: Elements, i: Index, m: Index, _t: Index, k: Expr) -> Expr:
        return elements.at(a, (*_aligned(i, left[:-2]), *m, k))

    def read_right(elements: Elements, i: Index, _t: Index, k: Expr, j: Expr) -> Expr:
        return elements.at(b, (*_aligned(i, right[:-2]), k, j))

    def matrix(array: Array) -> Array:
        return np.broadcast_to(array, (*batch, *right[-2:])).reshape(-1, *right[-2:])

    return Form(
        batch,
        left[-2:-1],
        (),
        left[-1],
        right[-1],
        read_left,
        read_right,
        _nowhere,
        lambda i, m, j: (*i, *m, j),
        matrix,
        a,
        b,
    )


def _shared_matrix(n: Node, left: tuple[int, ...], right: tuple[int, ...]) -> Form:
    """One right matrix for all rows: the left operand's batch dimensions are rows too."""
    a, b = n.inputs
    lead = len(right) - 2

    def read_left(elements: Elements, _i: Index, m: Index, _t: Index, k: Expr) -> Expr:
        return elements.at(a, (*m, k))

    def read_right(elements: Elements, _i: Index, _t: Index, k: Expr, j: Expr) -> Expr:
        return elements.at(b, (*((Const(0),) * lead), k, j))

    missing = (Const(0),) * max(0, len(right) - len(left))
    return Form(
        (),
        left[:-1],
        (),
        left[-1],
        right[-1],
        read_left,
        read_right,
        _nowhere,
        lambda _i, m, j: (*missing, *m, j),
        lambda array: array.reshape(1, *right[-2:]),
        a,
        b,
    )


def _aligned(index: Index, shape: Sequence[int]) -> Index:
    used = index[len(index) - len(shape) :]
    return tuple(Const(0) if d == 1 else v for v, d in zip(used, shape, strict=True))


def _gemm(fragment: Fragment, n: Node) -> Form:
    a, b = n.inputs[:2]
    flip_a, flip_b = bool(n.attrs.get("transA", 0)), bool(n.attrs.get("transB", 0))
    rows, columns = fragment.shape(n.outputs[0])
    depth = fragment.shape(a)[0 if flip_a else 1]

    def read_left(elements: Elements, _i: Index, m: Index, _t: Index, k: Expr) -> Expr:
        return elements.at(a, (k, *m) if flip_a else (*m, k))

    def read_right(elements: Elements, _i: Index, _t: Index, k: Expr, j: Expr) -> Expr:
        return elements.at(b, (j, k) if flip_b else (k, j))

    return Form(
        (),
        (rows,),
        (),
        depth,
        columns,
        read_left,
        read_right,
        _nowhere,
        lambda _i, m, j: (*m, j),
        lambda array: (array.T if flip_b else array)[None],
        a,
        b,
    )


def _conv(fragment: Fragment, n: Node) -> Form:
    x, w = n.inputs[:2]
    shape, weights = fragment.shape(x), fragment.shape(w)
    if n.attrs.get("group", 1) != 1:
        raise LoweringError(f"{n.label()}: a grouped convolution")
    window = window_of(n.attrs, weights[2:], shape[2:])
    out = fragment.shape(n.outputs[0])
    spatial = len(shape) - 2

    def read_left(elements: Elements, _i: Index, m: Index, t: Index, k: Expr) -> Expr:
        return elements.at(x, (m[0], k, *window.positions(m[1:], t)))

    def read_right(elements: Elements, _i: Index, t: Index, k: Expr, j: Expr) -> Expr:
        return elements.at(w, (j, k, *t))

    def matrix(array: Array) -> Array:
        order = (*range(2, 2 + spatial), 1, 0)
        return np.transpose(array, order).reshape(1, -1, weights[0])

    return Form(
        (),
        (out[0], *out[2:]),
        window.kernel,
        weights[1],
        weights[0],
        read_left,
        read_right,
        lambda m, t: window.conditions(m[1:], t),
        lambda _i, m, j: (m[0], j, *m[1:]),
        matrix,
        x,
        w,
        window,
    )


def _conv_transpose(fragment: Fragment, n: Node) -> Form:
    """Windows side by side: each tap is a product of its own, whose rows are spread out."""
    x, w = n.inputs[:2]
    shape, weights = fragment.shape(x), fragment.shape(w)
    out = fragment.shape(n.outputs[0])
    kernel = weights[2:]
    spread = tuple(size * k for size, k in zip(shape[2:], kernel, strict=True))
    plain = n.attrs.get("group", 1) == 1 and n.attrs.get("strides") == kernel
    if not plain or out[2:] != spread or any(ints(n.attrs, "pads", ())):
        raise LoweringError(f"{n.label()}: its windows overlap, have gaps or are cropped")

    def read_left(elements: Elements, _i: Index, m: Index, _t: Index, k: Expr) -> Expr:
        return elements.at(x, (m[0], k, *m[1:]))

    def read_right(elements: Elements, i: Index, _t: Index, k: Expr, j: Expr) -> Expr:
        return elements.at(w, (k, j, *i))

    def result(i: Index, m: Index, j: Expr) -> Index:
        rows = zip(m[1:], i, kernel, strict=True)
        return (m[0], j, *(position * k + tap for position, tap, k in rows))

    def matrix(array: Array) -> Array:
        order = (*range(2, len(weights)), 0, 1)
        return np.transpose(array, order).reshape(-1, *weights[:2])

    return Form(
        kernel,
        (shape[0], *shape[2:]),
        (),
        weights[0],
        weights[1],
        read_left,
        read_right,
        _nowhere,
        result,
        matrix,
        x,
        w,
    )


_FORMS: dict[str, Callable[[Fragment, Node], Form]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}
