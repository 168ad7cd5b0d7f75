"""Arithmetic on constants that are one number everywhere, where it is exact.

Rules make sums and products of constants, which are folded after extraction.  Until then every way
to compute a number would be another class, and rules would multiply them without end.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from egraph_fusion.egraph.demand import Demand, Row
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import Constructor, rule_line
from egraph_fusion.ir.tensors import DType

BINARY = ("Add", "Sub", "Mul", "Div")
UNARY = ("Neg", "Reciprocal")

DECLARATION = "(constructor Uniform (i64 i64) T)"
"""The class of the tensors of one type and one number; never extracted, only there to be one."""
RULE = rule_line(
    "uniform",
    "facts",
    "(= v (splat e)) (constant e) (= t (ty e)) (= d (ty-dtype t)) (dtype-in 0 d)",
    "(union e (Uniform t v))",
)


def computes(c: Constructor) -> bool:
    """Whether this constructor's results are computed here."""
    return (c.op, c.arity) in {*((op, 2) for op in BINARY), *((op, 1) for op in UNARY)}


def exact(op: str, a: Fraction, b: Fraction = Fraction(1)) -> Fraction:
    """Return what one of the operators gives; raises ZeroDivisionError."""
    match op:
        case "Add":
            return a + b
        case "Sub":
            return a - b
        case "Mul":
            return a * b
        case "Div":
            return a / b
        case "Neg":
            return -a
        case _:
            return 1 / a


def uniform_demand(interner: Interner, c: Constructor) -> Demand:
    """Answer with the number that results, if the dtype holds it exactly and it is not zero.

    Zeros are left alone since they have a sign.
    """

    def answer(row: Row) -> list[str]:
        dtype: DType = interner.value(row[-1])
        try:
            wanted = exact(c.op, *(Fraction(interner.value(k)) for k in row[:-1]))
            with np.errstate(over="ignore"):
                found = float(np.asarray(float(wanted)).astype(dtype.numpy))
        except (OverflowError, ZeroDivisionError):
            return []
        if not wanted or not np.isfinite(found) or Fraction(found) != wanted:
            return []
        key = " ".join(map(str, row))
        return [f"(set (got-uniform-{c.name} {key}) {interner.number(found)})"]

    sorts = " ".join(["i64"] * (c.arity + 1))
    table = f"(function got-uniform-{c.name} ({sorts}) i64 :merge old)"
    return Demand(f"uniform-{c.name}", sorts, (table,), answer)


def uniform_rules(c: Constructor) -> list[str]:
    """Return the rules that ask for a constructor's number and note it."""
    xs, _ = c.variables()
    numbers = [f"v{i}" for i in range(c.arity)]
    have = " ".join(f"(= {v} (splat {x}))" for v, x in zip(numbers, xs, strict=True))
    match = f"(= e {c.term(xs, ())}) {have} (= t (ty e)) (= d (ty-dtype t)) (dtype-in 0 d)"
    key = " ".join([*numbers, "d"])
    got = f"(= v (got-uniform-{c.name} {key}))"
    return [
        rule_line(f"want-uniform-{c.name}", "facts", match, f"(want-uniform-{c.name} {key})"),
        rule_line(f"uniform-{c.name}", "facts", f"{match} {got}", "(set (splat e) v)"),
    ]
