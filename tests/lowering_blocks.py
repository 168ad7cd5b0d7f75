"""Small blocks of every kind that lowering knows, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType

BLOCKS: dict[str, Callable[[GraphBuilder], list[str]]] = {}
"""Adds a block's nodes to a builder and returns its outputs."""


def block(build: Callable[[GraphBuilder], list[str]]) -> Callable[[GraphBuilder], list[str]]:
    """Enter a block under its function's name."""
    BLOCKS[build.__name__] = build
    return build


def graph_of(name: str) -> Graph:
    """Return the block `name` as a graph."""
    builder = GraphBuilder(name)
    for value in BLOCKS[name](builder):
        builder.output(value)
    return builder.build()


def given(g: GraphBuilder, name: str, *shape: int, dtype: DType = DType.FLOAT32) -> str:
    """Add a graph input."""
    return g.add_input(name, TensorType(dtype, shape))


def weights(*shape: int) -> NDArray[np.float32]:
    """Return seeded constants of a shape."""
    rng = np.random.default_rng(sum((i + 1) * d for i, d in enumerate(shape)))
    return rng.standard_normal(shape).astype(np.float32)


def number(g: GraphBuilder, value: float) -> str:
    """Add a constant of rank 0."""
    return g.const(np.asarray(value, np.float32))


def heads(g: GraphBuilder, x: str, perm: tuple[int, ...], size: tuple[int, ...]) -> str:
    """Split the last axis into heads and permute."""
    return g.op("Transpose", g.op("Reshape", x, shape=size), perm=perm)


@block
def broadcast_chain(g: GraphBuilder) -> list[str]:
    """Pointwise operators with a broadcast operand and a constant."""
    y = g.op("Gelu", g.op("Add", given(g, "a", 4, 6, 32), given(g, "b", 32)))
    return [g.op("Mul", y, number(g, 0.5))]


@block
def both_ways_broadcast(g: GraphBuilder) -> list[str]:
    """Both operands are broadcast; a select between them."""
    a, b = given(g, "a", 2, 1, 5), given(g, "b", 3, 1)
    return [g.op("Where", g.op("Less", a, b), a, b)]


@block
def scalars(g: GraphBuilder) -> list[str]:
    """Two outputs of rank 0."""
    a = given(g, "a")
    return [g.op("Exp", g.op("Mul", a, a)), g.op("Reshape", g.op("Abs", a), shape=(1,))]


@block
def transposed_view(g: GraphBuilder) -> list[str]:
    """Movement as index maps."""
    return [g.op("Relu", heads(g, given(g, "a", 4, 6, 32), (0, 2, 1, 3), (4, 6, 4, 8)))]


@block
def long_vector(g: GraphBuilder) -> list[str]:
    """One long loop, cut into chunks that do not divide it."""
    return [g.op("Exp", given(g, "a", 40_003))]


@block
def concat_consumer(g: GraphBuilder) -> list[str]:
    """A pointwise operator reads a concatenation."""
    a, b = given(g, "a", 2, 3, 8), given(g, "b", 2, 5, 8)
    return [g.op("Exp", g.op("Concat", a, b, axis=1))]


@block
def concat_inner(g: GraphBuilder) -> list[str]:
    """A concatenation along the contiguous axis."""
    a, b = given(g, "a", 2, 3, 8), given(g, "b", 2, 3, 5)
    return [g.op("Relu", g.op("Concat", a, b, a, axis=2))]


@block
def split_producer(g: GraphBuilder) -> list[str]:
    """Two outputs of one split, of different shapes."""
    outs = g.node("Split", [g.op("Exp", given(g, "a", 2, 12))], 2, axis=1, split=(5, 7))
    return [g.op("Neg", outs[0]), g.op("Sqrt", outs[1])]


@block
def padded_slice(g: GraphBuilder) -> list[str]:
    """Pad and strided Slice compose."""
    y = g.op("Pad", given(g, "a", 3, 7), pads=(1, 2, 0, 3), mode="constant")
    return [g.op("Slice", y, starts=(1,), ends=(11,), axes=(1,), steps=(2,))]


