"""The default extractor: exact where a proof is likely in reach, sharing-aware greedy elsewhere."""

from __future__ import annotations

import time

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.extract.choice import Choice, make_choice
from egraph_fusion.extract.exact import solve_exactly
from egraph_fusion.extract.greedy_dag import greedy_nodes
from egraph_fusion.extract.reduce import reduce

EXACT_NODES = 3_000
"""Undecided nodes up to which the exact extractor is tried."""
EXACT_WORK = 300_000
"""Branch-and-bound nodes times matrix entries in one solve: some seconds."""


def extract_auto(eg: Snapshot, time_limit: float = 60.0) -> Choice:
    """Return the exact extractor's choice if at most EXACT_NODES nodes are undecided, else greedy.

    Size decides and work bounds the solver, so equal input gives equal output unless the clock
    ends the search; `exact` goes on where `auto` stops.
    A greedy choice carries the bound of what every choice must pay.  Raises OptimizeError if a
    root has no finite term.
    """
    start = time.monotonic()
    deadline = start + time_limit
    nodes, reason = greedy_nodes(eg, deadline)
    reduced = reduce(eg)
    bound = reduced.least_cost
    if reduced.n_options <= EXACT_NODES:
        nodes, _, bound, reason = solve_exactly(eg, reduced, (nodes, reason), deadline, EXACT_WORK)
    seconds = time.monotonic() - start
    return make_choice(
        eg, nodes, extractor="auto", seconds=seconds, bound=bound, stop_reason=reason
    )
