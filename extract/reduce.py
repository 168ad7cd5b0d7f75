"""What an exact extractor still has to decide: an e-graph without the choices that are certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from egraph_fusion.egraph.snapshot import Snapshot
from egraph_fusion.extract.components import strong_components
from egraph_fusion.extract.must import always_needed, joined, members
from egraph_fusion.extract.tree import cheapest_trees, require_roots


class Option(NamedTuple):
    """A node that may be chosen: its number, cost and the undecided classes that it needs."""

    node: int
    cost: int
    needs: frozenset[int]


Options = dict[int, tuple[Option, ...]]


@dataclass(frozen=True)
class Reduced:
    """The undecided part of an e-graph.

    `options` lists what each remaining class may choose, `required` the classes in every
    choice, `certain` the nodes of decided classes (used only if some chosen node needs them),
    `component` the strongly connected component of each remaining class,
    `must` the bit set of the classes in every finite term of each.
    """

    options: Mapping[int, tuple[Option, ...]]
    required: frozenset[int]
    certain: Mapping[int, int]
    component: Mapping[int, int]
    must: Mapping[int, int]

    @property
    def n_options(self) -> int:
        """Number of nodes that may still be chosen."""
        return sum(map(len, self.options.values()))

    @property
    def least_cost(self) -> int:
        """What every choice pays at least: the cheapest node of each required class."""
        return sum(min(o.cost for o in self.options[c]) for c in self.required)


def reduce(eg: Snapshot) -> Reduced:
    """Return the undecided part of `eg`; some cheapest choice of `eg` is always left in it.

    Raises OptimizeError if a root has no finite term.
    """
    finite = cheapest_trees(eg)
    require_roots(eg, finite)
    options: Options = {
        c: tuple(
            Option(n, eg.costs[n], frozenset(eg.children[n]))
            for n in eg.class_nodes[c]
            if c not in eg.children[n] and all(d in finite for d in eg.children[n])
        )
        for c in finite
    }
    certain: dict[int, int] = {}
    roots = frozenset(eg.roots)
    size = -1
    while size != (size := _size(options)):
        options = _without_free(options, certain)
        options = _inlined(options, certain, roots)
        options = _reachable(options, roots)
        must = _musts(options)
        options = _reachable(_without_cyclic(options, must), roots)
        required = _required(must, roots)
        component = strong_components({c: _all_needs(o) for c, o in options.items()})
        options = {c: _undominated(o, c, required, component) for c, o in options.items()}
    must = _musts(options)
    component = strong_components({c: _all_needs(o) for c, o in options.items()})
    return Reduced(options, _required(must, roots), certain, component, must)


def _musts(options: Options) -> dict[int, int]:
    return always_needed({c: [o.needs for o in listed] for c, listed in options.items()})


def _size(options: Options) -> int:
    return len(options) + sum(1 + len(o.needs) for os in options.values() for o in os)


def _all_needs(options: Iterable[Option]) -> set[int]:
    return {d for o in options for d in o.needs}


def _without_free(options: Options, certain: dict[int, int]) -> Options:
    """Decide every class that has a node costing nothing and needing only decided classes."""
    users: dict[int, list[tuple[int, int]]] = {}
    waiting: dict[int, int] = {}
    ready: list[tuple[int, int]] = []
    for eclass, listed in options.items():
        for option in listed:
            if option.cost:
                continue
            waiting[option.node] = len(option.needs)
            if not option.needs:
                ready.append((eclass, option.node))
            for d in option.needs:
                users.setdefault(d, []).append((eclass, option.node))
    free: set[int] = set()
    while ready:
        eclass, node = ready.pop()
        if eclass in free:
            continue
        free.add(eclass)
        certain[eclass] = node
        for user in users.get(eclass, ()):
            waiting[user[1]] -= 1
            if not waiting[user[1]]:
                ready.append(user)
    return {
        c: tuple(o._replace(needs=o.needs - free) for o in listed)
        for c, listed in options.items()
        if c not in free
    }


def _inlined(options: Options, certain: dict[int, int], roots: frozenset[int]) -> Options:
    """Let users of a class whose one node costs nothing need that node's classes directly."""
    single = {
        c: listed[0].needs
        for c, listed in options.items()
        if c not in roots and len(listed) == 1 and not listed[0].cost
    }
    for eclass in single:
        certain[eclass] = options[eclass][0].node

    def expanded(needs: frozenset[int]) -> frozenset[int]:
        seen: set[int] = set()
        stack = list(needs)
        while stack:
            d = stack.pop()
            if d not in seen:
                seen.add(d)
                stack.extend(single.get(d, ()))
        return frozenset(seen - single.keys())

    result: Options = {}
    for eclass, listed in options.items():
        if eclass in single:
            continue
        widened = (o._replace(needs=expanded(o.needs)) for o in listed)
        result[eclass] = tuple(o for o in widened if eclass not in o.needs)
    return result


