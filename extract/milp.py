"""The integer program of an undecided e-graph, as plain columns and rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from egraph_fusion.extract.components import strong_components
from egraph_fusion.extract.must import members
from egraph_fusion.extract.reduce import Option, Reduced, cyclic_pairs

INFINITE = float("inf")


@dataclass
class Program:
    """Minimise exact integer `costs` over integer and continuous columns and sparse rows."""

    costs: list[int] = field(default_factory=list[int])
    lower: list[float] = field(default_factory=list[float])
    upper: list[float] = field(default_factory=list[float])
    integral: list[bool] = field(default_factory=list[bool])
    rows: list[tuple[dict[int, float], float, float]] = field(
        default_factory=list[tuple[dict[int, float], float, float]]
    )
    constant: int = 0

    def column(self, cost: int, upper: float, *, lower: float = 0.0, integral: bool = True) -> int:
        """Add a column; return its number."""
        self.costs.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integral.append(integral)
        return len(self.costs) - 1

    def row(self, terms: dict[int, float], upper: float, lower: float = -INFINITE) -> None:
        """Add a row `lower <= terms <= upper`; terms map columns to coefficients."""
        self.rows.append((terms, lower, upper))


@dataclass(frozen=True)
class Encoded:
    """A program and the column of every option's node and of every class."""

    program: Program
    option_column: Mapping[int, int]
    class_column: Mapping[int, int]


def encode(reduced: Reduced) -> Encoded:
    """Return the program of `reduced` without acyclicity, save that no pair needs each other.

    A class column is the sum of its option columns: 1 if the class is chosen.  The least cost
    of a class is paid by its column (a constant if the class is required), so that only what
    can change is left to the solver.
    """
    program = Program()
    options: dict[int, int] = {}
    classes: dict[int, int] = {}
    for eclass, listed in reduced.options.items():
        least = min(o.cost for o in listed)
        sure = eclass in reduced.required
        if sure:
            program.constant += least
        classes[eclass] = program.column(
            0 if sure else least, 1.0, lower=float(sure), integral=len(listed) == 1
        )
        if len(listed) == 1:
            options[listed[0].node] = classes[eclass]
            continue
        for o in listed:
            options[o.node] = program.column(o.cost - least, 1.0)
        terms = {options[o.node]: 1.0 for o in listed} | {classes[eclass]: -1.0}
        program.row(terms, 0.0, 0.0)
    encoded = Encoded(program, options, classes)
    for eclass in reduced.options:
        _add_needs(encoded, reduced, eclass)
        _add_implied(encoded, reduced, eclass)
    for some, others in cyclic_pairs(reduced):
        program.row({options[n]: 1.0 for n in (*some, *others)}, 1.0)
    _add_exits(encoded, reduced)
    return encoded


def edge(encoded: Encoded, reduced: Reduced, user: int, needed: int) -> dict[int, float]:
    """Return the terms whose sum is 1 where the chosen node of `user` needs `needed`."""
    listed = reduced.options[user]
    using = [o for o in listed if needed in o.needs]
    if len(using) == len(listed):
        return {encoded.class_column[user]: 1.0}
    return {encoded.option_column[o.node]: 1.0 for o in using}


def _add_needs(encoded: Encoded, reduced: Reduced, eclass: int) -> None:
    """A chosen node needs its classes: one row per pair of classes, which is the tighter form."""
    for needed in sorted({d for o in reduced.options[eclass] for d in o.needs}):
        if needed not in reduced.required:
            terms = edge(encoded, reduced, eclass, needed)
            encoded.program.row(terms | {encoded.class_column[needed]: -1.0}, 0.0)


def _add_implied(encoded: Encoded, reduced: Reduced, eclass: int) -> None:
    """A chosen class has all that its every term has: one row per nearest such class."""
    implied = set(members(reduced.must[eclass])) - {eclass} - reduced.required
    further = {e for d in implied for e in members(reduced.must[d]) if e != d}
    for d in sorted(implied - further):
        if not all(d in o.needs for o in reduced.options[eclass]):
            own = {encoded.class_column[eclass]: 1.0}
            encoded.program.row(own | {encoded.class_column[d]: -1.0}, 0.0)


def _add_exits(encoded: Encoded, reduced: Reduced) -> None:
    """Where classes need each other, one of them has a node that needs none of the others.

    That follows from the levels too, but not of fractions: half a cycle would cost nothing.
    """
    inside: dict[int, list[int]] = {}
    for eclass, number in reduced.component.items():
        inside.setdefault(number, []).append(eclass)
    for classes in inside.values():
        if len(classes) == 1:
            continue
        exits = [o.node for c in classes for o in reduced.options[c] if o.needs.isdisjoint(classes)]
        count = encoded.program.column(0, float(len(classes)), integral=False)
        terms = {encoded.option_column[n]: 1.0 for n in exits}
        encoded.program.row(terms | {count: -1.0}, 0.0, 0.0)
        for c in classes:
            encoded.program.row({encoded.class_column[c]: 1.0, count: -1.0}, 0.0)


def add_levels(encoded: Encoded, reduced: Reduced) -> None:
    """Forbid all cycles: inside a component every class lies one level above what it needs."""
    sizes: dict[int, int] = {}
    for number in reduced.component.values():
        sizes[number] = sizes.get(number, 0) + 1
    levels = {
        c: encoded.program.column(0, sizes[k] - 1.0, integral=False)
        for c, k in reduced.component.items()
        if sizes[k] > 1
    }
    for user in levels:
        size = float(sizes[reduced.component[user]])
        for needed in sorted({d for o in reduced.options[user] for d in o.needs} & levels.keys()):
            if reduced.component[needed] == reduced.component[user]:
                scaled = dict.fromkeys(edge(encoded, reduced, user, needed), size)
                terms = scaled | {levels[needed]: 1.0, levels[user]: -1.0}
                encoded.program.row(terms, size - 1.0)


def cycles(chosen: Mapping[int, Option]) -> list[list[int]]:
    """Return one shortest-path cycle per strongly connected component of a cyclic choice."""
    needs = {c: [d for d in o.needs if d in chosen] for c, o in chosen.items()}
    component = strong_components(needs)
    members: dict[int, list[int]] = {}
    for eclass, number in component.items():
        members.setdefault(number, []).append(eclass)
    return [_cycle(needs, m) for m in members.values() if len(m) > 1]


def _cycle(needs: Mapping[int, list[int]], members: list[int]) -> list[int]:
    start, inside = min(members), set(members)
    came: dict[int, int] = {}
    queue = [start]
    for eclass in queue:
        for d in sorted(needs[eclass]):
            if d == start:
                path = [eclass]
                while path[-1] != start:
                    path.append(came[path[-1]])
                return path[::-1]
            if d in inside and d not in came:
                came[d] = eclass
                queue.append(d)
    raise AssertionError("a strongly connected component has a cycle through every member")


def add_cycle_cut(encoded: Encoded, reduced: Reduced, cycle: list[int]) -> None:
    """Forbid one cycle: of its k steps at most k - 1 may be chosen."""
    terms: dict[int, float] = {}
    for user, needed in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        terms |= edge(encoded, reduced, user, needed)
    encoded.program.row(terms, len(cycle) - 1.0)
