"""The registry of operators: one declaration each, in a file per family."""

from egraph_fusion.ir.ops import (
    contraction,
    elementwise,
    lookup,
    movement,
    normalization,
    pooling,
    reduction,
)
from egraph_fusion.ir.ops.operator import OPERATORS, Kind, Law, MappingType, Operator, declared

__all__ = [
    "OPERATORS",
    "Kind",
    "Law",
    "MappingType",
    "Operator",
    "contraction",
    "declared",
    "elementwise",
    "lookup",
    "movement",
    "normalization",
    "pooling",
    "reduction",
]
