"""The terms of contractions: sums of products over shared axes."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_fusion.codegen.expand import Fragment
from egraph_fusion.codegen.loops import Call, Const, Expr, constant, dtype_of
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_terms import (
    Finish,
    Terms,
    accumulator_of,
    cast,
    integer,
    number,
    to_result,
    unguarded,
)
from egraph_fusion.codegen.lower_windows import window_of
from egraph_fusion.ir.graph import Node
from egraph_fusion.ir.ops.contraction import einsum_terms


def conv(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of a convolution, grouped or not."""
    x, w = n.inputs[:2]
    shape, weights = fragment.shape(x), fragment.shape(w)
    window = window_of(n.attrs, weights[2:], shape[2:])
    group = integer(n.attrs, "group", 1)
    inner, outer = weights[1], weights[0] // group
    dtype = fragment.types[n.outputs[0]].dtype
    wide = accumulator_of(dtype)

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        channel = r[0] if group == 1 else (i[1] // outer) * inner + r[0]
        a = elements.at(x, (i[0], channel, *window.positions(i[2:], r[1:])))
        b = elements.at(w, (i[1], r[0], *r[1:]))
        return Call("mul", (cast(wide, a), cast(wide, b)))

    def guard(i: Index, r: Index) -> tuple[Expr, ...]:
        return window.conditions(i[2:], r[1:])

    extents = (inner, *window.kernel)
    return Terms(n, extents, "add", wide, term, guard, _biased(fragment, n, 1), (x, w))


def conv_transpose(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of a transposed convolution, as a gather."""
    x, w = n.inputs[:2]
    shape, weights = fragment.shape(x), fragment.shape(w)
    window = window_of(n.attrs, weights[2:], shape[2:])
    group = integer(n.attrs, "group", 1)
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
        return Call("mul", (cast(wide, a), cast(wide, b)))

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
            total = Call("add", (total, cast(dtype_of(total), bias)))
        return cast(dtype, total)

    return finish


def matmul(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of a numpy matmul."""
    a, b = n.inputs[:2]
    left, right = fragment.shape(a), fragment.shape(b)
    wide = accumulator_of(fragment.types[n.outputs[0]].dtype)
    rows, columns = int(len(left) > 1), int(len(right) > 1)

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        outer = i[: len(i) - rows - columns]
        row, column = i[len(outer) : len(outer) + rows], i[len(i) - columns :]
        x = elements.at(a, (*_aligned(outer, left[:-2]), *row, *r))
        y = elements.at(b, (*_aligned(outer, right[:-2]), *r, *column))
        return Call("mul", (cast(wide, x), cast(wide, y)))

    return Terms(n, (left[-1],), "add", wide, term, unguarded, to_result(fragment, n), (a, b))


def _aligned(index: Index, shape: Sequence[int]) -> Index:
    """Return the batch index of an operand whose batch dimensions are `shape`."""
    used = index[len(index) - len(shape) :]
    return tuple(Const(0) if d == 1 else v for v, d in zip(used, shape, strict=True))


def gemm(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of a Gemm."""
    a, b = n.inputs[:2]
    flip_a, flip_b = bool(n.attrs.get("transA", 0)), bool(n.attrs.get("transB", 0))
    alpha, beta = (number(n.attrs, k, 1.0) for k in ("alpha", "beta"))
    dtype = fragment.types[n.outputs[0]].dtype
    wide = accumulator_of(dtype)
    depth = fragment.shape(a)[0 if flip_a else 1]

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        x = elements.at(a, (r[0], i[0]) if flip_a else (i[0], r[0]))
        y = elements.at(b, (i[1], r[0]) if flip_b else (r[0], i[1]))
        return Call("mul", (cast(wide, x), cast(wide, y)))

    def finish(elements: Elements, total: Expr, i: Index) -> Expr:
        if alpha != 1.0:
            total = Call("mul", (total, constant(alpha, wide)))
        if len(n.inputs) > 2 and n.inputs[2]:
            c = n.inputs[2]
            shape = fragment.shape(c)
            where = _aligned(i, shape)
            addend = cast(wide, elements.at(c, where))
            scaled = addend if beta == 1.0 else Call("mul", (addend, constant(beta, wide)))
            total = Call("add", (total, scaled))
        return cast(dtype, total)

    return Terms(n, (depth,), "add", wide, term, unguarded, finish, (a, b))


def einsum(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of an einsum: result letters are its index, the others are reduced."""
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
            cast(wide, elements.at(v, _aligned(tuple(at[c] for c in part), shape)))
            for part, v, shape in zip(parts, n.inputs, shapes, strict=True)
        ]
        total = found[0]
        for factor in found[1:]:
            total = Call("mul", (total, factor))
        return total

    extents = tuple(sizes[c] for c in summed)
    return Terms(n, extents, "add", wide, term, unguarded, to_result(fragment, n), tuple(n.inputs))
