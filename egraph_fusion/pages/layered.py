"""A layered drawing of a directed acyclic graph, after Sugiyama, Tagawa and Toda (1981)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GAP = 18.0
"""Least distance between neighbours of one layer, in pixels."""
LAYER_GAP = 34.0
SWEEPS = 6
"""Times that the order of the layers, and then the places in them, are improved down and up."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Centres of the boxes, a polyline for each edge (top to bottom) and the whole size; pixels."""

    centres: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Chain:
    """The points that stand for one edge: its ends, and one in every layer between."""

    points: tuple[int, ...]


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Drawing:
    """Place boxes of `sizes` (width, height) so that every edge (from, to) leads downwards.

    Boxes are numbered so that edges lead from lower to higher numbers; ValueError otherwise.
    """
    if any(not 0 <= a < b < len(sizes) for a, b in edges):
        raise ValueError("edges must lead from lower to higher box numbers")
    ranks = _ranks(len(sizes), edges)
    boxes, ranks, chains = _with_points(sizes, edges, ranks)
    links = [pair for c in chains for pair in zip(c.points, c.points[1:], strict=False)]
    ups, downs = _neighbours(len(boxes), links)
    layers = _ordered(_by_rank(ranks), ups, downs)
    xs = _placed(layers, [w for w, _ in boxes], ups, downs)
    ys, height = _heights(layers, [h for _, h in boxes])
    left = min((x - w / 2 for x, (w, _) in zip(xs, boxes, strict=True)), default=0.0)
    points = [(x - left + GAP, ys[r]) for x, r in zip(xs, ranks, strict=True)]
    right = max((x + w / 2 for (x, _), (w, _) in zip(points, boxes, strict=True)), default=0.0)
    routes = tuple(tuple(points[p] for p in c.points) for c in chains)
    return Drawing(tuple(points[: len(sizes)]), routes, right + GAP, height)


def _ranks(n: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Longest path from a source; a source is drawn right above its first reader."""
    ranks = [0] * n
    for a, b in sorted(edges, key=lambda e: e[1]):
        ranks[b] = max(ranks[b], ranks[a] + 1)
    made = {b for _, b in edges}
    first: dict[int, int] = {}
    for a, b in edges:
        first[a] = min(first.get(a, ranks[b]), ranks[b])
    for a, rank in first.items():
        if a not in made:
            ranks[a] = rank - 1
    return ranks


def _with_points(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], ranks: list[int]
) -> tuple[list[tuple[float, float]], list[int], list[_Chain]]:
    """Add a point to each layer that an edge crosses, so that edges join adjacent layers."""
    boxes, placed, chains = list(sizes), list(ranks), list[_Chain]()
    for a, b in edges:
        points = [a]
        for rank in range(ranks[a] + 1, ranks[b]):
            points.append(len(boxes))
            boxes.append((1.0, 1.0))
            placed.append(rank)
        chains.append(_Chain((*points, b)))
    return boxes, placed, chains


def _neighbours(
    n: int, links: Iterable[tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]]]:
    ups: list[list[int]] = [[] for _ in range(n)]
    downs: list[list[int]] = [[] for _ in range(n)]
    for a, b in links:
        downs[a].append(b)
        ups[b].append(a)
    return ups, downs


def _by_rank(ranks: Sequence[int]) -> list[list[int]]:
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for i, rank in enumerate(ranks):
        layers[rank].append(i)
    return layers


def _ordered(
    layers: list[list[int]], ups: Sequence[Sequence[int]], downs: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Order each layer by the mean place of what its boxes join, down and up again."""
    place = {i: float(k) for layer in layers for k, i in enumerate(layer)}
    for sweep in range(SWEEPS):
        beside = ups if sweep % 2 == 0 else downs
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {i: _mean([place[j] for j in beside[i]], place[i]) for i in layer}
            layer.sort(key=lambda i: wanted[i])
            place.update((i, float(k)) for k, i in enumerate(layer))
    return layers


def _placed(
    layers: Sequence[Sequence[int]],
    widths: Sequence[float],
    ups: Sequence[Sequence[int]],
    downs: Sequence[Sequence[int]],
) -> list[float]:
    """Return the x of each box: near what it joins, apart from its neighbours."""
    xs = [0.0] * len(widths)
    for layer in layers:
        spread(layer, [0.0] * len(layer), widths, xs)
    for sweep in range(SWEEPS):
        beside = ups if sweep % 2 == 0 else downs
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_mean([xs[j] for j in beside[i]], xs[i]) for i in layer]
            spread(layer, wanted, widths, xs)
    return xs


def spread(
    layer: Sequence[int], wanted: Sequence[float], widths: Sequence[float], xs: list[float]
) -> None:
    """Set the xs nearest to `wanted` (least squares) that keep order and distance.

    With the distances subtracted this is isotonic regression: neighbours that would cross are
    pooled to their mean (Barlow et al., 1972).
    """
    offset, offsets = 0.0, list[float]()
    for k, i in enumerate(layer):
        if k:
            offset += (widths[layer[k - 1]] + widths[i]) / 2 + GAP
        offsets.append(offset)
    pools: list[tuple[float, int]] = []
    for want, off in zip(wanted, offsets, strict=True):
        total, count = want - off, 1
        while pools and pools[-1][0] * count > total * pools[-1][1]:
            before, many = pools.pop()
            total, count = total + before, count + many
        pools.append((total, count))
    levels = [total / count for total, count in pools for _ in range(count)]
    for i, level, off in zip(layer, levels, offsets, strict=True):
        xs[i] = level + off


def _heights(
    layers: Sequence[Sequence[int]], heights: Sequence[float]
) -> tuple[list[float], float]:
    ys: list[float] = []
    y = GAP
    for layer in layers:
        tall = max(heights[i] for i in layer)
        ys.append(y + tall / 2)
        y += tall + LAYER_GAP
    return ys, max(y - LAYER_GAP, 0.0) + GAP


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
