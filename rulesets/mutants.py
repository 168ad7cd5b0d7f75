"""Wrong rules made from right ones: each is changed in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from egraph_fusion.errors import RuleError
from egraph_fusion.rulesets.catalogue import ALL
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import (
    Apply,
    Attribute,
    AttrTerm,
    Computed,
    Number,
    Output,
    Pattern,
    Tensor,
    walk,
)
from egraph_fusion.rulesets.rule import Rule

SIMILAR = (
    ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"),
    ("Exp", "Log", "Sqrt", "Abs", "Neg", "Reciprocal", "Relu", "Tanh", "Sigmoid", "Floor"),
    ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"),
    ("And", "Or", "Xor"),
    ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    ("MaxPool", "AveragePool"),
    ("GlobalMaxPool", "GlobalAveragePool"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
)
COMMUTATIVE = ("Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "Sum", "Mean")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule changed in one place; `kind` says how, `dropped` is the guard that was left out."""

    kind: str
    rule: Rule
    dropped: Guard | None = None


def mutants(rules: Sequence[Rule] = ALL) -> list[Mutant]:
    """Return every wrong candidate, each once, in a fixed order."""
    found: dict[str, Mutant] = {}
    originals = {f"{r.lhs} {r.rhs} {r.when} {r.level} {r.dtypes}" for r in rules}
    for r in rules:
        for m in _mutated(r):
            key = f"{m.rule.lhs} {m.rule.rhs} {m.rule.when} {m.rule.level} {m.rule.dtypes}"
            if key not in originals:
                found.setdefault(key, m)
    return list(found.values())


def sample(found: Sequence[Mutant], count: int, seed: int = 0) -> list[Mutant]:
    """Return `count` mutants, from every kind alike as far as there are enough."""
    rng = Random(seed)
    by_kind: dict[str, list[Mutant]] = {}
    for m in found:
        by_kind.setdefault(m.kind, []).append(m)
    for group in by_kind.values():
        rng.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(by_kind.values()):
        chosen += [group.pop() for group in by_kind.values() if group]
    return chosen[:count]


def _mutated(r: Rule) -> Iterator[Mutant]:
    for kind, change in CHANGES.items():
        for side in change(r.rhs):
            yield from _built(kind, r, rhs=side)
    for i, g in enumerate(r.when):
        if g.kind.form is not Form.GRAPH and not g.gain:
            for m in _built("guard", r, when=r.when[:i] + r.when[i + 1 :]):
                yield replace(m, dropped=g)
    if r.level != "exact":
        yield from _built("level", r, level="exact")
    for wider in ("numeric", "any", "int", "bool"):
        if r.dtypes != wider:
            yield from _built("dtypes", r, dtypes=wider)


def _built(kind: str, r: Rule, **changed: object) -> Iterator[Mutant]:
    """Yield the changed rule unless it is malformed."""
    try:
        yield Mutant(kind, replace(r, name=f"{r.name}~{kind}", both=False, **changed))  # type: ignore[arg-type]
    except RuleError:
        return


def _everywhere(p: Pattern, change: Callable[[Pattern], Iterator[Pattern]]) -> Iterator[Pattern]:
    """Yield `p` with `change` made at each of its sub-terms in turn."""
    yield from change(p)
    if isinstance(p, Apply):
        for i, a in enumerate(p.args):
            for b in _everywhere(a, change):
                yield replace(p, args=(*p.args[:i], b, *p.args[i + 1 :]))
    if isinstance(p, Output):
        for b in _everywhere(p.of, change):
            yield Output(b, p.index)


def _operators(p: Pattern) -> Iterator[Pattern]:
    if isinstance(p, Apply):
        for group in SIMILAR:
            if p.op in group:
                yield from (replace(p, op=other) for other in group if other != p.op)


def _operands(p: Pattern) -> Iterator[Pattern]:
    if not isinstance(p, Apply) or p.op in COMMUTATIVE or p.op.startswith("?"):
        return
    if len(p.args) > 1 and p.args[-1] != p.args[-2]:
        yield replace(p, args=(*p.args[:-2], p.args[-1], p.args[-2]))


def _constants(p: Pattern) -> Iterator[Pattern]:
    if isinstance(p, Number):
        yield from (Number(v) for v in (p.value + 1, -p.value, p.value * 2) if v != p.value)


def _attributes(p: Pattern) -> Iterator[Pattern]:
    if not isinstance(p, Apply):
        return
    for i, (name, value) in enumerate(p.attrs):
        for other in _other_values(name, value):
            yield replace(p, attrs=(*p.attrs[:i], (name, other), *p.attrs[i + 1 :]))


def _other_values(name: str, value: AttrTerm) -> Iterator[AttrTerm]:
    match value:
        case Computed(args=args):
            yield from (a for a in args if isinstance(a, Attribute))
        case int() if name == "keepdims" or name.startswith("trans"):
            yield 1 - value
        case int():
            yield from (value + 1, value - 1)
        case "LEFT":
            yield "RIGHT"
        case Attribute() if name == "axes":
            yield from ((0,), (-1,))
        case Attribute() if name == "axis":
            yield from (0, -1)
        case Attribute() if name == "keepdims":
            yield from (0, 1)
        case _:
            return


def _signs(p: Pattern) -> Iterator[Pattern]:
    if isinstance(p, Apply | Tensor):
        yield Apply("Neg", (p,))


def _variables(side: Pattern) -> Iterator[Pattern]:
    names = [q for q in dict.fromkeys(walk(side)) if isinstance(q, Tensor)]

    def change(p: Pattern) -> Iterator[Pattern]:
        if isinstance(p, Tensor):
            yield from (q for q in names if q != p)

    yield from _everywhere(side, change)


CHANGES: dict[str, Callable[[Pattern], Iterator[Pattern]]] = {
    "operator": lambda p: _everywhere(p, _operators),
    "operands": lambda p: _everywhere(p, _operands),
    "constant": lambda p: _everywhere(p, _constants),
    "attribute": lambda p: _everywhere(p, _attributes),
    "sign": lambda p: _everywhere(p, _signs),
    "variable": _variables,
}
"""How right sides are changed; guards, level and dtypes are changed besides."""
