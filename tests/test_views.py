"""Layout operators that no kernel runs: parts are written, and read, where they lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egraph_fusion.codegen.layout import channels_last, inside, row_major
from egraph_fusion.fusion.plan import Plan
from egraph_fusion.fusion.views import View, moved, part, regrouped, whole
from egraph_fusion.ir.build import GraphBuilder
from egraph_fusion.ir.graph import Array, Graph
from egraph_fusion.ir.ops.operator import OPERATORS
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.pipeline import Options, load, optimize, plan_for, session, target_info
from egraph_fusion.runtime.assemble import assemble, ports
from egraph_fusion.runtime.batch_build import build_many
from egraph_fusion.runtime.feeds import fixed_extents
from egraph_fusion.runtime.program import Program
from egraph_fusion.runtime.session import Session
from egraph_fusion.runtime.targets import load_native

TARGETS = ["c", pytest.param("opencl", marks=pytest.mark.opencl)]


def seen_through(view: View, base: Array, shape: tuple[int, ...], *, images: bool) -> Array:
    """Return what a view reads, by the strides that kernels use."""
    layout = channels_last(base.ndim) if images else row_major(base.ndim)
    found = inside(layout, base.shape, view)
    flat = np.ascontiguousarray(base.transpose(layout.order)).reshape(-1)[found.start :]
    bytes_ = tuple(s * base.itemsize for s in found.steps)
    return np.lib.stride_tricks.as_strided(flat, shape, bytes_)


@st.composite
def movements(draw: st.DrawFn) -> Graph:
    """A few layout operators one after another, each on a result of the one before."""
    b = GraphBuilder("movements")
    value = b.add_input("x", TensorType(DType.INT32, (2, 12, 3, 4)))
    for _ in range(draw(st.integers(1, 4))):
        shape = b.type_of(value).static_shape or ()
        axis = draw(st.integers(0, len(shape) - 1))
        match draw(st.sampled_from(["Split", "Slice", "Reshape", "Unsqueeze"])):
            case "Split":
                first = draw(st.integers(0, shape[axis]))
                sizes = (first, shape[axis] - first)
                pair = b.node("Split", [value], 2, axis=axis, split=sizes)
                value = pair[sizes[1] > sizes[0]]
            case "Slice":
                start, end = draw(st.integers(0, shape[axis] - 1)), draw(st.integers(-1, 20))
                ends = (max(end, start + 1),)
                value = b.op("Slice", value, axes=(axis,), starts=(start,), ends=ends, steps=(1,))
            case "Reshape":
                split = next(k for k in (4, 3, 2, 1) if shape[axis] % k == 0)
                new = (*shape[:axis], split, shape[axis] // split, *shape[axis + 1 :])
                if draw(st.booleans()) and len(shape) > 1:
                    new = (shape[0] * shape[1], *shape[2:])
                value = b.op("Reshape", value, shape=new)
            case _:
                value = b.op("Unsqueeze", value, axes=(axis,))
    b.output(value)
    return b.build()


@settings(max_examples=150)
@given(graph=movements(), images=st.booleans())
def test_a_view_reads_what_its_operators_would_copy(graph: Graph, images: bool) -> None:
    base = np.arange(2 * 12 * 3 * 4, dtype=np.int32).reshape(2, 12, 3, 4)
    view: View | None = whole("x", 4)
    values = {"x": base}
    for n in graph.nodes:
        results = OPERATORS[n.op].evaluate([values[n.inputs[0]]], n.attrs)
        values |= dict(zip(n.outputs, results, strict=True))
        used = next(
            i for i, v in enumerate(n.outputs) if graph.consumers.get(v) or v in graph.outputs
        )
        view = moved(graph, n, used, view) if view is not None else None
    wanted = values[graph.outputs[0]]
    if view is not None:
        got = seen_through(view, base, wanted.shape, images=images)
        np.testing.assert_array_equal(got, wanted)


def test_a_part_of_a_part_lies_in_the_outer_base() -> None:
    inner = part(whole("b", 2), 1, 2)
    outer = part(whole("c", 2), 1, 5)
    assert inner.within(outer) == View("c", ((0, 1), (1, 1)), (0, 7))


def test_dimensions_that_do_not_follow_one_another_cannot_merge() -> None:
    assert regrouped(part(whole("b", 2), 1, 1), (4, 5), (20,)) is None


class Net:
    """Small convolutional nets, built with seeded weights."""

    def __init__(self) -> None:
        self.b = GraphBuilder("net")
        self.random = np.random.default_rng(0)
        self.x = self.b.add_input("x", TensorType(DType.FLOAT32, (1, 6, 8, 8)))

    def channels(self, value: str) -> int:
        """Return the number of channels."""
        return int((self.b.type_of(value).static_shape or (0, 0))[1])

    def conv(self, x: str, channels: int, size: int = 1, group: int = 1) -> str:
        """Return a convolution that keeps the image's size."""
        shape = (channels, self.channels(x) // group, size, size)
        w = self.b.const(self.random.standard_normal(shape).astype(np.float32) / 4)
        pads = (size // 2,) * 4
        return self.b.op("Conv", x, w, pads=pads, group=group)

    def pool(self, x: str) -> str:
        """Return a max pooling that keeps the image's size."""
        return self.b.op("MaxPool", x, kernel_shape=(3, 3), pads=(1, 1, 1, 1))

    def concat(self, *parts: str) -> str:
        """Return the parts side by side."""
        return self.b.op("Concat", *parts, axis=1)

    def split(self, x: str) -> tuple[str, ...]:
        """Return the halves of the channels."""
        c = self.channels(x)
        return self.b.node("Split", [x], 2, axis=1, split=(c // 2, c - c // 2))

    def graph(self, *outputs: str) -> Graph:
        """Return the net."""
        for v in outputs:
            self.b.output(v)
        return self.b.build()


def skip_connection() -> Graph:
    """A value that is read twice is part of a concatenation (U-Net)."""
    n = Net()
    skip = n.b.op("Relu", n.conv(n.x, 8, 3))
    deep = n.pool(n.conv(skip, 8, 3))
    return n.graph(n.conv(n.concat(skip, deep), 5, 3))


def nested() -> Graph:
    """A concatenation is part of another, and both are read (DenseNet)."""
    n = Net()
    a = n.conv(n.x, 4)
    one = n.concat(a, n.pool(a))
    two = n.concat(one, n.conv(one, 5, 3))
    return n.graph(n.conv(two, 3), n.pool(one))


def pyramid() -> Graph:
    """Poolings of one value beside it (YOLO)."""
    n = Net()
    a = n.conv(n.x, 7)
    p = n.pool(a)
    return n.graph(n.conv(n.concat(a, p, n.pool(p)), 4))


def halves() -> Graph:
    """Halves of a pooled value, read by a convolution and a pooling."""
    n = Net()
    left, right = n.split(n.pool(n.conv(n.x, 10)))
    return n.graph(n.conv(left, 4, 3), n.pool(right))


def depthwise_half() -> Graph:
    """A depthwise convolution reads and another writes a part."""
    n = Net()
    left, right = n.split(n.pool(n.conv(n.x, 32)))
    wide = n.conv(right, 16, 3, group=16)
    both = n.concat(wide, n.pool(left))
    return n.graph(n.conv(both, 3), n.pool(wide))


def flat_rows() -> Graph:
    """Rows of a normalisation, cut and regrouped, are read in place."""
    b = GraphBuilder("rows")
    x = b.add_input("x", TensorType(DType.FLOAT32, (2, 5, 24)))
    soft = b.op("Softmax", x, axis=-1)
    q, k = b.node("Split", [soft], 2, axis=2, split=(8, 16))
    heads = b.op("Reshape", k, shape=(2, 5, 4, 4))
    b.output(b.op("ReduceMax", heads, axes=(3,), keepdims=0))
    b.output(b.op("ReduceSum", q, axes=(1,), keepdims=1))
    return b.build()


def shown_concatenation() -> Graph:
    """The caller sees the concatenation, of rank 3."""
    b = GraphBuilder("shown")
    x = b.add_input("x", TensorType(DType.FLOAT32, (2, 5, 24)))
    soft = b.op("Softmax", x, axis=-1)
    total = b.op("ReduceSum", soft, axes=(1,), keepdims=1)
    b.output(b.op("Concat", b.op("Softmax", soft, axis=1), total, axis=1))
    return b.build()


GRAPHS: dict[str, tuple[Callable[[], Graph], int]] = {
    "skip connection": (skip_connection, 4),
    "nested": (nested, 5),
    "pyramid": (pyramid, 4),
    "halves": (halves, 4),
    "depthwise half": (depthwise_half, 6),
    "flat rows": (flat_rows, 3),
    "shown concatenation": (shown_concatenation, 3),
}


def evaluated(graph: Graph, feeds: dict[str, Array]) -> list[Array]:
    """Return the outputs by the operators' numpy meanings, in float64."""
    values: dict[str, Array] = {k: v.astype(np.float64) for k, v in feeds.items()}
    values |= {k: c.array.astype(np.float64) for k, c in graph.constants.items()}
    for n in graph.nodes:
        operands = [values[v] if v else None for v in n.inputs]
        values |= dict(zip(n.outputs, OPERATORS[n.op].evaluate(operands, n.attrs), strict=True))
    return [values[v] for v in graph.outputs]


def expect_right(plan: Plan, compiled: Session) -> None:
    """Run and compare; launches are the plan's blocks."""
    graph = plan.graph
    random = np.random.default_rng(1)
    feeds: dict[str, Array] = {
        v: random.standard_normal(graph.types[v].static_shape or ()).astype(np.float32)
        for v in graph.inputs
    }
    for got, want in zip(compiled.run(None, feeds), evaluated(graph, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    assert [len(s.nodes) for s in compiled.profile()] == [len(b.nodes) for b in plan.blocks]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GRAPHS)
def test_values_inside_others_are_right(name: str, target: str) -> None:
    graph, options = GRAPHS[name][0](), Options(target=target, threads=2, optimize=False)
    expect_right(plan_for(graph, target_info(options)), session(graph, options))


@pytest.mark.parametrize("name", GRAPHS)
def test_no_kernel_runs_for_a_layout_operator(name: str) -> None:
    build, launches = GRAPHS[name]
    plan = plan_for(build(), target_info(Options()))
    moving = {"Concat", "Split", "Slice", "Reshape"}
    assert not any({n.op for n in k.nodes} <= moving for k in plan.launched)
    assert len(plan.blocks) == launches


def random_net(seed: int) -> Graph:
    """Some convolutions, poolings, activations, concatenations and splits."""
    n = Net()
    random = np.random.default_rng(seed)
    values = [n.conv(n.x, 8)]
    for _ in range(9):
        one, two = (
            values[int(i)] for i in random.integers(max(0, len(values) - 4), len(values), 2)
        )
        match int(random.integers(6)):
            case 0:
                values.append(n.conv(one, int(random.integers(2, 9)), int(random.choice([1, 3]))))
            case 1:
                values.append(n.pool(one))
            case 2:
                values.append(n.b.op("Relu", one))
            case 3:
                values += n.split(one) if n.channels(one) > 1 else ()
            case 4:
                values.append(n.conv(one, n.channels(one), 3, group=n.channels(one)))
            case _:
                values += [n.concat(one, two)] if n.channels(one) + n.channels(two) < 40 else []
    return n.graph(*dict.fromkeys([values[-1], values[-3], values[-5]]))


SEEDS = range(10)


@pytest.fixture(scope="module")
def random_sessions() -> list[tuple[Plan, Session]]:
    """The plans of random nets, compiled together."""
    options = Options(threads=2, optimize=False)
    target = target_info(options)
    plans = [plan_for(random_net(seed), target) for seed in SEEDS]
    programs = build_many((assemble(plan, target) for plan in plans), flags=("-O1",))
    found: list[tuple[Plan, Session]] = []
    for plan, program in zip(plans, programs, strict=True):
        assert isinstance(program, Program)
        sides = ports(plan.graph)
        extents = fixed_extents(sides[0])
        assert extents is not None
        found.append((plan, Session(sides, {extents: program}, lambda p: load_native(p, 2))))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_random_nets_are_right(seed: int, random_sessions: list[tuple[Plan, Session]]) -> None:
    expect_right(*random_sessions[seed])


def test_some_random_nets_have_views(random_sessions: list[tuple[Plan, Session]]) -> None:
    assert sum(bool(plan.views) for plan, _ in random_sessions) >= 3


def test_squeezenet_copies_nothing_to_concatenate(example_models: dict[str, Path]) -> None:
    graph = optimize(load(example_models["squeezenet1.1"])).graph
    kernels = plan_for(graph, target_info(Options())).launched
    assert any("Concat" in [n.op for n in k.nodes] for k in kernels)
    assert all(n.op != "Concat" or "Conv" in k.label() for k in kernels for n in k.nodes)


def test_the_plan_says_what_is_done_in_place() -> None:
    text = plan_for(skip_connection(), target_info(Options())).to_text()
    (line,) = (line for line in text.splitlines() if "Concat" in line)
    assert line.endswith("# in place")
