"""The e-graph's language: one egglog constructor per operator, operand count and output count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from egraph_fusion.egraph.interning import Interner
from egraph_fusion.ir.graph import AttrValue
from egraph_fusion.ir.ops import OPERATORS

OPAQUE = "Opaque"


@dataclass(frozen=True, slots=True)
class Constructor:
    """How e-nodes of one kind are written: operands first, then one interned id per attribute.

    `outputs` is 0 where the node is its only output's value; else the node is a bundle, and
    `(Out bundle i)` is output number i.
    """

    op: str
    arity: int
    outputs: int = 0

    @property
    def name(self) -> str:
        """The name in egglog."""
        tail = f"_{self.outputs}" if self.outputs else ""
        return f"{self.op}_{self.arity}{tail}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes, in the order of their columns."""
        if self.op == OPAQUE:
            return ("node",)
        return tuple(a.name for a in OPERATORS[self.op].attrs)

    def sorts(self) -> str:
        """The argument sorts."""
        return " ".join([*["T"] * self.arity, *["i64"] * len(self.columns)])

    def term(self, operands: Iterable[str], attrs: Iterable[str | int]) -> str:
        """Return the application as egglog text."""
        return f"({' '.join([self.name, *operands, *map(str, attrs)])})"

    def variables(self) -> tuple[list[str], list[str]]:
        """Return variable names for the operands and the attributes of a generic match."""
        return (
            [f"x{i}" for i in range(self.arity)],
            [f"a{i}" for i in range(len(self.columns))],
        )

    def declaration(self) -> list[str]:
        """Return the commands that declare the constructor and its provenance table."""
        return [
            f"(constructor {self.name} ({self.sorts()}) T)",
            f"(function by-{self.name} ({self.sorts()}) i64 :merge old)",
        ]


def expressible(op: str) -> bool:
    """Whether an operator's name can be part of an egglog name."""
    return op in OPERATORS and re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", op) is not None


def attr_ids(
    interner: Interner, constructor: Constructor, attrs: dict[str, AttrValue]
) -> Sequence[int]:
    """Return the ids of a node's attributes in column order; absent ones have the id of None."""
    return [interner.attr(attrs.get(name)) for name in constructor.columns]


LEAVES = ("Input", "Const", "Num", "Absent")

DECLARATIONS = """
(sort T)
(constructor Input (i64) T)
(constructor Const (i64) T)
(constructor Num (i64 i64) T)
(constructor Absent () T)
(constructor Out (T i64) T)
(function val (i64) T :no-merge)
(function ty (T) i64 :no-merge)
(function ty-dtype (i64) i64 :no-merge)
(function ty-shape (i64) i64 :no-merge)
(function lo (T) f64 :merge (max old new))
(function hi (T) f64 :merge (min old new))
(function splat (T) i64 :merge old)
(function exactly (T) i64 :merge old)
(relation constant (T))
(relation varies (T))
(relation tame (T))
(relation steady (T))
(relation vague (T))
(function calm (T) i64 :merge (min old new))
(function calm-largest (i64) f64 :no-merge)
(function calm-smallest (i64) f64 :no-merge)
(relation open (T))
(relation nonzero (T))
(relation integer (T))
(relation whole (i64))
(relation pending (i64 T T))
(relation applied (i64))
(relation refused (i64 T T))
(relation joined (T i64))
(relation dtype-in (i64 i64))
(function first-integer (i64) f64 :no-merge)
(function end-of-integers (i64) f64 :no-merge)
(ruleset types)
(ruleset facts)
(ruleset asks)
(ruleset refusals)
(ruleset forgetting)
"""

_CONSTANT = "(constant e) (= t (ty e)) (= d (ty-dtype t))"
_BOUNDED = f"{_CONSTANT} (= l (lo e)) (= h (hi e)) (= b (calm-largest d)) (= s (calm-smallest d))"

