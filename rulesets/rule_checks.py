"""What is wrong with a rule: names, operators, attributes, guards, variables that nothing binds."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast, get_args

from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.guards import GUARDS, Form, Guard
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Many,
    Output,
    Pattern,
    Scalar,
    Tensor,
    attribute_terms,
    children,
    walk,
)

if TYPE_CHECKING:
    from egraph_fusion.rulesets.rule import Rule

Level = Literal["exact", "finite", "real"]
DTypes = Literal["float", "int", "uint", "bool", "numeric", "any"]
LEVELS: tuple[str, ...] = get_args(Level)
DTYPES: tuple[str, ...] = get_args(DTypes)
DEEPEST = 100
"""Operators on a path from the root of a rule's side to its leaves."""


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not name or name != name.strip():
        return False
    return name.isprintable() and not {'"', "\\"} & {*name}


def depth_of(p: Pattern) -> int:
    """Return how many operators stand above the deepest leaf."""
    depth, level = 0, [p]
    while level and depth <= DEEPEST:
        level = list({id(c): c for q in level for c in children(q)}.values())
        depth += 1
    return depth


def bound_attributes(p: Pattern) -> frozenset[str]:
    """Return the attribute variables that matching `p` binds."""
    return frozenset(t.name for t in attribute_terms(p) if isinstance(t, Attribute))


def problems(r: Rule) -> Iterator[str]:
    """Yield what is wrong with a rule."""
    if not _is_name(r.name):
        yield "a name is printable text without quotes, backslashes or space at its ends"
        return
    if depth_of(r.lhs) > DEEPEST or depth_of(r.rhs) > DEEPEST:
        yield f"its terms are more than {DEEPEST} operators deep"
        return
    if r.level not in LEVELS:
        yield f"level {r.level!r} is none of {', '.join(LEVELS)}"
    if r.dtypes not in DTYPES:
        yield f"dtypes {r.dtypes!r} is none of {', '.join(DTYPES)}"
    if not isinstance(r.lhs, Apply | Output):
        yield f"the left side must apply an operator, got {r.lhs}"
    yield from (p for side in (r.lhs, r.rhs) for p in _malformed(side))
    yield from _unbound(r, r.lhs, r.rhs)
    if r.both:
        yield from _unbound(r, r.rhs, r.lhs)
    for g in r.when:
        yield from _guard_problems(r, g)


def _malformed(side: Pattern) -> Iterator[str]:
    for q in walk(side):
        if isinstance(q, Output):
            yield from _wrong_output(q)
        if not isinstance(q, Apply) or q.op.startswith("?"):
            continue
        if q.op not in OPERATORS:
            yield f"no operator is called {q.op!r}"
            return
        low, high = OPERATORS[q.op].arity
        many = any(isinstance(a, Many) for a in q.args)
        if not many and not low <= len(q.args) <= (len(q.args) if high is None else high):
            yield f"{q.op} takes {low} to {high} operands, got {len(q.args)} in {q}"
        names = {a.name for a in OPERATORS[q.op].attrs}
        for name, value in q.attrs:
            if name not in names:
                yield f"{q.op} has no attribute {name!r}; it has {sorted(names)}"
            elif not isinstance(value, Attribute | Computed):
                yield from _wrong_value(q.op, name, value)


def _wrong_output(p: Output) -> Iterator[str]:
    of = p.of
    if not isinstance(of, Apply):
        yield f"{p}: only operators have outputs to choose from"
        return
    count = OPERATORS[of.op].outputs if of.op in OPERATORS else None
    parts = dict(of.attrs).get("split")
    if of.op == "Split" and isinstance(parts, tuple):
        count = len(parts)
    if of.op == "Split" and parts is None and of.rest is None:
        yield f"{p}: Split needs the sizes of its outputs, as split=(1, 2), split=s or attrs=p"
        return
    index = cast("object", p.index)
    if not isinstance(index, int) or index < 0 or (count is not None and index >= count):
        having = "an index counts from 0" if count is None else f"{of.op} has {count} outputs"
        yield f"{p}: {having}"


KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "ints": (int,),
    "float": (int, float),
    "floats": (int, float),
    "str": (str, bytes),
    "strs": (str, bytes),
}
"""What a literal of each kind of attribute is, or holds."""


def _wrong_value(op: str, name: str, value: object) -> Iterator[str]:
    kind = OPERATORS[op].attr(name).kind
    several = kind.endswith("s")
    items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    fitting = all(isinstance(v, KINDS[kind]) for v in items)
    if isinstance(value, tuple) is not several or not fitting:
        wanted = f"a tuple of {kind}" if several else f"one {kind}"
        yield f"{op}: {name} takes {wanted}, got {value!r}"
    elif (op, name) in DTYPED and value not in {d.value for d in DType}:
        yield f"{op}: no dtype is called {value!r}"


DTYPED = (("Cast", "to"),)
"""Attributes that name a dtype."""


def _unbound(r: Rule, lhs: Pattern, rhs: Pattern) -> Iterator[str]:
    del r
    have = {q for q in walk(lhs) if isinstance(q, Tensor | Many)}
    for q in walk(rhs):
        if isinstance(q, Tensor | Many) and q not in have:
            yield f"the right side uses {q}, which the left side does not bind"
    bound = bound_attributes(lhs)
    for term in attribute_terms(rhs):
        for name in _names(term):
            if name not in bound:
                yield f"the right side uses attribute {name}, which the left side does not bind"
        if isinstance(term, Computed):
            yield from _foreign(term.args, lhs)
    for term in attribute_terms(lhs):
        if isinstance(term, Computed):
            yield f"the left side cannot compute an attribute: {term}"
    if any(isinstance(q, Scalar) for q in walk(lhs)):
        yield "the left side cannot match scalar(...): match a tensor and guard it"


def _names(term: AttrTerm) -> Iterator[str]:
    if isinstance(term, Attribute):
        yield term.name
    if isinstance(term, Computed):
        yield from (a.name for a in term.args if isinstance(a, Attribute))


def _foreign(args: Sequence[object], lhs: Pattern) -> Iterator[str]:
    inside = set(walk(lhs))
    for arg in args:
        if isinstance(arg, Pattern) and arg not in inside:
            yield f"{arg} is not part of the left side {lhs}"


def _guard_problems(r: Rule, g: Guard) -> Iterator[str]:
    if g.name not in GUARDS:
        yield f"no guard is called {g.name!r}"
        return
    for arg, shape in zip(g.args, _takes_shapes(g.name), strict=False):
        if shape is not None and isinstance(arg, Pattern) is not shape:
            yield f"guard {g}: {arg!r} is no {'tensor' if shape else 'attribute'}"
        elif not isinstance(arg, Pattern | Attribute | Computed | int | float | tuple):
            yield f"guard {g} cannot look at {arg!r}"
    for missing in _foreign(g.args, r.lhs):
        yield f"guard {g}: {missing}"
    for name in g.attributes:
        if name not in bound_attributes(r.lhs):
            yield f"guard {g}: attribute {name} is not bound by the left side"
    if g.kind.form is not Form.TYPE and not all(isinstance(a, Pattern) for a in g.args):
        yield f"guard {g} takes tensors"


@lru_cache(maxsize=256)
def _takes_shapes(guard: str) -> tuple[bool | None, ...]:
    """Return for each argument of a guard whether it is a tensor; None where both may be."""
    kind = GUARDS[guard]
    if kind.form is not Form.TYPE:
        return (True,) * (kind.arity or 0)
    given = [str(p.annotation) for p in inspect.signature(kind.test).parameters.values()]
    return tuple({"Shape": True, "AttrValue": False, "int": False}.get(a) for a in given)
