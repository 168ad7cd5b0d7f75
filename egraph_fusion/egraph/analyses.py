"""Egglog rules, one set per constructor: types, constness, ranges, integers and equal values."""

from __future__ import annotations

from egraph_fusion.egraph.demand import Demand, interval_demand, type_demand
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import OPAQUE, Constructor
from egraph_fusion.ir.ops import OPERATORS, Law

SPREADS = ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Expand", "Flatten", "Tile")
"""Operators whose result has one value everywhere if the operand has."""


def demands(interner: Interner, c: Constructor) -> list[Demand]:
    """Return what the analyses of one constructor ask of Python."""
    if c.op == OPAQUE:
        return []
    found = [type_demand(interner, c)]
    if has_interval(c):
        found.append(interval_demand(interner, c))
    return found


def has_interval(c: Constructor) -> bool:
    """Whether the registry bounds the results of this constructor."""
    return c.op != OPAQUE and not c.outputs and OPERATORS[c.op].interval is not None


def rules(c: Constructor, constants: bool = True) -> list[str]:
    """Return the analysis rules of one constructor, in a graph with or without constants."""
    if c.op == OPAQUE:
        return []
    lines = [*_types(c), *_inherited(c, "constant"), *_inherited(c, "tame"), *_varying(c)]
    lines += _integers(c)
    if has_interval(c):
        lines += [*_intervals(c), *(_vague(c) if constants else ())]
    else:
        lines += _calm(c)
    if c.op in SPREADS:
        if constants:
            lines.append(_line(c, ["(vague x0)"], ["(vague e)"], "types", "vague"))
        lines += [_line(c, ["(= v (lo x0))"], ["(set (lo e) v)"], "facts", "lo")]
        lines += [_line(c, ["(= v (hi x0))"], ["(set (hi e) v)"], "facts", "hi")]
        for fact in ("splat", "exactly"):
            lines.append(_line(c, [f"(= v ({fact} x0))"], [f"(set ({fact} e) v)"], "facts", fact))
    if c.op == "Mul" and c.arity == 2:
        lines.append(
            '(rule ((= e (Mul_2 x x))) ((set (lo e) 0.0)) :ruleset facts :name "square-nonneg")'
        )
    return lines


def _line(c: Constructor, when: list[str], then: list[str], ruleset: str, what: str) -> str:
    xs, attrs = c.variables()
    match = f"(= e {c.term(xs, attrs)})"
    return (
        f"(rule ({' '.join([match, *when])}) ({' '.join(then)})"
        f' :ruleset {ruleset} :name "{what}-{c.name}")'
    )


def _types(c: Constructor) -> list[str]:
    xs, attrs = c.variables()
    have = [f"(= t{i} (ty {x}))" for i, x in enumerate(xs)]
    key = " ".join([*(f"t{i}" for i in range(c.arity)), *attrs])
    got = f"(= t (got-ty-{c.name} {key}))"
    found = ["(set (ty e) t)"]
    if not c.outputs:
        found += ["(set (lo e) -inf)", "(set (hi e) inf)"]
    return [
        _line(c, have, [f"(want-ty-{c.name} {key})"], "types", "want-ty"),
        _line(c, [*have, got], found, "types", "ty"),
    ]


def _inherited(c: Constructor, fact: str) -> list[str]:
    xs, _ = c.variables()
    return [_line(c, [f"({fact} {x})" for x in xs], [f"({fact} e)"], "types", fact)]


def _integers(c: Constructor) -> list[str]:
    """Integers are what the registry says; as of intervals, one member of a class tells of all.

    The others are equal to it over the reals, and in floats to rounding: where one is off an
    integer n by that, the floor of it is n or n - 1, and it is nearer to n itself.
    """
    operator = OPERATORS[c.op]
    if Law.INTEGER in operator.laws:
        return [_line(c, [], ["(integer e)"], "types", "integer")]
    if not operator.preserves_integers:
        return []
    xs, attrs = c.variables()
    columns = zip(c.columns, attrs, strict=True)
    have = [f"(integer {x})" for x in xs]
    have += [f"(whole {a})" for name, a in columns if name in operator.factors]
    return [_line(c, have, ["(integer e)"], "types", "integer")]


def _varying(c: Constructor) -> list[str]:
    """A node varies from run to run if one of its operands does."""
    xs, _ = c.variables()
    then = ["(varies e)", "(set (calm e) 1)"]
    return [_line(c, [f"(varies {x})"], then, "types", f"varies-{x}") for x in xs]


def _calm(c: Constructor) -> list[str]:
    """A constant of unknown bounds is calm if what it is computed from is."""
    xs, _ = c.variables()
    all_calm = ["(constant e)", *(f"(= 1 (calm {x}))" for x in xs)]
    wild = [["(constant e)", f"(= 0 (calm {x}))"] for x in xs]
    then = ["(set (calm e) 1)", *(["(vague e)"] if c.op not in SPREADS else [])]
    return [
        _line(c, all_calm, then, "types", "calm"),
        *(_line(c, w, ["(set (calm e) 0)"], "types", f"wild-{i}") for i, w in enumerate(wild)),
    ]


def _vague(c: Constructor) -> list[str]:
    """A constant is also calm as above where the registry can't bound it.

    It can't if an operand is of unknown bounds, or if it does not know how many are added up.
    """
    xs, _ = c.variables()
    all_calm = ["(constant e)", *(f"(= 1 (calm {x}))" for x in xs)]
    then = ["(set (calm e) 1)", "(vague e)"]
    have, key = _bounds(c)
    open_ended = [f"(= -inf (got-lo-{c.name} {key}))", f"(= inf (got-hi-{c.name} {key}))"]
    return [
        *(_line(c, [*all_calm, f"(vague {x})"], then, "types", f"vague-{x}") for x in xs),
        _line(c, [*all_calm, *have, *open_ended], then, "facts", "vague"),
    ]


def _bounds(c: Constructor) -> tuple[list[str], str]:
    """Return the atoms that bind the bounds of a node's operands, and the key they are asked by."""
    xs, attrs = c.variables()
    have = ["(= t (ty e))", "(= d (ty-dtype t))", "(dtype-in 0 d)"]
    ends: list[str] = []
    for i, x in enumerate(xs):
        have += [f"(= l{i} (lo {x}))", f"(= h{i} (hi {x}))"]
        ends += [f"l{i}", f"h{i}"]
    return have, " ".join([*ends, *attrs])


def _intervals(c: Constructor) -> list[str]:
    have, key = _bounds(c)
    got = [f"(= l (got-lo-{c.name} {key}))", f"(= h (got-hi-{c.name} {key}))"]
    found = ["(set (lo e) l)", "(set (hi e) h)"]
    return [
        _line(c, have, [f"(want-iv-{c.name} {key})"], "facts", "want-iv"),
        _line(c, [*have, *got], found, "facts", "iv"),
    ]
