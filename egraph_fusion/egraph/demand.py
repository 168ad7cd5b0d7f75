"""Answers to what an e-graph program asks of Python: types, guards, attributes and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from egraph_fusion.egraph.interning import Interner, Typed
from egraph_fusion.egraph.language import Constructor
from egraph_fusion.errors import REFUSALS
from egraph_fusion.ir.graph import frozen_attrs
from egraph_fusion.ir.ops import OPERATORS
from egraph_fusion.ir.ops.operator import Interval
from egraph_fusion.ir.tensors import DType, TensorType
from egraph_fusion.rulesets.functions import FUNCTIONS
from egraph_fusion.rulesets.guards import GUARDS

Row = tuple[Any, ...]
Answer = Callable[[Row], list[str]]
"""Takes one row of a `want-` table and returns the commands that answer it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One table of questions: its name, the sorts of its columns and who answers."""

    key: str
    sorts: str
    tables: tuple[str, ...]
    answer: Answer

    @property
    def want(self) -> str:
        """The relation that holds the questions."""
        return f"want-{self.key}"

    def declaration(self) -> list[str]:
        """Return the commands that declare the tables of questions and answers."""
        return [f"(relation {self.want} ({self.sorts}))", *self.tables]


def row_text(values: Row) -> str:
    """Return the columns of a row as egglog text."""
    return " ".join(_literal(v) for v in values)


def _literal(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value)
    return str(value)


def number_text(value: float) -> str:
    """Return a float as an egglog literal."""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(float(value))
    return text if "." in text or "e" in text else f"{text}.0"


def interned_commands(interner: Interner) -> list[str]:
    """Return the facts about types and numbers that were interned since the last call."""
    lines = [f"(whole {key})" for key in interner.new_whole]
    interner.new_whole.clear()
    for key in interner.new_types:
        typed: Typed = interner.value(key)
        only = typed.types[0] if len(typed.types) == 1 else None
        if only is None:
            continue
        lines.append(f"(set (ty-dtype {key}) {interner.dtype(only.dtype)})")
        if only.shape is not None:
            lines.append(f"(set (ty-shape {key}) {interner.shape(only.shape)})")
    interner.new_types.clear()
    return lines


def type_demand(interner: Interner, c: Constructor) -> Demand:
    """Answer with the registry's own type rule; operands it refuses get no type."""
    operator = OPERATORS[c.op]

    def answer(row: Row) -> list[str]:
        types = [first_type(interner, t) for t in row[: c.arity]]
        attrs = attrs_of(interner, c, row[c.arity :])
        try:
            found = operator.infer(types, frozen_attrs(attrs))
        except REFUSALS:
            return []
        found = found[: c.outputs or 1]
        if any(t.shape is None for t in found):
            return []
        key = interner.types(tuple(found))
        return [f"(set (got-ty-{c.name} {row_text(row)}) {key})"]

    sorts = " ".join(["i64"] * (c.arity + len(c.columns)))
    table = f"(function got-ty-{c.name} ({sorts}) i64 :merge old)"
    return Demand(f"ty-{c.name}", sorts, (table,), answer)


def out_demand(interner: Interner) -> Demand:
    """Answer with the type of one output of a bundle."""

    def answer(row: Row) -> list[str]:
        typed: Typed = interner.value(row[0])
        output = int(row[1])
        found = typed.types[output] if 0 <= output < len(typed.types) else None
        if found is None:
            return []
        return [f"(set (got-out {row_text(row)}) {interner.types((found,))})"]

    table = "(function got-out (i64 i64) i64 :merge old)"
    return Demand("out", "i64 i64", (table,), answer)


