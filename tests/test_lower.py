"""Lowered blocks of every kind, compiled together and compared with float64."""

import pytest
from block_strategies import blocks, images
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import CProgram, OpenCLProgram
from lowered import Lowered, draw, lowered, program_of, reference, worst
from lowering_blocks import BLOCKS, graph_of

from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.text import print_graph


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


@pytest.fixture(scope="module")
def opencl_cases() -> dict[str, Lowered]:
    """Every block, for the vectors that the OpenCL micro-kernels have by default."""
    found = {name: lowered(graph_of(name), i % 2 == 1, 16) for i, name in enumerate(BLOCKS)}
    return found


@pytest.fixture(scope="module")
def opencl_program(opencl_cases: dict[str, Lowered]) -> OpenCLProgram:
    """All of them in one OpenCL program."""
    kernels = {c.block.kernel.name: c.block.kernel for c in opencl_cases.values()}
    return OpenCLProgram(list(kernels.values()))


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", BLOCKS)
def test_block_in_opencl(
    name: str, opencl_cases: dict[str, Lowered], opencl_program: OpenCLProgram
) -> None:
    case = opencl_cases[name]
    inputs = draw(case.graph)
    got, expected = case.run(opencl_program, inputs), reference(case.graph, inputs)
    limit = 2e-3 if name == "half_precision" else 2e-6
    assert max(worst(got[v], expected[v]) for v in case.graph.outputs) < limit


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


@settings(max_examples=3)
@given(st.lists(st.one_of(blocks(), images()), min_size=30, max_size=30))
def test_random_blocks_compute_what_their_nodes_mean(graphs: list[Graph]) -> None:
    found = [lowered(graph, images=i % 2 == 1) for i, graph in enumerate(graphs)]
    program = program_of(found)
    for case in found:
        inputs = draw(case.graph)
        got, expected = case.run(program, inputs), reference(case.graph, inputs)
        for v in case.graph.outputs:
            assert worst(got[v], expected[v]) < 1e-5, print_graph(case.graph)
