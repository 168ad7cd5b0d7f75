"""Arithmetic on constants that are one number everywhere.

Rules make sums and products of constants, which are folded after extraction.  Until then every way
to compute a number would be another class, and rules would multiply them without end.  So the real
number that all elements of a constant are (`exactly`) is known of its class, and classes of one
type and one such number are one.  What folding will give, that number rounded once (`splat`), is
what numbers in rules are compared with: 10 times the float nearest to 0.1 is 1 to them.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from egraph_fusion.egraph.demand import Demand, Row
from egraph_fusion.egraph.interning import Interner
from egraph_fusion.egraph.language import Constructor, rule_line
from egraph_fusion.egraph.range_check import range_of
from egraph_fusion.ir.tensors import DType

LONGEST = 4096
"""Bits of the longest number that is kept exactly."""
BINARY = ("Add", "Sub", "Mul", "Div")
UNARY = ("Neg", "Reciprocal")

DECLARATION = "(constructor Uniform (i64 i64) T)"
"""The class of the tensors of one type and one number; never extracted, only there to be one."""
RULE = rule_line(
    "uniform",
    "facts",
    "(= v (exactly e)) (constant e) (= t (ty e)) (= d (ty-dtype t)) (dtype-in 0 d)",
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


def rounded(wanted: Fraction, dtype: DType) -> float | None:
    """Return a number in a dtype; None if it overflows or vanishes there."""
    try:
        with np.errstate(over="ignore"):
            found = float(np.asarray(float(wanted)).astype(dtype.numpy))
    except OverflowError:
        return None
    if abs(found) == np.inf:
        return None
    return found if Fraction(found) == wanted or abs(found) >= range_of(dtype).smallest else None


def uniform_demand(interner: Interner, c: Constructor, stepwise: bool = False) -> Demand:
    """Answer with the number that results, and with what the dtype makes of it.

    A zero is only known where numbers cancel: other zeros have the sign of an operand.  If
    constants are computed `stepwise`, no number is known that the dtype does not hold.
    """

    def answer(row: Row) -> list[str]:
        operands = [Fraction(interner.value(k)) for k in row[:-1]]
        try:
            wanted = exact(c.op, *operands)
        except ZeroDivisionError:
            return []
        found = rounded(wanted, interner.value(row[-1]))
        signed = not wanted and not (c.op in ("Add", "Sub") and all(operands))
        if found is None or signed or _bits(wanted) > LONGEST or (stepwise and found != wanted):
            return []
        key = " ".join(map(str, row))
        return [
            f"(set (got-exactly-{c.name} {key}) {interner.exactly(wanted)})",
            f"(set (got-uniform-{c.name} {key}) {interner.number(found)})",
        ]

    sorts = " ".join(["i64"] * (c.arity + 1))
    names = (f"got-{what}-{c.name}" for what in ("exactly", "uniform"))
    tables = tuple(f"(function {name} ({sorts}) i64 :merge old)" for name in names)
    return Demand(f"uniform-{c.name}", sorts, tables, answer)


def _bits(number: Fraction) -> int:
    return number.numerator.bit_length() + number.denominator.bit_length()


def uniform_rules(c: Constructor) -> list[str]:
    """Return the rules that ask for a constructor's number and note it."""
    xs, _ = c.variables()
    numbers = [f"v{i}" for i in range(c.arity)]
    have = " ".join(f"(= {v} (exactly {x}))" for v, x in zip(numbers, xs, strict=True))
    match = f"(= e {c.term(xs, ())}) {have} (= t (ty e)) (= d (ty-dtype t)) (dtype-in 0 d)"
    key = " ".join([*numbers, "d"])
    got = f"(= v (got-exactly-{c.name} {key})) (= s (got-uniform-{c.name} {key}))"
    found = "(set (exactly e) v) (set (splat e) s)"
    return [
        rule_line(f"want-uniform-{c.name}", "facts", match, f"(want-uniform-{c.name} {key})"),
        rule_line(f"uniform-{c.name}", "facts", f"{match} {got}", found),
    ]
