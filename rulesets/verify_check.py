"""One trial of a rule: both sides over the reals, and in the operands' own dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from egraph_fusion.errors import REFUSALS
from egraph_fusion.ir.graph import Array
from egraph_fusion.ir.tensors import DType
from egraph_fusion.rulesets.exact_constants import meant
from egraph_fusion.rulesets.exact_functions import RealFunctions
from egraph_fusion.rulesets.exact_groups import objects
from egraph_fusion.rulesets.exact_numbers import Rounding, from_array
from egraph_fusion.rulesets.exact_operators import NoMeaningError
from egraph_fusion.rulesets.guards import Form, Guard
from egraph_fusion.rulesets.pattern import Number, Pattern
from egraph_fusion.rulesets.strategies import Environment
from egraph_fusion.rulesets.verify_reals import ACCURACIES, REALS, shown_apart
from egraph_fusion.rulesets.verify_terms import Program, ScalarsOf, Step, failure, scalar_array

FLOATS = {
    d: RealFunctions(rounding=Rounding.of(d))
    for d in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)
}


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one trial: what is wrong (None: nothing), and whether anything was decided.

    `how` is "bits", "reals", "floats", "undecided", "fails" or "not applicable".
    """

    problem: str | None
    how: str


def tried(e: Environment) -> Trial:
    """Evaluate both sides and compare them as the rule's level says."""
    if e.setting.right is None or e.setting.refusal:
        return Trial(e.setting.refusal, "types")
    try:
        if not values_guarded(e, [g for g in e.rule.when if g.kind.form is Form.VALUE]):
            return Trial(None, "not applicable")
        if e.rule.level == "exact" or not e.setting.dtype.is_float:
            return _bitwise(e, e.setting.right)
        return _over_reals(e, e.setting.right)
    except NoMeaningError as missing:
        return Trial(None, f"not applicable: {missing}")
    except REFUSALS as refused:
        return _failed(e, refused)


def _failed(e: Environment, refused: Exception) -> Trial:
    """Return the outcome where a side cannot be evaluated: wrong if only the right one cannot."""
    found = failure(e.setting.right, e.arrays) if e.setting.right is not None else ""
    if found and not failure(e.setting.left, e.arrays):
        return Trial(f"only the right side fails: {found}", "fails")
    return Trial(None, f"not applicable: {refused}")


def values_guarded(e: Environment, guards: Sequence[Guard]) -> bool:
    """Whether these guards on elements hold."""
    if not guards:
        return True
    left = e.setting.left
    values = left.run(e.arrays)
    with np.errstate(all="ignore"):
        return all(g.kind.test(*(values[left.places[p]] for p in g.patterns)) for g in guards)


def _bitwise(e: Environment, right: Program) -> Trial:
    with np.errstate(all="ignore"):
        lefts, rights = e.setting.left.run(e.arrays), right.run(e.arrays)
    defined = _defined(e.setting.left, lefts), _defined(right, rights)
    if not all(defined):
        problem = None if defined[0] == defined[1] else "only one side divides an integer by 0"
        return Trial(problem, "bits" if problem else "not applicable")
    x, y = lefts[e.setting.left.root], rights[right.root]
    at = np.argwhere(~same_bits(x, y))
    if not len(at):
        return Trial(None, "bits")
    place = tuple(at[0].tolist())
    return Trial(f"not the same bits at {list(place)}: {x[place]!r} and {y[place]!r}", "bits")


def same_bits(x: Array, y: Array) -> Any:
    """Return where two arrays are bit-identical, any NaN being equal to any NaN."""
    if x.dtype.kind in "biu":
        return x == y
    equal = (x == y) & (np.signbit(x) == np.signbit(y))
    return equal | (np.isnan(x) & np.isnan(y))


def _defined(program: Program, values: Sequence[Array]) -> bool:
    """Whether no integer is divided by 0."""
    for s in program.steps:
        if isinstance(s, Step) and s.op in ("Div", "Mod"):
            divisor = values[s.operands[1]]
            if divisor.dtype.kind in "iu" and not divisor.all():
                return False
    return True


