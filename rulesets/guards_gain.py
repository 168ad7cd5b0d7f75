"""Guards that say where a rule pays, of rules that hold without them and would grow without end."""

from __future__ import annotations

from egraph_fusion.ir.dims import Shape, static
from egraph_fusion.rulesets.guard_kinds import Form, declare_guard


@declare_guard(Form.TYPE, 1, gain=True)
def single(c: Shape) -> bool:
    """Every dimension of the tensor is 1: a scale, as there are few in a network."""
    return all(d == 1 for d in c)


@declare_guard(Form.TYPE, 2, gain=True)
def copies_no_more(w: Shape, v: Shape) -> bool:
    """Kernels `w` and `v` read no more channels together than each writes.

    Then joining their images copies no more than adding their results would write; where a
    residual stream adds one wide convolution after another, joining would never end.
    """
    known = static((w[0], w[1], v[1]))
    return known is not None and known[1] + known[2] <= known[0]
