"""Cost models: from what a node computes and writes to one exact integer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Features:
    """What one e-node costs: FLOPs, bytes it materialises, blocks (kernels) it adds; all >= 0."""

    flops: int = 0
    nbytes: int = 0
    blocks: int = 0


@dataclass(frozen=True)
class Weights:
    """What one FLOP, one byte and one block are worth in the objective; all >= 0."""

    flops: int
    nbytes: int
    blocks: int


CostModel = Callable[[Features], int]

FLOPS_FIRST = Weights(flops=1 << 48, nbytes=1, blocks=4096)
"""FLOPs first, as long as the bytes and blocks of a graph weigh less than 2^48 together."""

BYTES_FIRST = Weights(flops=1, nbytes=1 << 48, blocks=1 << 60)
"""Bytes and blocks (one worth 4096 bytes) before FLOPs, up to 2^48 FLOPs per graph."""


def combine(flops: int, nbytes: int, blocks: int, weights: Weights = FLOPS_FIRST) -> int:
    """Return the weighted sum as an exact integer.

    >>> combine(1, 0, 0) > combine(0, 10**9, 1000)
    True
    """
    return flops * weights.flops + nbytes * weights.nbytes + blocks * weights.blocks


def flops(features: Features) -> int:
    """Price a node by FLOPs; bytes and blocks decide between equal FLOPs."""
    return combine(features.flops, features.nbytes, features.blocks)


def nbytes(features: Features) -> int:
    """Price a node by bytes materialised and blocks; FLOPs decide between equals."""
    return combine(features.flops, features.nbytes, features.blocks, BYTES_FIRST)


def weighted(weights: Weights) -> CostModel:
    """Return the cost model of other weights."""

    def price(features: Features) -> int:
        return combine(features.flops, features.nbytes, features.blocks, weights)

    return price


COST_MODELS: dict[str, CostModel] = {"flops": flops, "bytes": nbytes}
