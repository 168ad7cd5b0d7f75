"""Lowered blocks of every kind, compiled together and compared with float64."""

import pytest
from kernel_runner import CProgram
from lowered import Lowered, draw, lowered, program_of, reference, worst
from lowering_blocks import BLOCKS, graph_of


@pytest.fixture(scope="module")
def cases() -> dict[str, Lowered]:
    """Every block in numpy's memory order, and channels last."""
    plain = {name: lowered(graph_of(name)) for name in BLOCKS}
    images = {f"{name} channels last": lowered(graph_of(name), images=True) for name in BLOCKS}
    return plain | images


@pytest.fixture(scope="module")
def program(cases: dict[str, Lowered]) -> CProgram:
    """All of them in one library."""
    return program_of(cases.values())


@pytest.mark.parametrize("order", ["", " channels last"])
@pytest.mark.parametrize("name", BLOCKS)
def test_block_computes_what_its_nodes_mean(
    name: str, order: str, cases: dict[str, Lowered], program: CProgram
) -> None:
    case = cases[name + order]
    inputs = draw(case.graph)
    got, expected = case.run(program, inputs), reference(case.graph, inputs)
    limit = 2e-3 if name == "half_precision" else 2e-6
    assert max(worst(got[v], expected[v]) for v in case.graph.outputs) < limit
