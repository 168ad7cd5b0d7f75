"""Guards on padding and convolutions: which mix channels only, and what scales their inputs."""

from __future__ import annotations

from egraph_fusion.ir.dims import Shape, static
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.rulesets.guard_kinds import Form, declare_guard, ints
from egraph_fusion.rulesets.guards_operands import per_channel_shapes


@declare_guard(Form.TYPE, 3)
def pointwise(w: Shape, strides: AttrValue, pads: AttrValue) -> bool:
    """A convolution by `w` under these strides and pads combines the channels of each position."""
    alone = all(d == 1 for d in w[2:]) and all(s == 1 for s in ints(strides))
    return alone and not any(ints(pads))


@declare_guard(Form.TYPE, 1)
def has_positions(x: Shape) -> bool:
    """An image has positions: no size after batch and channels is 0, or unknown."""
    return all(isinstance(d, int) and d > 0 for d in x[2:])


@declare_guard(Form.TYPE, 1)
def pads_space_only(pads: AttrValue) -> bool:
    """Pad with these amounts cuts nothing off and leaves batch and channels as they are."""
    amounts = ints(pads)
    rank = len(amounts) // 2
    return min(amounts, default=0) >= 0 and not any(amounts[:2] + amounts[rank : rank + 2])


@declare_guard(Form.TYPE, 2)
def stays_cut(first: AttrValue, second: AttrValue) -> bool:
    """Where Pad with the first amounts cuts a side off, Pad with the second adds none to it."""
    return all(a >= 0 or b <= 0 for a, b in zip(ints(first), ints(second), strict=True))


@declare_guard(Form.TYPE, 2)
def copies_no_more(w: Shape, v: Shape) -> bool:
    """Kernels `w` and `v` read no more channels together than each writes.

    Then joining their images copies no more than adding their results would write; where a
    residual stream adds one wide convolution after another, joining would never end.
    """
    known = static((w[0], w[1], v[1]))
    return known is not None and known[1] + known[2] <= known[0]


@declare_guard(Form.TYPE, 4)
def scales_inputs(k: Shape, x: Shape, w: Shape, group: AttrValue) -> bool:
    """What `k` does to each channel of `x`, it can do to the weights `w` that read the channel.

    That is so of one element, in a convolution of one group, and of one where each channel is read
    by one filter alone.
    """
    if not per_channel_shapes(k, x):
        return False
    depthwise = w[1] == 1 and w[0] == group
    return group == 1 or depthwise or all(d == 1 for d in k)
