"""Blocks of reductions that share their rows: softmax, layer norm and what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.index import stride_of
from egraph_fusion.codegen.layout import Layout
from egraph_fusion.codegen.loops import (
    Const,
    Expr,
    Load,
    Stmt,
    Store,
)
from egraph_fusion.codegen.lower_elements import Elements, Index
from egraph_fusion.codegen.lower_meaning import terms_of
from egraph_fusion.codegen.lower_nests import Target, parallel, stores_at
from egraph_fusion.codegen.lower_push import pushed, reached
from egraph_fusion.codegen.lower_row_state import RowState
from egraph_fusion.codegen.lower_space import largest, plain_space
from egraph_fusion.codegen.lower_terms import ints, loads
from egraph_fusion.ir.graph import Node

LARGEST_ROW = 32_768
"""Elements of one row that are kept in a thread's scratch."""

_EXPENSIVE = frozenset(
    {
        *("Exp", "Log", "Pow", "Sin", "Cos", "Tan", "Erf", "Tanh", "Sigmoid", "Softplus", "Div"),
        *("Sqrt", "Reciprocal", "Gelu", "Mish", "Swish", "Elu", "Selu", "Celu"),
    }
)
"""Operators worth a store and a load instead of doing them again."""


def rows(elements: Elements, heavy: Sequence[Node], targets: Sequence[Target]) -> tuple[Stmt, ...]:
    """Return one nest of the reductions `heavy` over the same axes of one shape, and the targets.

    Raises LoweringError if they do not, if a target needs several rows, or if the rows are not
    contiguous in memory.
    """
    fragment = elements.fragment
    state = _start(elements, heavy, targets)
    kept = worth_keeping(fragment, heavy, [t.value for t in targets], state.shape, state.row_shape)
    for number, n in enumerate(heavy):
        state.reduce(terms_of(fragment, n), number, kept.get(n.outputs[0], ()))
    _finish(state, targets)
    if not state.space.names:
        return tuple(state.body)
    work = 8 * max(1, state.reduced.size)
    return (parallel(state.space.names, state.space.extents, tuple(state.body), work),)


def _start(elements: Elements, heavy: Sequence[Node], targets: Sequence[Target]) -> RowState:
    fragment = elements.fragment
    shape = fragment.shape(heavy[0].inputs[0])
    axes = ints(heavy[0].attrs, "axes", ())
    for n in heavy[1:]:
        same = fragment.shape(n.inputs[0]) == shape and ints(n.attrs, "axes", ()) == axes
        if not same:
            raise LoweringError(f"{heavy[0].label()} and {n.label()} reduce different rows")
    layout = next((t.layout for t in targets if t.shape == shape), None)
    layout = layout or Layout(tuple(range(len(shape))))
    lines = [1 if d in axes else s for d, s in enumerate(shape)]
    row_order = Layout(tuple(sorted(range(len(axes)), key=lambda a: layout.order.index(axes[a]))))
    space = plain_space(lines, layout)
    reduced = plain_space([shape[a] for a in axes], row_order, prefix="r")
    state = RowState(fragment, elements, shape, axes, space, reduced)
    _expect_contiguous(state, heavy[0])
    return state


def _expect_contiguous(state: RowState, n: Node) -> None:
    """Raise LoweringError if vectors should rather run over neighbouring rows."""
    if not state.reduced.names or not state.space.names:
        return
    element = state.known(state.full).at(n.inputs[0], state.full.index)
    found = loads(element)
    inner = [_unit(x, state.reduced.names[-1]) for x in found]
    outer = [_unit(x, state.space.names[-1]) for x in found]
    wide = largest(state.space.extents[-1]) >= 8
    if not any(inner) and any(outer) and wide:
        raise LoweringError(f"{n.label()}: its rows are not contiguous")


def _unit(load: Load, name: str) -> bool:
    return stride_of(load.index, name) == Const(1)


def worth_keeping(
    fragment: Fragment,
    heavy: Sequence[Node],
    ends: Sequence[str],
    shape: tuple[int, ...],
    row: tuple[int, ...],
) -> dict[str, list[str]]:
    """Return, per reduction, the expensive full-shape values that later stages read again."""
    if prod(row) > LARGEST_ROW:
        return {}
    stages = [(n.outputs[0], reached(fragment, n.inputs[0])) for n in heavy]
    last = set[str]().union(*(reached(fragment, v) for v in ends))
    kept: dict[str, list[str]] = {}
    taken: set[str] = set()
    for position, (result, members) in enumerate(stages):
        later = [m for _, m in stages[position + 1 :]] + [last]
        for n in fragment.nodes:
            value = n.outputs[0]
            if value in taken or value not in members or fragment.shape(value) != shape:
                continue
            again = _needed_again(fragment, value, result, later)
            if again and _is_expensive(fragment, n):
                taken.add(value)
                kept.setdefault(result, []).append(value)
    return kept


def _needed_again(fragment: Fragment, value: str, result: str, later: Sequence[set[str]]) -> bool:
    """Whether some later stage reads `value` otherwise than through the reduction's result."""
    readers = [n for n in fragment.nodes if value in n.inputs and result not in n.outputs]
    through = reached(fragment, result)
    outside = [n for n in readers if n.outputs[0] not in through]
    return bool(outside) and any(value in members for members in later)


def _is_expensive(fragment: Fragment, n: Node) -> bool:
    return fragment.operator(n).scalar is not None and n.op in _EXPENSIVE


def _finish(state: RowState, targets: Sequence[Target]) -> None:
    size, lines = prod(state.shape), prod(state.shape) // max(1, prod(state.row_shape))
    full = [t for t in targets if prod(t.shape) == size]
    rest = [t for t in targets if prod(t.shape) != size]
    for number, t in enumerate(rest):
        if prod(t.shape) != lines:
            raise LoweringError(f"{t.value!r} is neither one element per row nor the full shape")
        where = _row_place(state, t)
        state.body += stores_at(state.known(state.space), [t], where, f"o{number}_")
    if not full:
        return
    state.body += _full_stores(state, full)


def _full_stores(state: RowState, targets: Sequence[Target]) -> tuple[Stmt, ...]:
    known = state.known(state.full)
    places = [_full_place(state, t) for t in targets]
    values = [known.at(t.value, p) for t, p in zip(targets, places, strict=True)]

    def writes(named: tuple[Expr, ...]) -> tuple[Stmt, ...]:
        rows = zip(targets, places, named, strict=True)
        return tuple(Store(t.buffer, known.simplify(t.place(p)), v) for t, p, v in rows)

    return state.loop(values, writes)


def _row_place(state: RowState, target: Target) -> Index:
    fragment = state.fragment
    for result in state.results:
        if result in reached(fragment, target.value):
            index = state.result_index(result)
            return pushed(fragment, result, target.value, state.space, index)
    raise LoweringError(f"{target.value!r} does not depend on the block's reductions")


def _full_place(state: RowState, target: Target) -> Index:
    fragment = state.fragment
    if target.shape == state.shape:
        return state.full.index
    ancestors = reached(fragment, target.value)
    for value in (*(n.outputs[0] for n in reversed(fragment.nodes)), *fragment.inputs):
        if value in ancestors and fragment.shape(value) == state.shape:
            return pushed(fragment, value, target.value, state.full, state.full.index)
    raise LoweringError(f"{target.value!r} is not made of rows of the block's reductions")