@block
def gather_rows(g: GraphBuilder) -> list[str]:
    """An embedding: a gather with run-time indices, and an addition."""
    i = given(g, "i", 2, 5, dtype=DType.INT64)
    y = g.op("Gather", g.const(weights(30, 16)), i, axis=0)
    return [g.op("Add", y, g.const(weights(5, 16)))]


@block
def integers(g: GraphBuilder) -> list[str]:
    """Integer arithmetic, a comparison and a cast."""
    a, b = given(g, "a", 6, 9, dtype=DType.INT32), given(g, "b", 9, dtype=DType.INT32)
    less = g.op("Less", g.op("Mul", a, b), g.op("Sub", b, a))
    return [g.op("Cast", less, to="float32"), g.op("Max", a, b)]


@block
def half_precision(g: GraphBuilder) -> list[str]:
    """float16 values, computed in float32."""
    a = given(g, "a", 5, 40, dtype=DType.FLOAT16)
    return [g.op("ReduceSum", g.op("Mul", a, a), axes=(1,), keepdims=0)]


@block
def softmax(g: GraphBuilder) -> list[str]:
    """A composite of two reductions."""
    return [g.op("Softmax", given(g, "a", 4, 6, 37), axis=-1)]


@block
def masked_softmax(g: GraphBuilder) -> list[str]:
    """Softmax after scaling and an additive mask."""
    y = g.op("Div", given(g, "a", 2, 3, 6, 20), number(g, 8))
    return [g.op("Softmax", g.op("Add", y, given(g, "mask", 2, 1, 1, 20)), axis=-1)]


@block
def softmax_over_rows(g: GraphBuilder) -> list[str]:
    """Softmax over an axis that is not contiguous."""
    return [g.op("Softmax", given(g, "a", 3, 12, 20), axis=1)]


@block
def softmax_of_one(g: GraphBuilder) -> list[str]:
    """Softmax over an axis of extent 1: no loop separates the two reductions."""
    y = g.op("Div", given(g, "a", 6, 1), number(g, 8.0))
    return [y, g.op("Sub", g.op("Softmax", y, axis=1), y)]


@block
def layer_norm(g: GraphBuilder) -> list[str]:
    """Layer norm of a sum; the sum is used outside too."""
    x = g.op("Add", given(g, "a", 4, 48), given(g, "b", 4, 48))
    scale, bias = g.const(weights(48)), g.const(weights(48))
    return [g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5), x]


@block
def written_layer_norm(g: GraphBuilder) -> list[str]:
    """Layer norm spelt with ReduceMean, Pow and Sqrt, as older exporters do."""
    x = given(g, "a", 2, 5, 33)
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=(2,), keepdims=1))
    square = g.op("Pow", centred, number(g, 2))
    spread = g.op("ReduceMean", square, axes=(2,), keepdims=1)
    root = g.op("Sqrt", g.op("Add", spread, number(g, 1e-5)))
    return [g.op("Mul", g.op("Div", centred, root), g.const(weights(33)))]


@block
def instance_norm(g: GraphBuilder) -> list[str]:
    """Rows of two axes."""
    x = given(g, "a", 2, 6, 5, 7)
    return [g.op("InstanceNormalization", x, g.const(weights(6)), g.const(weights(6)))]


@block
def two_reductions(g: GraphBuilder) -> list[str]:
    """Reductions over different axes of one operand."""
    a = given(g, "a", 3, 20, 16)
    first = g.op("ReduceSum", a, axes=(1,), keepdims=0)
    return [first, g.op("ReduceMax", a, axes=(0, 2), keepdims=1)]


@block
def reduce_everything(g: GraphBuilder) -> list[str]:
    """A result of rank 0, and arithmetic with it."""
    total = g.op("ReduceMean", given(g, "a", 7, 11), axes=(0, 1), keepdims=0)
    return [total, g.op("Sqrt", g.op("Abs", total))]


@block
def global_pool(g: GraphBuilder) -> list[str]:
    """Global average pooling, then flattened."""
    return [g.op("Flatten", g.op("GlobalAveragePool", given(g, "a", 2, 20, 5, 6)), axis=1)]


