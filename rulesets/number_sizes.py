"""Numbers of a left side enlarge nothing: guards that every rule has without saying so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from egraph_fusion.ir.ops import OPERATORS, Kind
from egraph_fusion.rulesets.guard_kinds import Guard
from egraph_fusion.rulesets.guards_operands import unenlarged
from egraph_fusion.rulesets.pattern import Apply, Number, Pattern, walk


@lru_cache(maxsize=1024)
def unsaid(lhs: Pattern) -> tuple[Guard, ...]:
    """Return what holds of a left side since the numbers in it, of any shape, enlarge nothing.

    What is computed from numbers alone is a number, too.
    """
    return tuple(_guards(lhs))


def _guards(lhs: Pattern) -> Iterator[Guard]:
    for p in dict.fromkeys(walk(lhs)):
        if not isinstance(p, Apply) or not _broadcasts(p):
            continue
        others = [a for a in p.args if not _is_number(a)]
        if 0 < len(others) < len(p.args):
            yield unenlarged(p, *others)


def _is_number(p: Pattern) -> bool:
    whole = isinstance(p, Apply) and _broadcasts(p) and all(map(_is_number, p.args))
    return whole or isinstance(p, Number)


def _broadcasts(p: Apply) -> bool:
    return OPERATORS[p.op].kind is Kind.ELEMENTWISE