def _over_reals(e: Environment, right: Program) -> Trial:
    if not all(np.isfinite(v).all() for v in e.arrays.values() if v.dtype.kind not in "biu"):
        return Trial(None, "not applicable")
    trial = Trial(None, "undecided")
    for digits in ACCURACIES:
        trial = _compared(REALS[digits], e, right)
        if trial.problem is not None or trial.how == "reals":
            break
    if trial.problem is not None or e.rule.level == "real":
        return trial
    return _in_floats(e, right, trial)


def _exact(scalars_of: ScalarsOf, e: Environment) -> dict[Pattern, Any]:
    """Return the operands as exact values; numbers of the rule are what they mean."""
    out: dict[Pattern, Any] = {}
    for p, v in e.arrays.items():
        if isinstance(p, Number):
            dtype = DType.of(v.dtype)
            scalars = scalars_of(dtype if dtype.is_float else e.setting.dtype)
            out[p] = np.full(v.shape, scalar_array(scalars.const(p.value)))
        else:
            out[p] = v if v.dtype.kind in "iu" else from_array(v)
    return out


def _as_written(e: Environment, exact: Mapping[Pattern, Any]) -> Mapping[Pattern, Any]:
    """Return the operands with 0.1 for what is nearest to 0.1, if the rule speaks of 0.1."""
    out = dict(exact)
    for p, v in e.arrays.items() if e.setting.numbers else ():
        if not isinstance(p, Number) and DType.of(v.dtype).is_float:
            near = _rounded(e.setting.numbers, DType.of(v.dtype))
            items = [near.get(x, x) for x in exact[p].reshape(-1)]
            out[p] = objects(items, v.shape) if near else exact[p]
    return out


@lru_cache(maxsize=1024)
def _rounded(numbers: tuple[float, ...], dtype: DType) -> Mapping[Fraction, Fraction]:
    """Return the fractions that numbers mean and a dtype does not hold by the value nearest."""
    with np.errstate(all="ignore"):
        values = [float(np.asarray(n).astype(dtype.numpy)) for n in numbers]
    pairs = zip(numbers, values, strict=True)
    near = {Fraction(v): meant(n) for n, v in pairs if math.isfinite(v)}
    return {v: n for v, n in near.items() if isinstance(n, Fraction) and v != n}


def over_reals(reals: RealFunctions, e: Environment) -> Mapping[Pattern, Any]:
    """Return the operands that both sides are compared for over the reals."""
    return _as_written(e, _exact(lambda _: reals, e))


def _compared(reals: RealFunctions, e: Environment, right: Program) -> Trial:
    left, exact = e.setting.left, over_reals(reals, e)
    x, y = (s.run_exactly(lambda _: reals, exact)[s.root].reshape(-1) for s in (left, right))
    verdicts = [reals.compare(p, q) for p, q in zip(x, y, strict=True)]
    if False in verdicts:
        at = verdicts.index(False)
        place = list(np.unravel_index(at, left.type.static_shape or ()))
        where = [int(i) for i in place]
        sides = " and ".join(shown_apart(x[at], y[at]))
        problem = f"over the reals, element {where} is {sides}"
        return Trial(problem, "reals")
    return Trial(None, "undecided" if None in verdicts else "reals")


def _in_floats(e: Environment, right: Program, reals: Trial) -> Trial:
    """Compare the floating-point results if everything on the way to them is finite."""
    left = e.setting.left
    with np.errstate(all="ignore"):
        lefts, rights = left.run(e.arrays), right.run(e.arrays)
    if not all(_finite(v) for v in (*lefts, *rights)):
        return reals
    scalars = FLOATS[e.setting.dtype]
    exact = _exact(FLOATS.__getitem__, e)
    x, y = lefts[left.root].reshape(-1), rights[right.root].reshape(-1)
    around_x, around_y = (
        s.run_exactly(FLOATS.__getitem__, exact)[s.root].reshape(-1) for s in (left, right)
    )
    for at, (p, q) in enumerate(zip(around_x, around_y, strict=True)):
        bound = scalars.width(p) + scalars.width(q)
        if abs(float(x[at]) - float(y[at])) > bound:
            problem = (
                f"in {e.setting.dtype.value}, element {at} is {x[at]!r} and {y[at]!r}, further "
                f"apart than the rounding errors of both sides, {bound:.3g}"
            )
            return Trial(problem, "floats")
    return Trial(None, "floats" if reals.how == "reals" else reals.how)


def _finite(v: Array) -> bool:
    return v.dtype.kind in "biu" or bool(np.isfinite(v).all())
