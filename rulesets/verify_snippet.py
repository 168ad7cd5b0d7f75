"""A counterexample as Python source that rebuilds the operands and evaluates both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from egraph_fusion.ir.graph import Array
from egraph_fusion.rulesets.pattern import Number, Pattern, Tensor
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verify_check import over_reals
from egraph_fusion.rulesets.verify_reals import FINEST, source_of
from egraph_fusion.rulesets.verify_terms import Literal, Program, Step, failure

IMPORTS = """import ml_dtypes
import numpy as np
from numpy import inf, nan

from egraph_fusion.rulesets.verify_terms import apply

np.set_printoptions(floatmode="unique")"""
IMPORTS_OF_REALS = """
# Both sides print alike in {dtype}; over the reals they differ.
from egraph_fusion.rulesets.verify_reals import apply_over_reals, reals, rounded, texts
"""


def snippet(e: Environment, reason: str) -> str:
    """Return a program that prints both sides of a rule for the operands of `e`."""
    lines = [f"# {e.rule}", f"# {reason}", *IMPORTS.splitlines(), ""]
    names = {p: name_of(p, i) for i, p in enumerate(e.setting.shapes)}
    lines += [f"{names[p]} = {array_text(v)}" for p, v in e.arrays.items()]
    used = [names[p] for p in e.setting.shapes]
    lines += _shown("left", e.setting.left, e, used)
    if e.setting.right is not None:
        lines += _shown("right", e.setting.right, e, used)
        if not e.setting.refusal and _alike(e, e.setting.right):
            lines += _over_reals(e, e.setting.right, names)
    return "\n".join(lines) + "\n"


def _shown(side: str, program: Program, e: Environment, leaves: Sequence[str]) -> list[str]:
    """Return the lines that evaluate and print one side, or print how its evaluation fails."""
    lines = [f"{side} = {_source(program, leaves)}", f"print({side})"]
    if not failure(program, e.arrays):
        return lines
    guarded = ["try:", *(f"    {line}" for line in lines)]
    said = f'    print(f"the {side} side fails: {{error!r}}")'
    return [
        *guarded,
        "except (ArithmeticError, LookupError, TypeError, ValueError) as error:",
        said,
    ]


def _alike(e: Environment, right: Program) -> bool:
    """Whether both sides have values that print alike."""
    sides = (e.setting.left, right)
    if any(failure(s, e.arrays) for s in sides):
        return False
    with np.errstate(all="ignore"), np.printoptions(floatmode="unique"):
        left_text, right_text = (str(s.run(e.arrays)[s.root]) for s in sides)
    return left_text == right_text


def _over_reals(e: Environment, right: Program, names: Mapping[Pattern, str]) -> list[str]:
    exact = over_reals(FINEST, e)
    leaves = [_real_leaf(p, exact[p], names[p]) for p in e.setting.shapes]
    sides = [_source_over_reals(s, leaves) for s in (e.setting.left, right)]
    lines = IMPORTS_OF_REALS.format(dtype=e.setting.dtype.value).splitlines()
    shown = ["for line in texts(left_real, right_real):", "    print(line)"]
    return [*lines, "", f"left_real = {sides[0]}", f"right_real = {sides[1]}", *shown]


def _real_leaf(p: Pattern, values: Any, name: str) -> str:
    if isinstance(p, Number):
        return f"reals({[p.value] * values.size}, {values.shape})"
    return name if values.dtype.kind in "iu" else source_of(values)


def name_of(p: Pattern, number: int) -> str:
    """Return a Python name for a leaf."""
    if isinstance(p, Tensor):
        return f"{p.name}_" if p.name in ("np", "left", "right", "apply") else p.name
    return f"number_{number}" if isinstance(p, Number) else f"leaf_{number}"


def array_text(v: Array) -> str:
    """Return the source of an array."""
    name = str(v.dtype)
    dtype = (
        f"ml_dtypes.{name}" if name == "bfloat16" else f"np.{name}" if name != "bool" else "bool"
    )
    items = ", ".join(repr(x) for x in v.reshape(-1).tolist())
    return f"np.array([{items}]).astype({dtype}).reshape({v.shape})"


def _source(program: Program, leaves: Sequence[str]) -> str:
    texts = list(leaves)
    for s in program.steps:
        if isinstance(s, Literal):
            dtype = s.dtype.value
            kind = f"ml_dtypes.{dtype}" if dtype == "bfloat16" else f"np.{dtype}"
            texts.append(f"np.asarray({s.value!r}).astype({kind})")
        else:
            texts.append(f"apply({_words(s, texts)})")
    return texts[program.root]


def _source_over_reals(program: Program, leaves: Sequence[str]) -> str:
    texts = list(leaves)
    for s in program.steps:
        if isinstance(s, Literal):
            texts.append(f"reals([{s.value!r}], ())")
        elif program.rounds(s):
            texts.append(f"rounded({s.attrs['to']!r}, {texts[s.operands[0]]})")
        else:
            texts.append(f"apply_over_reals({_words(s, texts)})")
    return texts[program.root]


def _words(s: Step, texts: Sequence[str]) -> str:
    words: list[Any] = [repr(s.op), *(texts[i] for i in s.operands)]
    words += [f"{k}={v!r}" for k, v in s.attrs.items()]
    if s.output:
        words.append(f"output={s.output}")
    return ", ".join(words)
