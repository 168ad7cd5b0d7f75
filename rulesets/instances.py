"""Rules written out: one for every operator of a schema, and for every number of operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.rulesets.guards import Guard
from egraph_fusion.rulesets.pattern import (
    Apply,
    AttrTerm,
    Computed,
    Many,
    Output,
    Pattern,
    Tensor,
    walk,
)
from egraph_fusion.rulesets.schemas import members

if TYPE_CHECKING:
    from egraph_fusion.rulesets.rule import Rule


def per_operator(r: Rule) -> Iterator[Rule]:
    """Yield the rule for every operator that its operator variables stand for."""
    variables = {q.op for q in walk(r.lhs) if isinstance(q, Apply) and q.op.startswith("?")}
    if not variables:
        yield r
        return
    for case in members(min(variables)):
        named = replace(
            r,
            name=f"{r.name}[{next(iter(case.values()))}]",
            lhs=_renamed(r.lhs, case),
            rhs=_renamed(r.rhs, case),
            when=_guards(r, partial(_renamed, case=case)),
        )
        yield from per_operator(named)


def _renamed(p: Pattern, case: Mapping[str, str]) -> Pattern:
    match p:
        case Apply(name, args):
            inner = tuple(_renamed(a, case) for a in args)
            attrs = tuple((k, _renamed_term(v, case)) for k, v in p.attrs)
            return replace(p, op=case.get(name, name), args=inner, attrs=attrs)
        case Output(of, index):
            return Output(_renamed(of, case), index)
        case _:
            return p


def _renamed_term(term: AttrTerm, case: Mapping[str, str]) -> AttrTerm:
    if not isinstance(term, Computed):
        return term
    args = (_renamed(a, case) if isinstance(a, Pattern) else a for a in term.args)
    return replace(term, args=tuple(args))


def per_length(r: Rule, lengths: Sequence[int]) -> Iterator[Rule]:
    """Yield the rule with `many` variables written out to these lengths, and to shorter ones.

    Shorter ones are those that the variables' own least length allows.
    """
    least = max((q.least for q in walk(r.lhs) if isinstance(q, Many)), default=0)
    if not least:
        yield r
        return
    for n in sorted({*range(least, min(lengths)), *(n for n in lengths if n >= least)}):
        yield replace(
            r,
            name=f"{r.name}[{n}]",
            lhs=_spread_one(r.lhs, n),
            rhs=_spread_one(r.rhs, n),
            when=_guards(r, partial(_spread_one, n=n)),
        )


def _spread(p: Pattern, n: int) -> tuple[Pattern, ...]:
    """Return `p` with every n-ary variable written out; a mapped operator gives n terms."""
    match p:
        case Many(name):
            return tuple(Tensor(f"{name}{i}") for i in range(n))
        case Output(of, index):
            return (Output(_spread(of, n)[0], index),)
        case Apply(op, args):
            spread = [_spread(a, n) for a in args]
            mapped = OPERATORS[op].arity[1] is not None
            if mapped and any(len(s) > 1 for s in spread):
                rows = [tuple(s[i if len(s) > 1 else 0] for s in spread) for i in range(n)]
                return tuple(replace(p, args=row) for row in rows)
            return (replace(p, args=tuple(q for s in spread for q in s)),)
        case _:
            return (p,)


def _spread_one(p: Pattern, n: int) -> Pattern:
    return _spread(p, n)[0]


def _guards(r: Rule, change: Callable[[Pattern], Pattern]) -> tuple[Guard, ...]:
    return tuple(
        replace(g, args=tuple(change(a) if isinstance(a, Pattern) else a for a in g.args))
        for g in r.when
    )
