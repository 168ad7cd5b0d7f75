"""Where an element goes: index maps run forwards, from a result to the outputs made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from egraph_fusion.codegen.expand import Fragment, LoweringError
from egraph_fusion.codegen.index import delinearize, linearize, simplify
from egraph_fusion.codegen.loops import Const, Expr
from egraph_fusion.codegen.lower_elements import Elements, Index, Source
from egraph_fusion.codegen.lower_space import Space
from egraph_fusion.ir.graph import Node

_RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})


def depends(fragment: Fragment, target: str, on: str) -> bool:
    """Whether `target` is computed from the value `on` within the block."""
    return on in reached(fragment, target)


def reached(fragment: Fragment, target: str, stored: frozenset[str] = frozenset()) -> set[str]:
    """Return every value that `target` is computed from and itself; `stored` ones end paths."""
    found: set[str] = set()
    work = [target]
    while work:
        value = work.pop()
        if value in found:
            continue
        found.add(value)
        n = None if value in stored else fragment.producers.get(value)
        if n is not None:
            work += [v for v in n.inputs if v]
    return found


@dataclass(frozen=True)
class Limit:
    """An index map holds only where `start <= index < stop`."""

    index: Expr
    start: int
    stop: int


def pushed(
    fragment: Fragment,
    source: str,
    target: str,
    space: Space,
    index: Index,
    limits: list[Limit] | None = None,
) -> Index:
    """Return the index of `target` that is made of element `index` of `source`.

    Every operator between them must keep each element in one place; LoweringError says which does
    not. With `limits` given, Split may drop elements: it says there which it keeps.
    """
    if source == target:
        return index
    n = fragment.producers.get(target)
    if n is None:
        raise LoweringError(f"{target!r} is not made of {source!r}")
    through = [v for v in n.inputs if v and depends(fragment, v, source)]
    failure = LoweringError(f"{target!r} is not made of {source!r}")
    for operand in through:
        try:
            at = pushed(fragment, source, operand, space, index, limits)
            if n.op == "Split" and limits is not None:
                return _part(fragment, n, target, at, limits)
            return _step(fragment, n, operand, space, at)
        except LoweringError as error:
            failure = error
    raise failure


def _part(fragment: Fragment, n: Node, target: str, index: Index, limits: list[Limit]) -> Index:
    axis = n.attrs["axis"]
    assert isinstance(axis, int)
    sizes = [fragment.shape(v)[axis] for v in n.outputs]
    position = n.outputs.index(target)
    start = sum(sizes[:position])
    limits.append(Limit(index[axis], start, start + sizes[position]))
    return (*index[:axis], index[axis] - start, *index[axis + 1 :])


def _step(fragment: Fragment, n: Node, operand: str, space: Space, index: Index) -> Index:
    before, after = fragment.shape(operand), fragment.shape(n.outputs[0])
    if n.op in _RESHAPES:
        return _reshaped(index, before, after, space)
    if n.op == "Transpose":
        perm = n.attrs["perm"]
        assert isinstance(perm, tuple)
        return tuple(index[int(p)] for p in perm)
    if fragment.operator(n).scalar is not None and prod(before) == prod(after):
        return (*([Const(0)] * (len(after) - len(before))), *index)
    raise LoweringError(f"{n.label()} does not keep each element of {operand!r} in one place")


def _reshaped(index: Index, before: Sequence[int], after: Sequence[int], space: Space) -> Index:
    if tuple(before) == tuple(after):
        return index
    flat = simplify(linearize(index, before), space.ranges)
    parts = delinearize(flat, after, space.ranges)
    return tuple(Const(0) if d == 1 else p for d, p in zip(after, parts, strict=True))


def exactly(value: str, index: Sequence[Expr], stored: Expr, elements: Elements) -> Source:
    """Return the reader of a value of which only the element at `index` is at hand, as `stored`."""
    wanted = tuple(elements.simplify(i) for i in index)

    def source(asked: Index) -> Expr:
        if tuple(elements.simplify(i) for i in asked) != wanted:
            raise LoweringError(f"an element of {value!r} other than the one at hand is needed")
        return stored

    return source
