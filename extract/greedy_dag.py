"""Sharing-aware greedy extraction: extraction-gym's faster-greedy-dag, then local search."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.extract.choice import Choice, make_choice
from egraph_fusion.extract.local_search import improve
from egraph_fusion.extract.tree import cheapest_trees, require_roots

MERGE_LIMIT = 20_000_000
"""Dictionary entries that one greedy pass may merge: what ends it on huge e-graphs."""


def extract_greedy_dag(eg: Snapshot, time_limit: float = 60.0) -> Choice:
    """Return a good choice by DAG cost, with no bound; stays fast on large e-graphs.

    The greedy choice and the tree-optimal one are both improved by local search; the cheaper
    result wins.  Raises OptimizeError if a root has no finite term.
    """
    start = time.monotonic()
    nodes, stop_reason = greedy_nodes(eg, start + time_limit)
    seconds = time.monotonic() - start
    return make_choice(eg, nodes, extractor="greedy-dag", seconds=seconds, stop_reason=stop_reason)


def greedy_nodes(eg: Snapshot, deadline: float) -> tuple[dict[int, int], str]:
    """Return the best choice found until `deadline` (monotonic seconds) and why it stopped."""
    trees = cheapest_trees(eg)
    require_roots(eg, trees)
    starts = [trees, acyclic(eg, shared_greedy(eg, trees, deadline))]
    found = [improve(eg, nodes, deadline) for nodes in starts]
    best = min(found, key=lambda f: f.cost)
    reasons = {f.stop_reason for f in found} - {"done"}
    return best.nodes, min(reasons, default="done")


def shared_greedy(eg: Snapshot, trees: Mapping[int, int], deadline: float) -> dict[int, int]:
    """Return a node per class whose set of needed classes, each counted once, was cheapest.

    Every class keeps that set; a class is looked at again when one of its children improved
    (children first to begin with).  Sets can be out of date, so the result may have a cycle.
    """
    totals: dict[int, int] = {}
    needs: dict[int, dict[int, int]] = {}
    nodes: dict[int, int] = {}
    queue = deque(n for c in trees for n in eg.class_nodes[c])
    queued = set(queue)
    owner: list[int] = eg.node_class.tolist()
    merged, rounds = 0, 0
    while queue and merged < MERGE_LIMIT:
        rounds += 1
        if not rounds % 256 and time.monotonic() > deadline:
            break
        node = queue.popleft()
        queued.discard(node)
        children, eclass = eg.children[node], owner[node]
        if any(c not in needs or eclass in needs[c] for c in children):
            continue
        union: dict[int, int] = {eclass: eg.costs[node]}
        for child in sorted(set(children), key=lambda c: (-len(needs[c]), c)):
            union |= needs[child]
            merged += len(needs[child])
        total = sum(union.values())
        if eclass in totals and total >= totals[eclass]:
            continue
        totals[eclass], needs[eclass], nodes[eclass] = total, union, node
        for user in eg.parents[eclass]:
            if user not in queued:
                queued.add(user)
                queue.append(user)
    return {**trees, **nodes}


def acyclic(eg: Snapshot, nodes: Mapping[int, int]) -> dict[int, int]:
    """Return `nodes` with the classes on its cycles, and only what they force, chosen anew.

    Classes are settled after what they need; when none is left, everything settled is kept and
    the rest takes its cheapest trees over it.
    """
    waiting = {c: len(set(eg.children[n])) for c, n in nodes.items()}
    ready = [c for c, left in waiting.items() if not left]
    kept: dict[int, int] = {}
    while ready:
        eclass = ready.pop()
        kept[eclass] = nodes[eclass]
        for user in eg.parents[eclass]:
            owner = int(eg.node_class[user])
            if nodes.get(owner) == user:
                waiting[owner] -= 1
                if not waiting[owner]:
                    ready.append(owner)
    return kept if len(kept) == len(nodes) else cheapest_trees(eg, kept)
