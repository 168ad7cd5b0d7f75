"""Why a rule did not fire: the place where it came nearest, and what was missing there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from egraph_fusion.egraph.program import family_name
from egraph_fusion.egraph.state import OUT, ENode
from egraph_fusion.errors import REFUSALS
from egraph_fusion.experiment.conditions import unmet
from egraph_fusion.experiment.expressions import shown
from egraph_fusion.experiment.matching import (
    EMPTY,
    Binding,
    attributes_of_match,
    fits,
    matches,
)
from egraph_fusion.experiment.printing import Printer
from egraph_fusion.experiment.right_sides import right_side
from egraph_fusion.experiment.view import View, key, op_of
from egraph_fusion.rulesets.pattern import (
    Apply,
    Number,
    Output,
    Pattern,
    Tensor,
    operators_of,
)
from egraph_fusion.rulesets.rule import Rule

ENDED = "its conditions hold, but the run ended before it was applied here"
LEFT_OUT = "it was not among the rules of this run"
CLOSEST = (0, 1, 0)
"""The rank of a match that one condition keeps back: none is nearer."""
STEPS = 50_000
"""Looks into a class that the search for the nearest place of one rule may take."""
TRIAL = 50
"""Looks that trying the conditions of a match is worth."""
SHOWN = 3
"""Missing things that are told of one place."""


@dataclass(frozen=True)
class Miss:
    """What kept a rule from firing: at `node` (text of the e-node), `reasons` in words.

    `kind` is "guard" (the left side matches, a condition does not hold), "operand" (a part of the
    left side does not match), "absent" (its operators do not occur), "level" (above the run's
    numerics), "left out" (not among the run's rules) or "" for a rule that fired `hits` times.
    """

    rule: str
    kind: str
    node: str = ""
    reasons: tuple[str, ...] = ()
    hits: int = 0

    def __bool__(self) -> bool:
        """Whether the rule did not fire."""
        return bool(self.kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the miss as plain values."""
        return {**asdict(self), "fired": not self, "reasons": list(self.reasons)}

    def __str__(self) -> str:
        """Print in a sentence."""
        if not self.kind:
            return f"{self.rule} fired: hits {self.hits}"
        where = f" nearest at {self.node}:" if self.node else ""
        return f"{self.rule} did not fire;{where} {'; '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class _Near:
    """How much of a left side a class matches, and what does not."""

    score: int
    binding: Binding
    reasons: tuple[str, ...]

    @property
    def rank(self) -> tuple[int, int]:
        return (len(self.reasons), -self.score)


def left_out(miss: Miss) -> Miss:
    """Return what is to be said of a rule that was none of the run's: that, and what else fails."""
    if ENDED in miss.reasons:
        return replace(miss, kind="left out", reasons=(f"{LEFT_OUT}; it would fire here",))
    return replace(miss, reasons=(LEFT_OUT, *miss.reasons))


def nearest_miss(view: View, printer: Printer, instances: Sequence[Rule], tame: bool) -> Miss:
    """Return where the instances of one rule came nearest to firing, and why none did."""
    present = set(view.by_op)
    name = family_name(instances[0].name)
    possible = [r for r in instances if operators_of(r.lhs) & present]
    looks = _Counted(view.loaded, view.state, _Steps(STEPS))
    best, ended = _nearest_of(p for r in possible for p in _places(view, looks, r, tame))
    rest = (f"the search ended after {STEPS} steps, another place may be nearer",) * ended
    if best is None and ended:
        return Miss(name, "operand", "", rest)
    if best is None:
        wanted = sorted({_top(r) for r in instances})
        names = ", ".join(wanted[:SHOWN]) + (", ..." if len(wanted) > SHOWN else "")
        return Miss(name, "absent", "", (f"there is no {names} here",))
    if best.binding is not None:
        node = shown(printer.node(best.binding.nodes[best.rule.lhs]))
        reasons = _unheld(view, best.rule, best.binding, tame, printer.text)
        return Miss(name, "guard", node, (*_few(reasons), *rest))
    near = _nearest(view, printer.text, best.rule.lhs, best.eclass, EMPTY)
    top = near.binding.nodes.get(best.rule.lhs)
    node = printer.text(best.eclass) if top is None else shown(printer.node(top))
    return Miss(name, "operand", node, (*_few(near.reasons), *rest))


@dataclass(frozen=True, slots=True)
class _Place:
    """A class where a rule came near: all of its left side matches if there is a `binding`."""

    rank: tuple[int, int, int]
    rule: Rule
    eclass: int
    binding: Binding | None = None


class _SpentError(Exception):
    """All steps of a search are taken."""


@dataclass(slots=True)
class _Steps:
    """Steps that are left to a search: a count, so that what it finds depends on no clock."""

    left: int

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _SpentError


@dataclass(frozen=True)
class _Counted(View):
    """A view in which every look into a class is a step."""

    steps: _Steps

    def members(self, eclass: int) -> Sequence[ENode]:
        self.steps.take(1)
        return super().members(eclass)


def _nearest_of(places: Iterable[_Place]) -> tuple[_Place | None, bool]:
    """Return the first of the nearest places, and whether the steps ended before all were seen.

    What comes after one of CLOSEST is not looked at.
    """
    best: _Place | None = None
    try:
        for p in places:
            if best is None or p.rank < best.rank:
                best = p
            if best.rank <= CLOSEST:
                break
    except _SpentError:
        return best, True
    return best, False


def _places(view: View, looks: _Counted, r: Rule, tame: bool) -> Iterator[_Place]:
    """Yield where a rule came near; matches whose conditions fail rank before partial matches."""
    full = False
    roots = view.by_op.get(_top(r), ())
    for eclass in roots:
        for b in matches(looks, r.lhs, eclass):
            full = True
            looks.steps.take(TRIAL)
            yield _Place((0, len(_unheld(view, r, b, tame, str)), 0), r, eclass, b)
    if full:
        return
    for eclass in roots:
        yield _Place((1, *_nearest(looks, str, r.lhs, eclass, EMPTY).rank), r, eclass)


def _unheld(
    view: View, r: Rule, b: Binding, tame: bool, text: Callable[[int], str]
) -> tuple[str, ...]:
    """Return what keeps a match from firing; `text` prints a class."""
    return tuple(unmet(view, r, b, tame, text=text)) or _right_refused(view, r, b)


def _top(r: Rule) -> str:
    match r.lhs:
        case Output():
            return OUT
        case Apply(op):
            return op
        case _:
            return ""


def _few(reasons: Sequence[str]) -> tuple[str, ...]:
    left = len(reasons) - SHOWN
    return (*reasons[:SHOWN], *((f"and {left} more",) if left > 0 else ()))


def _right_refused(view: View, r: Rule, b: Binding) -> tuple[str, ...]:
    """Return why the right side of a match whose conditions hold cannot be."""
    try:
        made = right_side(view, r, b, lambda n: view.by_key[key(n)])
    except KeyError:
        return (ENDED,)
    except REFUSALS as e:
        return (f"the right side cannot be made: {e}",)
    kind, wanted = view.type_of(made), view.type_of(b.classes[r.lhs])
    if kind != wanted:
        return (f"the right side is {kind or 'of no type'}, and its left side {wanted}",)
    return ("it holds here, and the term it makes is known already",)


def _nearest(view: View, text: Callable[[int], str], p: Pattern, eclass: int, b: Binding) -> _Near:
    """Return the greedy best match of `p` against a class."""
    if p in b.classes:
        if b.classes[p] == eclass:
            return _Near(1, b, ())
        both = f"{text(b.classes[p])} and {text(eclass)}"
        return _Near(0, b, (f"{p} stands twice in the rule, and here for {both}",))
    match p:
        case Tensor():
            return _Near(1, b.bound(p, eclass), ())
        case Number(value):
            if view.splat(eclass) == view.interner.number(value):
                return _Near(1, b.bound(p, eclass), ())
            reason = f"the rule wants the constant {value} where {text(eclass)} stands"
            return _Near(0, b.bound(p, eclass), (reason,))
        case _:
            found = list(_nodes(view, text, p, eclass, b))
            if found:
                return min(found, key=lambda n: n.rank)
            return _Near(0, b, (_wanted(view, text, p, eclass),))


def _wanted(view: View, text: Callable[[int], str], p: Pattern, eclass: int) -> str:
    """Say what a left side wants where nothing of its shape stands."""
    if isinstance(p, Apply):
        counts = {len(n.children) for n in view.members(eclass) if op_of(n) == p.op}
        if counts - {len(p.args)}:
            have = ", ".join(map(str, sorted(counts)))
            return f"the rule wants {p.op} of {len(p.args)} operands, {have} are here"
    return f"the rule wants {p} where {text(eclass)} stands"


def _nodes(
    view: View, text: Callable[[int], str], p: Pattern, eclass: int, b: Binding
) -> Iterator[_Near]:
    bundle = isinstance(p, Output)
    of = p.of if isinstance(p, Output) else p
    assert isinstance(of, Apply)
    for outer in view.members(eclass):
        if isinstance(p, Output) and (outer.constructor, outer.attrs) != (OUT, (p.index,)):
            continue
        inner = view.members(outer.children[0]) if bundle else (outer,)
        for n in inner:
            if not fits(of, n.constructor, bundle):
                continue
            near = _Near(2, b, ())
            for operand, child in zip(of.args, n.children, strict=True):
                part = _nearest(view, text, operand, child, near.binding)
                near = _Near(near.score + part.score, part.binding, near.reasons + part.reasons)
            chosen = near.binding.applied(p, outer, {})
            attrs = {} if near.reasons else attributes_of_match(view, of, n, chosen)
            reasons = near.reasons + ((attrs,) if isinstance(attrs, str) else ())
            bound = chosen.applied(of, n, attrs if isinstance(attrs, dict) else {})
            yield _Near(near.score, bound.bound(p, eclass), reasons)
