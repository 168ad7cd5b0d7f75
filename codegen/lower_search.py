"""Searches along an axis: ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_fusion.codegen.layout import Layout
from egraph_fusion.codegen.loops import (
    Assign,
    Call,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Stmt,
    Var,
)
from egraph_fusion.codegen.lower_elements import Elements
from egraph_fusion.codegen.lower_nests import Target, parallel, stores_at
from egraph_fusion.codegen.lower_push import exactly, pushed
from egraph_fusion.codegen.lower_space import plain_space
from egraph_fusion.ir.graph import Node

SEARCHES = frozenset({"ArgMax", "ArgMin"})


def search_nest(elements: Elements, n: Node, targets: Sequence[Target]) -> tuple[Stmt, ...]:
    """Return the nest of ArgMax or ArgMin: the first (or last) extreme element; NaN is extreme."""
    fragment = elements.fragment
    x, result = n.inputs[0], n.outputs[0]
    shape = fragment.shape(x)
    axis = int(n.attrs.get("axis", 0))  # type: ignore[arg-type]
    lines = [1 if d == axis else s for d, s in enumerate(shape)]
    space = plain_space(lines, Layout(tuple(range(len(shape)))))
    known = elements.within(space.simplify)
    dtype = fragment.types[x].dtype

    def at(position: Expr) -> Expr:
        return known.at(x, (*space.index[:axis], position, *space.index[axis + 1 :]))

    element, best = Var("v", dtype), Var("best", dtype)
    order = "gt" if n.op == "ArgMax" else "lt"
    better: Expr = Call(order, (element, best))
    if bool(n.attrs.get("select_last_index", 0)):
        better = Call("logical_or", (better, Call("eq", (element, best))))
    if dtype.is_float:
        first_nan = Call("logical_and", (Call("isnan", (element,)), _not(Call("isnan", (best,)))))
        better = Call("logical_or", (better, first_nan))
    take = (Assign("best", element), Assign("where", Var("r")))
    step: tuple[Stmt, ...] = (Let("v", at(Var("r"))), If(better, take))
    body: tuple[Stmt, ...] = (
        Declare("best", dtype, at(Const(0))),
        Declare("where", Const(0).dtype, Const(0)),
        For("r", Const(shape[axis]), step),
    )
    keepdims = bool(n.attrs.get("keepdims", 1))
    index = space.index if keepdims else (*space.index[:axis], *space.index[axis + 1 :])
    found = known.given({result: exactly(result, index, Var("where"), known)})
    for number, t in enumerate(targets):
        place = pushed(fragment, result, t.value, space, index)
        body = (*body, *stores_at(found, [t], place, f"o{number}_"))
    if not space.names:
        return body
    return (parallel(space.names, space.extents, body, shape[axis]),)


def _not(cond: Expr) -> Expr:
    return Call("logical_not", (cond,))
