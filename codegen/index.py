"""Integer index arithmetic: a simplifier that knows the ranges of variables, and shape helpers.

Index expressions are int64 and never overflow.  They are brought into a polynomial normal form
whose atoms are variables and what is not polynomial (floor division, remainder, minimum, loads).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from egraph_fusion.codegen.index_poly import Index, Ranges, as_expr, as_index
from egraph_fusion.codegen.index_rules import Simplifier
from egraph_fusion.codegen.loops import Const, Expr, For, Var, call

__all__ = [
    "Index",
    "Ranges",
    "bounds",
    "delinearize",
    "linearize",
    "ranges_of",
    "simplify",
    "size_of",
    "stride_of",
]


def simplify(expr: Expr, ranges: Ranges | None = None) -> Expr:
    """Return an equal expression in normal form; equal polynomials become equal expressions.

    `ranges` maps variables to inclusive bounds, each an int, an expression of other variables or
    None.  Parts that are not int64 are searched for index expressions, not changed otherwise.
    """
    return _simplified(expr, tuple((ranges or {}).items()))


@lru_cache(maxsize=1 << 15)
def _simplified(
    expr: Expr, ranges: tuple[tuple[str, tuple[Index | None, Index | None]], ...]
) -> Expr:
    """Kept, since blocks are lowered once to see whether they can be, and again to be run."""
    return Simplifier(dict(ranges)).expression(expr)


def bounds(expr: Expr, ranges: Ranges | None = None) -> tuple[int | None, int | None]:
    """Return inclusive integer bounds of an int64 expression, None where there is none known."""
    simplifier = Simplifier(ranges or {})
    return simplifier.interval(simplifier.polynomial(expr))


def stride_of(expr: Expr, var: str, ranges: Ranges | None = None) -> Expr | None:
    """Return the factor of `var` in `expr`, or None if `expr` is not affine in `var`.

    >>> from egraph_fusion.codegen.loop_text import expression
    >>> expression(stride_of(Var("i") * 8 + Var("j"), "i"))
    '8'
    """
    poly = Simplifier(ranges or {}).polynomial(expr)
    split = poly.split(Var(var))
    return None if split is None else as_expr(split[0])


def linearize(indices: Sequence[Index], shape: Sequence[Index]) -> Expr:
    """Return the row-major offset of `indices` in a dense tensor of `shape` (not simplified).

    >>> from egraph_fusion.codegen.loop_text import expression
    >>> expression(linearize([Var("i"), Var("j")], [5, 4]))
    'i * 4 + j'
    """
    offset: Expr = Const(0)
    for index, extent in zip(indices, shape, strict=True):
        offset = offset * as_index(extent) + as_index(index)
    return simplify(offset)


def delinearize(
    offset: Expr, shape: Sequence[Index], ranges: Ranges | None = None
) -> tuple[Expr, ...]:
    """Return the indices of element `offset` of a dense row-major tensor of `shape`.

    `offset` must lie in the tensor, so the first index needs no remainder.

    >>> from egraph_fusion.codegen.loop_text import expression
    >>> [expression(e) for e in delinearize(Var("p"), [5, 4])]
    ['p // 4', 'p % 4']
    """
    out: list[Expr] = []
    for axis in range(len(shape)):
        step = size_of(shape[axis + 1 :])
        index: Expr = call("floordiv", offset, step)
        if axis:
            index = call("floormod", index, as_index(shape[axis]))
        out.append(simplify(index, ranges))
    return tuple(out)


def size_of(shape: Sequence[Index]) -> Expr:
    """Return the number of elements of `shape`."""
    known = prod(d for d in shape if isinstance(d, int))
    size: Expr = Const(known)
    for extent in shape:
        if not isinstance(extent, int):
            size = call("mul", size, extent)
    return simplify(size)


def ranges_of(loops: Sequence[For], ranges: Ranges | None = None) -> Ranges:
    """Return `ranges` with every loop's variable between 0 and its extent - 1."""
    return {**(ranges or {}), **{loop.var: (0, loop.extent - 1) for loop in loops}}
