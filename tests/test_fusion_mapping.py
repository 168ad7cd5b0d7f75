"""The two tables of the paper, cell by cell, and the lattice's laws."""

from itertools import product

import pytest

from egraph_fusion.fusion.mapping import (
    COMPLEXITY,
    FUSED,
    IMPEDANCE,
    RELATION,
    Relation,
    fused,
    join,
    relation,
)
from egraph_fusion.ir.ops.operator import MappingType

PAIRS = list(product(MappingType, repeat=2))
TRIPLES = list(product(MappingType, repeat=3))

# Table 3 as read from the printed page: producer, then consumer in the order O2O O2M M2M R S.
PRINTED = {
    "One-to-One": "G G G G G",
    "One-to-Many": "G Y X Y Y",
    "Many-to-Many": "G Y X Y Y",
    "Reorganize": "G Y Y G G",
    "Shuffle": "G Y Y G G",
}
PRINTED_ORDER = ("One-to-One", "One-to-Many", "Many-to-Many", "Reorganize", "Shuffle")
COLOURS = {"G": Relation.THROUGH, "Y": Relation.DEPEND, "X": Relation.BREAK}


@pytest.mark.parametrize("producer", PRINTED)
def test_relations_are_those_of_the_printed_table(producer: str) -> None:
    for consumer, colour in zip(PRINTED_ORDER, PRINTED[producer].split(), strict=True):
        assert COLOURS[colour] is relation(MappingType(producer), MappingType(consumer))


def test_the_table_has_23_fusible_cells() -> None:
    cells = [c for row in RELATION.values() for c in row]
    assert tuple(cells.count(c) for c in Relation) == (13, 10, 2)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_a_pair_has_a_fused_type_unless_it_breaks(a: MappingType, b: MappingType) -> None:
    assert (fused(a, b) is None) == (relation(a, b) is Relation.BREAK)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_type_with_more_impedance_decides(a: MappingType, b: MappingType) -> None:
    result = fused(a, b)
    if result is not None and IMPEDANCE[a] != IMPEDANCE[b]:
        assert result is max(a, b, key=IMPEDANCE.__getitem__)


@pytest.mark.parametrize("a", MappingType)
def test_one_to_one_is_neutral(a: MappingType) -> None:
    assert a is fused(MappingType.ONE_TO_ONE, a)
    assert a is fused(a, MappingType.ONE_TO_ONE)


@pytest.mark.parametrize(("a", "b", "c"), TRIPLES)
def test_fusion_is_associative_where_no_pair_breaks(
    a: MappingType, b: MappingType, c: MappingType
) -> None:
    left, right = fused(a, b), fused(b, c)
    if left is not None and right is not None:
        assert fused(left, c) is fused(a, right)


def test_join_is_the_most_complex_type() -> None:
    assert join([]) is MappingType.ONE_TO_ONE
    for i, a in enumerate(COMPLEXITY):
        for b in COMPLEXITY[: i + 1]:
            assert join([a, b]) is a is join([b, a])


def test_every_type_has_a_row_of_five() -> None:
    assert set(RELATION) == set(FUSED) == set(MappingType)
    assert all(len(row) == 5 for row in (*RELATION.values(), *FUSED.values()))
