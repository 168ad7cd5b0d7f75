"""Lower whole graphs as single blocks, compile many at once, run them, and compare in float64."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
from kernel_runner import CProgram, OpenCLProgram
from numpy.typing import NDArray

from egraph_fusion.codegen import build
from egraph_fusion.codegen.layout import Layout, channels_last, choose_layouts
from egraph_fusion.codegen.loops import Const, Role
from egraph_fusion.codegen.lower import LoweredBlock, lower_block
from egraph_fusion.codegen.schedule import TargetInfo
from egraph_fusion.fusion.plan import Block
from egraph_fusion.ir.graph import Graph
from egraph_fusion.ir.ops.operator import OPERATORS, MappingType
from egraph_fusion.ir.tensors import DType

Values = Mapping[str, NDArray[Any]]


@cache
def vector_floats() -> int:
    """Floats per vector of the machine that the tests compile for."""
    compiler = build.find_compiler().command
    flags = build.target_flags(None)
    command = [*compiler, *flags, "-dM", "-E", "-x", "c", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return 16 if "__AVX512F__ " in macros else 8 if "__AVX__ " in macros else 4


def target(vectors: int | None = None) -> TargetInfo:
    """The machine of the tests, with small caches."""
    return TargetInfo(vectors or vector_floats(), 32 * 1024, 512 * 1024, threads=2)


@dataclass(frozen=True)
class Lowered:
    """A graph as one block, its kernel and the layouts of what it reads and writes."""

    graph: Graph
    layouts: Mapping[str, Layout]
    block: LoweredBlock

    def run(self, program: CProgram | OpenCLProgram, values: Values) -> dict[str, NDArray[Any]]:
        """Run the kernel on logical arrays and return the outputs as logical arrays."""
        arrays: dict[str, NDArray[Any]] = {}
        for buffer, a in zip(self.block.kernel.buffers, self.block.arguments, strict=True):
            assert isinstance(buffer.size, Const)
            if a.constant is not None:
                arrays[buffer.name] = a.constant.array.copy()
            elif buffer.role is Role.IN:
                arrays[buffer.name] = _physical(values[a.value], self.layouts[a.value])
            else:
                rubbish = np.full(int(buffer.size.value), 77)
                arrays[buffer.name] = rubbish.astype(buffer.dtype.numpy)
        program.run(self.block.kernel, arrays)
        written = zip(self.block.kernel.buffers, self.block.arguments, strict=True)
        found = {a.value: arrays[b.name] for b, a in written if b.role is Role.OUT}
        return {v: self._logical(v, found.get(v)) for v in self.graph.outputs}

    def _logical(self, value: str, flat: NDArray[Any] | None) -> NDArray[Any]:
        shape = self.graph.types[value].static_shape
        assert shape is not None
        if flat is None:
            return np.zeros(shape, self.graph.types[value].dtype.numpy)
        order = self.layouts[value].order
        inner = flat.reshape(-1)[: prod(shape)].reshape([shape[d] for d in order])
        return np.transpose(inner, sorted(range(len(order)), key=lambda i: order[i]))


def _physical(array: NDArray[Any], layout: Layout) -> NDArray[Any]:
    return np.ascontiguousarray(np.transpose(array, layout.order)).reshape(-1)


def whole(graph: Graph) -> Block:
    """Return all nodes of `graph` as one block."""
    return Block(graph.nodes, MappingType.ONE_TO_ONE, graph.inputs, graph.outputs)


def lowered(graph: Graph, images: bool = False, vectors: int | None = None) -> Lowered:
    """Lower `graph` as one block; with `images`, all values of rank 4 lie channels last.

    `vectors` is the number of floats per vector (None: this machine's).  The graph need not be
    one that the planner fuses: values inside may exist in full.
    """
    layouts = dict(choose_layouts(graph, [whole(graph)]))
    if images:
        layouts |= {v: channels_last(4) for v, found in layouts.items() if len(found.order) == 4}
    nodes, ins, outs = graph.nodes, graph.inputs, graph.outputs
    block = lower_block(graph, nodes, ins, outs, layouts, target(vectors), staged=True)
    return Lowered(graph, layouts, block)


def program_of(cases: Iterable[Lowered]) -> CProgram:
    """Compile the distinct kernels of many cases together."""
    return CProgram(list({c.block.kernel.name: c.block.kernel for c in cases}.values()))


def wide(array: NDArray[Any]) -> NDArray[Any]:
    """Return floating-point values in float64."""
    return array.astype(np.float64) if DType.of(array.dtype).is_float else array


def reference(graph: Graph, values: Values) -> dict[str, NDArray[Any]]:
    """Evaluate `graph` with the registry's numpy meanings, its floats in float64."""
    known: dict[str, NDArray[Any]] = {v: wide(a) for v, a in values.items()}
    known |= {v: wide(c.array) for v, c in graph.constants.items()}
    for n in graph.nodes:
        attrs = dict(n.attrs)
        if n.op == "Cast" and DType(str(attrs["to"])).is_float:
            attrs["to"] = "float64"
        results = OPERATORS[n.op].evaluate([known[v] if v else None for v in n.inputs], attrs)
        known |= {o: r for o, r in zip(n.outputs, results, strict=False) if o}
    return {v: known[v] for v in graph.outputs}


def worst(got: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the largest error relative to the largest expected magnitude (1 at least).

    Expected values are rounded to the dtype of what was got: beyond its range they are infinite.
    """
    assert got.shape == expected.shape
    with np.errstate(all="ignore"):
        a, b = (np.asarray(v).astype(got.dtype).astype(np.float64) for v in (got, expected))
        return _distance(a, b)


def _distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    scale = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)))
    return float(np.max(np.where(same, 0.0, np.abs(a - b)))) / scale


def draw(graph: Graph, seed: int = 0, low: int = -3, high: int = 3) -> dict[str, NDArray[Any]]:
    """Return seeded inputs of `graph`: normal floats, small integers, booleans."""
    rng = np.random.default_rng(seed)
    found: dict[str, NDArray[Any]] = {}
    for v in graph.inputs:
        dtype, shape = graph.types[v].dtype, graph.types[v].static_shape
        assert shape is not None
        if dtype.is_float:
            found[v] = rng.standard_normal(shape).astype(dtype.numpy)
        elif dtype is DType.BOOL:
            found[v] = rng.integers(0, 2, shape).astype(np.bool_)
        else:
            bottom = 0 if dtype.value.startswith("uint") else low
            found[v] = rng.integers(bottom, high + 1, shape).astype(dtype.numpy)
    return found
