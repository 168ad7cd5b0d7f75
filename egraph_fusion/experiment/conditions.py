"""What keeps a rule from firing where its left side matches, in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from egraph_fusion.egraph.range_check import fits
from egraph_fusion.egraph.rule_match import GROUPS_OF, checked_operands
from egraph_fusion.egraph.value_guards import VALUE_FORMS
from egraph_fusion.errors import REFUSALS
from egraph_fusion.experiment.matching import (
    Binding,
    argument,
    class_of,
)
from egraph_fusion.experiment.view import Terms
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.number_sizes import unsaid
from egraph_fusion.rulesets.pattern import Apply, Attribute, Pattern, Tensor, walk
from egraph_fusion.rulesets.rule import Rule


def unmet(
    terms: Terms,
    r: Rule,
    b: Binding,
    tame: bool,
    control: bool = True,
    text: Callable[[int], str] = str,
) -> Iterator[str]:
    """Yield what keeps a rule whose left side matches from firing, in words.

    With `tame`, operands must not depend on huge constants (below level "real").  With `control`,
    also what only keeps the e-graph small (work on constants alone, and regrouping of a term that
    equals one of its own operands), and what the rule would make out of its dtype's range.  `text`
    prints a class.
    """
    yield from _wrong_dtypes(terms, r, b, text)
    if tame and r.level != "exact":
        for p, c in b.classes.items():
            if isinstance(p, Tensor) and not terms.holds("tame", c):
                yield f"{text(c)} has elements so large that a new intermediate might overflow"
        if control:
            yield from _out_of_range(terms, r, b)
    for g in (*r.when, *unsaid(r.lhs)):
        yield from _unmet_guard(terms, g, b, control, text)
    if control:
        yield from _curbed(terms, r, b, text)


def _out_of_range(terms: Terms, r: Rule, b: Binding) -> Iterator[str]:
    operands = {p.name: c for p, c in b.classes.items() if isinstance(p, Tensor)}
    types = {name: terms.type_of(c) for name, c in operands.items()}
    if not fits(r, {name: terms.interval(c) for name, c in operands.items()}, types):
        yield "as far as constants tell, what the rule makes overflows or vanishes"


def _wrong_dtypes(terms: Terms, r: Rule, b: Binding, text: Callable[[int], str]) -> Iterator[str]:
    group = GROUPS_OF[r.dtypes]
    for p in checked_operands(r):
        eclass = class_of(p, b)
        kind = terms.type_of(eclass)
        if kind is None:
            yield f"the type of {text(eclass)} is not known"
        elif group is not None and not in_group(group, kind.dtype):
            yield f"the rule is for {r.dtypes} tensors, and {text(eclass)} is {kind}"


def in_group(group: int, dtype: DType) -> bool:
    """Whether a dtype is in one of the groups of GROUPS_OF."""
    unsigned = dtype.value.startswith("u")
    belongs = (
        dtype.is_float,
        dtype.is_integer and not unsigned,
        dtype.is_integer and unsigned,
        dtype is DType.BOOL,
        dtype.is_float or dtype.is_integer,
    )
    return belongs[group]


def _unmet_guard(
    terms: Terms, g: Guard, b: Binding, control: bool, text: Callable[[int], str]
) -> Iterator[str]:
    if g.kind.form is Form.GRAPH and not control:
        return
    if g.kind.form in (Form.VALUE, Form.GRAPH):
        eclass, *others = (b.classes[p] for p in g.patterns)
        if not VALUE_FORMS[g.name].holds(terms, eclass, *others):
            yield f"{g} is not known: {_known(terms, g, eclass, text(eclass))}"
        return
    try:
        if g.kind.form is Form.DTYPE:
            kinds = [terms.type_of(b.classes[p]) for p in g.patterns]
            seen: list[Any] = [None if k is None else k.dtype for k in kinds]
        else:
            seen = [argument(terms, a, b) for a in g.args]
        if not g.kind.test(*seen):
            said = SAID.get(g.name, "{} does not hold").format(g)
            yield f"{said}: {_seen(g, seen, b, text)}"
    except REFUSALS as e:
        yield f"{g} cannot be decided: {e}"


def _seen(g: Guard, seen: Sequence[Any], b: Binding, text: Callable[[int], str]) -> str:
    parts: list[str] = []
    for a, s in zip(g.args, seen, strict=True):
        if isinstance(a, Pattern):
            parts.append(f"{a} is {text(b.classes[a])} of {_plain(s)}")
        elif isinstance(a, Attribute):
            parts.append(f"{a} is {_plain(s)}")
    return ", ".join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, DType):
        return value.value
    if isinstance(value, tuple):
        return f"[{','.join(map(str, cast('tuple[object, ...]', value)))}]"
    return str(value)


SAID = {"unenlarged": "a number of a left side enlarges nothing, so {} has to hold"}
"""How a guard that does not hold is told of, if a rule has it without saying so."""


def _known(terms: Terms, g: Guard, eclass: int, text: str) -> str:
    if VALUE_FORMS[g.name].otherwise:
        return f"{text} {VALUE_FORMS[g.name].otherwise}"
    low, high = terms.interval(eclass)
    bounds = "has no known bounds" if low == -high == -math.inf else f"lies in [{low:g}, {high:g}]"
    return f"{text} {bounds}"


def _curbed(terms: Terms, r: Rule, b: Binding, text: Callable[[int], str]) -> Iterator[str]:
    root = b.classes[r.lhs]
    if r.dtypes != "any" and not terms.holds("varies", root):
        yield f"{text(root)} is computed from constants alone, so it is folded instead"
    if r.family == "distributive" or not isinstance(r.rhs, Apply):
        return
    parts = [p for p in dict.fromkeys(walk(r.lhs)) if isinstance(p, Apply) and p in b.classes]
    for p in parts:
        for q in dict.fromkeys(walk(p)):
            if q != p and b.classes.get(q) == b.classes[p]:
                yield f"{p} equals its own part {q}, which would regroup without end"
