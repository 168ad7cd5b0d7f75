"""The mapping-type lattice: order and 5 x 5 fusion table of DNNFusion (Tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from egraph_fusion.ir.ops.operator import MappingType

O2O = MappingType.ONE_TO_ONE
REORGANIZE = MappingType.REORGANIZE
SHUFFLE = MappingType.SHUFFLE
O2M = MappingType.ONE_TO_MANY
M2M = MappingType.MANY_TO_MANY

# Footnote 1 of the paper: an operator with mixed inputs takes the most complex of their types.
COMPLEXITY: tuple[MappingType, ...] = (O2O, REORGANIZE, SHUFFLE, O2M, M2M)

# Section 3.2: the difficulty of fusing a type; equal numbers are equal impedance.
IMPEDANCE: dict[MappingType, int] = {O2O: 0, REORGANIZE: 1, SHUFFLE: 1, O2M: 2, M2M: 2}


class Relation(Enum):
    """What Table 3 says of fusing a producer with a consumer."""

    THROUGH = "green"  # legal and profitable
    DEPEND = "yellow"  # legal; profit depends on a measurement
    BREAK = "red"  # illegal or clearly unprofitable


GREEN, YELLOW, RED = Relation.THROUGH, Relation.DEPEND, Relation.BREAK

# Rows: type of the first operator (producer); columns: type of the second, in COMPLEXITY order.
RELATION: dict[MappingType, tuple[Relation, ...]] = {
    #            O2O     Reorg.  Shuffle O2M     M2M
    O2O:        (GREEN,  GREEN,  GREEN,  GREEN,  GREEN),
    REORGANIZE: (GREEN,  GREEN,  GREEN,  YELLOW, YELLOW),
    SHUFFLE:    (GREEN,  GREEN,  GREEN,  YELLOW, YELLOW),
    O2M:        (GREEN,  YELLOW, YELLOW, YELLOW, RED),
    M2M:        (GREEN,  YELLOW, YELLOW, YELLOW, RED),
}  # fmt: skip

# Type of the fused operator; None where Table 3 breaks.
FUSED: dict[MappingType, tuple[MappingType | None, ...]] = {
    #            O2O         Reorg.      Shuffle     O2M   M2M
    O2O:        (O2O,        REORGANIZE, SHUFFLE,    O2M,  M2M),
    REORGANIZE: (REORGANIZE, REORGANIZE, REORGANIZE, O2M,  M2M),
    SHUFFLE:    (SHUFFLE,    REORGANIZE, SHUFFLE,    O2M,  M2M),
    O2M:        (O2M,        O2M,        O2M,        O2M,  None),
    M2M:        (M2M,        M2M,        M2M,        M2M,  None),
}  # fmt: skip


def relation(producer: MappingType, consumer: MappingType) -> Relation:
    """Return the colour of Table 3's cell.

    >>> relation(MappingType.MANY_TO_MANY, MappingType.MANY_TO_MANY)
    <Relation.BREAK: 'red'>
    """
    return RELATION[producer][COMPLEXITY.index(consumer)]


def fused(producer: MappingType, consumer: MappingType) -> MappingType | None:
    """Return the mapping type of the fused operator, or None if the pair breaks fusion."""
    return FUSED[producer][COMPLEXITY.index(consumer)]


def join(types: Iterable[MappingType]) -> MappingType:
    """Return the most complex of `types` (One-to-One for none): the lattice's least upper bound."""
    return max(types, key=COMPLEXITY.index, default=O2O)
