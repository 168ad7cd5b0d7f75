"""What is known of a model's values while it is read, and shape arithmetic done on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from egraph_fusion.frontend.folding import (
    constant_range,
    entries_of,
    folded,
    followed,
    shape_dims,
)
from egraph_fusion.frontend.forms import Form
from egraph_fusion.frontend.inference import Inference
from egraph_fusion.ir.dims import Shape, static
from egraph_fusion.ir.graph import Array, AttrValue, Constant
from egraph_fusion.ir.ops.operator import Operator
from egraph_fusion.ir.tensors import TensorType


@dataclass
class Workspace:
    """What is known while a model is read.

    `arrays` holds constants and folded values, `dims` integer values known as dimensions,
    `from_shape` values computed from shapes, `used` values that anything reads, `taken` all names.
    """

    opset: int
    inference: Inference
    used: frozenset[str]
    graph_outputs: frozenset[str]
    taken: set[str]
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    dims: dict[str, Shape] = field(default_factory=dict[str, Shape])
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    from_shape: set[str] = field(default_factory=set[str])

    def define(self, value: str, array: Array) -> None:
        """Enter a constant of the graph."""
        constant = Constant.of(array)
        self.constants[value] = constant
        self.arrays[value] = constant.array
        self.types[value] = constant.type

    def fresh(self, hint: str) -> str:
        """Return a value name that nothing has."""
        name, count = hint, 1
        while name in self.taken:
            name, count = f"{hint}_{count}", count + 1
        self.taken.add(name)
        return name


def shape_arithmetic(space: Workspace, form: Form) -> bool:
    """Enter what a Shape or Size gives; whether that replaces the node."""
    if form.op == "Range" and len(form.inputs) == 3:
        numbers = [form.values.get(i) for i in range(3)]
        array = constant_range([n for n in numbers if n is not None])
        return array is not None and _enter(space, form.outputs[:1], [array])
    if form.op not in ("Shape", "Size") or not form.outputs:
        return False
    dims, value = shape_dims(form), form.outputs[0]
    if dims is None:
        return False
    space.from_shape.add(value)
    sizes = static(dims)
    if sizes is None:
        space.dims[value] = dims
        return False
    array = np.array(sizes if form.op == "Shape" else sizes[0], np.int64)
    return _enter(space, form.outputs[:1], [array])


def _enter(space: Workspace, values: Sequence[str], arrays: Sequence[Array]) -> bool:
    """Enter a node's folded results; whether the node can go (graph outputs keep it)."""
    stays = any(v in space.graph_outputs for v in values)
    for value, array in zip(values, arrays, strict=False):
        if value and stays:
            space.arrays[value] = Constant.of(array).array
        elif value:
            space.define(value, array)
    return not stays


def fold(
    space: Workspace,
    operator: Operator,
    attrs: dict[str, AttrValue],
    inputs: Sequence[str],
    outputs: Sequence[str],
    results: Sequence[TensorType],
) -> bool:
    """Enter the results of a node on constants; whether the node can go."""
    present = [v for v in inputs if v]
    tainted = any(v in space.from_shape for v in present)
    if tainted:
        space.from_shape.update(v for v in outputs if v)
    if not present or not all(v in space.arrays for v in present):
        return False
    operands = [space.arrays[v] if v else None for v in inputs]
    values = folded(operator, attrs, results, operands, tainted)
    if values is None:
        return False
    return _enter(space, outputs, values)


def follow(space: Workspace, form: Form) -> None:
    """Enter the result as dimensions if its operands are known as such."""
    value = form.outputs[0] if form.outputs else ""
    kind = space.types.get(value)
    if not value or kind is None or kind.shape is None or len(kind.shape) > 1:
        return
    if value in space.arrays or not kind.dtype.is_integer:
        return
    entries: list[Shape | None] = []
    for i in range(len(form.inputs)):
        array = form.values.get(i)
        entries.append(form.dims.get(i) if array is None else entries_of(array))
    dims = followed(form, entries)
    if dims is not None:
        space.dims[value] = dims
