"""The rules by which index expressions simplify: floor division, remainder, min, max, guards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from egraph_fusion.codegen.index_poly import (
    ZERO,
    Poly,
    Ranges,
    as_expr,
    as_index,
    atom,
    number,
)
from egraph_fusion.codegen.loop_text import expression as text_of
from egraph_fusion.codegen.loop_walk import operands, with_operands
from egraph_fusion.codegen.loops import (
    Call,
    Const,
    Expr,
    Select,
    Var,
    dtype_of,
)
from egraph_fusion.ir.tensors import DType

Interval = tuple[int | None, int | None]
_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
_MAX_STEPS = 12  # variables that one proof may eliminate


@dataclass(frozen=True, slots=True)
class Simplifier:
    """Simplifies expressions whose variables lie in `ranges`."""

    ranges: Ranges

    def expression(self, expr: Expr) -> Expr:
        """Return `expr` simplified."""
        if dtype_of(expr) is DType.INT64:
            return as_expr(self.polynomial(expr))
        new = with_operands(expr, tuple(self.expression(e) for e in operands(expr)))
        match new:
            case Call(op, (left, right)) if op in _COMPARISONS and dtype_of(left) is DType.INT64:
                return self.comparison(new, op, self.polynomial(left), self.polynomial(right))
            case Call("logical_and" | "logical_or" as op, (left, right)):
                return _connective(new, op == "logical_or", left, right)
            case Call("logical_not", (Const(value),)):
                return Const(not value, DType.BOOL)
            case Select(Const(value), yes, no):
                return yes if value else no
            case _:
                return new

    def polynomial(self, expr: Expr) -> Poly:
        """Return the normal form of an int64 expression."""
        match expr:
            case Const(value):
                return number(int(value))
            case Var(name) if name in self.ranges:
                low, high = self.ranges[name]
                return number(low) if isinstance(low, int) and low == high else atom(expr)
            case Call("add" | "sub" | "mul" as op, (left, right)):
                return self.recombined(_ring(op, self.polynomial(left), self.polynomial(right)))
            case Call("neg", (value,)):
                return self.polynomial(value).scaled(-1)
            case Call("floordiv" | "floormod" | "div" | "min" | "max" as op, (left, right)):
                rules: dict[str, Callable[[Poly, Poly], Poly]] = {
                    "floordiv": self.floordiv,
                    "floormod": self.floormod,
                    "div": self.truncated,
                    "min": lambda a, b: self.extreme("min", a, b),
                    "max": lambda a, b: self.extreme("max", a, b),
                }
                return rules[op](self.polynomial(left), self.polynomial(right))
            case _:
                return self.other(expr)

    def other(self, expr: Expr) -> Poly:
        """Return an atom, its operands simplified; a decided select is its taken side."""
        new = with_operands(expr, tuple(self.expression(e) for e in operands(expr)))
        if isinstance(new, Select) and isinstance(new.cond, Const):
            return self.polynomial(new.yes if new.cond.value else new.no)
        if isinstance(new, Select) and new.yes == new.no:
            return self.polynomial(new.yes)
        return atom(new)

    def floordiv(self, top: Poly, bottom: Poly) -> Poly:
        """Return floor(top / bottom)."""
        if bottom.constant == 0:
            return atom(_pair("floordiv", top, bottom))
        whole, rest = top.divided(bottom)
        if self.within(rest, bottom):
            return whole
        if self.nonneg(rest + bottom) and self.nonneg(number(-1) - rest):
            return whole - number(1)
        if (divisor := bottom.constant) is not None and divisor > 0:
            return whole + self._floordiv_by(rest, divisor)
        if (value := rest.constant) is not None and bottom.constant is not None:
            return whole + number(value // bottom.constant)
        return whole + atom(_pair("floordiv", rest, bottom))

    def _floordiv_by(self, top: Poly, divisor: int) -> Poly:
        if top.constant is not None:
            return number(top.constant // divisor)
        match top.single:
            case Call("floordiv", (inner, Const(value))) if value > 0:
                return self.floordiv(self.polynomial(inner), number(int(value) * divisor))
            case _:
                pass
        for factor in _common_factors(top, divisor):
            multiple, rest = top.divided(number(factor))
            if self.within(rest, number(factor)):
                return self.floordiv(multiple, number(divisor // factor))
        return atom(_pair("floordiv", top, number(divisor)))

    def floormod(self, top: Poly, bottom: Poly) -> Poly:
        """Return top - bottom * floor(top / bottom)."""
        if bottom.constant == 0:
            return atom(_pair("floormod", top, bottom))
        _, rest = top.divided(bottom)
        if self.within(rest, bottom):
            return rest
        if self.nonneg(rest + bottom) and self.nonneg(number(-1) - rest):
            return rest + bottom
        if (divisor := bottom.constant) is not None and divisor > 0:
            return self._floormod_by(rest, divisor)
        if (value := rest.constant) is not None and bottom.constant is not None:
            return number(value % bottom.constant)
        return atom(_pair("floormod", rest, bottom))

    def _floormod_by(self, top: Poly, divisor: int) -> Poly:
        if top.constant is not None:
            return number(top.constant % divisor)
        opened = self._without_inner_mod(top, divisor)
        if opened != top:
            return self.floormod(opened, number(divisor))
        for factor in _common_factors(top, divisor):
            multiple, rest = top.divided(number(factor))
            if self.within(rest, number(factor)):
                high = self.floormod(multiple, number(divisor // factor))
                return high.scaled(factor) + rest
        return atom(_pair("floormod", top, number(divisor)))

    def _without_inner_mod(self, top: Poly, divisor: int) -> Poly:
        out = top
        for monomial, factor in top.terms.items():
            match monomial:
                case (Call("floormod", (inner, Const(value))),) if factor * value % divisor == 0:
                    out = out - Poly({monomial: factor})
                    out = out + self.polynomial(inner).scaled(factor)
                case _:
                    pass
        return out

    def truncated(self, top: Poly, bottom: Poly) -> Poly:
        """Return top / bottom rounded towards zero, which for nonnegative operands is floordiv."""
        if self.nonneg(top) and self.nonneg(bottom - number(1)):
            return self.floordiv(top, bottom)
        return atom(_pair("div", top, bottom))

    def extreme(self, op: str, left: Poly, right: Poly) -> Poly:
        """Return min or max."""
        smaller, larger = (left, right) if op == "min" else (right, left)
        if self.nonneg(larger - smaller):
            return left
        if self.nonneg(smaller - larger):
            return right
        return atom(Call(op, tuple(sorted(map(as_expr, (left, right)), key=text_of))))

    def comparison(self, expr: Expr, op: str, left: Poly, right: Poly) -> Expr:
        """Return a constant if the ranges decide the comparison, else `expr`."""
        if op in ("gt", "ge"):
            left, right, op = right, left, {"gt": "lt", "ge": "le"}[op]
        below = self.nonneg(right - left - number(1))
        above = self.nonneg(left - right - number(1))
        if op in ("eq", "ne"):
            equal = True if left == right else False if below or above else None
            decided = equal if op == "eq" or equal is None else not equal
        elif op == "lt":
            decided = True if below else False if self.nonneg(left - right) else None
        else:
            decided = True if self.nonneg(right - left) else False if above else None
        return expr if decided is None else Const(decided, DType.BOOL)

    def recombined(self, poly: Poly) -> Poly:
        """Return `poly` with k * b * (y // b) + k * (y % b) read as k * y."""
        for monomial, factor in poly.terms.items():
            match monomial:
                case (Call("floormod", (inner, bottom)),):
                    whole = self.floordiv(self.polynomial(inner), self.polynomial(bottom))
                    part = (whole * self.polynomial(bottom)).scaled(factor)
                    if part.terms and all(poly.terms.get(m) == c for m, c in part.terms.items()):
                        rest = poly - part - Poly({monomial: factor})
                        return self.recombined(rest + self.polynomial(inner).scaled(factor))
                case _:
                    pass
        return poly

    def within(self, value: Poly, end: Poly) -> bool:
        """Whether 0 <= value < end is known."""
        return self.nonneg(value) and self.nonneg(end - number(1) - value)

    def nonneg(self, poly: Poly, steps: int = _MAX_STEPS) -> bool:
        """Whether poly >= 0 is known: by intervals, else by replacing variables by their bounds."""
        low, _ = self.interval(poly)
        if low is not None and low >= 0:
            return True
        if steps == 0:
            return False
        return any(self.nonneg(p, steps - 1) for p in self._eliminated(poly)[:1])

    def _eliminated(self, poly: Poly) -> list[Poly]:
        """Lower bounds of `poly`, each with one atom replaced by a symbolic bound."""
        out: list[Poly] = []
        for found in poly.atoms:
            low, high = self.symbolic(found)
            split = poly.split(found)
            if split is None or (low is None and high is None):
                continue
            factor_low, factor_high = self.interval(split[0])
            if low is not None and factor_low is not None and factor_low >= 0:
                out.append(split[0] * low + split[1])
            elif high is not None and factor_high is not None and factor_high <= 0:
                out.append(split[0] * high + split[1])
        return out

    def symbolic(self, expr: Expr) -> tuple[Poly | None, Poly | None]:
        """Return bounds of an atom that has a symbolic one; (None, None) for plain integers."""
        match expr:
            case Var(name) if name in self.ranges:
                low, high = self.ranges[name]
                if not isinstance(high, int | None) or not isinstance(low, int | None):
                    return self._bound(low), self._bound(high)
                return None, None
            case Call("floormod", (_, bottom)) if not isinstance(bottom, Const):
                return ZERO, self.polynomial(bottom) - number(1)
            case Call("floordiv", (top, bottom)) if not isinstance(bottom, Const):
                return self._quotient_bounds(top, self.polynomial(bottom))
            case _:
                return None, None

    def _quotient_bounds(self, top: Expr, bottom: Poly) -> tuple[Poly | None, Poly | None]:
        if not (isinstance(top, Var) and top.name in self.ranges):
            return None, None
        if not self.nonneg(bottom - number(1)):
            return None, None
        low, high = (self._bound(b) for b in self.ranges[top.name])
        return (
            None if low is None else self.floordiv(low, bottom),
            None if high is None else self.floordiv(high, bottom),
        )

    def _bound(self, bound: Expr | int | None) -> Poly | None:
        return None if bound is None else self.polynomial(as_index(bound))

    def interval(self, poly: Poly) -> Interval:
        """Return inclusive integer bounds of `poly`."""
        total: Interval = (0, 0)
        for monomial, factor in poly.terms.items():
            part: Interval = (factor, factor)
            for found in monomial:
                part = _times(part, self.atom_interval(found))
            total = (_plus(total[0], part[0]), _plus(total[1], part[1]))
        return total

    def atom_interval(self, expr: Expr) -> Interval:
        """Return inclusive integer bounds of an atom."""
        match expr:
            case Const(value):
                return int(value), int(value)
            case Var(name) if name in self.ranges:
                low, high = (self._bound(b) for b in self.ranges[name])
                return (
                    None if low is None else self.interval(low)[0],
                    None if high is None else self.interval(high)[1],
                )
            case Call("floormod", (top, bottom)):
                return self._mod_interval(self._of(top), self._of(bottom))
            case Call("floordiv", (top, bottom)):
                return _quotient(self._of(top), self._of(bottom))
            case Call("min", (left, right)):
                return _minimum(self._of(left), self._of(right))
            case Call("max", (left, right)):
                return _negated(_minimum(_negated(self._of(left)), _negated(self._of(right))))
            case Select(_, yes, no):
                return _hull(self._of(yes), self._of(no))
            case _:
                return None, None

    def _of(self, expr: Expr) -> Interval:
        return self.interval(self.polynomial(expr))

    @staticmethod
    def _mod_interval(top: Interval, bottom: Interval) -> Interval:
        if bottom[0] is None or bottom[0] < 1:
            return None, None
        high = None if bottom[1] is None else bottom[1] - 1
        if top[0] is not None and top[0] >= 0 and top[1] is not None:
            high = top[1] if high is None else min(high, top[1])
        return 0, high


def _ring(op: str, left: Poly, right: Poly) -> Poly:
    if op == "mul":
        return left * right
    return left + right if op == "add" else left - right


def _pair(op: str, left: Poly, right: Poly) -> Call:
    return Call(op, (as_expr(left), as_expr(right)))


def _common_factors(top: Poly, divisor: int) -> list[int]:
    found = {gcd(divisor, c) for c in top.terms.values()}
    return sorted((f for f in found if f > 1), reverse=True)


def _connective(expr: Expr, absorbing: bool, left: Expr, right: Expr) -> Expr:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const):
            return one if bool(one.value) == absorbing else other
    return left if left == right else expr


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _times(a: Interval, b: Interval) -> Interval:
    low, high = a
    if low == high == 0 or b == (0, 0):
        return 0, 0
    if low is not None and high is not None and b[0] is not None and b[1] is not None:
        corners = [x * y for x in (low, high) for y in (b[0], b[1])]
        return min(corners), max(corners)
    return _signed_product(a, b)


def _signed_product(a: Interval, b: Interval) -> Interval:
    if a[1] is not None and a[1] <= 0:
        return _negated(_signed_product(_negated(a), b))
    if b[1] is not None and b[1] <= 0:
        return _negated(_signed_product(a, _negated(b)))
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], None if a[1] is None or b[1] is None else a[1] * b[1]
    return None, None


def _negated(a: Interval) -> Interval:
    return None if a[1] is None else -a[1], None if a[0] is None else -a[0]


def _minimum(a: Interval, b: Interval) -> Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    highs = [h for h in (a[1], b[1]) if h is not None]
    return low, min(highs, default=None)


def _hull(a: Interval, b: Interval) -> Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return low, high


def _quotient(top: Interval, bottom: Interval) -> Interval:
    if bottom[0] is None or bottom[0] < 1:
        return None, None
    low, high = top
    if low is not None:
        low = low // bottom[0] if low < 0 else (0 if bottom[1] is None else low // bottom[1])
    if high is not None:
        widest = bottom[0] if high >= 0 else bottom[1]
        high = -1 if widest is None else high // widest
    return low, high
