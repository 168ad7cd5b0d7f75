"""Explore an expression: what it equals, why, and why a rule did not fire."""

import tempfile
from pathlib import Path

import egraph_fusion as ef
from egraph_fusion.rulesets import ops

a = ef.tensor("a", (8, 16), lo=0.0)  # no element is negative
b = ef.tensor("b", (8, 16), lo=0.0)
c = ef.tensor("c", (8, 16))

expression = ops.sqrt(a) * ops.sqrt(b) * c + c
found = ef.explore(expression)
print(found)
print("cheapest:", found.extract())

factored = c * (ops.sqrt(a * b) + 1.0)
assert found.equal(expression, factored)
print(found.why(expression, factored))

# c may be negative, so that the root of a product need not be the product of roots.
other = ef.explore(ops.sqrt(b) * ops.sqrt(c))
print(other.why_not("sqrt-product"))

with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "expression.html"
    found.to_html(page)
    print(f"a page of {page.stat().st_size} bytes: growth, rules, near misses, classes")
