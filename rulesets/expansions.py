"""Laws read the other way: sums, products of sums and joined operands are taken apart.

Such a term costs more by itself, but other rules may go on from it: `(x + w @ x) @ v` becomes
`y + w @ y` where `y` is `x @ v`.  It is tried at the end, where the e-graph is small; always, where
all but one term are constants, so that it is a gain.  These rules do not count among the 149, whose
laws they repeat.
"""

from __future__ import annotations

from egraph_fusion.rulesets.distributive import CONTRACTIONS, JOINING, PRINTED, PRODUCTS
from egraph_fusion.rulesets.functions import rows
from egraph_fusion.rulesets.guards import (
    Guard,
    constant,
    for_gain,
    one_element,
    same_along,
    same_shape,
)
from egraph_fusion.rulesets.operations import ops
from egraph_fusion.rulesets.pattern import Attribute, Tensor
from egraph_fusion.rulesets.rule import Rule, rule

a, b, c, v, w, x, y, z = (Tensor(n) for n in "abcvwxyz")
p = Attribute("p")
LAWS = {r.name: r for r in (*PRINTED, *PRODUCTS, *CONTRACTIONS, *JOINING)}


def _backwards(name: str, *when: Guard) -> Rule:
    law = LAWS[name]
    return rule(f"{name}-apart", law.rhs, law.lhs, when, law.level, law.dtypes, expanding=True)


EXPANSIONS: tuple[Rule, ...] = (
    rule("scale-over-bias", (x @ w + b) * c, (x @ w) * c + b * c,
         [constant(b), constant(c), for_gain(one_element(c))], dtypes="numeric"),
    _backwards("mul-over-add"),
    _backwards("mul-over-sub"),
    _backwards("div-over-add"),
    _backwards("matmul-over-add-left", same_along(a, b, -1)),
    _backwards("matmul-over-add-right", same_along(b, c, -2)),
    _backwards("conv-over-add-inputs", same_shape(x, y)),
    _backwards("concat-over-unary"),
    rule("conv-over-add-weights-apart", ops.conv(x, w + v, attrs=p),
         ops.conv(x, w, attrs=p) + ops.conv(x, v, attrs=p), [same_shape(w, v)], expanding=True),
    rule("concat-over-matmul-apart", ops.concat(a, b, axis=-2) @ c,
         ops.concat(a @ c, b @ c, axis=rows(a, c)), expanding=True, dtypes="numeric"),
    rule("conv-over-concat-apart",
         ops.conv(ops.concat(x, y, axis=1), ops.concat(w, z, axis=1), group=1, attrs=p),
         ops.conv(x, w, group=1, attrs=p) + ops.conv(y, z, group=1, attrs=p),
         [same_along(x, w, 1)], expanding=True),
)  # fmt: skip
