"""Which terms an operator that is not pointwise combines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from egraph_fusion.codegen import lower_products as products
from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.loops import Call, Expr, constant
from egraph_fusion.codegen.lower_elements import Elements, Index, LoopScalars
from egraph_fusion.codegen.lower_terms import (
    Terms,
    accumulator_of,
    cast,
    integer,
    ints,
    to_result,
    unguarded,
)
from egraph_fusion.codegen.lower_windows import pooling
from egraph_fusion.ir.graph import Node
from egraph_fusion.ir.ops.operator import Reduction


def terms_of(fragment: Fragment, n: Node) -> Terms:
    """Return the terms of a node that is not pointwise; LoweringError if it has no such form."""
    operator = fragment.operator(n)
    if operator.reduction is not None:
        return _reduction(fragment, n, operator.reduction)
    if n.op not in _TERMS:
        raise LoweringError(f"{n.label()}: no kernel is generated for this operator")
    return _TERMS[n.op](fragment, n)


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
        element = cast(wide, elements.at(x, where))
        return element if form.pre is None else form.pre(scalars, element)

    def finish(_elements: Elements, total: Expr, _i: Index) -> Expr:
        count = constant(prod(shape[a] for a in axes), wide)
        done = total if form.post is None else form.post(scalars, total, count)
        return cast(dtype, done)

    extents = tuple(shape[a] for a in axes)
    return Terms(n, extents, form.combine, wide, term, unguarded, finish, (x,))


def _cumsum(fragment: Fragment, n: Node) -> Terms:
    """Each prefix is summed anew: quadratic along the axis, and independent of it."""
    x = n.inputs[0]
    shape = fragment.shape(x)
    axis = integer(n.attrs, "axis", 0)
    reverse, exclusive = bool(n.attrs.get("reverse", 0)), bool(n.attrs.get("exclusive", 0))
    wide = accumulator_of(fragment.types[x].dtype)
    compare = {(0, 0): "le", (0, 1): "lt", (1, 0): "ge", (1, 1): "gt"}[reverse, exclusive]

    def term(elements: Elements, i: Index, r: Index) -> Expr:
        return cast(wide, elements.at(x, (*i[:axis], r[0], *i[axis + 1 :])))

    def guard(i: Index, r: Index) -> tuple[Expr, ...]:
        return (Call(compare, (r[0], i[axis])),)

    finish = to_result(fragment, n)
    return Terms(n, (shape[axis],), "add", wide, term, guard, finish, (x,))


_TERMS: Mapping[str, Callable[[Fragment, Node], Terms]] = {
    "MaxPool": pooling,
    "AveragePool": pooling,
    "LpPool": pooling,
    "Conv": products.conv,
    "ConvTranspose": products.conv_transpose,
    "MatMul": products.matmul,
    "Gemm": products.gemm,
    "CumSum": _cumsum,
    "Einsum": products.einsum,
}