def _reachable(options: Options, roots: frozenset[int]) -> Options:
    """Keep what the roots can reach; a class left without options takes its users' with it."""
    options = _derivable(options)
    seen: set[int] = set()
    stack = [r for r in sorted(roots) if r in options]
    while stack:
        eclass = stack.pop()
        if eclass not in seen:
            seen.add(eclass)
            stack.extend(_all_needs(options[eclass]))
    return {c: listed for c, listed in options.items() if c in seen}


def _derivable(options: Options) -> Options:
    """Drop options that need a class without options, until there are none."""
    while True:
        kept = {
            c: tuple(o for o in listed if all(options.get(d) for d in o.needs))
            for c, listed in options.items()
        }
        if _size(kept) == _size(options):
            return {c: listed for c, listed in kept.items() if listed}
        options = kept


def _required(must: Mapping[int, int], roots: frozenset[int]) -> frozenset[int]:
    """Return the classes that every choice has: those in every term of a root."""
    return frozenset(members(joined(must, sorted(roots & must.keys()))))


def _without_cyclic(options: Options, must: Mapping[int, int]) -> Options:
    """Drop options whose needs contain their own class in every term."""
    return {
        c: tuple(o for o in listed if not joined(must, o.needs) >> c & 1)
        for c, listed in options.items()
    }


def _undominated(
    listed: tuple[Option, ...],
    eclass: int,
    required: frozenset[int],
    component: Mapping[int, int],
) -> tuple[Option, ...]:
    """Drop options to which another is never inferior: no dearer, and needing no more.

    A need that every choice has anyway and that cannot lead back to `eclass` counts as none.
    """
    extra = [
        frozenset(d for d in o.needs if d not in required or component[d] == component[eclass])
        for o in listed
    ]
    order = sorted(range(len(listed)), key=lambda i: (listed[i].cost, len(extra[i]), i))
    kept: list[int] = []
    for i in order:
        if not any(extra[k] <= extra[i] for k in kept):
            kept.append(i)
    return tuple(listed[i] for i in sorted(kept))


def cyclic_pairs(reduced: Reduced) -> Iterator[tuple[list[int], list[int]]]:
    """Yield for every two classes a, b the nodes of a that imply b and those of b that imply a.

    A node implies every class that is in each finite term of what it needs; of both lists
    together at most one node can be chosen.
    """
    inside: dict[int, int] = {}  # bit set of every component
    for eclass, number in reduced.component.items():
        inside[number] = inside.get(number, 0) | 1 << eclass
    implied: dict[int, dict[int, list[int]]] = {}
    for eclass, listed in reduced.options.items():
        peers = inside[reduced.component[eclass]] & ~(1 << eclass)
        row = implied.setdefault(eclass, {})
        for o in listed if peers else ():
            for d in members(joined(reduced.must, o.needs) & peers):
                row.setdefault(d, []).append(o.node)
    for a, row in implied.items():
        for b, nodes in row.items():
            if a < b and a in implied[b]:
                yield nodes, implied[b][a]
