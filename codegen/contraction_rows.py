"""Row pointers of a contraction's tiles: where each row of the left operand begins, tap by tap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from egraph_fusion.codegen.contraction_form import Form
from egraph_fusion.codegen.index import Ranges, delinearize, simplify
from egraph_fusion.codegen.loops import (
    Const,
    Expr,
    If,
    Let,
    Load,
    SetPointer,
    Stmt,
    Var,
)
from egraph_fusion.codegen.lower_elements import Index
from egraph_fusion.codegen.lower_nests import serial
from egraph_fusion.codegen.lower_space import Space, divisions, grouped_space
from egraph_fusion.codegen.lower_terms import conjunction

RowAddress = Callable[[Index, Index, Index], Load]
"""The first float of the row that a batch index, row index and tap index read."""


def split_index(flat: Expr, shape: Sequence[int], ranges: Ranges | None = None) -> Index:
    """Return the index in `shape` of a flat row-major position; zeros where the extent is 1."""
    if prod(shape) == 1:
        return (Const(0),) * len(shape)
    known = ranges or ({flat.name: (0, prod(shape) - 1)} if isinstance(flat, Var) else {})
    parts = delinearize(flat, list(shape), known)
    return tuple(Const(0) if d == 1 else p for d, p in zip(shape, parts, strict=True))


def tap_space(taps: Sequence[int]) -> Space:
    """Return the loops over a window's taps; a dimension of one tap has none."""
    return grouped_space(taps, tuple((d,) for d in range(len(taps)) if taps[d] != 1), "k")


def named_index(whole: Index) -> tuple[tuple[Stmt, ...], Index]:
    """Return names for the parts of a row index that take divisions, and the index in them."""
    lets: list[Stmt] = []
    named: list[Expr] = []
    for d, part in enumerate(whole):
        if not isinstance(part, Const | Var):
            lets.append(Let(f"m{d}", part))
            part = Var(f"m{d}")
        named.append(part)
    return tuple(lets), tuple(named)


@dataclass(frozen=True)
class RowPointers:
    """How the pointers of row number `m` of the batch `b` are found."""

    form: Form
    address: RowAddress

    def point(self, entry: Callable[[Expr], Expr], depth: Expr | None = None) -> tuple[Stmt, ...]:
        """Return statements that set entry(tap) of table `rows`, for each tap, given Let `m`.

        Rows start `depth` floats further on; padding is read from zeros.
        """
        whole = split_index(Var("m"), self.form.rows, self._ranges)
        lets, index = named_index(whole)
        space = tap_space(self.form.taps)
        load = self.address(self._batch, whole, space.index)
        conditions = self._conditions(index, space)
        if conditions or divisions([simplify(load.index, self._known(space))]):
            load = self.address(self._batch, index, space.index)
        else:
            lets = ()
        place = load.index if depth is None else load.index + depth
        where = simplify(entry(_flat(space, self.form.taps)), self._known(space))
        point: tuple[Stmt, ...] = (
            SetPointer("rows", where, load.buffer, simplify(place, self._known(space))),
        )
        if conditions:
            nothing = SetPointer("rows", where, None)
            point = (If(conjunction(conditions), point, (nothing,)),)
        return (*lets, *serial(space, point))

    @property
    def _batch(self) -> Index:
        return split_index(Var("b"), self.form.batch)

    @property
    def _ranges(self) -> Ranges:
        sizes = {f"m{d}": size for d, size in enumerate(self.form.rows)}
        sizes |= {"m": prod(self.form.rows), "b": prod(self.form.batch)}
        return {v: (0, size - 1) for v, size in sizes.items()}

    def _known(self, space: Space) -> Ranges:
        return {**self._ranges, **space.ranges}

    def _conditions(self, index: Index, space: Space) -> list[Expr]:
        found = (simplify(c, self._known(space)) for c in self.form.guard(index, space.index))
        return [c for c in found if not (isinstance(c, Const) and c.value)]


def _flat(space: Space, shape: Sequence[int]) -> Expr:
    total: Expr = Const(0)
    for i, size in zip(space.index, shape, strict=True):
        total = total * size + i
    return simplify(total)
