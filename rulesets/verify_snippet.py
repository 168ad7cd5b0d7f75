"""A counterexample as Python source that rebuilds the operands and evaluates both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from egraph_fusion.ir.graph import Array
from egraph_fusion.rulesets.pattern import Number, Pattern, Tensor
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verify_terms import Literal, Program, failure

IMPORTS = """import ml_dtypes
import numpy as np
from numpy import inf, nan

from egraph_fusion.rulesets.verify_terms import apply"""


def snippet(e: Environment, reason: str) -> str:
    """Return a program that prints both sides of a rule for the operands of `e`."""
    lines = [f"# {e.rule}", f"# {reason}", *IMPORTS.splitlines(), ""]
    names = {p: name_of(p, i) for i, p in enumerate(e.setting.shapes)}
    lines += [f"{names[p]} = {array_text(v)}" for p, v in e.arrays.items()]
    used = [names[p] for p in e.setting.shapes]
    lines += _shown("left", e.setting.left, e, used)
    if e.setting.right is not None:
        lines += _shown("right", e.setting.right, e, used)
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
            continue
        words: list[Any] = [repr(s.op), *(texts[i] for i in s.operands)]
        words += [f"{k}={v!r}" for k, v in s.attrs.items()]
        if s.output:
            words.append(f"output={s.output}")
        texts.append(f"apply({', '.join(words)})")
    return texts[program.root]
