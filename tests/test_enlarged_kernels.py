"""A sum of convolutions with unlike kernels is one convolution: every small case, exactly."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from egraph_fusion.ir.graph import Array
from egraph_fusion.rulesets.functions import FUNCTIONS
from egraph_fusion.rulesets.guards import GUARDS

SIDES = tuple(product((0, 1, 2), (0, 1, 2)))
"""Pads before and after the one axis."""
LENGTH = 5
lies_within, zeros_around = GUARDS["lies_within"].test, FUNCTIONS["zeros_around"]


def _conv(x: Array, w: Array, pads: tuple[int, ...], dilation: int, stride: int) -> Array:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    ints = {"pads": pads, "dilations": (dilation,), "strides": (stride,)}
    node.attribute.extend(helper.make_attribute(name, value) for name, value in ints.items())
    (y,) = [np.asarray(y) for y in ReferenceEvaluator(node).run(None, {"x": x, "w": w})]
    return y


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_kernel_within_another_joins_it_in_one_convolution(dilation: int, stride: int) -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(-9, 9, (1, 1, LENGTH)).astype(np.float64)
    seen = 0
    for large, small, outer, inner in product((1, 2, 3), (1, 2, 3), SIDES, SIDES):
        w = rng.integers(1, 9, (1, 1, large)).astype(np.float64)
        v = rng.integers(1, 9, (1, 1, small)).astype(np.float64)
        fits = lies_within(v.shape, w.shape, inner, outer, (dilation,))
        if not fits or LENGTH + sum(outer) <= (large - 1) * dilation:
            continue
        pads = np.reshape(zeros_around(inner, outer, (dilation,)), (2, 3)).T
        apart = _conv(x, w, outer, dilation, stride) + _conv(x, v, inner, dilation, stride)
        assert np.array_equal(_conv(x, w + np.pad(v, pads), outer, dilation, stride), apart)
        seen += small < large
    assert seen >= 10


@pytest.mark.parametrize(
    ("v", "w", "inner", "outer"),
    [
        ((2, 3, 1), (2, 3, 3), (0, 0), (0, 0)),  # results of unlike lengths
        ((2, 3, 1), (2, 3, 3), (1, 0), (0, 2)),  # it reads a position before the other's first
        ((1, 3, 1), (2, 3, 3), (0, 0), (1, 1)),  # one channel against two
        ((2, 3, 3), (2, 3, 1), (1, 1), (0, 0)),  # the larger within the smaller
    ],
)
def test_kernels_that_do_not_lie_within(
    v: tuple[int, ...], w: tuple[int, ...], inner: tuple[int, ...], outer: tuple[int, ...]
) -> None:
    assert not lies_within(v, w, inner, outer, (1,))
