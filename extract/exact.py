"""Exact extraction by integer programming (HiGHS), proven by a bound in exact arithmetic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import ceil, gcd
from typing import NamedTuple

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.errors import OptimizeError
from egraph_fusion.extract.choice import Choice, dag_cost, make_choice, reachable
from egraph_fusion.extract.greedy_dag import greedy_nodes
from egraph_fusion.extract.highs import NODE_LIMIT, Solved, solve
from egraph_fusion.extract.milp import Encoded, Program, add_levels, encode
from egraph_fusion.extract.reduce import Reduced, reduce

DIGIT_BITS = 40
"""Costs are minimised by digits of this many bits, so that doubles hold every sum exactly."""

WHOLE = 1e-4
"""How far (in units of the solved digit) the solver's bound may lie below a whole number."""


class Best(NamedTuple):
    """The best choice so far for every needed class, its exact cost, and a proven lower bound."""

    nodes: dict[int, int]
    cost: int
    bound: int
    stop_reason: str


def extract_exact(eg: Snapshot, time_limit: float = 60.0) -> Choice:
    """Return a choice of least DAG cost, with the bound that proves it (gap 0).

    If time (seconds) or the solver's node limit ends the search, the best choice found is
    returned with its bound and gap; it is never dearer than `greedy-dag`'s.  Raises
    OptimizeError if a root has no finite term.
    """
    start = time.monotonic()
    deadline = start + time_limit
    known = greedy_nodes(eg, deadline)
    best = solve_exactly(eg, reduce(eg), known, deadline)
    return make_choice(
        eg,
        best.nodes,
        extractor="exact",
        seconds=time.monotonic() - start,
        bound=best.bound,
        stop_reason=best.stop_reason,
    )


def solve_exactly(
    eg: Snapshot,
    reduced: Reduced,
    known: tuple[dict[int, int], str],
    deadline: float,
    work: int | None = None,
) -> Best:
    """Return the best choice found until `deadline` (monotonic seconds) and its bound.

    `known` is a choice to beat and why the search for it stopped.  `work` bounds the solver's
    branch-and-bound nodes times the entries of its matrix, which is deterministic.
    """
    nodes, reason = known
    cost = dag_cost(eg, nodes, reachable(eg, nodes))
    encoded = encode(reduced)
    if encoded.program.constant == cost:
        return Best(nodes, cost, cost, "done")
    add_levels(encoded, reduced)
    best = Best(nodes, cost, encoded.program.constant, reason)
    return _by_digits(eg, reduced, encoded, best, deadline, work)


def _by_digits(
    eg: Snapshot,
    reduced: Reduced,
    encoded: Encoded,
    best: Best,
    deadline: float,
    work: int | None,
) -> Best:
    """Minimise the leading digits of the cost, then what is left among their minimisers.

    With c = high * 2^k + low and V the least sum of highs, every choice that beats `best` has
    highs adding up to V + z with a small z >= 0: z becomes a column worth 2^k, and low is next.
    """
    program = encoded.program
    costs, paid = list(program.costs), program.constant
    while True:
        step = gcd(*costs) or 1
        digits = sum(costs) // step
        shift = max(0, digits.bit_length() - DIGIT_BITS)
        unit = step << shift
        high = [c // unit for c in costs]
        limit = time.monotonic()
        if limit >= deadline:
            return best._replace(stop_reason="time")
        solved = solve(program, high, deadline - limit, _node_limit(program, work))
        best = _adopt(eg, reduced, encoded, best, solved)
        least = _whole_bound(solved, (best.cost - paid) // unit)
        best = best._replace(
            bound=min(best.cost, max(best.bound, paid + least * unit)),
            stop_reason=solved.stop_reason,
        )
        if eg.in_units(best.bound) == eg.in_units(best.cost):
            return best._replace(stop_reason="done")
        if solved.stop_reason != "done" or not shift:
            return best
        costs = [c % unit for c in costs]
        _carry(program, high, least, spread=(best.cost - paid) // unit - least)
        costs.append(unit)
        paid += least * unit


def _node_limit(program: Program, work: int | None) -> int:
    entries = sum(len(terms) for terms, _, _ in program.rows)
    return NODE_LIMIT if work is None else 1 + work // max(entries, 1)


def _whole_bound(solved: Solved, ceiling: int) -> int:
    """Return the least whole objective that the solver leaves possible (not above `ceiling`)."""
    if solved.infeasible:
        return ceiling
    return 0 if solved.bound is None else max(0, min(ceiling, ceil(solved.bound - WHOLE)))


def _carry(program: Program, high: list[int], least: int, spread: int) -> None:
    """Add the column z >= high sum - least, an integer at most `spread`; its cost is set apart."""
    z = program.column(0, float(spread))
    terms = {i: float(c) for i, c in enumerate(high) if c}
    program.row(terms | {z: -1.0}, least + 0.5)


def _adopt(eg: Snapshot, reduced: Reduced, encoded: Encoded, best: Best, solved: Solved) -> Best:
    """Return the solver's choice if it is complete, acyclic and cheaper in exact arithmetic."""
    if solved.values is None:
        return best
    chosen = _chosen(reduced, encoded, solved.values)
    nodes = {**reduced.certain, **chosen}
    try:
        cost = dag_cost(eg, nodes, reachable(eg, nodes))
    except OptimizeError:  # rounding made the solver accept an incomplete or cyclic choice
        return best
    return best._replace(nodes=nodes, cost=cost) if cost < best.cost else best


def _chosen(reduced: Reduced, encoded: Encoded, values: list[float]) -> Mapping[int, int]:
    """Return the node that the solver gives each class it chooses."""
    return {
        eclass: option.node
        for eclass, listed in reduced.options.items()
        for option in listed
        if values[encoded.option_column[option.node]] > 0.5
    }