@block
def pools(g: GraphBuilder) -> list[str]:
    """Overlapping, padded windows."""
    a = given(g, "a", 1, 12, 9, 9)
    pooled = [
        g.op(name, a, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
        for name in ("MaxPool", "AveragePool")
    ]
    return [pooled[0], g.op("Relu", pooled[1])]


@block
def argmax(g: GraphBuilder) -> list[str]:
    """A search along an axis."""
    return [g.op("ArgMax", given(g, "a", 3, 7, 5), axis=1, keepdims=0)]


@block
def prefix_sums(g: GraphBuilder) -> list[str]:
    """CumSum."""
    return [g.op("CumSum", given(g, "a", 3, 9), axis=1)]


@block
def matmul_bias_relu(g: GraphBuilder) -> list[str]:
    """A matrix product with packed weights; neither rows nor columns fill tiles."""
    y = g.op("MatMul", given(g, "a", 2, 7, 24), g.const(weights(24, 45)))
    return [g.op("Relu", g.op("Add", y, g.const(weights(45))))]


@block
def matmul_to_heads(g: GraphBuilder) -> list[str]:
    """Columns that split into heads narrower than a vector, transposed."""
    y = g.op("MatMul", given(g, "a", 1, 9, 24), g.const(weights(24, 78)))
    y = g.op("Add", y, g.const(weights(78)))
    return [heads(g, y, (0, 2, 1, 3), (1, 9, 3, 26))]


@block
def matmul_to_keys(g: GraphBuilder) -> list[str]:
    """The transposition that keys take."""
    y = g.op("MatMul", given(g, "a", 2, 8, 24), g.const(weights(24, 32)))
    return [heads(g, y, (0, 2, 3, 1), (2, 8, 2, 16))]


@block
def product_split(g: GraphBuilder) -> list[str]:
    """Queries, keys and values from one product: parts of its columns that fill no tiles."""
    y = g.op("MatMul", given(g, "a", 1, 9, 24), g.const(weights(24, 90)))
    y = g.op("Add", y, g.const(weights(90)))
    q, k, v = g.node("Split", [y], 3, axis=2, split=(30, 30, 30))
    size = (1, 9, 3, 10)
    perms = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    return [heads(g, x, perm, size) for x, perm in zip((q, k, v), perms, strict=True)]


@block
def product_halves(g: GraphBuilder) -> list[str]:
    """Halves of whole tiles; one is used twice."""
    y = g.op("Gemm", given(g, "a", 7, 24), g.const(weights(24, 128)), g.const(weights(128)))
    left, right = g.node("Split", [y], 2, axis=1, split=(64, 64))
    return [g.op("Relu", left), g.op("Sigmoid", right), right]


@block
def scores(g: GraphBuilder) -> list[str]:
    """A batched product of two activations, read through index maps, then scaled and masked."""
    q, k = given(g, "q", 2, 5, 16), given(g, "k", 2, 5, 16)
    y = g.op(
        "MatMul",
        heads(g, q, (0, 2, 1, 3), (2, 5, 2, 8)),
        heads(g, k, (0, 2, 3, 1), (2, 5, 2, 8)),
    )
    y = g.op("Div", y, number(g, 2.83))
    return [g.op("Add", y, given(g, "mask", 2, 1, 1, 5))]


@block
def context(g: GraphBuilder) -> list[str]:
    """Scores times values, merged back from heads."""
    v = heads(g, given(g, "v", 2, 5, 16), (0, 2, 1, 3), (2, 5, 2, 8))
    y = g.op("MatMul", given(g, "p", 2, 2, 5, 5), v)
    return [g.op("Reshape", g.op("Transpose", y, perm=(0, 2, 1, 3)), shape=(2, 5, 16))]


@block
def gemm(g: GraphBuilder) -> list[str]:
    """Gemm with all its attributes."""
    a, w, c = given(g, "a", 3, 24), g.const(weights(10, 24)), g.const(weights(10))
    return [g.op("Gemm", a, w, c, transB=1, alpha=0.5, beta=2.0)]


@block
def gemm_transposed(g: GraphBuilder) -> list[str]:
    """A left operand whose depth is not contiguous."""
    a, w = given(g, "a", 24, 7), given(g, "w", 24, 20)
    return [g.op("Gemm", a, w, transA=1)]


@block
def matvec(g: GraphBuilder) -> list[str]:
    """One row."""
    return [g.op("Tanh", g.op("MatMul", given(g, "a", 1, 300), g.const(weights(300, 70))))]


@block
def deep_matmul(g: GraphBuilder) -> list[str]:
    """A depth so large that the reduction is cut into cache blocks."""
    return [g.op("MatMul", given(g, "a", 30, 5000), g.const(weights(5000, 40)))]


@block
def vector_operands(g: GraphBuilder) -> list[str]:
    """MatMul of vectors."""
    a, b, c = given(g, "a", 9), given(g, "b", 2, 9, 4), given(g, "c", 4)
    return [g.op("MatMul", g.op("MatMul", a, b), c)]


@block
def double_matmul(g: GraphBuilder) -> list[str]:
    """A product in float64."""
    a = given(g, "a", 3, 6, dtype=DType.FLOAT64)
    return [g.op("MatMul", a, g.const(weights(6, 5).astype(np.float64)))]


@block
def gelu_prologue(g: GraphBuilder) -> list[str]:
    """A pointwise operator before a product."""
    return [g.op("MatMul", g.op("Gelu", given(g, "a", 3, 24)), g.const(weights(24, 40)))]


@block
def product_then_softmax(g: GraphBuilder) -> list[str]:
    """A contraction and reductions in one block; the product is used outside too."""
    y = g.op("MatMul", given(g, "a", 3, 24), g.const(weights(24, 40)))
    return [g.op("Softmax", y, axis=-1), y]


@block
def attention(g: GraphBuilder) -> list[str]:
    """Contraction, softmax, contraction."""
    q, k, v = (given(g, name, 2, 6, 16) for name in "qkv")
    y = g.op("Softmax", g.op("MatMul", q, g.op("Transpose", k, perm=(0, 2, 1))), axis=-1)
    return [g.op("MatMul", y, v)]


@block
def masked_attention(g: GraphBuilder) -> list[str]:
    """Attention as transformers have it: heads split and merged, scaled and masked scores."""
    q, k, v = (given(g, name, 1, 9, 24) for name in "qkv")
    size = (1, 9, 3, 8)
    y = g.op("MatMul", heads(g, q, (0, 2, 1, 3), size), heads(g, k, (0, 2, 3, 1), size))
    y = g.op("Add", g.op("Div", y, number(g, 2.83)), given(g, "mask", 1, 1, 1, 9))
    y = g.op("MatMul", g.op("Softmax", y, axis=-1), heads(g, v, (0, 2, 1, 3), size))
    return [g.op("Reshape", g.op("Transpose", y, perm=(0, 2, 1, 3)), shape=(1, 9, 24))]


@block
def conv_norm_relu_pool(g: GraphBuilder) -> list[str]:
    """A convolution with batch norm, Relu and pooling."""
    y = g.op("Conv", given(g, "a", 1, 8, 12, 12), g.const(weights(20, 8, 3, 3)), pads=(1, 1, 1, 1))
    scale, bias, mean = (g.const(weights(20) + np.float32(i)) for i in range(3))
    variance = g.const(np.abs(weights(20)) + np.float32(0.5))
    y = g.op("Relu", g.op("BatchNormalization", y, scale, bias, mean, variance, epsilon=1e-5))
    return [g.op("MaxPool", y, kernel_shape=(3, 3), strides=(2, 2))]


@block
def strided_conv(g: GraphBuilder) -> list[str]:
    """A strided, padded convolution with a bias and a residual."""
    y = g.op(
        "Conv",
        given(g, "a", 1, 8, 9, 9),
        g.const(weights(20, 8, 3, 3)),
        g.const(weights(20)),
        pads=(1, 1, 1, 1),
        strides=(2, 2),
    )
    return [g.op("Relu", g.op("Add", y, given(g, "r", 1, 20, 5, 5)))]


@block
def first_conv(g: GraphBuilder) -> list[str]:
    """Few input channels: lines of taps become rows."""
    w = g.const(weights(20, 3, 3, 3))
    return [g.op("Conv", given(g, "a", 2, 3, 11, 10), w, pads=(1, 1, 1, 1), strides=(2, 2))]


@block
def line_conv(g: GraphBuilder) -> list[str]:
    """One spatial dimension, dilated."""
    w = g.const(weights(9, 4, 3))
    return [g.op("Conv", given(g, "a", 2, 4, 17), w, pads=(2, 2), dilations=(2,))]


@block
def fire(g: GraphBuilder) -> list[str]:
    """Two convolutions of one operand write the halves of a concatenation."""
    x = given(g, "a", 1, 8, 6, 6)
    left = g.op("Conv", x, g.const(weights(12, 8, 1, 1)), g.const(weights(12)))
    right = g.op("Conv", x, g.const(weights(20, 8, 3, 3)), g.const(weights(20)), pads=(1, 1, 1, 1))
    return [g.op("Concat", g.op("Relu", left), g.op("Relu", right), axis=1)]


@block
def fire_activated(g: GraphBuilder) -> list[str]:
    """A scale per channel and an activation of a concatenation are done on its parts."""
    x = given(g, "a", 1, 8, 6, 6)
    left = g.op("Conv", x, g.const(weights(12, 8, 1, 1)), g.const(weights(12)))
    right = g.op("Conv", x, g.const(weights(20, 8, 3, 3)), g.const(weights(20)), pads=(1, 1, 1, 1))
    both = g.op("Mul", g.op("Concat", left, right, axis=1), g.const(weights(32, 1, 1)))
    return [g.op("Mul", both, g.op("Sigmoid", both))]


@block
def depthwise_pointwise(g: GraphBuilder) -> list[str]:
    """A depthwise convolution with Clip, then a 1x1 convolution."""
    y = g.op(
        "Conv",
        given(g, "a", 1, 12, 9, 9),
        g.const(weights(12, 1, 3, 3)),
        g.const(weights(12)),
        pads=(1, 1, 1, 1),
        group=12,
    )
    y = g.op("Clip", y, number(g, 0), number(g, 6))
    return [g.op("Conv", y, g.const(weights(20, 12, 1, 1)))]


@block
def grouped_conv(g: GraphBuilder) -> list[str]:
    """Groups of several channels."""
    w = g.const(weights(24, 4, 3, 3))
    return [g.op("Relu", g.op("Conv", given(g, "a", 1, 12, 9, 9), w, pads=(1, 1, 1, 1), group=3))]


@block
def upsampling_conv(g: GraphBuilder) -> list[str]:
    """A ConvTranspose whose windows lie side by side, with what follows it."""
    w, bias = g.const(weights(6, 20, 2, 3)), g.const(weights(20))
    y = g.op("ConvTranspose", given(g, "a", 2, 6, 5, 4), w, bias, strides=(2, 3))
    return [g.op("Relu", g.op("Mul", y, g.const(weights(20, 1, 1))))]


@block
def shifted_upsampling_conv(g: GraphBuilder) -> list[str]:
    """A ConvTranspose of as many outputs as if windows lay side by side, but cropped in front."""
    w = g.const(weights(6, 5, 2))
    x = given(g, "a", 1, 6, 7)
    return [g.op("ConvTranspose", x, w, strides=(2,), pads=(1, 0), output_padding=(1,))]


@block
def transposed_conv(g: GraphBuilder) -> list[str]:
    """ConvTranspose as a guarded gather."""
    return [
        g.op(
            "ConvTranspose",
            given(g, "a", 1, 6, 5, 5),
            g.const(weights(6, 4, 3, 3)),
            g.const(weights(4)),
            pads=(1, 1, 1, 1),
            strides=(2, 2),
            output_padding=(1, 1),
        )
    ]


@block
def einsum(g: GraphBuilder) -> list[str]:
    """An einsum with a summed and a batch subscript."""
    a, b = given(g, "a", 2, 4, 5), given(g, "b", 2, 5, 3)
    return [g.op("Einsum", a, b, equation="bij,bjk->bik")]


@block
def empty(g: GraphBuilder) -> list[str]:
    """A result without elements, and a sum over none."""
    a = given(g, "a", 3, 0)
    return [g.op("Relu", a), g.op("ReduceSum", a, axes=(1,), keepdims=0)]
