"""Layouts: strides, and which order each value between blocks gets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered import whole
from lowering_blocks import given as graph_input
from lowering_blocks import heads, weights

from egraph_fusion.codegen.layout import (
    Layout,
    channels_last,
    choose_layouts,
    inverse,
    row_major,
)
from egraph_fusion.fusion.plan import Block
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.ops.operator import MappingType

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(SHAPES, st.data())
def test_strides_agree_with_numpy(shape: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    array = np.zeros([shape[d] for d in order], np.int8).transpose(inverse(order))
    found = Layout(tuple(order)).strides(shape)
    wanted = [s for s, d in zip(array.strides, shape, strict=True) if d > 1]
    assert [s for s, d in zip(found, shape, strict=True) if d > 1] == wanted


@given(st.permutations(range(5)))
def test_inverse_of_inverse(order: list[int]) -> None:
    assert inverse(inverse(order)) == tuple(order)


def by_node(graph: Graph) -> list[Block]:
    """Return each node as a block of its own."""
    one = MappingType.ONE_TO_ONE
    return [
        Block((n,), one, tuple(v for v in n.reads if v not in graph.constants), n.outputs)
        for n in graph.nodes
    ]


def test_images_between_convolutions_lie_channels_last() -> None:
    g = GraphBuilder()
    w = g.const(weights(4, 4, 1, 1))
    first = g.op("Conv", graph_input(g, "a", 1, 4, 5, 5), w)
    middle = g.op("Relu", first)
    g.output(g.op("Conv", middle, w))
    graph = g.build()
    layouts = choose_layouts(graph, by_node(graph))
    assert layouts[first] == layouts[middle] == channels_last(4)


def test_graph_inputs_and_outputs_lie_as_in_onnx() -> None:
    g = GraphBuilder()
    out = g.op("Conv", graph_input(g, "a", 1, 4, 5, 5), g.const(weights(4, 4, 1, 1)))
    g.output(out)
    graph = g.build()
    layouts = choose_layouts(graph, by_node(graph))
    assert layouts["a"].row_major
    assert layouts[out].row_major


def test_a_transposed_product_keeps_the_order_of_the_product() -> None:
    g = GraphBuilder()
    y = g.op("MatMul", graph_input(g, "a", 1, 9, 24), g.const(weights(24, 24)))
    keys = heads(g, y, (0, 2, 3, 1), (1, 9, 3, 8))
    g.output(g.op("Relu", keys))
    graph = g.build()
    product = Block(graph.nodes[:-1], MappingType.MANY_TO_MANY, ("a",), (keys,))
    after = Block(graph.nodes[-1:], MappingType.ONE_TO_ONE, (keys,), graph.outputs)
    layouts = choose_layouts(graph, [product, after])
    assert layouts[keys] == Layout((0, 3, 1, 2))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_other_values_lie_in_row_major_order(rank: int) -> None:
    g = GraphBuilder()
    middle = g.op("Relu", graph_input(g, "a", *(3,) * rank))
    g.output(g.op("Exp", middle))
    graph = g.build()
    assert choose_layouts(graph, by_node(graph))[middle] == row_major(rank)
    assert choose_layouts(graph, [whole(graph)])["a"] == row_major(rank)
