"""No value inside a block exists in full: what comes before a product is computed tile by tile."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runner import CProgram
from lowered import Lowered, draw, lowered, program_of, reference, target, whole, worst
from lowering_blocks import BLOCKS, graph_of, heads, number, weights

import egraph_fusion as ef
from egraph_fusion.codegen.expand import LoweringError
from egraph_fusion.codegen.layout import Layout, channels_last, choose_layouts
from egraph_fusion.codegen.loop_walk import statements
from egraph_fusion.codegen.loops import (
    Alloc,
    Const,
    Kernel,
    LoopKind,
    Role,
)
from egraph_fusion.codegen.lower import LoweredBlock, lower_block
from egraph_fusion.codegen.nests import nests
from egraph_fusion.frontend.example_models import EXAMPLES
from egraph_fusion.fusion.plan import Plan
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.ir.text import print_graph
from egraph_fusion.pipeline import plan_for
from egraph_fusion.runtime.assemble import lower_plan

MACHINE = target()


def floats(g: GraphBuilder, name: str, *shape: int) -> str:
    return g.add_input(name, TensorType(DType.FLOAT32, shape))


def gated_conv(
    batch: int, channels: int, size: tuple[int, int], outputs: int, stride: int, pad: int = 0
) -> Graph:
    """A 1x1 convolution of an image whose channels are scaled, with a residual."""
    g = GraphBuilder("gated_conv")
    x, gate = floats(g, "x", batch, channels, *size), floats(g, "gate", batch, channels, 1, 1)
    scaled = weights(outputs, channels, 1, 1) / np.float32(channels**0.5)
    w, bias = g.const(scaled), g.const(weights(outputs))
    steps, pads = (stride, stride), (pad,) * 4
    y = g.op("Conv", g.op("Mul", x, gate), w, bias, strides=steps, pads=pads)
    shape = g.type_of(y).static_shape
    assert shape is not None
    g.output(g.op("Add", y, floats(g, "r", *shape)))
    return g.build()


def shifted_product(batch: tuple[int, ...], rows: int, depth: int, columns: int) -> Graph:
    """A product with packed weights of a sum that is clipped."""
    g = GraphBuilder("shifted_product")
    x = g.op("Add", floats(g, "x", *batch, rows, depth), floats(g, "b", depth))
    w = weights(depth, columns) / np.float32(depth**0.5)
    y = g.op("MatMul", g.op("Relu", x), g.const(w))
    g.output(g.op("Tanh", y))
    return g.build()


def batched_product(batch: int, rows: int, depth: int, columns: int) -> Graph:
    """A product of two activations, the left one scaled per row."""
    g = GraphBuilder("batched_product")
    x = g.op("Mul", floats(g, "x", batch, rows, depth), floats(g, "s", batch, rows, 1))
    g.output(g.op("MatMul", x, floats(g, "w", batch, depth, columns)))
    return g.build()


def transposed_product(rows: int, depth: int, columns: int) -> Graph:
    """A Gemm of a transposed operand, scaled."""
    g = GraphBuilder("transposed_product")
    x = g.op("Mul", floats(g, "x", depth, rows), number(g, 0.5))
    g.output(g.op("Gemm", x, g.const(weights(depth, columns)), transA=1))
    return g.build()


def concatenated_conv(left: int, right: int, size: int, outputs: int) -> Graph:
    """A 1x1 convolution of two images, one activated, side by side."""
    g = GraphBuilder("concatenated_conv")
    parts = floats(g, "a", 1, left, size, size), floats(g, "b", 1, right, size, size)
    x = g.op("Concat", parts[0], g.op("Relu", parts[1]), axis=1)
    g.output(g.op("Conv", x, g.const(weights(outputs, left + right, 1, 1))))
    return g.build()


def scaled_attention(queries: int, keys: int, size: int) -> Graph:
    """Attention of two heads whose queries are scaled."""
    g = GraphBuilder("scaled_attention")
    shapes = {"q": queries, "k": keys, "v": keys}
    q, k, v = (floats(g, name, 1, rows, 2 * size) for name, rows in shapes.items())
    q = heads(g, g.op("Mul", q, number(g, 0.3)), (0, 2, 1, 3), (1, queries, 2, size))
    k = heads(g, k, (0, 2, 3, 1), (1, keys, 2, size))
    v = heads(g, v, (0, 2, 1, 3), (1, keys, 2, size))
    y = g.op("MatMul", g.op("Softmax", g.op("MatMul", q, k), axis=-1), v)
    y = g.op("Transpose", y, perm=(0, 2, 1, 3))
    g.output(g.op("Reshape", y, shape=(1, queries, 2 * size)))
    return g.build()


SIZES = st.integers(1, 40)
PRODUCTS = st.one_of(
    st.builds(
        gated_conv,
        st.integers(1, 2),
        st.integers(2, 70),
        st.tuples(st.integers(2, 9), st.integers(2, 9)),
        SIZES,
        st.integers(1, 2),
        st.integers(0, 1),
    ),
    st.builds(shifted_product, st.sampled_from([(), (1,), (2, 3)]), SIZES, SIZES, SIZES),
    st.builds(batched_product, st.integers(1, 3), SIZES, SIZES, SIZES),
    st.builds(transposed_product, SIZES, SIZES, SIZES),
    st.builds(concatenated_conv, SIZES, SIZES, st.integers(1, 6), SIZES),
    st.builds(scaled_attention, st.integers(1, 20), st.integers(2, 20), st.integers(2, 9)),
)
LARGE = (
    gated_conv(1, 1152, (7, 7), 320, 1),
    gated_conv(1, 480, (14, 14), 112, 1),
    shifted_product((), 1, 2048, 1000),
    shifted_product((), 40, 9000, 40),
)


def error(case: Lowered, program: CProgram) -> float:
    inputs = draw(case.graph)
    got, expected = case.run(program, inputs), reference(case.graph, inputs)
    return max(worst(got[v], expected[v]) for v in case.graph.outputs)


@settings(max_examples=2)
@given(st.lists(PRODUCTS, min_size=25, max_size=25))
def test_products_of_computed_operands_are_right(graphs: list[Graph]) -> None:
    found = [lowered(graph, images=i % 2 == 1) for i, graph in enumerate(graphs)]
    program = program_of(found)
    for case in found:
        assert error(case, program) < 1e-5, print_graph(case.graph)


def test_large_products_of_computed_operands_are_right() -> None:
    found = [lowered(graph, images=True) for graph in LARGE]
    program = program_of(found)
    assert [g.name for g, c in zip(LARGE, found, strict=True) if error(c, program) > 2e-5] == []


@settings(max_examples=40)
@given(PRODUCTS, st.booleans())
def test_computed_operands_take_no_buffer(graph: Graph, images: bool) -> None:
    assert held(lowered(graph, images=images).block) == []


def held(block: LoweredBlock) -> list[str]:
    """Return the values inside the block that exist in full."""
    found = {b.name for b in block.kernel.buffers if b.role is Role.SCRATCH}
    return [a.holds for a in block.arguments if a.buffer in found and a.holds]


def scratch_of(kernel: Kernel) -> int:
    """Return the most bytes that one thread's scratch takes in a nest."""
    sizes = [0]
    for nest in nests(kernel):
        allocs = [s for s in dict.fromkeys(statements(nest.body)) if isinstance(s, Alloc)]
        known = [(a.size, a.dtype.itemsize) for a in allocs if isinstance(a.size, Const)]
        assert len(known) == len(allocs)
        sizes.append(sum(int(size.value) * itemsize for size, itemsize in known))
    return max(sizes)


