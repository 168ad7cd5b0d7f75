"""Guards on convolutions hold just where the convolution is what they say."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from egraph_fusion.ir import dims
from egraph_fusion.ir.dims import Shape, symbol
from egraph_fusion.ir.graph import Array, AttrValue
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.rulesets.functions import call
from egraph_fusion.rulesets.guards import GUARDS

Sizes = tuple[int, ...]
pointwise = GUARDS["pointwise"].test
scales_inputs = GUARDS["scales_inputs"].test
copies_no_more = GUARDS["copies_no_more"].test


def _conv(x: Array, w: Array, group: int) -> Array:
    attrs: dict[str, AttrValue] = {
        "strides": (1,),
        "dilations": (1,),
        "pads": (0, 0),
        "group": group,
    }
    return OPERATORS["Conv"].evaluate((x, w), {**attrs, "auto_pad": "NOTSET"})[0]


@pytest.mark.parametrize(
    ("w", "strides", "pads", "expected"),
    [
        ((2, 3, 1, 1), (1, 1), (0, 0, 0, 0), True),
        ((2, 3, 1), (1,), (0, 0), True),
        ((2, 3, 1, 2), (1, 1), (0, 0, 0, 0), False),
        ((2, 3, 1, 1), (1, 2), (0, 0, 0, 0), False),
        ((2, 3, 1, 1), (1, 1), (0, 0, 0, 1), False),
        ((2, 3, 1, 1), (1, 1), (0, -1, 0, 0), False),
    ],
)
def test_a_pointwise_convolution_leaves_every_position_alone(
    w: Sizes, strides: Sizes, pads: Sizes, expected: bool
) -> None:
    assert pointwise(w, strides, pads) == expected


@pytest.mark.parametrize(
    ("x", "w", "group"),
    [
        ((1, 2, 3), (3, 2, 2), 1),
        ((1, 2, 3), (2, 1, 2), 2),
        ((1, 2, 3), (4, 1, 2), 2),
        ((1, 4, 3), (4, 2, 1), 2),
        ((2, 1, 3), (2, 1, 1), 1),
        ((1, 1, 3), (1, 1, 1), 1),
    ],
)
def test_scaled_weights_read_what_scaled_inputs_hold(x: Sizes, w: Sizes, group: int) -> None:
    rng = np.random.default_rng(0)
    image, weights = rng.normal(size=x), rng.normal(size=w)
    for k in [(), (1,), (1, 1), (1, 1, 1), *product((1, x[1]), (1,)), (1, x[1], 1), (1, 1, x[2])]:
        scale = rng.normal(size=k)
        if not scales_inputs(k, x, w, group):
            assert (
                np.broadcast_shapes(k, x) != x
                or k[-1:] == (3,)
                or (group > 1 and w[:2] != (group, 1))
            )
            continue
        by = call("by_input", (k, w, group))
        assert isinstance(by, tuple)
        shape = tuple(v for v in by if isinstance(v, int))
        expected = _conv(image * scale, weights, group)
        np.testing.assert_allclose(_conv(image, weights * scale.reshape(shape), group), expected)


@pytest.mark.parametrize(
    ("w", "v", "expected"),
    [
        ((4, 2, 3, 3), (4, 2, 3, 3), True),
        ((4, 2, 1), (4, 3, 1), False),
        ((256, 64, 1, 1), (256, 64, 1, 1), True),
        ((24, 144, 1, 1), (24, 144, 1, 1), False),
        ((dims.symbol("n"), 1, 1), (dims.symbol("n"), 1, 1), False),
    ],
)
def test_joined_images_are_no_larger_than_the_sum(w: Shape, v: Shape, expected: bool) -> None:
    assert copies_no_more(w, v) == expected


def test_an_image_has_positions_where_no_size_is_zero_or_unknown() -> None:
    has_positions = GUARDS["has_positions"].test
    assert has_positions((0, 3, 2, 2))
    assert has_positions((symbol("batch"), 3, 5))
    assert not has_positions((1, 3, 0))
    assert not has_positions((1, 3, 4, symbol("width")))
