"""Random small blocks: chains and joins of operators over a few shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType

Step = Callable[[GraphBuilder, "st.DataObject", str], str]

UNARY = ("Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Erf", "Gelu", "Softsign", "HardSwish")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceMin")


def shape_of(g: GraphBuilder, value: str) -> tuple[int, ...]:
    """Return the static shape of a value."""
    found = g.type_of(value).static_shape
    assert found is not None
    return found


def weights(data: st.DataObject, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return constants of a shape from a drawn seed."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    return (rng.standard_normal(shape) / 2).astype(np.float32)


def unary(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Apply a function."""
    return g.op(data.draw(st.sampled_from(UNARY)), x)


def with_constant(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Combine with a constant whose shape broadcasts."""
    shape = shape_of(g, x)
    kept = [d if data.draw(st.booleans()) else 1 for d in shape]
    start = data.draw(st.integers(0, len(shape)))
    return g.op(data.draw(st.sampled_from(BINARY)), x, g.const(weights(data, *kept[start:])))


def join(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Combine with an earlier value of the same shape."""
    same = [v for v, t in g.types.items() if t == g.type_of(x)]
    return g.op(data.draw(st.sampled_from(BINARY)), x, data.draw(st.sampled_from(same)))


def transpose(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Permute the axes."""
    rank = len(shape_of(g, x))
    return g.op("Transpose", x, perm=tuple(data.draw(st.permutations(range(rank)))))


def reshape(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Merge two neighbouring axes, or add an axis."""
    shape = list(shape_of(g, x))
    if len(shape) < 2 or data.draw(st.booleans()):
        return g.op("Unsqueeze", x, axes=(data.draw(st.integers(0, len(shape))),))
    at = data.draw(st.integers(0, len(shape) - 2))
    merged = [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    return g.op("Reshape", x, shape=tuple(merged))


def reduction(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Reduce some axes."""
    rank = len(shape_of(g, x))
    axes = data.draw(st.sets(st.integers(0, max(0, rank - 1)), max_size=rank))
    name = data.draw(st.sampled_from(REDUCTIONS))
    keepdims = data.draw(st.integers(0, 1))
    return g.op(name, x, axes=tuple(sorted(axes)), keepdims=keepdims) if rank else x


def centred(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Subtract the mean along an axis, as layer norm does."""
    rank = len(shape_of(g, x))
    if not rank:
        return x
    axis = data.draw(st.integers(0, rank - 1))
    return g.op("Sub", x, g.op("ReduceMean", x, axes=(axis,), keepdims=1))


def softmax(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Softmax along an axis."""
    rank = len(shape_of(g, x))
    return g.op("Softmax", x, axis=data.draw(st.integers(0, rank - 1))) if rank else x


def matmul(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Multiply by a constant matrix."""
    shape = shape_of(g, x)
    if not shape:
        return x
    return g.op("MatMul", x, g.const(weights(data, shape[-1], data.draw(st.integers(1, 40)))))


def concat(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Concatenate with itself or an earlier value of the same shape."""
    shape = shape_of(g, x)
    if not shape:
        return x
    same = [v for v, t in g.types.items() if t == g.type_of(x)]
    other = data.draw(st.sampled_from(same))
    return g.op("Concat", x, other, axis=data.draw(st.integers(0, len(shape) - 1)))


def part(g: GraphBuilder, data: st.DataObject, x: str) -> str:
    """Slice one axis, with a step."""
    shape = shape_of(g, x)
    if not shape:
        return x
    axis = data.draw(st.integers(0, len(shape) - 1))
    start = data.draw(st.integers(0, max(0, shape[axis] - 1)))
    step = data.draw(st.integers(1, 2))
    return g.op("Slice", x, starts=(start,), ends=(shape[axis],), axes=(axis,), steps=(step,))


STEPS: tuple[Step, ...] = (
    unary,
    with_constant,
    join,
    transpose,
    reshape,
    reduction,
    centred,
    softmax,
    matmul,
    concat,
    part,
)


@st.composite
def blocks(draw: st.DrawFn) -> Graph:
    """A block of two to seven steps from one or two inputs; some inner values are outputs too."""
    data = draw(st.data())
    g = GraphBuilder("block")
    shape = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 5, 17)), min_size=1, max_size=4)))
    values = [g.add_input("a", TensorType(DType.FLOAT32, shape))]
    if draw(st.booleans()):
        values.append(g.add_input("b", TensorType(DType.FLOAT32, shape)))
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=7)):
        made = step(g, data, draw(st.sampled_from(values[-3:])))
        if len(shape_of(g, made)) <= 5 and np.prod(shape_of(g, made)) <= 20_000:
            values.append(made)
    inner = [v for v in values if v not in ("a", "b")] or [unary(g, data, values[0])]
    wanted = {inner[-1], *draw(st.lists(st.sampled_from(inner), max_size=2))}
    for value in inner:
        if value in wanted:
            g.output(value)
            wanted.discard(value)
    return g.build()


@st.composite
def images(draw: st.DrawFn) -> Graph:
    """A convolution or pooling of any window, with something before or after it."""
    data = draw(st.data())
    g = GraphBuilder("image")
    rank = draw(st.integers(1, 2))
    group, each = draw(st.sampled_from(((1, 3), (1, 8), (1, 17), (2, 4), (6, 1), (19, 1))))
    size = [draw(st.integers(5, 12)) for _ in range(rank)]
    x = g.add_input("a", TensorType(DType.FLOAT32, (draw(st.integers(1, 2)), group * each, *size)))
    if draw(st.booleans()):
        x = unary(g, data, x)
    y = draw(st.sampled_from((convolution, pool)))(g, data, x, group)
    if draw(st.booleans()):
        y = g.op("Add", y, y) if draw(st.booleans()) else with_constant(g, data, y)
    g.output(unary(g, data, y))
    if draw(st.booleans()):
        g.output(y)
    return g.build()


def window(
    data: st.DataObject, size: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Draw kernel, strides, pads and dilations that leave a result."""
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in size)
    dilations = tuple(data.draw(st.integers(1, 2)) for _ in size)
    strides = tuple(data.draw(st.integers(1, 3)) for _ in size)
    pads = tuple(data.draw(st.integers(0, k - 1)) for k in (*kernel, *kernel))
    return kernel, strides, pads, dilations


def convolution(g: GraphBuilder, data: st.DataObject, x: str, group: int) -> str:
    """Convolve, or convolve transposed."""
    _, channels, *size = shape_of(g, x)
    kernel, strides, pads, dilations = window(data, tuple(size))
    outer = group * data.draw(st.sampled_from((1, 1, 3, 9)))
    if data.draw(st.integers(0, 4)) == 0:
        w = g.const(weights(data, channels, outer // group, *kernel))
        return g.op("ConvTranspose", x, w, strides=strides, pads=pads, group=group)
    operands = [x, g.const(weights(data, outer, channels // group, *kernel))]
    if data.draw(st.booleans()):
        operands.append(g.const(weights(data, outer)))
    return g.op("Conv", *operands, strides=strides, pads=pads, dilations=dilations, group=group)


def pool(g: GraphBuilder, data: st.DataObject, x: str, _group: int) -> str:
    """Pool with a maximum or an average."""
    kernel, strides, pads, _ = window(data, shape_of(g, x)[2:])
    if data.draw(st.booleans()):
        return g.op("MaxPool", x, kernel_shape=kernel, strides=strides, pads=pads)
    include = data.draw(st.integers(0, 1))
    return g.op(
        "AveragePool",
        x,
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        count_include_pad=include,
    )
