"""The kernels that the loop IR must be able to say, as texts; test_lower runs the same blocks."""

import pytest
from golden_files import GoldenFile
from lowered import whole
from lowering_blocks import graph_of

from egraph_fusion.codegen.layout import channels_last, choose_layouts
from egraph_fusion.codegen.loop_parse import parse
from egraph_fusion.codegen.loop_text import text
from egraph_fusion.codegen.loops import Kernel
from egraph_fusion.codegen.lower import lower_block
from egraph_fusion.codegen.schedule import TargetInfo

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
    return lower_block(graph, nodes, ins, outs, layouts, MACHINE).kernel


@pytest.mark.parametrize("name", GOLDEN)
def test_kernel_text(name: str, golden: GoldenFile) -> None:
    golden(text(kernel_of(name)))


@pytest.mark.parametrize("name", GOLDEN)
def test_kernel_text_parses_back(name: str) -> None:
    kernel = kernel_of(name)
    assert parse(text(kernel)) == kernel


def test_equal_blocks_of_other_values_give_one_kernel() -> None:
    assert kernel_of("softmax").name == kernel_of("softmax").name