@pytest.mark.parametrize("graph", LARGE, ids=lambda g: g.name)
def test_a_thread_s_scratch_fits_into_its_cache(graph: Graph) -> None:
    assert 0 < scratch_of(lowered(graph, images=True).block.kernel) <= MACHINE.l2


@pytest.mark.parametrize("graph", LARGE, ids=lambda g: g.name)
def test_every_thread_gets_work(graph: Graph) -> None:
    (loop,) = (n.parallel for n in nests(lowered(graph, images=True).block.kernel))
    assert loop is not None
    assert loop.kind is LoopKind.PARALLEL
    assert isinstance(loop.extent, Const)
    assert loop.extent.value >= MACHINE.threads


def block_of(graph: Graph, layouts: dict[str, Layout]) -> LoweredBlock:
    return lower_block(graph, graph.nodes, graph.inputs, graph.outputs, layouts, MACHINE)


@pytest.mark.parametrize("name", ["conv_norm_relu_pool", "depthwise_pointwise", "vector_operands"])
def test_a_block_with_a_value_in_full_is_refused(name: str) -> None:
    graph = graph_of(name)
    layouts = dict(choose_layouts(graph, [whole(graph)]))
    with pytest.raises(LoweringError, match="would exist in full inside"):
        block_of(graph, layouts)


