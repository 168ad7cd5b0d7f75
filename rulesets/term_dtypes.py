"""What dtype a part of a term has, as far as the term says: its rule's, another part's, its own."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache

from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.pattern import (
    Apply,
    Number,
    Output,
    Pattern,
    Scalar,
    Tensor,
    children,
    walk,
)

Source = Pattern | DType | None
"""Where a dtype is known from: a tensor, itself, or (None) the rule's `dtypes`."""


def foreign_parts(p: Pattern, expected: DType | None = None) -> Iterator[tuple[Pattern, DType]]:
    """Yield the parts of a term that must be indices or truth values, with their dtype."""
    if expected is not None:
        yield p, expected
    keeps = not isinstance(p, Apply) or _keeps(p.op)
    for i, a in enumerate(children(p)):
        wanted = _own(p.op, i) if isinstance(p, Apply) else None
        yield from foreign_parts(a, wanted or (expected if keeps else None))


def _own(op: str, place: int) -> DType | None:
    """Return the dtype of an operand that a rule's `dtypes` does not speak of."""
    return OPERATORS[op].aside(place)


def _keeps(op: str) -> bool:
    """Whether the result has the dtype that the operands have."""
    return OPERATORS[op].result == "operands"


def number_source(p: Apply, place: int, above: Source, bound: Container[Pattern]) -> Source:
    """Return what gives the number at `place` its dtype: an operand beside it, or what `p` has.

    `above` is the source of the dtype that the result of `p` must have; `bound` holds the parts of
    the left side.
    """
    own = _own(p.op, place)
    if own is not None:
        return own
    beside = (a for i, a in enumerate(p.args) if i != place and _own(p.op, i) is None)
    found = (source(a, bound) for a in beside)
    kept = above if _keeps(p.op) else None
    return next((s for s in found if s is not None), kept)


def source(p: Pattern, bound: Container[Pattern]) -> Source:
    """Return what gives the result of `p` its dtype; None for numbers alone."""
    match p:
        case Number() | Scalar():
            return None
        case Output(of):
            return p if _converts(of) and p in bound else source(of, bound)
        case Apply() if isinstance(known := OPERATORS[p.op].result, DType):
            return known
        case Apply() if _converts(p):
            to = dict(p.attrs).get("to")
            named = next((d for d in DType if d.value == to), None)
            return p if p in bound else named
        case Apply():
            operands = (a for i, a in enumerate(p.args) if _own(p.op, i) is None)
            return next((s for s in (source(a, bound) for a in operands) if s is not None), None)
        case _:
            return p


def numbers_of(p: Pattern, above: Source = None) -> Iterator[tuple[Pattern, Source]]:
    """Yield the numbers of a left side with what gives them their dtype."""
    if isinstance(p, Output):
        yield from numbers_of(p.of, above)
    if isinstance(p, Apply):
        for i, a in enumerate(p.args):
            found = number_source(p, i, above, ())
            if isinstance(a, Number):
                yield a, found
            yield from numbers_of(a, found)


def leaf_patterns(p: Pattern) -> Iterator[Pattern]:
    """Yield the tensors and numbers of a left side once each, in order of appearance."""
    yield from dict.fromkeys(q for q in walk(p) if isinstance(q, Tensor | Number))


@lru_cache(maxsize=1024)
def leaf_dtypes(p: Pattern, dtype: DType) -> Mapping[Pattern, DType]:
    """Return the dtype of each leaf of a left side whose rule speaks of `dtype`."""
    foreign = dict(foreign_parts(p))
    found = {q: foreign.get(q, dtype) for q in leaf_patterns(p)}
    for number, of in numbers_of(p):
        if of is not None:
            found[number] = of if isinstance(of, DType) else found[of]
    return found


def takes(p: Pattern, dtype: DType) -> bool:
    """Whether the operators of a left side take their operands, if its rule speaks of `dtype`."""
    leaves = leaf_dtypes(p, dtype)
    for q in walk(p):
        accepts = OPERATORS[q.op].takes if isinstance(q, Apply) else None
        if not isinstance(q, Apply) or accepts is None:
            continue
        for i, a in enumerate(q.args):
            of = source(a, ())
            found = of if isinstance(of, DType) else leaves.get(of or a, dtype)
            if _own(q.op, i) is None and not accepts(found):
                return False
    return True


def _converts(p: Pattern) -> bool:
    return isinstance(p, Apply) and OPERATORS[p.op].result == "other"
