"""Write rules in one line each: a wrong one is refuted by a program, a right one is used."""

import egraph_fusion as ef
from egraph_fusion import rulesets
from egraph_fusion.rulesets import guards, ops

a, b = rulesets.tensors("a b")

# The logarithm of a product is a sum of logarithms, or so one thinks.
hasty = rulesets.rule("log-product", ops.log(a * b), ops.log(a) + ops.log(b))
verdict = rulesets.verify(hasty)
print(verdict)  # two negative factors
assert not verdict.ok

# One factor must be positive: then so is the other, or neither side has a value.
rule = rulesets.rule("log-product", hasty.lhs, hasty.rhs, when=[guards.positive(b)])
verdict = rulesets.verify(rule)
print(verdict)
assert verdict.ok

# From right to left it saves a logarithm.
shorter = rulesets.rule("log-sum", rule.rhs, rule.lhs, when=rule.when)
assert rulesets.verify(shorter).ok
x, y = ef.tensor("x", (8, 16)), ef.tensor("y", (8, 16), lo=0.5)
found = ef.explore(ops.log(x) + ops.log(y), rules=[shorter])
best = found.extract()
print(best)
assert best.expression == ops.log(x * y)
