"""Random models of the operators that real ones are made of, each from its seed.

`python tests/random_models.py FIRST LAST` runs those seeds through the whole pipeline and prints
each that is wrong, with its graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from rightness import in_float64

import egraph_fusion as ef
from egraph_fusion.errors import EgraphFusionError
from egraph_fusion.frontend import export
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.tensors import DType, TensorType, broadcast
from egraph_fusion.ir.text import print_graph

Array = NDArray[np.float32]
T = TypeVar("T")
Step = Callable[["Maker", str], str | None]
UNARY = (
    "Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Erf", "Gelu", "Softplus", "HardSwish", "HardSigmoid",
    "Elu", "LeakyRelu", "Selu", "Mish", "Softsign", "Cos", "Sin", "Floor", "Identity", "Sign",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "PRelu")
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare")
RTOL = 1e-5


class Maker:
    """Makes one model, step by step."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = GraphBuilder(f"random_{seed}", opset=20)
        self.values = self.inputs()

    def inputs(self) -> list[str]:
        """Add one or two inputs."""
        image = self.rng.random() < 0.5
        shapes = [self.image() if image else self.shape() for _ in range(self.pick((1, 2)))]
        kinds = [TensorType(DType.FLOAT32, s) for s in shapes]
        return [self.b.add_input(f"x{i}", kind) for i, kind in enumerate(kinds)]

    def build(self, count: int, steps: Sequence[Step]) -> Graph:
        """Take `count` of the steps; outputs are what nobody reads, and one value more."""
        for _ in range(count):
            step = self.pick(steps)
            made = step(self, self.recent())
            if made is not None and self.size(made) <= 4096:
                self.values.append(made)
        read = {v for n in self.b.nodes for v in n.inputs}
        computed = [v for v in self.values if v not in self.b.inputs]
        outputs = [v for v in dict.fromkeys(computed) if v not in read]
        for v in dict.fromkeys([*outputs, *self.some(computed, 1)]):
            self.b.output(v)
        if not self.b.outputs:
            self.b.output(self.b.op("Neg", self.values[0]))
        return self.b.build()

    def pick(self, options: Sequence[T]) -> T:
        """Return one of some options."""
        return options[int(self.rng.integers(len(options)))]

    def some(self, options: list[T], n: int) -> list[T]:
        """Return at most `n` of some options."""
        return [self.pick(options) for _ in range(n)] if options else []

    def recent(self) -> str:
        """Return a value, mostly one of the last ones."""
        return self.pick(self.values[-3:] if self.rng.random() < 0.8 else self.values)

    def shape(self) -> tuple[int, ...]:
        """Return a shape of rank 0 to 4."""
        rank = int(self.rng.choice([0, 1, 2, 3, 4], p=[0.04, 0.16, 0.4, 0.3, 0.1]))
        return tuple(int(self.rng.choice([1, 2, 3, 4, 5, 8, 16])) for _ in range(rank))

    def image(self) -> tuple[int, ...]:
        """Return the shape of a small image."""
        return (int(self.rng.integers(1, 3)), int(self.rng.choice([1, 2, 3, 4, 8])), 6, 7)

    def extents(self, v: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        found = self.b.type_of(v).static_shape
        assert found is not None
        return found

    def size(self, v: str) -> int:
        """Return the number of elements of a value."""
        return int(np.prod(self.extents(v)))

    def weights(self, *shape: int) -> str:
        """Return a constant of a shape; one in five is the same number all over."""
        if self.rng.random() < 0.2:
            number = self.pick((0.0, 1.0, -1.0, 0.5, 2.0))
            return self.b.const(np.full(shape, number, np.float32))
        return self.b.const((self.rng.standard_normal(shape) / 2).astype(np.float32))

    def axis(self, v: str) -> int:
        """Return an axis of a value, counted from either end."""
        rank = len(self.extents(v))
        return int(self.rng.integers(-rank, rank))


def _unary(m: Maker, x: str) -> str | None:
    return m.b.op(m.pick(UNARY), x)


def _constant(m: Maker, x: str) -> str | None:
    shape = m.extents(x)
    kept = [d if m.rng.random() < 0.6 else 1 for d in shape][int(m.rng.integers(len(shape) + 1)) :]
    pair = [x, m.weights(*kept)]
    op = m.pick(BINARY)
    return m.b.op(op, *(pair if op == "PRelu" or m.rng.random() < 0.6 else pair[::-1]))


def _divided(m: Maker, x: str) -> str | None:
    return m.b.op("Div", x, m.b.const(np.asarray(m.pick((0.5, 2.0, 3.0, 8.0)), np.float32)))


def _join(m: Maker, x: str) -> str | None:
    fitting = [v for v in m.values if broadcast(m.extents(v), m.extents(x)) is not None]
    return m.b.op(m.pick(BINARY[:-1]), x, m.pick(fitting))


def _where(m: Maker, x: str) -> str | None:
    fitting = [v for v in m.values if m.extents(v) == m.extents(x)]
    condition = m.b.op(m.pick(("Less", "Greater", "LessOrEqual")), x, m.weights(*m.extents(x)[-1:]))
    return m.b.op("Where", condition, m.pick(fitting), m.weights())


def _clip(m: Maker, x: str) -> str | None:
    low, high = (m.b.const(np.asarray(v, np.float32)) for v in (-0.7, 0.9))
    return m.b.op("Clip", x, low, high)


def _positive(m: Maker, x: str) -> str | None:
    safe = m.b.op("Add", m.b.op("Mul", x, x), m.b.const(np.asarray(0.1, np.float32)))
    return m.b.op(m.pick(("Sqrt", "Log", "Reciprocal")), safe)


def _exponential(m: Maker, x: str) -> str | None:
    return m.b.op("Exp", m.b.op("Tanh", x))


def _reduce(m: Maker, x: str) -> str | None:
    rank = len(m.extents(x))
    axes = (
        tuple(sorted({m.axis(x) % rank for _ in range(int(m.rng.integers(1, 3)))})) if rank else ()
    )
    return m.b.op(m.pick(REDUCTIONS), x, axes=axes, keepdims=int(m.rng.integers(2)))


def _softmax(m: Maker, x: str) -> str | None:
    return m.b.op("Softmax", x, axis=m.axis(x)) if m.extents(x) else None


def _normalized(m: Maker, x: str) -> str | None:
    if not m.extents(x):
        return None
    last = m.extents(x)[-1]
    return m.b.op("LayerNormalization", x, m.weights(last), m.weights(last), axis=-1)


def _transpose(m: Maker, x: str) -> str | None:
    return m.b.op("Transpose", x, perm=tuple(map(int, m.rng.permutation(len(m.extents(x))))))


def _reshape(m: Maker, x: str) -> str | None:
    shape = list(m.extents(x))
    if len(shape) > 1 and m.rng.random() < 0.5:
        at = int(m.rng.integers(len(shape) - 1))
        return m.b.op(
            "Reshape", x, shape=(*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        )
    if len(shape) < 4 and m.rng.random() < 0.5:
        return m.b.op("Unsqueeze", x, axes=(int(m.rng.integers(len(shape) + 1)),))
    return m.b.op("Flatten", x, axis=int(m.rng.integers(len(shape) + 1)))


def _concat(m: Maker, x: str) -> str | None:
    if not m.extents(x):
        return None
    axis = m.axis(x) % len(m.extents(x))

    def fits(v: str) -> bool:
        a, b = list(m.extents(v)), list(m.extents(x))
        same_dtype = m.b.type_of(v).dtype is m.b.type_of(x).dtype
        return (
            same_dtype and len(a) == len(b) and a[:axis] + a[axis + 1 :] == b[:axis] + b[axis + 1 :]
        )

    others = m.some([v for v in m.values if fits(v)], int(m.rng.integers(1, 3)))
    return m.b.op("Concat", x, *others, axis=axis)


def _split(m: Maker, x: str) -> str | None:
    axes = [i for i, d in enumerate(m.extents(x)) if d > 1]
    if not axes:
        return None
    axis = m.pick(axes)
    first = int(m.rng.integers(1, m.extents(x)[axis]))
    parts = m.b.node("Split", [x], 2, axis=axis, split=(first, m.extents(x)[axis] - first))
    m.values.append(parts[0])
    return parts[1]


def _slice(m: Maker, x: str) -> str | None:
    if not m.extents(x):
        return None
    axis = m.axis(x) % len(m.extents(x))
    extent = m.extents(x)[axis]
    start = int(m.rng.integers(extent))
    step = m.pick((1, 1, 2, -1))
    ends = (-extent - 1,) if step < 0 else (int(m.rng.integers(start, extent)) + 1,)
    return m.b.op("Slice", x, starts=(start,), ends=ends, axes=(axis,), steps=(step,))


def _gather(m: Maker, x: str) -> str | None:
    if not m.extents(x):
        return None
    axis = m.axis(x)
    indices = m.rng.integers(-m.extents(x)[axis], m.extents(x)[axis], int(m.rng.integers(1, 4)))
    return m.b.op("Gather", x, m.b.const(indices.astype(np.int64)), axis=axis)


def _pad(m: Maker, x: str) -> str | None:
    rank = len(m.extents(x))
    pads = tuple(map(int, m.rng.integers(0, 2, 2 * rank)))
    return m.b.op("Pad", x, pads=pads) if rank else None


def _expand(m: Maker, x: str) -> str | None:
    wider = tuple(3 if d == 1 else d for d in m.extents(x))
    return m.b.op("Expand", x, shape=(2, *wider) if len(wider) < 4 else wider)


def _matmul(m: Maker, x: str) -> str | None:
    shape = m.extents(x)
    if not shape:
        return None
    inner = [v for v in m.values if len(m.extents(v)) > 1 and m.extents(v)[-2] == shape[-1]]
    batched = [v for v in inner if broadcast(m.extents(v)[:-2], shape[:-2]) is not None]
    if batched and m.rng.random() < 0.4:
        return m.b.op("MatMul", x, m.pick(batched))
    return m.b.op("MatMul", x, m.weights(shape[-1], int(m.rng.choice([1, 2, 4, 7, 16]))))


def _gemm(m: Maker, x: str) -> str | None:
    shape = m.extents(x)
    if len(shape) != 2:
        return None
    columns = int(m.rng.choice([1, 3, 8]))
    flip = int(m.rng.integers(2))
    weights = m.weights(*((columns, shape[1]) if flip else (shape[1], columns)))
    return m.b.op("Gemm", x, weights, m.weights(columns), transB=flip, alpha=m.pick((1.0, 0.5)))


def _conv(m: Maker, x: str) -> str | None:
    shape = m.extents(x)
    if len(shape) != 4 or min(shape[2:]) < 3:
        return None
    groups = m.pick([g for g in (1, 1, 2, shape[1]) if shape[1] % g == 0])
    filters = groups * int(m.rng.integers(1, 4))
    kernel = m.pick((1, 3, 3))
    pads = (kernel // 2,) * 4 if m.rng.random() < 0.7 else (0,) * 4
    weights = m.weights(filters, shape[1] // groups, kernel, kernel)
    strides = m.pick(((1, 1), (1, 1), (2, 2)))
    operands = [x, weights, *([m.weights(filters)] if m.rng.random() < 0.5 else [])]
    return m.b.op(
        "Conv", *operands, group=groups, pads=pads, strides=strides, kernel_shape=(kernel, kernel)
    )


def _batch_norm(m: Maker, x: str) -> str | None:
    shape = m.extents(x)
    if len(shape) < 2:
        return None
    scale, bias, mean = (m.weights(shape[1]) for _ in range(3))
    spread = m.b.const((m.rng.random(shape[1]) + 0.5).astype(np.float32))
    return m.b.op("BatchNormalization", x, scale, bias, mean, spread)


def _pool(m: Maker, x: str) -> str | None:
    shape = m.extents(x)
    if len(shape) != 4 or min(shape[2:]) < 2:
        return None
    if m.rng.random() < 0.2:
        return m.b.op(m.pick(("GlobalAveragePool", "GlobalMaxPool")), x)
    pads = m.pick(((0, 0, 0, 0), (1, 1, 1, 1)))
    return m.b.op(
        m.pick(("MaxPool", "AveragePool")),
        x,
        kernel_shape=(2, 2),
        strides=m.pick(((1, 1), (2, 2))),
        pads=pads,
    )


MOVEMENT: tuple[Step, ...] = (_transpose, _reshape, _concat, _split, _slice, _gather, _expand)
STEPS: tuple[Step, ...] = (
    _unary, _unary, _constant, _constant, _divided, _join, _join, _where, _clip, _positive,
    _exponential, _reduce, _softmax, _normalized, *MOVEMENT, _pad, _matmul, _matmul, _gemm, _conv,
    _conv, _batch_norm, _pool,
)  # fmt: skip


def random_model(seed: int) -> Graph:
    """Return the graph of a seed: 4 to 30 steps."""
    maker = Maker(seed)
    return maker.build(int(maker.rng.integers(4, 31)), STEPS)


def inputs_of(graph: Graph, seed: int) -> dict[str, Array]:
    """Return standard normal inputs."""
    rng = np.random.default_rng(seed)
    shapes = {v: graph.types[v].static_shape or () for v in graph.inputs}
    return {v: rng.standard_normal(s).astype(np.float32) for v, s in shapes.items()}


def complaints(graph: Graph, seed: int) -> list[str]:
    """Return what is wrong with the compiled and with the rewritten model.

    The oracle is onnx.reference on the model in float64; discontinuous operators and large values
    are let off where float32 itself, by the same evaluator, is off.
    """
    model = export(graph)
    feeds = inputs_of(graph, seed)
    exact = _reference(in_float64(model), {k: v.astype(np.float64) for k, v in feeds.items()})
    single = _reference(model, feeds)
    after = export(ef.optimize(graph).graph)
    results = {
        "compiled": ef.compile(graph, threads=2).run(None, feeds),
        "compiled as it is": ef.compile(graph, threads=2, optimize=False).run(None, feeds),
        "rewritten": _reference(after, feeds),
    }
    return [
        f"{what}, output {i} ({graph.outputs[i]}): {said}"
        for what, outputs in results.items()
        for i, rows in enumerate(zip(exact, single, outputs, strict=True))
        if (said := _difference(*rows))
    ]


def _reference(model: onnx.ModelProto, feeds: dict[str, NDArray[np.floating]]) -> list[Array]:
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, feeds)]


def _difference(exact: Array, single: Array, own: Array) -> str:
    if own.shape != exact.shape:
        return f"shape {own.shape}, expected {exact.shape}"
    if not exact.size:
        return ""
    scale = max(1.0, float(np.abs(exact).max()))
    own_error, usual = (float(np.abs(v - exact).max()) / scale for v in (own, single))
    if own_error <= max(RTOL, 20 * usual):
        return ""
    return f"off by {own_error:.3g} of {scale:.3g}, float32 by {usual:.3g}"


def report_wrong(
    make: Callable[[int], Graph], judge: Callable[[Graph, int], list[str]], first: int, last: int
) -> int:
    """Run the seeds and print the wrong ones with their graphs; return the number of them."""
    wrong = 0
    for seed in range(first, last):
        graph = make(seed)
        try:
            found = judge(graph, seed)
        except (EgraphFusionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            found = [f"{type(error).__name__}: {error}"]
        if found:
            wrong += 1
            print(f"seed {seed}", *found, print_graph(graph, data=False), sep="\n", flush=True)
    print(f"{last - first} models, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(report_wrong(random_model, complaints, *map(int, sys.argv[1:3]))))