RULES = (
    ("union", "types", "(pending k e r) (= t (ty e)) (= t (ty r))", "(union e r) (applied k)"),
    ("refused", "refusals", "(pending k e r) (!= e r)", "(refused k e r)"),
    (
        "forget",
        "forgetting",
        "(refused k e r)",
        "(delete (refused k e r)) (delete (pending k e r))",
    ),
    ("want-out", "types", "(= e (Out b i)) (= t (ty b))", "(want-out t i)"),
    ("out", "types", "(= e (Out b i)) (= t (ty b)) (= u (got-out t i))", "(set (ty e) u)"),
    ("constant-out", "types", "(= e (Out b i)) (constant b)", "(constant e)"),
    ("varies-out", "types", "(= e (Out b i)) (varies b)", "(varies e)"),
    ("tame-out", "types", "(= e (Out b i)) (tame b)", "(tame e)"),
    ("steady", "types", "(tame e) (= 1 (calm e))", "(steady e)"),
    ("calm-out", "types", "(= e (Out b i))", "(set (calm e) 1)"),
    (
        "want-num",
        "types",
        "(= e (Num v d))",
        "(want-num v d) (constant e) (tame e) (set (calm e) 1)",
    ),
    ("splat-num", "types", "(= e (Num v d))", "(set (splat e) v) (set (exactly e) v)"),
    ("exactly", "types", "(= e (Const k)) (= v (splat e))", "(set (exactly e) v)"),
    ("num", "types", "(= e (Num v d)) (= t (got-num d))", "(set (ty e) t)"),
    ("number", "types", "(= e (Num v d)) (= x (number v d))", "(set (lo e) x) (set (hi e) x)"),
    ("nonzero-above", "facts", "(= l (lo e)) (> l 0.0)", "(nonzero e)"),
    ("nonzero-below", "facts", "(= h (hi e)) (< h 0.0)", "(nonzero e)"),
    ("integer-out", "types", "(= e (Out b i)) (integer b)", "(integer e)"),
    ("integer-splat", "types", "(= v (splat e)) (whole v)", "(integer e)"),
    ("integer-type", "types", "(= t (ty e)) (= d (ty-dtype t)) (dtype-in 5 d)", "(integer e)"),
    (
        "tame-bounded",
        "facts",
        "(= l (lo e)) (= h (hi e)) (>= l -10000.0) (<= h 10000.0)",
        "(tame e)",
    ),
    ("calm-int", "types", f"{_CONSTANT} (dtype-in 1 d)", "(set (calm e) 1)"),
    ("calm-uint", "types", f"{_CONSTANT} (dtype-in 2 d)", "(set (calm e) 1)"),
    ("calm-bool", "types", f"{_CONSTANT} (dtype-in 3 d)", "(set (calm e) 1)"),
    ("calm", "facts", f"{_BOUNDED} (>= l (- 0.0 b)) (<= h b)", "(set (calm e) 1)"),
    ("large-above", "facts", f"{_BOUNDED} (> h b) (< h inf)", "(set (calm e) 0)"),
    ("large-below", "facts", f"{_BOUNDED} (< l (- 0.0 b)) (> l -inf)", "(set (calm e) 0)"),
    ("small-above", "facts", f"{_BOUNDED} (> l 0.0) (< l s)", "(set (calm e) 0)"),
    ("small-below", "facts", f"{_BOUNDED} (< h 0.0) (> h (- 0.0 s))", "(set (calm e) 0)"),
)
"""Name, ruleset, conditions and actions of the rules that hold for every language."""

FACTS = """
(Absent)
(constant (Absent))
(tame (Absent))
(integer (Absent))
(set (calm (Absent)) 1)
(set (lo (Absent)) -inf)
(set (hi (Absent)) inf)
"""


def rule_line(name: str, ruleset: str, when: str, then: str) -> str:
    """Return a rule as one line of egglog."""
    return f'(rule ({when}) ({then}) :ruleset {ruleset} :name "{name}")'