def test_a_computed_right_operand_is_refused_by_name() -> None:
    g = GraphBuilder("right")
    x, w = floats(g, "x", 6, 20), floats(g, "w", 20, 30)
    g.output(g.op("MatMul", x, g.op("Abs", w, out="scaled")))
    with pytest.raises(LoweringError, match="'scaled' would exist in full"):
        block_of(g.build(), {})


def test_a_row_longer_than_the_cache_is_computed_as_it_is_read() -> None:
    g = GraphBuilder("long")
    x = g.op("Abs", floats(g, "x", 1, 200_000))
    g.output(g.op("MatMul", x, g.const(np.zeros((200_000, 1), np.float32))))
    kernel = block_of(g.build(), {}).kernel
    assert not any(b.role is Role.SCRATCH for b in kernel.buffers)
    assert scratch_of(kernel) <= MACHINE.l2


def squeeze_and_excite() -> Graph:
    """A gate per channel from the channel's mean, applied before a 1x1 convolution."""
    g = GraphBuilder("squeeze_and_excite")
    x = g.op("Relu", floats(g, "x", 1, 24, 10, 10))
    y = g.op("GlobalAveragePool", x)
    y = g.op("Relu", g.op("Conv", y, g.const(weights(6, 24, 1, 1)), g.const(weights(6))))
    y = g.op("Sigmoid", g.op("Conv", y, g.const(weights(24, 6, 1, 1)), g.const(weights(24))))
    y = g.op("Conv", g.op("Mul", x, y), g.const(weights(16, 24, 1, 1)), g.const(weights(16)))
    g.output(y)
    return g.build()


def planned(graph: Graph) -> tuple[Plan, Sequence[LoweredBlock | None]]:
    found = plan_for(graph, MACHINE)
    return found, lower_plan(found, MACHINE)[0]


def values_in_full(graph: Graph) -> list[str]:
    return [v for low in planned(graph)[1] if low is not None for v in held(low)]


@pytest.mark.parametrize("name", [n for n in BLOCKS if n not in ("softmax_over_rows",)])
def test_no_planned_block_holds_a_value_in_full(name: str) -> None:
    assert values_in_full(graph_of(name)) == []


def test_the_gate_of_a_squeeze_and_excite_block_joins_the_convolution() -> None:
    found, low = planned(squeeze_and_excite())
    ops = [[n.op for n in b.nodes] for b in found.blocks]
    assert ops[-1] == ["Mul", "Conv"]
    assert [v for block in low if block is not None for v in held(block)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_model_runs_one_kernel_a_block_and_none_holds_a_value_in_full(
    name: str, example_models: dict[str, Path]
) -> None:
    found, low = planned(ef.optimize(ef.load(example_models[name])).graph)
    assert [held(block) for block in low if block is not None] == [[]] * len(found.blocks)


def test_images_are_computed_on_where_they_lie() -> None:
    graph = gated_conv(1, 32, (6, 6), 8, 1)
    layouts = dict(choose_layouts(graph, [whole(graph)]))
    layouts |= {v: channels_last(4) for v in ("x", "gate", "r")}
    kernel = block_of(graph, layouts).kernel
    assert not any(b.role is Role.SCRATCH for b in kernel.buffers)
