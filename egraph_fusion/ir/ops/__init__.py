"""The registry of operators: one declaration each, in a file per family."""

from egraph_fusion.ir.ops import (
    contraction,
    convolution,
    elementwise,
    lookup,
    movement,
    normalization,
    pad,
    pooling,
    reduction,
    scan,
    slicing,
)
from egraph_fusion.ir.ops.operator import OPERATORS, Kind, Law, MappingType, Operator, declared

__all__ = [
    "OPERATORS",
    "Kind",
    "Law",
    "MappingType",
    "Operator",
    "contraction",
    "convolution",
    "declared",
    "elementwise",
    "lookup",
    "movement",
    "normalization",
    "pad",
    "pooling",
    "reduction",
    "scan",
    "slicing",
]