def num_demand(interner: Interner) -> Demand:
    """Answer with the type of a rank-0 number of some dtype, and its value there."""

    def answer(row: Row) -> list[str]:
        dtype: DType = interner.value(row[1])
        key = interner.types((TensorType(dtype, ()),))
        lines = [f"(set (got-num {row[1]}) {key})"]
        if dtype.is_float:
            with np.errstate(over="ignore"):
                value = float(np.asarray(interner.value(row[0])).astype(dtype.numpy))
            lines.append(f"(set (number {row_text(row)}) {number_text(value)})")
        return lines

    tables = (
        "(function got-num (i64) i64 :merge old)",
        "(function number (i64 i64) f64 :merge old)",
    )
    return Demand("num", "i64 i64", tables, answer)


def interval_demand(interner: Interner, c: Constructor) -> Demand:
    """Answer with the registry's interval rule."""
    operator = OPERATORS[c.op]
    assert operator.interval is not None
    bounds = operator.interval

    def answer(row: Row) -> list[str]:
        ends = row[: 2 * c.arity]
        operands = list(zip(ends[::2], ends[1::2], strict=True))
        attrs = attrs_of(interner, c, row[2 * c.arity :])
        lo, hi = bounds_of(bounds, operands, attrs)
        key = row_text(row)
        return [
            f"(set (got-lo-{c.name} {key}) {number_text(lo)})",
            f"(set (got-hi-{c.name} {key}) {number_text(hi)})",
        ]

    sorts = " ".join([*["f64"] * (2 * c.arity), *["i64"] * len(c.columns)])
    tables = (
        f"(function got-lo-{c.name} ({sorts}) f64 :merge (max old new))",
        f"(function got-hi-{c.name} ({sorts}) f64 :merge (min old new))",
    )
    return Demand(f"iv-{c.name}", sorts, tables, answer)


def bounds_of(rule: Callable[..., Interval], operands: Sequence[Interval], attrs: Any) -> Interval:
    """Apply an interval rule; what it cannot say, or says with NaN or empty, is unbounded."""
    try:
        lo, hi = rule(operands, frozen_attrs(attrs))
    except REFUSALS:
        return (-math.inf, math.inf)
    return (lo, hi) if lo <= hi else (-math.inf, math.inf)


def guard_demand(interner: Interner, name: str, arity: int) -> Demand:
    """Answer yes, or not at all, with the guard's predicate on shapes and attributes."""
    kind = GUARDS[name]

    def answer(row: Row) -> list[str]:
        holds = kind.holds(*map(interner.value, row))
        return [f"({guard_answer(name, arity)} {row_text(row)})"] if holds else []

    sorts = " ".join(["i64"] * arity)
    table = f"(relation {guard_answer(name, arity)} ({sorts}))"
    return Demand(f"guard-{name}-{arity}", sorts, (table,), answer)


def guard_answer(name: str, arity: int) -> str:
    """Return the relation that holds what a guard was found to hold for."""
    return f"yes-{name}-{arity}"


def function_demand(interner: Interner, name: str, arity: int) -> Demand:
    """Answer with the attribute that a named function computes."""
    meaning = FUNCTIONS[name]

    def answer(row: Row) -> list[str]:
        try:
            value = meaning(*map(interner.value, row))
        except REFUSALS:
            return []
        return [f"(set (fn-{name}-{arity} {row_text(row)}) {interner.attr(value)})"]

    sorts = " ".join(["i64"] * arity)
    table = f"(function fn-{name}-{arity} ({sorts}) i64 :merge old)"
    return Demand(f"fn-{name}-{arity}", sorts, (table,), answer)


def first_type(interner: Interner, key: int) -> TensorType | None:
    """Return the type of a one-output class; None for the absent operand."""
    typed: Typed = interner.value(key)
    return typed.types[0] if typed.types else None


def attrs_of(interner: Interner, c: Constructor, ids: Sequence[int]) -> dict[str, Any]:
    """Return attributes by name; absent ones are left out."""
    values = {n: interner.value(k) for n, k in zip(c.columns, ids, strict=True)}
    return {n: v for n, v in values.items() if v is not None}
