"""The kernels that the loop IR must be able to say, as texts; test_lower runs the same blocks."""

import numpy as np
import pytest
from golden_files import GoldenFile
from lowered import whole
from lowering_blocks import graph_of

from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.codegen.layout import channels_last, choose_layouts
from egraph_fusion.codegen.loop_parse import parse
from egraph_fusion.codegen.loop_text import text
from egraph_fusion.codegen.loops import Kernel
from egraph_fusion.codegen.lower import lower_block
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.dims import symbol
from egraph_fusion.ir.graph import Graph, Node
from egraph_fusion.ir.tensors import DType, TensorType

MACHINE = TargetInfo(vl=8, l1=32 * 1024, l2=512 * 1024, threads=2)
GOLDEN = (
    "layer_norm",
    "softmax",
    "attention",
    "masked_attention",
    "conv_norm_relu_pool",
    "depthwise_pointwise",
    "fire",
    "concat_consumer",
    "split_producer",
    "gather_rows",
)


def kernel_of(name: str) -> Kernel:
    """Lower a block for one fixed machine; values between kernels lie channels last."""
    graph = graph_of(name)
    layouts = dict(choose_layouts(graph, [whole(graph)]))
    layouts |= {v: channels_last(4) for v in layouts if len(layouts[v].order) == 4}
    nodes, ins, outs = graph.nodes, graph.inputs, graph.outputs
    return lower_block(graph, nodes, ins, outs, layouts, MACHINE, staged=True).kernel


@pytest.mark.parametrize("name", GOLDEN)
def test_kernel_text(name: str, golden: GoldenFile) -> None:
    golden(text(kernel_of(name)))


@pytest.mark.parametrize("name", GOLDEN)
def test_kernel_text_parses_back(name: str) -> None:
    kernel = kernel_of(name)
    assert parse(text(kernel)) == kernel


def product(name: str, seed: int) -> Kernel:
    """Lower a product with weights from `seed` of an input called `name`."""
    builder = GraphBuilder(name)
    x = builder.add_input(name, TensorType(DType.FLOAT32, (5, 8)))
    weights = np.random.default_rng(seed).standard_normal((8, 6)).astype(np.float32)
    out = builder.op("Relu", builder.op("MatMul", x, builder.const(weights)), out=f"{name}_y")
    builder.output(out)
    graph = builder.build()
    layouts = choose_layouts(graph, [whole(graph)])
    return lower_block(graph, graph.nodes, (x,), (out,), layouts, MACHINE).kernel


def test_equal_blocks_of_other_values_are_one_kernel() -> None:
    assert product("first", 0) == product("second", 1)


def test_constants_that_a_kernel_reads_alike_are_packed_alike() -> None:
    graph = graph_of("first_conv")
    layouts = choose_layouts(graph, [whole(graph)])
    found = lower_block(graph, graph.nodes, graph.inputs, graph.outputs, layouts, MACHINE)
    packed = [a.constant for a in found.arguments if a.constant is not None]
    assert [c.array.dtype for c in packed] == [np.dtype(np.float32)]
    again = lower_block(graph, graph.nodes, graph.inputs, graph.outputs, layouts, MACHINE)
    assert [a.constant.key for a in again.arguments if a.constant] == [c.key for c in packed]


def refused(node: Node, **types: TensorType) -> str:
    """Return why a block of one node is refused."""
    graph = Graph("g", ("a",), ("b",), (node,), types)
    with pytest.raises(LoweringError) as caught:
        lower_block(graph, graph.nodes, ("a",), ("b",), {}, MACHINE)
    return str(caught.value)


FLOATS = TensorType(DType.FLOAT32, (2, 3))


def test_an_opaque_node_is_refused_by_name() -> None:
    reason = refused(Node("Mystery", ("a",), ("b",), name="n1", opaque=True), a=FLOATS, b=FLOATS)
    assert "n1 (Mystery)" in reason


def test_a_symbolic_shape_is_refused_with_the_type() -> None:
    open_type = TensorType(DType.FLOAT32, (symbol("batch"), 3))
    reason = refused(Node("Relu", ("a",), ("b",)), a=open_type, b=open_type)
    assert "float32[batch,3]" in reason


def test_strings_are_refused() -> None:
    strings = TensorType(DType.STRING, (2,))
    assert "string" in refused(Node("Identity", ("a",), ("b",)), a=strings, b=strings)
